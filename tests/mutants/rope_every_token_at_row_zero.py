"""One row of the table serves every token."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/Blaizzy/mlx-vlm/issues/1983"
DESCRIPTION = "a table of one row is broadcast over n tokens"
TESTS = ["tests/test_rope.py::test_row_count_must_match"]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.rotate

    def mutant(x, cos, sin, *, layout="half"):
        if cos.shape[-2] == 1:
            shape = (*cos.shape[:-2], x.shape[-2], cos.shape[-1])
            cos, sin = cos.expand(shape), sin.expand(shape)
        return correct(x, cos, sin, layout=layout)

    replace("posenc_tutorial.rope", "rotate", mutant)
