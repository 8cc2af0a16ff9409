"""One permutation is used in both directions."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/meta-pytorch/gpt-fast/issues/190"
DESCRIPTION = "half_to_interleaved applies interleaved_to_half"
TESTS = [
    "tests/test_rope.py::test_published_permutations",
    "tests/test_rope.py::test_the_permutations_undo_each_other_and_swap_the_layouts",
]


def install() -> None:
    from posenc_tutorial import rope

    there = rope.interleaved_to_half

    def mutant(x):
        return there(x)

    replace("posenc_tutorial.rope", "half_to_interleaved", mutant)
