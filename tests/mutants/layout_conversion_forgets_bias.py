"""Biases keep their order when the rows move."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/meta-pytorch/gpt-fast/issues/190"
DESCRIPTION = "convert_projection returns one-dimensional parameters as they are"
TESTS = ["tests/test_rope.py::test_converted_projections_keep_the_scores"]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.convert_projection

    def mutant(weight, num_heads, *, to, rotary_dim=None):
        if weight.dim() == 1:
            return weight.clone()
        return correct(weight, num_heads, to=to, rotary_dim=rotary_dim)

    replace("posenc_tutorial.rope", "convert_projection", mutant)
