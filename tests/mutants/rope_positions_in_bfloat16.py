"""Positions are cast to bfloat16, where 257 is 256."""

from __future__ import annotations

from tools.mutation import replace

CASE = [
    "https://github.com/NVIDIA/Megatron-LM/issues/535",
    "https://github.com/modelscope/DiffSynth-Studio/pull/1025",
]
DESCRIPTION = "of 4096 positions only 769 differ"
TESTS = [
    "tests/test_rope.py::test_cos_and_sin_are_rounded_once_from_float64",
    "tests/test_rope.py::test_float32_positions_may_be_fractional",
]


def install() -> None:
    from posenc_tutorial import frequencies

    correct = frequencies.angles

    def mutant(positions, inv_freq):
        return correct(positions.bfloat16().float(), inv_freq)

    replace("posenc_tutorial.frequencies", "angles", mutant)
