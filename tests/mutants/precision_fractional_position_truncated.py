"""A fractional position is used as an index and loses its fraction."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/modelscope/DiffSynth-Studio/pull/1025"
DESCRIPTION = "fractional positions truncated to integers"
TESTS = ["tests/test_sinusoidal.py::test_fractional_positions_reach_the_module"]


def install() -> None:
    from posenc_tutorial.frequencies import PositionTable

    correct = PositionTable.forward

    def mutant(self, positions):
        return correct(self, positions.long())

    replace("posenc_tutorial.frequencies", "PositionTable.forward", mutant)
