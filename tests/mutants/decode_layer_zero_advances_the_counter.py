"""One counter for all layers: the first layer advances it, so the second is one token ahead."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/fla-org/flash-linear-attention/issues/766"
DESCRIPTION = "upper layers use positions one too high while decoding"
TESTS = ["tests/test_decoding.py::test_cached_decoding_equals_one_full_pass"]


def install() -> None:
    from posenc_tutorial.attention import MultiHeadAttention

    correct = MultiHeadAttention.forward
    calls = {"while decoding": 0}

    def mutant(self, x, *, positions=None, cache=None, **options):
        if cache is not None and len(cache) and positions is None:
            ahead = calls["while decoding"] % 2  # every second call is the upper layer's
            calls["while decoding"] += 1
            positions = cache.next_positions(x.shape[1]) + ahead
        return correct(self, x, positions=positions, cache=cache, **options)

    replace("posenc_tutorial.attention", "MultiHeadAttention.forward", mutant)
