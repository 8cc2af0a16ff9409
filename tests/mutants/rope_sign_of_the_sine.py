"""Clockwise in place of anticlockwise: the transposed matrix."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/30900"
DESCRIPTION = "every angle is negative: scores cannot tell, published values can"
TESTS = ["tests/test_rope.py::test_published_values_of_both_layouts"]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.rotate

    def mutant(x, cos, sin, *, layout="half"):
        return correct(x, cos, -sin, layout=layout)

    replace("posenc_tutorial.rope", "rotate", mutant)
