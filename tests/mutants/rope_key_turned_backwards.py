"""The key gets the negative angle."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/30900"
DESCRIPTION = "scores depend on the sum of the positions"
TESTS = ["tests/test_rope_module.py::test_shift_invariance_in_float64"]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.rotate_query_key

    def mutant(self, q, k, q_positions, k_positions):
        return correct(self, q, k, q_positions, -k_positions)

    replace("posenc_tutorial.rope", "RotaryEmbedding.rotate_query_key", mutant)
