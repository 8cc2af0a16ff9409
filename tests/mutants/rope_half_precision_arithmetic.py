"""Half-precision queries are rotated in half precision."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/EleutherAI/gpt-neox/issues/1003"
DESCRIPTION = "cos and sin are cast to the dtype of x before the products"
TESTS = ["tests/test_rope.py::test_half_precision_is_computed_in_float32_and_rounded_once"]


def install() -> None:
    def mutant(x, cos, sin, *, layout="half"):
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        width = 2 * cos.shape[-1]
        turning, still = x[..., :width], x[..., width:]
        if layout == "half":
            a, b = turning.chunk(2, -1)
            return torch.cat([a * cos - b * sin, a * sin + b * cos, still], -1)
        a, b = turning[..., 0::2], turning[..., 1::2]
        turned = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
        return torch.cat([turned, still], -1)

    replace("posenc_tutorial.rope", "rotate", mutant)
