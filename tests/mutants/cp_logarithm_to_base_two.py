"""A kernel reports its sum as a logarithm to base 2, and the merge expects base e."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/pull/28840"
DESCRIPTION = "the totals are logarithms to base 2"
TESTS = [
    "tests/test_context_parallel.py::test_merged_pieces_equal_attention_over_the_whole",
]


def install() -> None:
    import math

    from posenc_tutorial import context_parallel

    correct = context_parallel.partial_attention

    def mutant(*tensors, **options):
        out, total = correct(*tensors, **options)
        return out, total / math.log(2)

    replace("posenc_tutorial.context_parallel", "partial_attention", mutant)
