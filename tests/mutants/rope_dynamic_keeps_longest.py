"""After a long text a short one keeps the long text's base."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/25104"
DESCRIPTION = "length-dependent parameters remember the longest sequence"
TESTS = [
    "tests/test_rope_module.py::test_no_state_is_left_behind_by_another_length",
    "tests/test_rope_module.py::test_the_published_sequence_of_lengths",
]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.parameters_at

    def mutant(self, seq_len):
        self.__dict__["_longest"] = max(seq_len, self.__dict__.get("_longest", 1))
        return correct(self, self._longest)

    replace("posenc_tutorial.rope", "RotaryEmbedding.parameters_at", mutant)
