"""Dynamic NTK keeps the scale of the longest text it has seen."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/25104"
DESCRIPTION = "state left over from a longer text"
TESTS = [
    "tests/test_context_extension.py::test_dynamic_ntk_remembers_nothing",
    "tests/test_context_extension.py::test_a_module_with_dynamic_ntk_remembers_nothing",
]


def install() -> None:
    from posenc_tutorial import context_extension

    correct = context_extension.dynamic_ntk
    longest = {}

    def mutant(dim, base, factor, original_max_positions, seq_len, *, variant="transformers"):
        key = (dim, base, factor, original_max_positions, variant)
        longest[key] = max(seq_len, longest.get(key, 0))
        return correct(dim, base, factor, original_max_positions, longest[key], variant=variant)

    replace("posenc_tutorial.context_extension", "dynamic_ntk", mutant)
