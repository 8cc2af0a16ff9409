"""Slopes of the next power of two, cut to the number of heads."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx/issues/343"
DESCRIPTION = "12 heads get the first 12 of the 16 slopes"
TESTS = [
    "tests/test_alibi.py::test_published_slopes",
    "tests/test_alibi.py::test_printed_slopes_of_twelve_heads",
]


def install() -> None:
    from posenc_tutorial import alibi

    correct = alibi.alibi_slopes

    def mutant(num_heads):
        power = 1 << (correct(num_heads).numel() - 1).bit_length()
        return correct(power)[:num_heads]

    replace("posenc_tutorial.alibi", "alibi_slopes", mutant)
