"""The logarithm is rounded instead of cut."""

from __future__ import annotations

import math

import torch

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "buckets begin half a step too early"
TESTS = [
    "tests/test_relative.py::test_published_boundaries",
    "tests/test_relative.py::test_causal_buckets",
]


def install() -> None:
    def mutant(relative_position, *, bidirectional, num_buckets=32, max_distance=128):
        sides = 2 if bidirectional else 1
        buckets = num_buckets // sides
        exact = buckets // 2
        distance = relative_position.abs() if bidirectional else (-relative_position).clamp(min=0)
        ratio = torch.log(distance.clamp(min=1).double() / exact) / math.log(max_distance / exact)
        far = (exact + (ratio * (buckets - exact)).round().long()).clamp(max=buckets - 1)
        offset = buckets * (relative_position > 0).long() * (sides - 1)
        return offset + torch.where(distance < exact, distance, far)

    replace("posenc_tutorial.relative", "t5_bucket", mutant)
