"""Both kinds of interpolation use the half-pixel convention."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ggml-org/llama.cpp/pull/25781"
DESCRIPTION = "resizing without aligned corners"
TESTS = [
    "tests/test_learned.py::test_published_values_of_both_interpolations",
    "tests/test_learned.py::test_linear_interpolation_keeps_the_ends_and_straight_lines",
]


def install() -> None:
    from posenc_tutorial.learned import LearnedEncoding

    correct = LearnedEncoding.resized

    def mutant(self, new_max_positions, mode="linear"):
        return correct(self, new_max_positions, "half_pixel" if mode == "linear" else mode)

    replace("posenc_tutorial.learned", "LearnedEncoding.resized", mutant)
