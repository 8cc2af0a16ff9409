"""A position past the end of the table wraps around to its start."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/issues/14404"
DESCRIPTION = "the table never grows: position p reads row p modulo its length"
TESTS = [
    "tests/test_sinusoidal.py::test_a_grown_table_equals_a_fresh_one",
    "tests/test_precision_mpmath.py"
    "::test_the_module_rotates_by_the_exact_angle_at_two_to_the_twentieth",
]


def install() -> None:
    def mutant(self, positions):
        return self.rows[positions.long() % self.rows.shape[0]]

    replace("posenc_tutorial.frequencies", "PositionTable.forward", mutant)
