"""Rows that are never rotated are permuted as well."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/meta-pytorch/gpt-fast/issues/190"
DESCRIPTION = "convert_projection ignores rotary_dim"
TESTS = [
    "tests/test_rope.py::test_partial_conversion_moves_the_rotated_rows_alone",
    "tests/test_rope.py::test_converted_projections_keep_the_scores",
]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.convert_projection

    def mutant(weight, num_heads, *, to, rotary_dim=None):
        return correct(weight, num_heads, to=to)

    replace("posenc_tutorial.rope", "convert_projection", mutant)
