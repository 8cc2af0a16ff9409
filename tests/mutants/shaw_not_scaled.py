"""The term is not divided by the square root of the head width."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://arxiv.org/abs/1803.02155"
DESCRIPTION = "q times the vector, without 1/sqrt(head_dim)"
TESTS = ["tests/test_relative.py::test_shaw_scores_equal_adding_the_vector_to_the_key"]


def install() -> None:
    from posenc_tutorial.relative import relative_positions

    def mutant(self, q_positions, k_positions, *, q=None):
        limit = self.max_distance
        distance = relative_positions(q_positions, k_positions)
        row = distance.clamp(-limit, limit) + limit
        return torch.einsum("bhqd,...qkd->bhqk", q, self.weight[row])

    replace("posenc_tutorial.relative", "ShawRelative.score_bias", mutant)
