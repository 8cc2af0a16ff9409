"""Partial attentions are averaged, whatever their keys weigh."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/zhuzilin/ring-flash-attention/issues/20"
DESCRIPTION = "every piece has the same weight"
TESTS = [
    "tests/test_context_parallel.py::test_merged_pieces_equal_attention_over_the_whole",
]


def install() -> None:
    import torch

    def mutant(outputs, totals):
        stacked = torch.stack(list(totals))
        return torch.stack(list(outputs)).mean(0), stacked.logsumexp(0)

    replace("posenc_tutorial.context_parallel", "merge_attention", mutant)
