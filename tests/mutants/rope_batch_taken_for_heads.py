"""A batched table lines up with the heads instead of the batch."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-lm/pull/1553"
DESCRIPTION = "a table with three axes is broadcast from the right"
TESTS = ["tests/test_rope.py::test_batched_tables_need_the_heads_axis"]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.rotate

    def mutant(x, cos, sin, *, layout="half"):
        if cos.dim() == 3 and x.dim() == 4:
            cos, sin = cos[None], sin[None]
        return correct(x, cos, sin, layout=layout)

    replace("posenc_tutorial.rope", "rotate", mutant)
