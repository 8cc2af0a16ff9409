"""Queries and keys change places inside the fused kernel."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/hpcaitech/ColossalAI/pull/6429"
DESCRIPTION = "apply_rope returns the rotated key as the query"
TESTS = [
    "tests/test_kernels_rope.py::test_many_rows_are_shared_among_threads",
    "tests/test_kernels_rope.py::test_one_gradient_is_enough[numba]",
]
RAISES = ["RuntimeError"]


def install() -> None:
    from posenc_tutorial.kernels import rotary

    correct = rotary._turn

    def mutant(q, k, cos, sin, layout, inverse, backend, out):
        new_q, new_k = correct(q, k, cos, sin, layout, inverse, backend, out)
        heads = min(q.shape[1], k.shape[1])
        crossed = new_q.clone(), new_k.clone()
        crossed[0][:, :heads], crossed[1][:, :heads] = new_k[:, :heads], new_q[:, :heads]
        return crossed

    replace("posenc_tutorial.kernels.rotary", "_turn", mutant)
