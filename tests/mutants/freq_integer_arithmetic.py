"""The exponent is computed in integers, so every frequency is 1."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/codertimo/BERT-pytorch/issues/18"
DESCRIPTION = "integer division in the exponent: all frequencies equal 1"
TESTS = [
    "tests/test_frequencies.py::test_published_values_for_base_ten_thousand",
    "tests/test_frequencies.py::test_frequencies_form_one_geometric_sequence_that_starts_at_one",
]


def install() -> None:
    def mutant(dim, base=10000.0):
        exponent = torch.arange(0, dim, 2) // dim
        return float(base) ** (-exponent.double())

    replace("posenc_tutorial.frequencies", "inverse_frequencies", mutant)
