"""Float64 queries get the float32 table."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/EleutherAI/gpt-neox/issues/1003"
DESCRIPTION = "the arithmetic of float64 inputs has float32 angles"
TESTS = [
    "tests/test_rope_module.py::test_shift_invariance_in_float64",
    "tests/test_rope_module.py::test_it_equals_rotate_by_hand",
]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding._cos_sin

    def mutant(self, positions, dtype, lengths):
        return correct(self, positions, torch.float32, lengths)

    replace("posenc_tutorial.rope", "RotaryEmbedding._cos_sin", mutant)
