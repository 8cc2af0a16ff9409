"""Padded rows keep counting from the first pad."""

from __future__ import annotations

from tools.mutation import replace

CASE = [
    "https://github.com/meta-pytorch/attention-gym/issues/74",
    "https://github.com/huggingface/transformers/issues/22161",
]
DESCRIPTION = "the first row's positions serve the whole batch"
TESTS = [
    "tests/test_alibi.py::test_batched_positions_give_a_batched_bias",
    "tests/test_alibi.py::test_a_common_shift_of_all_positions_changes_no_output",
]
RAISES = ["IndexError"]


def install() -> None:
    from posenc_tutorial import alibi

    correct = alibi.alibi_bias

    def first(positions):
        return positions[0] if positions.dim() == 2 else positions

    def mutant(num_heads, q_positions, k_positions):
        return correct(num_heads, first(q_positions), first(k_positions))

    replace("posenc_tutorial.alibi", "alibi_bias", mutant)
