"""The base of a configuration is never read: every model gets 10000."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/unslothai/unsloth/pull/7028"
DESCRIPTION = "rope_theta is lost on the way"
TESTS = [
    "tests/test_hf_config.py::test_the_base_arrives",
    "tests/test_hf_config.py::test_published_configuration_has_the_right_frequencies",
]


def install() -> None:
    replace("posenc_tutorial.hf_config", "_base", lambda block: 10000.0)
