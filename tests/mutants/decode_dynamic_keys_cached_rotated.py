"""Keys of a length-dependent encoding are cached rotated, each with its own length's base."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/25104"
DESCRIPTION = "dynamic NTK with a cache mixes bases"
TESTS = ["tests/test_decoding.py::test_one_layer_decodes_like_a_fresh_pass_over_each_prefix"]


def install() -> None:
    from posenc_tutorial.attention import MultiHeadAttention
    from posenc_tutorial.encoding import PositionalEncoding

    correct = MultiHeadAttention.forward

    class Fixed(PositionalEncoding):
        """Says that its parameters never change, and asks one whose parameters do."""

        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self.rotate_query_key = inner.rotate_query_key
            self.score_bias = inner.score_bias

    def mutant(self, x, **options):
        inner = self.encoding
        self.encoding = Fixed(inner)
        try:
            return correct(self, x, **options)
        finally:
            self.encoding = inner

    replace("posenc_tutorial.attention", "MultiHeadAttention.forward", mutant)
