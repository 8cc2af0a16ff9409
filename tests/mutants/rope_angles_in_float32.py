"""Angles are computed in float32: 2e-2 off at position 2**20."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/EleutherAI/gpt-neox/issues/1003"
DESCRIPTION = "positions times frequencies in float32"
TESTS = [
    "tests/test_rope.py::test_float32_tables_are_within_half_an_ulp_far_out",
    "tests/test_parity_transformers.py::test_far_out_theirs_drifts_and_mpmath_sides_with_ours",
]


def install() -> None:
    from posenc_tutorial.frequencies import as_positions

    def mutant(positions, inv_freq):
        positions = as_positions(positions).cpu()
        return (positions.float()[..., None] * inv_freq.float()).double()

    replace("posenc_tutorial.frequencies", "angles", mutant)
