"""Position -1 reads the last row of the table."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/issues/14404"
DESCRIPTION = "negative positions index the table from its end"
TESTS = ["tests/test_rope_module.py::test_negative_positions_turn_backwards"]


def install() -> None:
    def mutant(self, positions):
        return self.rows[positions.long()]

    replace("posenc_tutorial.frequencies", "PositionTable.forward", mutant)
