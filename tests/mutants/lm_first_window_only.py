"""Only the beginning of each chunk is scored, so another length scores other bytes."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/jquesnelle/yarn/issues/13"
DESCRIPTION = "texts are truncated to the length, so lengths are compared on different bytes"
TESTS = ["tests/test_lm.py::test_the_same_bytes_are_scored_at_every_length"]


def install() -> None:
    from posenc_tutorial.lm import evaluate

    correct = evaluate.loss_by_position

    def mutant(model, data, *, length, chunk=1024, **options):
        return correct(model, data, length=length, chunk=length, **options)

    replace("posenc_tutorial.lm.evaluate", "loss_by_position", mutant)
