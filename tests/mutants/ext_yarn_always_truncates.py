"""YaRN's range is rounded to whole pairs although the caller says not to."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/issues/27722"
DESCRIPTION = "truncate=False has no effect"
TESTS = [
    "tests/test_context_extension.py::test_yarn_range_with_and_without_truncation",
]


def install() -> None:
    from posenc_tutorial import context_extension

    correct = context_extension.yarn

    def mutant(*arguments, truncate=True, **keywords):
        return correct(*arguments, truncate=True, **keywords)

    replace("posenc_tutorial.context_extension", "yarn", mutant)
