"""One scalar counter for the batch: a row with left padding continues at the wrong number."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/22161"
DESCRIPTION = "all rows continue at the length of the cache, padding included"
TESTS = [
    "tests/test_attention.py::test_positions_continue_row_by_row",
    "tests/test_decoding.py::test_a_left_padded_batch_decodes_like_its_unpadded_rows",
]


def install() -> None:
    def mutant(self, n):
        return torch.arange(len(self), len(self) + n).expand(self.keys.shape[0], n)

    replace("posenc_tutorial.attention", "KeyValueCache.next_positions", mutant)
