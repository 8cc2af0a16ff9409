"""Each rank counts its positions from 0, so tokens of different shards seem near."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/sgl-project/sglang/pull/28463"
DESCRIPTION = "shard positions are counted within the shard"
TESTS = [
    "tests/test_context_parallel.py::test_the_two_schemes_by_hand",
    "tests/test_context_parallel.py::test_every_position_is_kept_by_exactly_one_rank",
]


def install() -> None:
    from posenc_tutorial import context_parallel

    correct = context_parallel.shard_positions

    def mutant(n, rank, world_size, *, scheme="contiguous"):
        kept = correct(n, rank, world_size, scheme=scheme)
        return kept - kept[0]

    replace("posenc_tutorial.context_parallel", "shard_positions", mutant)
