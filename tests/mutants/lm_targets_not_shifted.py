"""The targets of the evaluation are its inputs: a model that repeats the last byte is perfect."""

from __future__ import annotations

import inspect

from tools.mutation import replace

CASE = [
    "https://github.com/lucidrains/perceiver-ar-pytorch/pull/10",
    "https://github.com/macrocosm-os/pretraining/pull/64",
]
DESCRIPTION = "loss of the current byte, not of the next one"
TESTS = ["tests/test_lm.py::test_loss_is_given_by_position"]


def install() -> None:
    from posenc_tutorial.lm import evaluate

    source = inspect.getsource(evaluate.loss_by_position)
    right, wrong = "starts + torch.arange(1, chunk + 1)", "starts + torch.arange(chunk)"
    assert right in source
    scope = dict(vars(evaluate))
    exec(source.replace(right, wrong), scope)
    replace("posenc_tutorial.lm.evaluate", "loss_by_position", scope["loss_by_position"])
