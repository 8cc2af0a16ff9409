"""The base beside a rope_scaling block is lost; without a block it is read."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/unslothai/unsloth/pull/7028"
DESCRIPTION = "rope_theta is lost as soon as there is a scaling block"
TESTS = [
    "tests/test_hf_config.py::test_the_base_arrives",
    "tests/test_hf_config.py::test_the_base_survives_a_round_trip_through_json",
]


def install() -> None:
    from posenc_tutorial import hf_config

    correct = hf_config._base

    def mutant(block):
        base = correct(block)
        return 10000.0 if block.get("factor") is not None else base

    replace("posenc_tutorial.hf_config", "_base", mutant)
