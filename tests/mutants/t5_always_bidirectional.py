"""A causal decoder uses the encoder's buckets."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "bidirectional=False has no effect"
TESTS = [
    "tests/test_relative.py::test_causal_buckets",
    "tests/test_parity_transformers.py::test_buckets_of_every_distance",
]


def install() -> None:
    from posenc_tutorial import relative

    correct = relative.t5_bucket

    def mutant(relative_position, *, bidirectional, num_buckets=32, max_distance=128):
        kinds = {"num_buckets": num_buckets, "max_distance": max_distance}
        return correct(relative_position, bidirectional=True, **kinds)

    replace("posenc_tutorial.relative", "t5_bucket", mutant)
