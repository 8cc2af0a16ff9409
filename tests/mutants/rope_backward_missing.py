"""The rotated tensor is cut off from its input."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/Dao-AILab/flash-attention/pull/569"
DESCRIPTION = "no gradient flows through the rotation"
TESTS = ["tests/test_rope.py::test_the_gradient_of_half_the_squared_norm_is_x"]
RAISES = ["RuntimeError"]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.rotate

    def mutant(x, cos, sin, *, layout="half"):
        return correct(x.detach(), cos, sin, layout=layout)

    replace("posenc_tutorial.rope", "rotate", mutant)
