"""The backward rotates by the same angle, not by its negative."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/Dao-AILab/flash-attention/pull/569"
DESCRIPTION = "the gradient of the rotation has the wrong sign of the sine"
TESTS = [
    "tests/test_rope.py::test_gradcheck",
    "tests/test_rope.py::test_the_backward_is_the_rotation_by_the_negative_angle",
]
RAISES = ["GradcheckError"]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.rotate

    class Turn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, cos, sin, layout):
            ctx.save_for_backward(cos, sin)
            ctx.layout = layout
            return correct(x, cos, sin, layout=layout)

        @staticmethod
        def backward(ctx, grad):
            return correct(grad, *ctx.saved_tensors, layout=ctx.layout), None, None, None

    def mutant(x, cos, sin, *, layout="half"):
        return Turn.apply(x, cos, sin, layout)

    replace("posenc_tutorial.rope", "rotate", mutant)
