"""Growing the table stops one row short, and the last position repeats its neighbour."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/issues/14404"
DESCRIPTION = "off by one when the table grows: the last row is clamped"
TESTS = ["tests/test_sinusoidal.py::test_a_grown_table_equals_a_fresh_one"]


def install() -> None:
    def mutant(self, positions):
        wanted = int(positions.max())
        if wanted > self.rows.shape[0]:
            self._fill(wanted, self.rows.device)
        return self.rows[positions.long().clamp(max=self.rows.shape[0] - 1)]

    replace("posenc_tutorial.frequencies", "PositionTable.forward", mutant)
