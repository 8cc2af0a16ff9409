"""Adjacent pairs are (sin, cos), so the shift block is the transpose of the usual rotation."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/30900"
DESCRIPTION = "shift matrix with the sign of a rotation of (cos, sin) pairs"
TESTS = ["tests/test_sinusoidal.py::test_one_matrix_shifts_every_position"]


def install() -> None:
    from posenc_tutorial import sinusoidal

    correct = sinusoidal.shift_matrix

    def mutant(offset, dim, *, base=10000.0):
        return correct(offset, dim, base=base).T

    replace("posenc_tutorial.sinusoidal", "shift_matrix", mutant)
