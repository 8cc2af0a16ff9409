"""Only the first layer that asks gets a bias."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/10221"
DESCRIPTION = "the bias is given out once for each input"
TESTS = ["tests/test_relative.py::test_one_table_is_shared_by_all_layers"]


def install() -> None:
    from posenc_tutorial.relative import T5Bias

    correct = T5Bias.score_bias

    def mutant(self, q_positions, k_positions, *, q=None):
        bias = correct(self, q_positions, k_positions, q=q)
        asked = self.__dict__.get("_asked", 0)
        self.__dict__["_asked"] = asked + 1
        return bias if asked == 0 else torch.zeros_like(bias)

    replace("posenc_tutorial.relative", "T5Bias.score_bias", mutant)
