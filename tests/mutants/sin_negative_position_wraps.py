"""Position -1 reads the last row of the table."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/issues/14404"
DESCRIPTION = "a negative position indexes the table from its end"
TESTS = ["tests/test_sinusoidal.py::test_a_negative_position_is_not_the_last_row"]


def install() -> None:
    def mutant(self, positions):
        self.reserve(int(positions.max()) + 1)
        return self.rows[positions.long()]

    replace("posenc_tutorial.frequencies", "PositionTable.forward", mutant)
