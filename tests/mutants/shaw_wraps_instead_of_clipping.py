"""Far distances start again at the other end of the table."""

from __future__ import annotations

import math

import torch

from tools.mutation import replace

CASE = "https://arxiv.org/abs/1803.02155"
DESCRIPTION = "relative positions modulo the table"
TESTS = ["tests/test_relative.py::test_shaw_clips_both_ways_and_tells_before_from_after"]


def install() -> None:
    from posenc_tutorial.relative import relative_positions

    def mutant(self, q_positions, k_positions, *, q=None):
        limit, head_dim = self.max_distance, self.weight.shape[1]
        distance = relative_positions(q_positions, k_positions)
        row = (distance + limit) % (2 * limit + 1)
        return torch.einsum("bhqd,...qkd->bhqk", q, self.weight[row]) / math.sqrt(head_dim)

    replace("posenc_tutorial.relative", "ShawRelative.score_bias", mutant)
