"""A position past the table silently gets the last row."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/issues/14404"
DESCRIPTION = "positions clamped to the table"
TESTS = [
    "tests/test_learned.py::test_a_position_outside_the_table_is_an_index_error_naming_both",
]


def install() -> None:
    from posenc_tutorial.learned import LearnedEncoding

    correct = LearnedEncoding.add_to_input

    def mutant(self, x, positions):
        return correct(self, x, positions.clamp(0, self.weight.shape[0] - 1))

    replace("posenc_tutorial.learned", "LearnedEncoding.add_to_input", mutant)
