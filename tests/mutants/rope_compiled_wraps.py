"""Under torch.compile a position past the table is not noticed."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/issues/14404"
DESCRIPTION = "compiled code clamps positions to the table"
TESTS = [
    "tests/test_rope_module.py::test_compiled_and_outside_the_table_is_an_error_or_right_never_garbage",
]


def install() -> None:
    def mutant(self, positions):
        return self.rows[positions.long().clamp(0, self.rows.shape[0] - 1)]

    replace("posenc_tutorial.frequencies", "PositionTable.forward", mutant)
