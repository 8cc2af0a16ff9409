"""A configuration without a base silently gets 10000."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/unslothai/unsloth/pull/7028"
DESCRIPTION = "a missing rope_theta becomes 10000 instead of an error"
TESTS = [
    "tests/test_hf_config.py::test_a_missing_base_is_named",
]


def install() -> None:
    from posenc_tutorial import hf_config

    correct = hf_config._base

    def mutant(block):
        return 10000.0 if block["rope_theta"] is None else correct(block)

    replace("posenc_tutorial.hf_config", "_base", mutant)
