"""YaRN's attention factor is the factor of the scores, its square, put on cosine and sine."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/turboderp-org/exllamav3/issues/259"
DESCRIPTION = "cosine and sine are scaled by (0.1 ln s + 1) squared"
TESTS = [
    "tests/test_context_extension.py::test_yarn_published_attention_factors",
]


def install() -> None:
    from posenc_tutorial import context_extension

    correct = context_extension.yarn_attention_factor

    def mutant(factor, mscale=1.0):
        return correct(factor, mscale) ** 2

    replace("posenc_tutorial.context_extension", "yarn_attention_factor", mutant)
