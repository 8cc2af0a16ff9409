"""The positions are cut along the wrong axis, the last one."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/NVIDIA-NeMo/Automodel/pull/1482"
DESCRIPTION = "shards are always taken along the last axis"
TESTS = [
    "tests/test_context_parallel.py::test_shards_make_the_whole_again",
]


def install() -> None:
    from posenc_tutorial import context_parallel

    correct = context_parallel.shard

    def mutant(x, rank, world_size, *, dim, scheme="contiguous"):
        return correct(x, rank, world_size, dim=-1, scheme=scheme)

    replace("posenc_tutorial.context_parallel", "shard", mutant)
