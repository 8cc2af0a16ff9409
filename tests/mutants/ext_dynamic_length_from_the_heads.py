"""Dynamic NTK reads the length from the heads axis, which is short, and never scales."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-lm/pull/1553"
DESCRIPTION = "the sequence length is the number of heads"
TESTS = [
    "tests/test_context_extension.py::test_dynamic_ntk_published_bases",
    "tests/test_hf_config.py::test_internlm_scales_with_the_length_and_not_before",
]


def install() -> None:
    from posenc_tutorial import context_extension

    correct = context_extension.dynamic_ntk

    def mutant(dim, base, factor, original_max_positions, seq_len, *, variant="transformers"):
        heads = 8
        return correct(dim, base, factor, original_max_positions, heads, variant=variant)

    replace("posenc_tutorial.context_extension", "dynamic_ntk", mutant)
