"""A long row of the batch stretches the short ones."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/22161"
DESCRIPTION = "length-dependent parameters come from the longest row, not from each row"
TESTS = ["tests/test_rope_module.py::test_every_row_of_a_batch_has_its_own_length"]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding._lengths

    def mutant(self, q_positions, k_positions):
        lengths = correct(self, q_positions, k_positions)
        return [max(lengths)] * len(lengths)

    replace("posenc_tutorial.rope", "RotaryEmbedding._lengths", mutant)
