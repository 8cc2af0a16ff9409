"""The outer product is written as a matrix product, which autocast runs in bfloat16."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/pull/29285"
DESCRIPTION = "angles by matmul: downcast inside autocast"
TESTS = [
    "tests/test_frequencies.py::test_autocast_changes_no_angle",
    "tests/test_sinusoidal.py::test_autocast_changes_no_angle",
]


def install() -> None:
    def mutant(positions, inv_freq):
        return (positions.float()[..., None] @ inv_freq.float()[None, :]).double()

    replace("posenc_tutorial.frequencies", "angles", mutant)
