"""Cross-attention gets positions 0, 1, 2, ... for both sequences, although they share no axis."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/google-research/text-to-text-transfer-transformer/issues/415"
DESCRIPTION = "the encoding is used in cross-attention without context positions"
TESTS = [
    "tests/test_attention.py::test_cross_attention_without_context_positions_has_no_positions",
]


def install() -> None:
    from posenc_tutorial.attention import MultiHeadAttention

    correct = MultiHeadAttention.forward

    def mutant(self, x, *, context=None, context_positions=None, **options):
        if context is not None and context_positions is None:
            context_positions = torch.arange(context.shape[1])
        return correct(self, x, context=context, context_positions=context_positions, **options)

    replace("posenc_tutorial.attention", "MultiHeadAttention.forward", mutant)
