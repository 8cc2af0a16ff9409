"""Half-precision positions are let in, although they cannot count past 256 or 2048."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/NVIDIA/Megatron-LM/issues/535"
DESCRIPTION = "no check of the positions' dtype"
TESTS = ["tests/test_frequencies.py::test_positions_that_cannot_hold_integers_are_rejected"]


def install() -> None:
    replace("posenc_tutorial.frequencies", "as_positions", lambda positions, name="": positions)
