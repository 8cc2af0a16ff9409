"""The partial rotary factor is applied to a width that it was applied to already."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/pull/30384"
DESCRIPTION = "rotary width is head_dim * factor ** 2"
TESTS = [
    "tests/test_hf_config.py::test_the_partial_factor_is_applied_once",
    "tests/test_hf_config.py::test_published_configuration_is_read",
]


def install() -> None:
    from posenc_tutorial import hf_config

    correct = hf_config._rotary_part

    def mutant(fields, block, head_dim):
        fraction, rotary_dim = correct(fields, block, head_dim)
        return fraction, max(2, int(rotary_dim * fraction) // 2 * 2)

    replace("posenc_tutorial.hf_config", "_rotary_part", mutant)
