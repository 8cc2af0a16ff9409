"""A table that grows is built from scaled frequencies."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/pull/56446"
DESCRIPTION = "rows beyond the first table are computed with another base"
TESTS = ["tests/test_rope_module.py::test_growth_equals_a_fresh_table"]


def install() -> None:
    from posenc_tutorial.frequencies import PositionTable

    correct = PositionTable._fill

    def mutant(self, num_rows, device):
        build = self._build
        self._build = lambda positions: build(positions / 2)
        correct(self, num_rows, device)
        self._build = build

    replace("posenc_tutorial.frequencies", "PositionTable._fill", mutant)
