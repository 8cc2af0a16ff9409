"""Each direction of an encoder gets as many buckets as there are altogether."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "16 exact distances instead of 8, and buckets beyond the table"
TESTS = [
    "tests/test_relative.py::test_published_rows_of_a_ten_by_ten",
    "tests/test_t5_published_buckets.py::test_first_distances_of_the_chapter",
]


def install() -> None:
    from posenc_tutorial import relative

    correct = relative.t5_bucket

    def mutant(relative_position, *, bidirectional, num_buckets=32, max_distance=128):
        kinds = {"max_distance": max_distance, "num_buckets": num_buckets}
        if bidirectional:
            kinds["num_buckets"] = 2 * num_buckets
        return correct(relative_position, bidirectional=bidirectional, **kinds)

    replace("posenc_tutorial.relative", "t5_bucket", mutant)
