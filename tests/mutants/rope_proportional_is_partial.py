"""Proportional rotary is mistaken for partial rotary."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/apple/coreai-models/issues/66"
DESCRIPTION = "proportional returns the frequencies of a narrower head"
TESTS = [
    "tests/test_rope.py::test_partial_and_proportional_rotary_are_different_and_both_right",
    "tests/test_parity_transformers.py::test_every_rope_type_frequencies_cosines_and_rotated_queries",
]
RAISES = ["RuntimeError", "IndexError"]


def install() -> None:
    from posenc_tutorial.context_extension import default_rope

    def mutant(dim, base, rotary_fraction):
        return default_rope(int(dim * rotary_fraction), base)

    replace("posenc_tutorial.context_extension", "proportional", mutant)
