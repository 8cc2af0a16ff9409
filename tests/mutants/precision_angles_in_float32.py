"""Angles in float32: right nearby, two hundredths of a radian off at position 2^20."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/EleutherAI/gpt-neox/issues/1003"
DESCRIPTION = "angles computed in float32"
TESTS = [
    "tests/test_precision_mpmath.py::test_rope_tables_are_exact_up_to_one_rounding",
    "tests/test_precision_mpmath.py::test_sinusoidal_tables_are_exact_up_to_one_rounding",
]


def install() -> None:
    def mutant(positions, inv_freq):
        return (positions.float()[..., None] * inv_freq.float()).double()

    replace("posenc_tutorial.frequencies", "angles", mutant)
