"""Positions are rounded to float32 before they are subtracted."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/NVIDIA/Megatron-LM/issues/535"
DESCRIPTION = "beyond 2**24 neighbours fall together"
TESTS = [
    "tests/test_alibi.py::test_positions_far_out_are_subtracted_before_they_are_rounded",
]


def install() -> None:
    from posenc_tutorial import alibi

    slopes = alibi.alibi_slopes

    def mutant(num_heads, q_positions, k_positions):
        slope = slopes(num_heads).float()[:, None, None]
        distance = q_positions[..., None].float() - k_positions[..., None, :].float()
        return -slope * distance[..., None, :, :].abs()

    replace("posenc_tutorial.alibi", "alibi_bias", mutant)
