"""NTK-aware scaling multiplies the base by the factor and forgets the exponent d/(d-2)."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/Eyeline-Labs/CineScale/issues/7"
DESCRIPTION = "base * factor instead of base * factor ** (dim / (dim - 2))"
TESTS = [
    "tests/test_context_extension.py::test_ntk_published_bases",
    "tests/test_context_extension.py::test_ntk_leaves_the_fastest_pair_alone_and_divides_the_slowest_by_the_factor",
]


def install() -> None:
    from posenc_tutorial import context_extension

    correct = context_extension.ntk_aware

    def mutant(dim, base, factor):
        correct(dim, base, factor)
        return context_extension.default_rope(dim, base * factor)

    replace("posenc_tutorial.context_extension", "ntk_aware", mutant)
