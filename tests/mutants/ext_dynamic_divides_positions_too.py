"""Dynamic NTK divides the positions by the factor besides, as linear scaling does."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ml-explore/mlx-lm/pull/1553"
DESCRIPTION = "position scale and NTK factor conflated"
TESTS = [
    "tests/test_context_extension.py::test_dynamic_ntk_is_plain_rope_up_to_the_original_length",
    "tests/test_hf_config.py::test_internlm_scales_with_the_length_and_not_before",
]


def install() -> None:
    from posenc_tutorial import context_extension
    from posenc_tutorial.frequencies import RopeParameters

    correct = context_extension.dynamic_ntk

    def mutant(dim, base, factor, *arguments, **keywords):
        params = correct(dim, base, factor, *arguments, **keywords)
        return RopeParameters(params.inv_freq / factor)

    replace("posenc_tutorial.context_extension", "dynamic_ntk", mutant)
