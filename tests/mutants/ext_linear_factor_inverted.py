"""Position interpolation multiplies by the factor instead of dividing."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/ggml-org/llama.cpp/issues/2402"
DESCRIPTION = "inv_freq * factor instead of inv_freq / factor"
TESTS = [
    "tests/test_context_extension.py::test_position_interpolation_published_values",
    "tests/test_context_extension.py::test_interpolated_rotation_is_the_plain_rotation_of_the_squeezed_position",
]


def install() -> None:
    from posenc_tutorial import context_extension
    from posenc_tutorial.frequencies import RopeParameters, inverse_frequencies

    def mutant(dim, base, factor):
        context_extension.check_factor(factor)
        return RopeParameters(inverse_frequencies(dim, base) * factor)

    replace("posenc_tutorial.context_extension", "position_interpolation", mutant)
