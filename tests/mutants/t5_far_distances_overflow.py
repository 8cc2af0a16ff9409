"""Distances beyond the maximum run into the other direction's buckets."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "the last bucket is not a limit"
TESTS = [
    "tests/test_relative.py::test_published_boundaries",
    "tests/test_relative.py::test_buckets_are_in_range_monotone_and_signed",
]


def install() -> None:
    from posenc_tutorial import relative

    correct = relative.t5_bucket

    def mutant(relative_position, *, bidirectional, num_buckets=32, max_distance=128):
        kinds = {"bidirectional": bidirectional, "num_buckets": num_buckets}
        inside = correct(relative_position, max_distance=max_distance, **kinds)
        return inside + (relative_position.abs() >= 2 * max_distance).long()

    replace("posenc_tutorial.relative", "t5_bucket", mutant)
