"""Before and after share a vector."""

from __future__ import annotations

import math

import torch

from tools.mutation import replace

CASE = "https://arxiv.org/abs/1803.02155"
DESCRIPTION = "the absolute distance is looked up"
TESTS = [
    "tests/test_relative.py::test_shaw_clips_both_ways_and_tells_before_from_after",
    "tests/test_relative.py::test_shaw_is_query_times_the_vector_of_the_clipped_distance",
]


def install() -> None:
    from posenc_tutorial.relative import relative_positions

    def mutant(self, q_positions, k_positions, *, q=None):
        limit, head_dim = self.max_distance, self.weight.shape[1]
        distance = relative_positions(q_positions, k_positions)
        row = distance.abs().clamp(max=limit) + limit
        return torch.einsum("bhqd,...qkd->bhqk", q, self.weight[row]) / math.sqrt(head_dim)

    replace("posenc_tutorial.relative", "ShawRelative.score_bias", mutant)
