"""Each exponent is doubled: 1, 0.01, 1e-4, 1e-6 instead of 1, 0.1, 0.01, 0.001 for dim 8."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/SamLynnEvans/Transformer/issues/25"
DESCRIPTION = "frequency exponent 4i/dim instead of 2i/dim"
TESTS = ["tests/test_frequencies.py"]


def install() -> None:
    from posenc_tutorial import frequencies

    correct = frequencies.inverse_frequencies

    def mutant(dim, base=10000.0):
        return correct(dim, base) ** 2

    replace("posenc_tutorial.frequencies", "inverse_frequencies", mutant)
