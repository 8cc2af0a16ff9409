"""The partial rotary factor is read and not applied: the whole head turns."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/pull/30384"
DESCRIPTION = "partial_rotary_factor is not applied"
TESTS = [
    "tests/test_hf_config.py::test_the_partial_factor_is_applied_once",
    "tests/test_hf_config.py::test_the_partial_factor_published_values",
]


def install() -> None:
    from posenc_tutorial import hf_config

    correct = hf_config._rotary_part

    def mutant(fields, block, head_dim):
        fraction, _ = correct(fields, block, head_dim)
        return fraction, head_dim

    replace("posenc_tutorial.hf_config", "_rotary_part", mutant)
