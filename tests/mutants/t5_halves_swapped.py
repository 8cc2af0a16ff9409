"""Keys before the query use buckets 16 to 31."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "the sign of the direction bit is wrong, distances are right"
TESTS = [
    "tests/test_relative.py::test_published_rows_of_a_ten_by_ten",
    "tests/test_relative.py::test_published_boundaries",
]


def install() -> None:
    from posenc_tutorial import relative

    correct = relative.t5_bucket

    def mutant(relative_position, *, bidirectional, num_buckets=32, max_distance=128):
        relative_position = -relative_position if bidirectional else relative_position
        return correct(
            relative_position,
            bidirectional=bidirectional,
            num_buckets=num_buckets,
            max_distance=max_distance,
        )

    replace("posenc_tutorial.relative", "t5_bucket", mutant)
