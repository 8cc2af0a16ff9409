"""Every layer has a table of its own."""

from __future__ import annotations

import copy

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/10221"
DESCRIPTION = "layers copy the encoding instead of sharing it"
TESTS = ["tests/test_relative.py::test_one_table_is_shared_by_all_layers"]


def install() -> None:
    from posenc_tutorial.attention import MultiHeadAttention

    correct = MultiHeadAttention.__init__

    def mutant(self, dim, num_heads, encoding, *, causal):
        correct(self, dim, num_heads, copy.deepcopy(encoding), causal=causal)

    replace("posenc_tutorial.attention", "MultiHeadAttention.__init__", mutant)
