"""Three channels of four are to be rotated, and nobody objects."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/215"
DESCRIPTION = "odd widths are not refused"
TESTS = [
    "tests/test_rope_module.py::test_rotary_dim_must_be_even_and_fit",
    "tests/test_rope.py::test_permutations_refuse_an_odd_width",
]


def install() -> None:
    replace("posenc_tutorial.frequencies", "check_even_dim", lambda dim, name="dim": None)
