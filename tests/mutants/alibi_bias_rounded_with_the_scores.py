"""The bias is cast to the scores' bfloat16, so that small steps beside large scores are lost."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/NVIDIA/TensorRT-Model-Connect/issues/667"
DESCRIPTION = "score and bias are added in half precision"
TESTS = [
    "tests/test_attention.py::test_the_softmax_of_half_precision_runs_in_float32",
]


def install() -> None:
    from posenc_tutorial import attention as module

    correct = module.attention_scores

    def mutant(q, k, *, scale=None, bias=None):
        return correct(q, k, scale=scale, bias=None if bias is None else bias.to(q.dtype))

    replace("posenc_tutorial.attention", "attention_scores", mutant)
