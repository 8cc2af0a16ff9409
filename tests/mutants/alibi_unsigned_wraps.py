"""Unsigned and narrow positions wrap around."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/NVIDIA/Megatron-LM/issues/535"
DESCRIPTION = "distances are computed in the dtype of the positions"
TESTS = ["tests/test_alibi.py::test_narrow_and_unsigned_positions_do_not_wrap"]


def install() -> None:
    from posenc_tutorial import alibi

    slopes = alibi.alibi_slopes

    def mutant(num_heads, q_positions, k_positions):
        slope = slopes(num_heads).float()[:, None, None]
        distance = q_positions[..., None] - k_positions[..., None, :]
        return -slope * distance[..., None, :, :].abs().float()

    replace("posenc_tutorial.alibi", "alibi_bias", mutant)
