"""A factor below 1, the frequency scale of another program, is taken silently."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ggml-org/llama.cpp/issues/2402"
DESCRIPTION = "factor 0.25 is accepted"
TESTS = [
    "tests/test_context_extension.py::test_a_factor_below_one_is_refused",
]


def install() -> None:
    from posenc_tutorial import context_extension

    def mutant(factor):
        context_extension.check_number("factor", factor, at_least=0.0)

    replace("posenc_tutorial.context_extension", "check_factor", mutant)
