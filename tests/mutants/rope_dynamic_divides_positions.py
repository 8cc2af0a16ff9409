"""Positions are divided although only linear scaling does that."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-lm/pull/1553"
DESCRIPTION = "length-dependent parameters also halve the positions"
TESTS = [
    "tests/test_rope_module.py::test_dynamic_ntk_is_plain_rope_within_the_original_length",
    "tests/test_rope_module.py::test_no_state_is_left_behind_by_another_length",
]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding._turn

    def mutant(self, x, positions, lengths):
        return correct(self, x, positions / 2 if self.length_dependent else positions, lengths)

    replace("posenc_tutorial.rope", "RotaryEmbedding._turn", mutant)
