"""Asked for interleaved channels, the table comes as all sines and then all cosines."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/tatp22/multidim-positional-encoding/issues/20"
DESCRIPTION = "sin|cos halves where sin, cos, sin, cos was asked for"
TESTS = [
    "tests/test_sinusoidal.py::test_published_row_for_width_four_in_both_layouts",
    "tests/test_sinusoidal.py::test_layouts_differ_by_one_permutation_of_channels",
]


def install() -> None:
    from posenc_tutorial import sinusoidal

    correct = sinusoidal.sinusoidal_table

    def mutant(positions, dim, *, base=10000.0, layout="interleaved", dtype=torch.float32):
        return correct(positions, dim, base=base, layout="concatenated", dtype=dtype)

    replace("posenc_tutorial.sinusoidal", "sinusoidal_table", mutant)
