"""The widths are spread between 1 and the maximum instead of between the exact part and it."""

from __future__ import annotations

import math

import torch

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "the quotient of the logarithms has ln(max_distance) below the line"
TESTS = [
    "tests/test_relative.py::test_published_boundaries",
    "tests/test_t5_published_buckets.py::test_first_distances_of_the_chapter",
]


def install() -> None:
    def mutant(relative_position, *, bidirectional, num_buckets=32, max_distance=128):
        sides = 2 if bidirectional else 1
        buckets = num_buckets // sides
        exact = buckets // 2
        distance = relative_position.abs() if bidirectional else (-relative_position).clamp(min=0)
        ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance)
        far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        offset = buckets * (relative_position > 0).long() * (sides - 1)
        return offset + torch.where(distance < exact, distance, far)

    replace("posenc_tutorial.relative", "t5_bucket", mutant)
