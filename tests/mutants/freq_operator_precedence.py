"""-log(base) / dim // 2 floors to -1.0: every ratio is e^-2, whatever the width."""

from __future__ import annotations

import math

import torch

from tools.mutation import replace

CASE = "https://github.com/zju3dv/LoFTR/issues/41"
DESCRIPTION = "operator precedence: (-log(base) / dim) // 2 is a floor division"
TESTS = [
    "tests/test_frequencies.py::test_published_value_for_width_256",
    "tests/test_frequencies.py::test_frequencies_form_one_geometric_sequence_that_starts_at_one",
]


def install() -> None:
    def mutant(dim, base=10000.0):
        steps = torch.arange(0, dim, 2, dtype=torch.float64)
        return torch.exp(steps * (-math.log(base) / dim // 2))

    replace("posenc_tutorial.frequencies", "inverse_frequencies", mutant)
