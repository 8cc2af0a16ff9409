"""The partial factor shrinks the rotated width twice."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/pull/30384"
DESCRIPTION = "only rotary_dim**2 / head_dim channels turn"
TESTS = [
    "tests/test_rope_module.py::test_it_equals_rotate_by_hand",
    "tests/test_parity_transformers.py::test_gpt_neox_is_the_half_layout_of_the_first_channels",
]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.__init__

    def mutant(self, head_dim, *, rotary_dim=None, **kwargs):
        if rotary_dim is not None and 0 < rotary_dim < head_dim:
            rotary_dim = rotary_dim * rotary_dim // head_dim // 2 * 2
        correct(self, head_dim, rotary_dim=rotary_dim, **kwargs)

    replace("posenc_tutorial.rope", "RotaryEmbedding.__init__", mutant)
