"""YaRN multiplies cosine and sine by 0.1 ln s + 1 although both mscales are given."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/turboderp-org/exllamav3/issues/259"
DESCRIPTION = "the magnitude is applied twice in models that also scale their softmax"
TESTS = [
    "tests/test_context_extension.py::test_yarn_magnitude_sits_in_two_places_with_one_product",
    "tests/test_hf_config.py::test_deepseek_v2_and_ministral_magnitudes_cancel",
]


def install() -> None:
    from posenc_tutorial import context_extension

    correct = context_extension.yarn

    def mutant(*arguments, mscale=None, mscale_all_dim=None, **keywords):
        return correct(*arguments, **keywords)

    replace("posenc_tutorial.context_extension", "yarn", mutant)
