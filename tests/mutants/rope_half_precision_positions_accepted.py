"""Positions that arrive in half precision are taken as they are."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/NVIDIA/Megatron-LM/issues/535"
DESCRIPTION = "bfloat16 and float16 positions are not refused"
TESTS = [
    "tests/test_rope_module.py::test_half_precision_positions_are_refused",
    "tests/test_rope.py::test_position_dtypes_that_cannot_count_are_refused",
]


def install() -> None:
    from posenc_tutorial import frequencies

    correct = frequencies.as_positions

    def mutant(positions, name="positions"):
        if isinstance(positions, torch.Tensor):
            positions = positions.float() if positions.dtype.itemsize == 2 else positions
        return correct(positions, name)

    replace("posenc_tutorial.frequencies", "as_positions", mutant)
