"""Positions are counted from 0 whatever was given."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = [
    "https://github.com/huggingface/transformers/issues/22161",
    "https://github.com/Blaizzy/mlx-vlm/issues/1983",
]
DESCRIPTION = "offsets and left padding have no effect"
TESTS = [
    "tests/test_rope_module.py::test_it_equals_rotate_by_hand",
    "tests/test_rope_module.py::test_query_and_key_have_their_own_positions",
]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.rotate_query_key

    def mutant(self, q, k, q_positions, k_positions):
        q_positions, k_positions = torch.arange(q.shape[2]), torch.arange(k.shape[2])
        return correct(self, q, k, q_positions, k_positions)

    replace("posenc_tutorial.rope", "RotaryEmbedding.rotate_query_key", mutant)
