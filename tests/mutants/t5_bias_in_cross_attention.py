"""Cross-attention gets a relative bias."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/google-research/text-to-text-transfer-transformer/issues/415"
DESCRIPTION = "a context without positions is counted from 0"
TESTS = ["tests/test_relative.py::test_cross_attention_has_no_relative_bias"]


def install() -> None:
    from posenc_tutorial.attention import MultiHeadAttention

    correct = MultiHeadAttention.forward

    def mutant(self, x, *, context=None, context_positions=None, **kwargs):
        if context is not None and context_positions is None:
            context_positions = torch.arange(context.shape[1])
        return correct(self, x, context=context, context_positions=context_positions, **kwargs)

    replace("posenc_tutorial.attention", "MultiHeadAttention.forward", mutant)
