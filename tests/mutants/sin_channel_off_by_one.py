"""Every channel is one place early: the sine of the fastest pair is missing."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/maxjcohen/transformer/issues/62"
DESCRIPTION = "channel index off by one"
TESTS = ["tests/test_sinusoidal.py::test_published_row_for_width_eight"]


def install() -> None:
    from posenc_tutorial import sinusoidal

    correct = sinusoidal.sinusoidal_table

    def mutant(positions, dim, *, base=10000.0, layout="interleaved", dtype=torch.float32):
        return correct(positions, dim, base=base, layout=layout, dtype=dtype).roll(-1, dims=-1)

    replace("posenc_tutorial.sinusoidal", "sinusoidal_table", mutant)
