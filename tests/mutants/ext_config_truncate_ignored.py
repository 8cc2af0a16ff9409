"""The field truncate of a configuration is not passed on."""

from __future__ import annotations

import dataclasses

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/issues/27722"
DESCRIPTION = "truncate: false in config.json has no effect"
TESTS = [
    "tests/test_hf_config.py::test_gpt_oss_range_is_not_truncated",
]


def install() -> None:
    from posenc_tutorial import hf_config

    correct = hf_config._yarn

    def mutant(config, seq_len):
        block = {**config.block, "truncate": True}
        return correct(dataclasses.replace(config, block=block), seq_len)

    replace("posenc_tutorial.hf_config", "_yarn", mutant)
