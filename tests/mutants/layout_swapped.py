"""Half and interleaved change places."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/25199"
DESCRIPTION = "rotate pairs adjacent channels for half, and halves for interleaved"
TESTS = ["tests/test_rope.py::test_published_values_of_both_layouts"]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.rotate
    other = {"half": "interleaved", "interleaved": "half"}

    def mutant(x, cos, sin, *, layout="half"):
        return correct(x, cos, sin, layout=other[layout])

    replace("posenc_tutorial.rope", "rotate", mutant)
