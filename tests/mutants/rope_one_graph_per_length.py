"""A cache that grows in Python makes one graph per length."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/35716"
DESCRIPTION = "torch.compile specialises on the number of tokens"
TESTS = ["tests/test_rope_module.py::test_at_most_two_graphs_over_many_lengths"]
RAISES = ["FailOnRecompileLimitHit", "Unsupported", "RecompileLimitExceeded"]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.forward
    tables = {}

    def mutant(self, q, k, positions=None):
        n = int(q.shape[-2])
        if n not in tables:
            tables[n] = torch.arange(n)
        return correct(self, q, k, tables[n] if positions is None else positions)

    replace("posenc_tutorial.rope", "RotaryEmbedding.forward", mutant)
