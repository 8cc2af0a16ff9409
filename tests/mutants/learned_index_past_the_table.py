"""No range check: the lookup itself fails, with a message that names neither number."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/facebookresearch/fairseq/issues/757"
DESCRIPTION = "index past the table: a message without numbers on the CPU, an assertion on a GPU"
TESTS = [
    "tests/test_learned.py::test_a_position_outside_the_table_is_an_index_error_naming_both",
]


def install() -> None:
    def mutant(self, x, positions):
        return x + self.weight[positions.long()].to(x.dtype)

    replace("posenc_tutorial.learned", "LearnedEncoding.add_to_input", mutant)
