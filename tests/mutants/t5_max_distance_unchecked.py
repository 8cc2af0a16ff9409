"""A maximum distance below the exact buckets is accepted."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "the logarithm of a ratio below 1 is taken"
TESTS = ["tests/test_relative.py::test_max_distance_must_exceed_the_exact_buckets"]


def install() -> None:
    from posenc_tutorial import relative

    correct = relative.t5_bucket

    def mutant(relative_position, *, bidirectional, num_buckets=32, max_distance=128):
        return correct(
            relative_position,
            bidirectional=bidirectional,
            num_buckets=num_buckets,
            max_distance=max(max_distance, num_buckets),
        )

    replace("posenc_tutorial.relative", "t5_bucket", mutant)
