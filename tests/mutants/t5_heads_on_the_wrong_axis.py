"""The table is read as (heads, buckets)."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-examples/pull/113"
DESCRIPTION = "bias values of other heads and buckets"
TESTS = [
    "tests/test_relative.py::test_the_bias_is_looked_up_by_bucket",
    "tests/test_parity_transformers.py::test_the_bias_of_a_t5_layer",
]


def install() -> None:
    from posenc_tutorial.relative import relative_positions, t5_bucket

    def mutant(self, q_positions, k_positions, *, q=None):
        bucket = t5_bucket(relative_positions(q_positions, k_positions), **self.bucket_settings)
        table = self.weight.reshape(self.weight.shape[1], self.weight.shape[0])
        return table[:, bucket]

    replace("posenc_tutorial.relative", "T5Bias.score_bias", mutant)
