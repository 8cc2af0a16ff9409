"""Positions start at padding_idx + 1 = 2: two rows are lost at the end."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/9116"
DESCRIPTION = "position p reads row p + 2"
TESTS = ["tests/test_learned.py::test_row_p_is_added_at_position_p"]
RAISES = ["IndexError"]


def install() -> None:
    from posenc_tutorial.learned import LearnedEncoding

    correct = LearnedEncoding.add_to_input

    def mutant(self, x, positions):
        return correct(self, x, positions + 2)

    replace("posenc_tutorial.learned", "LearnedEncoding.add_to_input", mutant)
