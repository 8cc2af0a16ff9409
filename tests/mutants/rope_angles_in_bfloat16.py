"""Angles are computed in half precision."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/EleutherAI/gpt-neox/issues/1003"
DESCRIPTION = "positions times frequencies in bfloat16"
TESTS = ["tests/test_rope.py::test_half_precision_table_has_the_error_of_one_rounding"]


def install() -> None:
    from posenc_tutorial.frequencies import as_positions

    def mutant(positions, inv_freq):
        positions = as_positions(positions).cpu()
        return (positions.bfloat16()[..., None] * inv_freq.bfloat16()).double()

    replace("posenc_tutorial.frequencies", "angles", mutant)
