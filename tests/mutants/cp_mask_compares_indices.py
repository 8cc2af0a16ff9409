"""The causal mask of a shard compares indices in the shard, not positions."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/NVIDIA/Megatron-LM/issues/560"
DESCRIPTION = "the mask is made from the places in the shard"
TESTS = [
    "tests/test_context_parallel.py::test_merged_pieces_equal_attention_over_the_whole",
    "tests/test_context_parallel.py::test_a_query_that_sees_nothing_gets_zeros",
]


def install() -> None:
    import torch

    from posenc_tutorial import context_parallel

    correct = context_parallel.partial_attention

    def mutant(q, k, v, *, q_positions, k_positions, **options):
        places = torch.arange(q.shape[-2]), torch.arange(k.shape[-2])
        return correct(q, k, v, q_positions=places[0], k_positions=places[1], **options)

    replace("posenc_tutorial.context_parallel", "partial_attention", mutant)
