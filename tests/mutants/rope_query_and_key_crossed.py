"""The second half of the rotated key comes from the query."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/hpcaitech/ColossalAI/pull/6429"
DESCRIPTION = "halves of q and k are crossed"
TESTS = ["tests/test_rope_module.py::test_query_and_key_are_not_crossed"]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.rotate_query_key

    def mutant(self, q, k, q_positions, k_positions):
        out_q, out_k = correct(self, q, k, q_positions, k_positions)
        if out_q.shape == out_k.shape:
            half = self.head_dim // 2
            out_k = torch.cat([out_k[..., :half], out_q[..., half:]], -1)
        return out_q, out_k

    replace("posenc_tutorial.rope", "RotaryEmbedding.rotate_query_key", mutant)
