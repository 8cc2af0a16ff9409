"""A part of the head turns, with the frequencies of the whole head."""

from __future__ import annotations

from tools.mutation import replace

CASE = [
    "https://github.com/apple/coreai-models/issues/66",
    "https://github.com/vllm-project/vllm/pull/30384",
]
DESCRIPTION = "partial rotary: exponent 2i/head_dim instead of 2i/rotary_dim"
TESTS = [
    "tests/test_rope_module.py::test_partial_rotary_uses_frequencies_of_the_rotated_width",
    "tests/test_rope_module.py::test_it_equals_rotate_by_hand",
]


def install() -> None:
    from posenc_tutorial.frequencies import RopeParameters, inverse_frequencies
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.__init__

    def mutant(self, head_dim, *, base=10000.0, rotary_dim=None, parameters=None, **kwargs):
        if parameters is None and rotary_dim is not None:
            frequencies = inverse_frequencies(head_dim, base)[: rotary_dim // 2]
            base, parameters = 10000.0, RopeParameters(frequencies)
        correct(
            self,
            head_dim,
            base=base,
            rotary_dim=rotary_dim,
            parameters=parameters,
            **kwargs,
        )

    replace("posenc_tutorial.rope", "RotaryEmbedding.__init__", mutant)
