"""Dynamic NTK computed once, from factor * L, and used for short texts as well."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/issues/3488"
DESCRIPTION = "the dynamic scale does not depend on the current length"
TESTS = [
    "tests/test_context_extension.py::test_dynamic_ntk_is_plain_rope_up_to_the_original_length",
    "tests/test_context_extension.py::test_dynamic_ntk_published_bases",
]


def install() -> None:
    from posenc_tutorial import context_extension

    correct = context_extension.dynamic_ntk

    def mutant(dim, base, factor, original_max_positions, seq_len, *, variant="transformers"):
        longest = int(factor * original_max_positions)
        return correct(dim, base, factor, original_max_positions, longest, variant=variant)

    replace("posenc_tutorial.context_extension", "dynamic_ntk", mutant)
