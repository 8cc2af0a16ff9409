"""A fused kernel's backward turns the gradient onwards."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/Dao-AILab/flash-attention/pull/569"
DESCRIPTION = "the backward of apply_rope rotates by the same angle"
TESTS = [
    "tests/test_kernels_rope.py::test_gradcheck[half-numba]",
    "tests/test_kernels_rope.py::test_the_backward_is_the_transpose_not_the_inverse",
]
RAISES = ["GradcheckError"]


def install() -> None:
    from posenc_tutorial.kernels import rotary

    correct = rotary._turn

    def mutant(q, k, cos, sin, layout, inverse, backend, out):
        return correct(q, k, cos, sin, layout, False, backend, out)

    replace("posenc_tutorial.kernels.rotary", "_turn", mutant)
