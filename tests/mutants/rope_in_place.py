"""The rotation writes into its input."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/Dao-AILab/flash-attention/pull/569"
DESCRIPTION = "rotate changes x"
TESTS = ["tests/test_rope.py::test_inputs_are_not_changed_and_not_shared"]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.rotate

    def mutant(x, cos, sin, *, layout="half"):
        return x.copy_(correct(x, cos, sin, layout=layout))

    replace("posenc_tutorial.rope", "rotate", mutant)
