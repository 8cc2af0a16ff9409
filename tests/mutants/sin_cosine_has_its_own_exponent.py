"""The cosine of a pair takes the frequency of the next pair."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/SamLynnEvans/Transformer/issues/25"
DESCRIPTION = "cosine columns use exponent 2(i+1)/dim"
TESTS = [
    "tests/test_sinusoidal.py::test_cosine_columns_share_the_frequency_of_their_sine",
    "tests/test_sinusoidal.py::test_every_pair_lies_on_the_unit_circle_at_its_angle",
]


def install() -> None:
    from posenc_tutorial import sinusoidal

    correct = sinusoidal.sinusoidal_table

    def mutant(positions, dim, *, base=10000.0, layout="interleaved", dtype=torch.float32):
        wide = correct(positions, dim, base=base, dtype=torch.float64)
        slower = sinusoidal.angles(
            torch.arange(positions) if isinstance(positions, int) else positions,
            sinusoidal.inverse_frequencies(dim, base) * base ** (-2 / dim),
        ).cos()
        wide[..., 1::2] = slower
        if layout == "concatenated":
            wide = torch.cat([wide[..., 0::2], wide[..., 1::2]], dim=-1)
        return wide.to(dtype)

    replace("posenc_tutorial.sinusoidal", "sinusoidal_table", mutant)
