"""Slopes follow the model into bfloat16."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/EleutherAI/gpt-neox/issues/1003"
DESCRIPTION = "the bias is computed in half precision"
TESTS = [
    "tests/test_alibi.py::test_the_bias_is_minus_slope_times_distance",
    "tests/test_alibi.py::test_the_bias_depends_on_the_distance_alone",
]


def install() -> None:
    from posenc_tutorial import alibi

    slopes = alibi.alibi_slopes

    def mutant(num_heads, q_positions, k_positions):
        slope = slopes(num_heads).float()[:, None, None]
        distance = (q_positions[..., None].long() - k_positions[..., None, :].long()).abs()
        return (-slope.bfloat16() * distance[..., None, :, :].bfloat16()).float()

    replace("posenc_tutorial.alibi", "alibi_bias", mutant)
