"""The default base is 1000, a zero short."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/maxjcohen/transformer/issues/62"
DESCRIPTION = "sinusoidal table with base 1000"
TESTS = ["tests/test_sinusoidal.py::test_the_third_channel_uses_base_ten_thousand"]


def install() -> None:
    from posenc_tutorial import sinusoidal

    correct = sinusoidal.sinusoidal_table

    def mutant(positions, dim, *, base=1000.0, layout="interleaved", dtype=torch.float32):
        return correct(positions, dim, base=base, layout=layout, dtype=dtype)

    replace("posenc_tutorial.sinusoidal", "sinusoidal_table", mutant)
