"""Batched positions are cut down to the first row's: the others are shifted by their padding."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/22161"
DESCRIPTION = "door 1 gives every row the positions of the first"
TESTS = [
    "tests/test_decoding.py::test_left_padding_with_positions_and_mask_equals_the_unpadded_run",
]


def install() -> None:
    from posenc_tutorial.learned import LearnedEncoding

    correct = LearnedEncoding.add_to_input

    def mutant(self, x, positions):
        return correct(self, x, positions[0] if positions.dim() == 2 else positions)

    replace("posenc_tutorial.learned", "LearnedEncoding.add_to_input", mutant)
