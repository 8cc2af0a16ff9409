"""An odd number of buckets is halved without a word."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "num_buckets is rounded down to an even number"
TESTS = ["tests/test_relative.py::test_an_odd_or_empty_number_of_buckets_is_refused"]


def install() -> None:
    from posenc_tutorial import relative

    correct = relative.t5_bucket

    def mutant(relative_position, *, bidirectional, num_buckets=32, max_distance=128):
        num_buckets = max(num_buckets // 2 * 2, 4)
        return correct(
            relative_position,
            bidirectional=bidirectional,
            num_buckets=num_buckets,
            max_distance=max_distance,
        )

    replace("posenc_tutorial.relative", "t5_bucket", mutant)
