"""Every bucket holds one distance."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "no logarithmic part: distances are clipped at the number of buckets"
TESTS = [
    "tests/test_relative.py::test_published_rows_of_a_ten_by_ten",
    "tests/test_relative.py::test_published_boundaries",
]


def install() -> None:
    def mutant(relative_position, *, bidirectional, num_buckets=32, max_distance=128):
        sides = 2 if bidirectional else 1
        buckets = num_buckets // sides
        distance = relative_position.abs() if bidirectional else (-relative_position).clamp(min=0)
        offset = buckets * (relative_position > 0).long() * (sides - 1)
        return offset + distance.clamp(max=buckets - 1)

    replace("posenc_tutorial.relative", "t5_bucket", mutant)
