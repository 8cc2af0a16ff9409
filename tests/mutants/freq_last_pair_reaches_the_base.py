"""Frequencies spread over [1, 1/base] with both ends: the last one is one step too slow."""

from __future__ import annotations

import math

import torch

from tools.mutation import replace

CASE = "https://github.com/rasbt/LLMs-from-scratch/issues/410"
DESCRIPTION = "linspace with both ends: the last frequency is 1/base, not base^(-(dim-2)/dim)"
TESTS = ["tests/test_frequencies.py::test_published_values_for_base_ten_thousand"]


def install() -> None:
    def mutant(dim, base=10000.0):
        return torch.exp(torch.linspace(0, -math.log(base), dim // 2, dtype=torch.float64))

    replace("posenc_tutorial.frequencies", "inverse_frequencies", mutant)
