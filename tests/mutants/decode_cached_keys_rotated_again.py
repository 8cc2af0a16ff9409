"""Keys that are cached rotated are rotated once more, all of them, at every step."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/NeuraLegion/shainet/pull/110"
DESCRIPTION = "the whole cache is rotated by its positions whenever a token is added"
TESTS = [
    "tests/test_decoding.py::test_cached_decoding_equals_one_full_pass",
    "tests/test_pretrained_llama.py::test_decoding_with_a_cache_equals_one_pass",
]


def install() -> None:
    from posenc_tutorial.attention import KeyValueCache
    from posenc_tutorial.rope import RotaryEmbedding

    correct = KeyValueCache.append

    def mutant(self, keys, values, positions):
        correct(self, keys, values, positions)
        rope = RotaryEmbedding(self.keys.shape[-1])
        _, self.keys = rope.rotate_query_key(keys, self.keys, positions, self.positions)

    replace("posenc_tutorial.attention", "KeyValueCache.append", mutant)
