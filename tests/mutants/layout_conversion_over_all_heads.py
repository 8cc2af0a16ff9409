"""One permutation over the whole axis, across the heads."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/meta-pytorch/gpt-fast/issues/190"
DESCRIPTION = "convert_projection treats all heads as one wide head"
TESTS = ["tests/test_rope.py::test_converted_projections_keep_the_scores"]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.convert_projection

    def mutant(weight, num_heads, *, to, rotary_dim=None):
        return correct(weight, 1, to=to)

    replace("posenc_tutorial.rope", "convert_projection", mutant)
