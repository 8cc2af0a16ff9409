"""The vector of a distance is compared with the token that stands there, not with the query."""

from __future__ import annotations

import math

from tools.mutation import replace

CASE = "https://github.com/leaderj1001/Attention-Augmented-Conv2d/issues/1"
DESCRIPTION = "the axes of the query are exchanged before the vector is picked"
TESTS = [
    "tests/test_relative.py::test_shaw_scores_equal_adding_the_vector_to_the_key",
    "tests/test_t5_published_buckets.py::test_shaw_term_is_linear_in_its_own_query_alone",
]


def install() -> None:
    from posenc_tutorial.relative import ShawRelative, relative_positions

    correct = ShawRelative.score_bias

    def mutant(self, q_positions, k_positions, *, q=None):
        right = correct(self, q_positions, k_positions, q=q)
        distance = relative_positions(q_positions, k_positions)
        if distance.dim() != 2 or distance.shape[0] != distance.shape[1]:
            return right
        row = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        scores = q @ self.weight.to(q.dtype).T / math.sqrt(self.weight.shape[1])
        return scores.gather(-1, row.mT.expand(*q.shape[:3], -1)).mT

    replace("posenc_tutorial.relative", "ShawRelative.score_bias", mutant)
