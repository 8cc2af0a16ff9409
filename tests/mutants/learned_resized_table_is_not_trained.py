"""The resized table is no trainable parameter, so no optimizer ever moves it."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/pull/13559"
DESCRIPTION = "the optimizer does not see the new table"
TESTS = ["tests/test_learned.py::test_an_optimizer_of_the_new_module_trains_every_row"]
RAISES = ["RuntimeError", "ValueError"]


def install() -> None:
    from posenc_tutorial.learned import LearnedEncoding

    correct = LearnedEncoding.resized

    def mutant(self, new_max_positions, mode="linear"):
        resized = correct(self, new_max_positions, mode)
        table = resized.weight.detach()
        del resized.weight
        resized.register_buffer("weight", table)
        return resized

    replace("posenc_tutorial.learned", "LearnedEncoding.resized", mutant)
