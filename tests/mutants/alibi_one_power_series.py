"""One geometric series for any number of heads."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx/issues/343"
DESCRIPTION = "slopes 2^(-8h/H) also when H is no power of two"
TESTS = [
    "tests/test_alibi.py::test_published_slopes",
    "tests/test_parity_transformers.py::test_bloom_builds_the_key_index_form_of_the_same_slopes",
]


def install() -> None:
    from posenc_tutorial import alibi

    correct = alibi.alibi_slopes

    def mutant(num_heads):
        heads = torch.arange(1, correct(num_heads).numel() + 1)
        return 2.0 ** (-8.0 * heads.double() / num_heads)

    replace("posenc_tutorial.alibi", "alibi_slopes", mutant)
