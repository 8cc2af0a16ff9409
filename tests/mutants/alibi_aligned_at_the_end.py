"""The last query is taken to stand at the last key."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/Dao-AILab/flash-attention/issues/907"
DESCRIPTION = "queries are aligned bottom-right, their positions unused"
TESTS = [
    "tests/test_alibi.py::test_the_bias_is_minus_slope_times_distance",
    "tests/test_alibi.py::test_the_bias_depends_on_the_distance_alone",
]


def install() -> None:
    from posenc_tutorial import alibi

    correct = alibi.alibi_bias

    def mutant(num_heads, q_positions, k_positions):
        n_q, n_k = q_positions.shape[-1], k_positions.shape[-1]
        return correct(num_heads, torch.arange(n_k - n_q, n_k), torch.arange(n_k))

    replace("posenc_tutorial.alibi", "alibi_bias", mutant)
