"""The bias of the key's index, right under a causal softmax only."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ofirpress/attention_with_linear_biases/issues/9"
DESCRIPTION = "the same positive row for every query"
TESTS = [
    "tests/test_alibi.py::test_the_bias_is_minus_slope_times_distance",
    "tests/test_alibi.py::test_the_key_index_form_is_equal_under_a_causal_mask_alone",
]


def install() -> None:
    from posenc_tutorial import alibi

    slopes = alibi.alibi_slopes

    def mutant(num_heads, q_positions, k_positions):
        slope = slopes(num_heads).float()[:, None, None]
        row = k_positions.float()[..., None, None, :]
        return slope * row.expand(*row.shape[:-3], 1, q_positions.shape[-1], -1)

    replace("posenc_tutorial.alibi", "alibi_bias", mutant)
