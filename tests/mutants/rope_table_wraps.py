"""A position past the table starts again at its beginning."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/issues/14404"
DESCRIPTION = "positions modulo the number of rows"
TESTS = ["tests/test_rope_module.py::test_growth_equals_a_fresh_table"]


def install() -> None:
    def mutant(self, positions):
        return self.rows[positions.long() % self.rows.shape[0]]

    replace("posenc_tutorial.frequencies", "PositionTable.forward", mutant)
