"""One length for the whole batch: a short row is scaled as if it were as long as its neighbour."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/22161"
DESCRIPTION = "length-dependent parameters from the longest row of the batch"
TESTS = ["tests/test_decoding.py::test_rows_of_different_length_have_their_own_parameters"]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding._lengths

    def mutant(self, q_positions, k_positions):
        lengths = correct(self, q_positions, k_positions)
        return [max(lengths)] * len(lengths)

    replace("posenc_tutorial.rope", "RotaryEmbedding._lengths", mutant)
