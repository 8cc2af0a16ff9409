"""Exponent doubled because the loop already steps by two: 1, 0.01, 1e-4 for dim 8."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/SamLynnEvans/Transformer/issues/25"
DESCRIPTION = "frequency exponent 4i/dim instead of 2i/dim"
TESTS = ["tests/test_frequencies.py::test_published_values_for_base_ten_thousand"]


def install() -> None:
    from posenc_tutorial import frequencies

    correct = frequencies.inverse_frequencies

    def mutant(dim, base=10000.0):
        return correct(dim, base) ** 2

    replace("posenc_tutorial.frequencies", "inverse_frequencies", mutant)
