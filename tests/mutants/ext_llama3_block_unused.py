"""The llama3 block is parsed and then plain frequencies are used."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/lablup/mlxcel/issues/1355"
DESCRIPTION = "rope type llama3 gives plain RoPE"
TESTS = [
    "tests/test_hf_config.py::test_llama31_published_values",
    "tests/test_hf_config.py::test_llama3_thresholds_are_read",
]


def install() -> None:
    from posenc_tutorial import hf_config

    replace("posenc_tutorial.hf_config", "_llama3", hf_config._default)
