"""The sequence length is read from the heads axis."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-lm/pull/1553"
DESCRIPTION = "40 heads of 5 tokens count as 40 tokens"
TESTS = [
    "tests/test_rope_module.py::test_the_length_is_read_from_the_positions_not_from_the_heads",
]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.rotate_query_key

    def mutant(self, q, k, q_positions, k_positions):
        heads = q.shape[1]
        self.__dict__["_lengths"] = lambda q_positions, k_positions: [heads]
        return correct(self, q, k, q_positions, k_positions)

    replace("posenc_tutorial.rope", "RotaryEmbedding.rotate_query_key", mutant)
