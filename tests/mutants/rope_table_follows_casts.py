"""A cast of the model rounds the table."""

from __future__ import annotations

from torch import nn

from tools.mutation import replace

CASE = "https://github.com/EleutherAI/gpt-neox/issues/1003"
DESCRIPTION = "rows are cast to bfloat16 with the model and never rebuilt"
TESTS = [
    "tests/test_rope_module.py::test_no_cast_changes_an_angle",
    "tests/test_rope_module.py::test_meta_initialisation_then_to_empty",
]


def install() -> None:
    def mutant(self, fn, recurse=True):
        return nn.Module._apply(self, fn, recurse)

    replace("posenc_tutorial.frequencies", "PositionTable._apply", mutant)
