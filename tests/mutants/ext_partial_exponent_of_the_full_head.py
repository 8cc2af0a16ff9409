"""Partial rotary pairs get the exponents of the full head: 2i/d instead of 2i/r."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/pull/30384"
DESCRIPTION = "partial rotary frequencies taken from the full head width"
TESTS = [
    "tests/test_hf_config.py::test_the_partial_factor_is_applied_once",
    "tests/test_hf_config.py::test_published_configuration_has_the_right_frequencies",
]


def install() -> None:
    from posenc_tutorial import context_extension
    from posenc_tutorial.frequencies import RopeParameters

    def mutant(config, seq_len):
        full = context_extension.default_rope(config.head_dim, config.base)
        return RopeParameters(full.inv_freq[: config.rotary_dim // 2])

    replace("posenc_tutorial.hf_config", "_default", mutant)
