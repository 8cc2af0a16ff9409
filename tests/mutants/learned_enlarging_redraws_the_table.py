"""Enlarging initialises the whole table anew, trained rows included."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/pull/13559"
DESCRIPTION = "trained rows are lost when the table is enlarged"
TESTS = ["tests/test_learned.py::test_enlarging_keeps_the_first_rows_bit_for_bit"]


def install() -> None:
    from posenc_tutorial.learned import LearnedEncoding

    def mutant(self, new_max_positions, mode="linear"):
        return LearnedEncoding(new_max_positions, self.weight.shape[1])

    replace("posenc_tutorial.learned", "LearnedEncoding.resized", mutant)
