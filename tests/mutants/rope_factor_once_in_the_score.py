"""The magnitude is applied to the query alone."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/turboderp-org/exllamav3/issues/259"
DESCRIPTION = "scores are multiplied by the factor, not by its square"
TESTS = ["tests/test_rope_module.py::test_attention_factor_acts_twice_on_the_scores"]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.rotate_query_key

    def mutant(self, q, k, q_positions, k_positions):
        q, k = correct(self, q, k, q_positions, k_positions)
        return q, k / self.parameters_at(1).attention_factor

    replace("posenc_tutorial.rope", "RotaryEmbedding.rotate_query_key", mutant)
