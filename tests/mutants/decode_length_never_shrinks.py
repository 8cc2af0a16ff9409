"""A module that remembers the longest text it has seen, and scales shorter ones by it."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/25104"
DESCRIPTION = "dynamic parameters of a longer text stay behind for the next one"
TESTS = ["tests/test_decoding.py::test_a_long_text_leaves_nothing_behind"]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding._lengths

    def mutant(self, q_positions, k_positions):
        lengths = correct(self, q_positions, k_positions)
        self.__dict__["longest"] = max([self.__dict__.get("longest", 0), *lengths])
        return [self.__dict__["longest"]] * len(lengths)

    replace("posenc_tutorial.rope", "RotaryEmbedding._lengths", mutant)
