"""The logarithm is taken in float64."""

from __future__ import annotations

import math

import torch

from tools.mutation import replace

CASE = "https://github.com/mindspore-lab/mindone/pull/670"
DESCRIPTION = "a distance on the edge of a bucket is rounded otherwise than T5 rounds it"
TESTS = ["tests/test_t5_published_buckets.py::test_an_edge_is_rounded_as_t5_rounds_it"]


def install() -> None:
    def mutant(relative_position, *, bidirectional, num_buckets=32, max_distance=128):
        sides = 2 if bidirectional else 1
        buckets = num_buckets // sides
        exact = buckets // 2
        distance = relative_position.abs() if bidirectional else (-relative_position).clamp(min=0)
        ratio = torch.log(distance.clamp(min=1).double() / exact) / math.log(max_distance / exact)
        far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        offset = buckets * (relative_position > 0).long() * (sides - 1)
        return offset + torch.where(distance < exact, distance, far)

    replace("posenc_tutorial.relative", "t5_bucket", mutant)
