"""The module rotates in the half layout whatever was asked for."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/rasbt/LLMs-from-scratch/pull/750"
DESCRIPTION = "RotaryEmbedding keeps layout half: weights of the other layout load without an error"
TESTS = [
    "tests/test_rope_module.py::test_it_equals_rotate_by_hand",
    "tests/test_parity_transformers.py::test_a_gptj_attention_layer",
]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.__init__

    def mutant(self, *args, **kwargs):
        correct(self, *args, **kwargs)
        self.layout = "half"

    replace("posenc_tutorial.rope", "RotaryEmbedding.__init__", mutant)
