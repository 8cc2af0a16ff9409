"""The query itself falls into the half for keys after it."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "distance 0 is in bucket 16, which T5 never uses"
TESTS = [
    "tests/test_t5_published_buckets.py::test_one_bucket_of_an_encoder_is_never_used",
    "tests/test_relative.py::test_published_boundaries",
]


def install() -> None:
    from posenc_tutorial import relative

    correct = relative.t5_bucket

    def mutant(relative_position, *, bidirectional, num_buckets=32, max_distance=128):
        kinds = {"num_buckets": num_buckets, "max_distance": max_distance}
        inside = correct(relative_position, bidirectional=bidirectional, **kinds)
        ahead = (relative_position == 0).long() * (num_buckets // 2)
        return inside + ahead if bidirectional else inside

    replace("posenc_tutorial.relative", "t5_bucket", mutant)
