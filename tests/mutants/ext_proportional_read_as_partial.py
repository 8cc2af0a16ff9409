"""Proportional rotary frequencies computed as for partial rotary: exponent 2i/r."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/apple/coreai-models/issues/66"
DESCRIPTION = "proportional uses the exponents of a narrower head"
TESTS = [
    "tests/test_context_extension.py::test_proportional_against_partial_rotary",
    "tests/test_context_extension.py::test_proportional_turns_the_stated_share_at_plain_speed",
]


def install() -> None:
    from posenc_tutorial import context_extension
    from posenc_tutorial.frequencies import RopeParameters, inverse_frequencies

    correct = context_extension.proportional

    def mutant(dim, base, rotary_fraction):
        inv_freq = correct(dim, base, rotary_fraction).inv_freq.clone()
        turning = int(rotary_fraction * dim // 2)
        if turning:
            inv_freq[:turning] = inverse_frequencies(2 * turning, base)
        return RopeParameters(inv_freq)

    replace("posenc_tutorial.context_extension", "proportional", mutant)
