"""The series starts one step early, at slope 1."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx/issues/343"
DESCRIPTION = "slopes 2^(-8(h-1)/H)"
TESTS = [
    "tests/test_alibi.py::test_published_slopes",
    "tests/test_alibi.py::test_any_number_of_heads_has_distinct_slopes_between_zero_and_one",
]


def install() -> None:
    from posenc_tutorial import alibi

    correct = alibi.alibi_slopes

    def mutant(num_heads):
        slopes = correct(num_heads)
        return slopes * 2.0 ** (8.0 / num_heads)

    replace("posenc_tutorial.alibi", "alibi_slopes", mutant)
