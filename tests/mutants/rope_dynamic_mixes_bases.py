"""Queries and keys of one step use different bases."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/25104"
DESCRIPTION = "parameters come from the first position of each tensor, as if cached then"
TESTS = [
    "tests/test_rope_module.py::test_query_and_all_keys_share_the_parameters_of_the_current_length",
]


def install() -> None:
    def mutant(self, q, k, q_positions, k_positions):
        lengths = (None, None)
        if self.length_dependent:
            lengths = tuple(
                [int(n) + 1 for n in p.amin(-1).reshape(-1)] for p in (q_positions, k_positions)
            )
        return self._turn(q, q_positions, lengths[0]), self._turn(k, k_positions, lengths[1])

    replace("posenc_tutorial.rope", "RotaryEmbedding.rotate_query_key", mutant)
