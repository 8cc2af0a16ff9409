"""Keys after the query are rewarded: the absolute value is missing."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/meta-pytorch/attention-gym/pull/86"
DESCRIPTION = "the bias is -slope * (q - k)"
TESTS = [
    "tests/test_alibi.py::test_the_bias_is_minus_slope_times_distance",
    "tests/test_alibi.py::test_the_rows_of_four_queries_and_six_keys",
]


def install() -> None:
    from posenc_tutorial import alibi

    slopes = alibi.alibi_slopes

    def mutant(num_heads, q_positions, k_positions):
        slope = slopes(num_heads).float()[:, None, None]
        distance = q_positions[..., None].long() - k_positions[..., None, :].long()
        return -slope * distance[..., None, :, :].float()

    replace("posenc_tutorial.alibi", "alibi_bias", mutant)
