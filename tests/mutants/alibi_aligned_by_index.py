"""Query row i is taken to stand at position i."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/Dao-AILab/flash-attention/issues/907"
DESCRIPTION = "queries are aligned top-left, their positions unused"
TESTS = [
    "tests/test_alibi.py::test_the_rows_of_four_queries_and_six_keys",
    "tests/test_alibi.py::test_padded_keys_weigh_nothing_and_real_tokens_do_not_notice",
]


def install() -> None:
    from posenc_tutorial import alibi

    correct = alibi.alibi_bias

    def mutant(num_heads, q_positions, k_positions):
        q, k = torch.arange(q_positions.shape[-1]), torch.arange(k_positions.shape[-1])
        return correct(num_heads, q, k)

    replace("posenc_tutorial.alibi", "alibi_bias", mutant)
