"""Every decoded token is position 0, because the model sees a sequence of one."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/Blaizzy/mlx-vlm/issues/1983"
DESCRIPTION = "positions restart at 0 with every call, cache or not"
TESTS = [
    "tests/test_decoding.py::test_prefill_six_decode_three_uses_positions_up_to_eight",
    "tests/test_attention.py::test_prefill_and_decoding_number_the_tokens_once_each",
    "tests/test_decoding.py::test_cached_decoding_equals_one_full_pass",
]


def install() -> None:
    def mutant(self, n):
        return torch.arange(n).expand(self.keys.shape[0], n)

    replace("posenc_tutorial.attention", "KeyValueCache.next_positions", mutant)
