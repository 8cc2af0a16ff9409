"""A diffusion time step is cast to the model's dtype before the sinusoid: 998.3897 is 1000."""

from __future__ import annotations

import torch

from tools.mutation import replace

CASE = "https://github.com/modelscope/DiffSynth-Studio/pull/1025"
DESCRIPTION = "time step rounded to bfloat16 before the angle"
TESTS = [
    "tests/test_sinusoidal.py::test_a_fractional_time_step_is_not_rounded_first",
    "tests/test_frequencies.py::test_fractional_positions_are_kept",
]


def install() -> None:
    from posenc_tutorial import frequencies

    correct = frequencies.angles

    def mutant(positions, inv_freq):
        if positions.is_floating_point():
            positions = positions.to(torch.bfloat16).to(positions.dtype)
        return correct(positions, inv_freq)

    replace("posenc_tutorial.frequencies", "angles", mutant)
