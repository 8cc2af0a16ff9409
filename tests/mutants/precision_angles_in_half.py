"""Positions, frequencies and their product in bfloat16."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/EleutherAI/gpt-neox/issues/1003"
DESCRIPTION = "angles computed in bfloat16"
TESTS = [
    "tests/test_frequencies.py::test_half_precision_would_spoil_the_angle",
    "tests/test_precision_mpmath.py::test_rope_tables_are_exact_up_to_one_rounding",
]


def install() -> None:
    def mutant(positions, inv_freq):
        product = positions.to(torch.bfloat16)[..., None] * inv_freq.to(torch.bfloat16)
        return product.double()

    replace("posenc_tutorial.frequencies", "angles", mutant)
