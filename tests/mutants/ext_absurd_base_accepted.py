"""A base that is zero or negative is taken as it is."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/unslothai/unsloth/pull/7028"
DESCRIPTION = "rope_theta <= 0 falls back to 10000 instead of an error"
TESTS = [
    "tests/test_hf_config.py::test_bad_fields_are_named",
]


def install() -> None:
    from posenc_tutorial import hf_config

    correct = hf_config._base

    def mutant(block):
        base = block["rope_theta"]
        return 10000.0 if isinstance(base, (int, float)) and base <= 0 else correct(block)

    replace("posenc_tutorial.hf_config", "_base", mutant)
