"""Angles in one layout, rotation in the other: no rotation at all."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/facebookresearch/vjepa2/pull/15"
DESCRIPTION = "a tiled table (t0, t1, t0, t1) with adjacent pairs, a repeated one with halves"
TESTS = [
    "tests/test_rope.py::test_norm_is_kept_times_the_attention_factor",
    "tests/test_rope.py::test_a_table_of_one_layout_with_the_rotation_of_the_other_is_no_rotation",
]


def mixed(x, cos, sin, *, layout="half"):
    width = 2 * cos.shape[-1]
    turning, still = x[..., :width], x[..., width:]
    if layout == "interleaved":
        cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
        turned = torch.stack([-turning[..., 1::2], turning[..., 0::2]], -1).flatten(-2)
    else:
        cos, sin = cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)
        first, second = turning.chunk(2, -1)
        turned = torch.cat([-second, first], -1)
    return torch.cat([(turning * cos + turned * sin).to(x.dtype), still], -1)


def install() -> None:
    replace("posenc_tutorial.rope", "rotate", mixed)
