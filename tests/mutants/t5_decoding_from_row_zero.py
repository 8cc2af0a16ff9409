"""A decoded token gets the bias row of the first token."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/Blaizzy/mlx-vlm/issues/1983"
DESCRIPTION = "query positions are counted from 0 in every step"
TESTS = [
    "tests/test_relative.py::test_cached_decoding_reads_the_last_row",
    "tests/test_parity_transformers.py::test_the_bias_of_a_t5_layer",
]


def install() -> None:
    from posenc_tutorial.relative import T5Bias

    correct = T5Bias.score_bias

    def mutant(self, q_positions, k_positions, *, q=None):
        return correct(self, torch.arange(q_positions.shape[-1]), k_positions, q=q)

    replace("posenc_tutorial.relative", "T5Bias.score_bias", mutant)
