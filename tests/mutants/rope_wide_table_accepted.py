"""A table that repeats every angle is cut to fit."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/215"
DESCRIPTION = "columns of the table beyond the head are dropped silently"
TESTS = ["tests/test_rope.py::test_a_table_wider_than_the_head_is_refused"]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.rotate

    def mutant(x, cos, sin, *, layout="half"):
        pairs = min(cos.shape[-1], x.shape[-1] // 2)
        return correct(x, cos[..., :pairs], sin[..., :pairs], layout=layout)

    replace("posenc_tutorial.rope", "rotate", mutant)
