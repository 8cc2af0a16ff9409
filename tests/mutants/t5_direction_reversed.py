"""Relative position is query minus key."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "keys before the query use the upper half of the buckets"
TESTS = [
    "tests/test_relative.py::test_published_rows_of_a_ten_by_ten",
    "tests/test_relative.py::test_relative_position_is_key_minus_query",
    "tests/test_parity_transformers.py::test_the_bias_of_a_t5_layer",
]


def install() -> None:
    from posenc_tutorial import relative

    correct = relative.relative_positions
    replace("posenc_tutorial.relative", "relative_positions", lambda q, k: -correct(q, k))
