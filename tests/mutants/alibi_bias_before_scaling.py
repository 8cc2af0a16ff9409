"""The bias is added to the raw products, and the sum is divided by the root of the width."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/NVIDIA/TensorRT-Model-Connect/pull/32"
DESCRIPTION = "the bias is scaled with the scores"
TESTS = [
    "tests/test_attention.py::test_the_bias_is_added_after_scaling",
    "tests/test_attention.py::test_equals_pytorch_for_every_mask_and_bias",
]


def install() -> None:
    import math

    from posenc_tutorial import attention as module

    correct = module.attention_scores

    def mutant(q, k, *, scale=None, bias=None):
        factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
        return correct(q, k, scale=scale, bias=None if bias is None else factor * bias)

    replace("posenc_tutorial.attention", "attention_scores", mutant)
