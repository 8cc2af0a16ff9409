"""Resizing swaps the parameter inside the old module, behind the back of its optimizer."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/pull/13559"
DESCRIPTION = "resized() changes the module it is called on"
TESTS = ["tests/test_learned.py::test_resizing_returns_a_new_module_and_leaves_the_old_one_alone"]


def install() -> None:
    from posenc_tutorial.learned import LearnedEncoding

    correct = LearnedEncoding.resized

    def mutant(self, new_max_positions, mode="linear"):
        self.weight = correct(self, new_max_positions, mode).weight
        return self

    replace("posenc_tutorial.learned", "LearnedEncoding.resized", mutant)
