"""Causal attention of few queries over many keys is aligned top-left, without a word."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/Dao-AILab/flash-attention/issues/907"
DESCRIPTION = "a lone query after six cached keys sees only the first of them"
TESTS = [
    "tests/test_attention.py::test_causal_positions_decide_who_sees_whom",
    "tests/test_attention.py::test_causal_with_unequal_lengths_needs_positions",
    "tests/test_decoding.py::test_cached_decoding_equals_one_full_pass",
]


def install() -> None:
    from posenc_tutorial import attention as module

    correct = module.attention

    def mutant(q, k, v, *, causal=False, q_positions=None, k_positions=None, **options):
        if causal:
            q_positions, k_positions = torch.arange(q.shape[2]), torch.arange(k.shape[2])
        return correct(
            q, k, v, causal=causal, q_positions=q_positions, k_positions=k_positions, **options
        )

    replace("posenc_tutorial.attention", "attention", mutant)
