"""The rows are permuted by the inverse list."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/meta-pytorch/gpt-fast/issues/190"
DESCRIPTION = "convert_projection goes from half to interleaved when asked for half"
TESTS = [
    "tests/test_rope.py::test_converted_projections_keep_the_scores",
    "tests/test_rope.py::test_conversion_is_per_head",
]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.convert_projection
    other = {"half": "interleaved", "interleaved": "half"}

    def mutant(weight, num_heads, *, to, rotary_dim=None):
        return correct(weight, num_heads, to=other[to], rotary_dim=rotary_dim)

    replace("posenc_tutorial.rope", "convert_projection", mutant)
