"""The extra heads get every other slope of the next ladder, beginning with the wrong one."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/explosion/curated-transformers/pull/252"
DESCRIPTION = "extra heads repeat slopes that are in the list already"
TESTS = [
    "tests/test_alibi.py::test_published_slopes",
    "tests/test_alibi.py::test_any_number_of_heads_has_distinct_slopes_between_zero_and_one",
    "tests/test_claims_alibi.py::test_the_published_list_is_that_of_eight_heads",
]


def install() -> None:
    import torch

    from posenc_tutorial import alibi

    correct = alibi.alibi_slopes

    def mutant(num_heads):
        power = 2 ** (num_heads.bit_length() - 1) if isinstance(num_heads, int) else 0
        slopes = correct(num_heads)
        return torch.cat([slopes[:power], slopes[: len(slopes) - power]])

    replace("posenc_tutorial.alibi", "alibi_slopes", mutant)
