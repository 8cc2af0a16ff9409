"""The rotated queries are written over the ones that were given."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/unslothai/unsloth/issues/5001"
DESCRIPTION = "apply_rope mutates its inputs although no out was given"
TESTS = [
    "tests/test_kernels_rope.py::test_numba_is_the_rotation_on_the_whole_grid[half-dtype0]",
    "tests/test_kernels_rope.py::test_scores_depend_on_the_distance_alone[half-numba]",
]
RAISES = ["RuntimeError"]


def install() -> None:
    from posenc_tutorial.kernels import rotary

    correct = rotary._turn

    def mutant(q, k, cos, sin, layout, inverse, backend, out):
        return correct(q, k, cos, sin, layout, inverse, backend, out or (q, k))

    replace("posenc_tutorial.kernels.rotary", "_turn", mutant)
