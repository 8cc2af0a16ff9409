"""Slopes are sorted, so heads get other slopes than in the checkpoint."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx/issues/343"
DESCRIPTION = "slopes in decreasing order for every number of heads"
TESTS = [
    "tests/test_alibi.py::test_published_slopes",
    "tests/test_parity_transformers.py::test_mpt_builds_the_last_row",
]


def install() -> None:
    from posenc_tutorial import alibi

    correct = alibi.alibi_slopes

    def mutant(num_heads):
        return correct(num_heads).sort(descending=True).values

    replace("posenc_tutorial.alibi", "alibi_slopes", mutant)
