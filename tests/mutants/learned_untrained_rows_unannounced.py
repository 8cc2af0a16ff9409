"""Whatever the mode, new rows are random: a model asked for interpolation gets noise."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/pull/13559"
DESCRIPTION = "enlarging silently adds untrained rows"
TESTS = [
    "tests/test_learned.py::test_tile_repeats_the_table",
    "tests/test_learned.py::test_published_values_of_both_interpolations",
]


def install() -> None:
    from posenc_tutorial.learned import LearnedEncoding

    correct = LearnedEncoding.resized

    def mutant(self, new_max_positions, mode="linear"):
        return correct(self, new_max_positions, "random")

    replace("posenc_tutorial.learned", "LearnedEncoding.resized", mutant)
