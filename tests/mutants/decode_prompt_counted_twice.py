"""The prompt is counted twice: after six tokens the next position is 12."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/Blaizzy/mlx-vlm/issues/1983"
DESCRIPTION = "the next position adds the length of the cache to a position that has it already"
TESTS = [
    "tests/test_decoding.py::test_prefill_six_decode_three_uses_positions_up_to_eight",
    "tests/test_attention.py::test_prefill_and_decoding_number_the_tokens_once_each",
]


def install() -> None:
    from posenc_tutorial.attention import KeyValueCache

    correct = KeyValueCache.next_positions

    def mutant(self, n):
        return correct(self, n) + len(self)

    replace("posenc_tutorial.attention", "KeyValueCache.next_positions", mutant)
