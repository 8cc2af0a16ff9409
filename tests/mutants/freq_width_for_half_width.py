"""arange(dim/2) / dim in the exponent: 1, 0.3162, 0.1, 0.0316 for dim 8."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/rasbt/LLMs-from-scratch/issues/410"
DESCRIPTION = "denominator dim where dim/2 belongs: frequencies fall half as fast"
TESTS = [
    "tests/test_frequencies.py::test_published_values_for_base_ten_thousand",
    "tests/test_frequencies.py::test_frequencies_form_one_geometric_sequence_that_starts_at_one",
]


def install() -> None:
    from posenc_tutorial import frequencies

    correct = frequencies.inverse_frequencies

    def mutant(dim, base=10000.0):
        return correct(dim, base).sqrt()

    replace("posenc_tutorial.frequencies", "inverse_frequencies", mutant)
