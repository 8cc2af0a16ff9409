"""The input columns are permuted in place of the output rows."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/meta-pytorch/gpt-fast/issues/190"
DESCRIPTION = "convert_projection permutes columns of a square matrix, not rows"
TESTS = [
    "tests/test_rope.py::test_a_converted_model_gives_the_same_output_with_value_and_out_left_alone",
]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.convert_projection

    def mutant(weight, num_heads, *, to, rotary_dim=None):
        return correct(weight.T, num_heads, to=to, rotary_dim=rotary_dim).T

    replace("posenc_tutorial.rope", "convert_projection", mutant)
