"""The second pieces are dealt out in the order of the first, and the work is uneven."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/EvolvingLMMs-Lab/LongVA/issues/14"
DESCRIPTION = "rank r keeps the pieces r and W + r"
TESTS = [
    "tests/test_context_parallel.py::test_zigzag_shares_the_causal_work_and_contiguous_does_not",
    "tests/test_context_parallel.py::test_the_two_schemes_by_hand",
]


def install() -> None:
    import torch

    from posenc_tutorial import context_parallel

    correct = context_parallel.shard_positions

    def mutant(n, rank, world_size, *, scheme="contiguous"):
        if scheme != "zigzag":
            return correct(n, rank, world_size, scheme=scheme)
        return torch.arange(n).view(2 * world_size, -1)[[rank, world_size + rank]].flatten()

    replace("posenc_tutorial.context_parallel", "shard_positions", mutant)
