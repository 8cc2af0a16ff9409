"""An odd width is accepted and silently loses its last channel."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/codertimo/BERT-pytorch/issues/78"
DESCRIPTION = "no check for odd widths: 5 gives 4 channels, 1 gives none"
TESTS = [
    "tests/test_sinusoidal.py::test_an_odd_width_is_an_error_naming_it",
    "tests/test_frequencies.py::test_width_must_be_even_and_at_least_two",
]


def install() -> None:
    replace("posenc_tutorial.frequencies", "check_even_dim", lambda dim, name="dim": None)
