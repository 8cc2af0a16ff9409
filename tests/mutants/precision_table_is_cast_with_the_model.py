"""The table is a plain buffer: model.bfloat16() rounds it, and to_empty leaves garbage in it."""

from __future__ import annotations

from torch import nn

from tools.mutation import replace

CASE = "https://github.com/EleutherAI/gpt-neox/issues/1003"
DESCRIPTION = "the cos/sin table follows the dtype of the model"
TESTS = ["tests/test_sinusoidal.py::test_no_treatment_of_the_module_changes_an_angle"]


def install() -> None:
    replace("posenc_tutorial.frequencies", "PositionTable._apply", nn.Module._apply)
