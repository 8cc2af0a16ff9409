"""Positions pass through float16: 2049 becomes 2048."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/NVIDIA/Megatron-LM/issues/535"
DESCRIPTION = "positions in float16, everything else in float64"
TESTS = [
    "tests/test_sinusoidal.py::test_rows_stay_distinct_far_away",
    "tests/test_frequencies.py::test_no_two_positions_below_a_million_share_an_angle",
]


def install() -> None:
    def mutant(positions, inv_freq):
        return positions.to(torch.float16).double()[..., None] * inv_freq

    replace("posenc_tutorial.frequencies", "angles", mutant)
