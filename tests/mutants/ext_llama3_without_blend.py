"""Llama 3's rule without its smooth part: a pair is divided or it is not."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/lablup/mlxcel/issues/1355"
DESCRIPTION = "pairs between the two thresholds are divided like the slow ones"
TESTS = [
    "tests/test_context_extension.py::test_llama3_published_values",
    "tests/test_context_extension.py::test_llama3_published_values_of_the_1b_model",
]


def install() -> None:
    from posenc_tutorial import context_extension

    correct = context_extension._slowed

    def mutant(plain, factor, interpolated):
        return correct(plain, factor, interpolated.ceil())

    replace("posenc_tutorial.context_extension", "_slowed", mutant)
