"""The factor stands in the field of the attention factor, and the report has no doubts."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://huggingface.co/lidayuls/Phi-3.5-mini-instruct-bnb-4bit/blob/main/config.json"
DESCRIPTION = "a stated attention factor is never questioned"
TESTS = [
    "tests/test_hf_config_command.py::test_warnings_are_printed_and_strict_makes_them_failures",
]


def install() -> None:
    replace("posenc_tutorial.hf_config.report", "_usual_magnitude", lambda *arguments: None)
