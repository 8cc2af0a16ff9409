"""LongRoPE's attention factor with the extended length in the logarithm."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/microsoft/LongRoPE/issues/21"
DESCRIPTION = "sqrt(1 + ln s / ln(s L)) instead of sqrt(1 + ln s / ln L)"
TESTS = [
    "tests/test_context_extension.py::test_longrope_published_attention_factors",
    "tests/test_hf_config.py::test_phi35_published_magnitude_and_lists",
]


def install() -> None:
    from posenc_tutorial import context_extension

    correct = context_extension.longrope_attention_factor

    def mutant(factor, original_max_positions):
        return correct(factor, int(factor * original_max_positions))

    replace("posenc_tutorial.context_extension", "longrope_attention_factor", mutant)
