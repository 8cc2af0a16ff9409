"""Queries are written back, keys are not."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/sgl-project/sglang/pull/19636"
DESCRIPTION = "apply_rope with out= leaves the keys unrotated"
TESTS = [
    "tests/test_kernels_rope.py::test_out_is_written_and_returned_and_nothing_else_changes[numba]",
]


def install() -> None:
    from posenc_tutorial.kernels import rotary

    correct = rotary._turn

    def mutant(q, k, cos, sin, layout, inverse, backend, out):
        if out is None:
            return correct(q, k, cos, sin, layout, inverse, backend, None)
        out[1].copy_(k)
        return correct(q, k, cos, sin, layout, inverse, backend, (out[0], out[1].clone()))

    replace("posenc_tutorial.kernels.rotary", "_turn", mutant)
