"""The kernel takes its strides from the sizes, as if every tensor were packed."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/ROCm/aiter/pull/1631"
DESCRIPTION = "apply_rope ignores the strides of a view"
TESTS = [
    "tests/test_kernels_rope.py::test_numba_is_the_rotation_on_the_whole_grid[half-dtype0]",
]


def install() -> None:
    from posenc_tutorial.kernels import rotary

    correct = rotary._turn

    def mutant(q, k, cos, sin, layout, inverse, backend, out):
        def packed(x):
            size = [n for n, step in zip(x.shape, x.stride(), strict=True) if step]
            if len(size) < x.dim() or not x._is_view():
                return x
            steps = torch.empty(x.shape, device="meta").stride()
            room = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
            return x.as_strided(x.shape, steps) if room >= x.numel() else x

        return correct(packed(q), packed(k), cos, sin, layout, inverse, backend, out)

    replace("posenc_tutorial.kernels.rotary", "_turn", mutant)
