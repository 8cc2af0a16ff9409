"""Angles as a matrix product, which autocast runs in half precision."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/pull/29285"
DESCRIPTION = "positions @ frequencies in float32, without switching autocast off"
TESTS = [
    "tests/test_rope_module.py::test_autocast_changes_nothing",
    "tests/test_rope_module.py::test_autocast_changes_nothing_for_length_dependent_parameters",
]


def install() -> None:
    from posenc_tutorial.frequencies import as_positions

    def mutant(positions, inv_freq):
        positions = as_positions(positions).cpu()
        product = positions.float()[..., None] @ inv_freq.float()[None]
        return product.double()

    replace("posenc_tutorial.frequencies", "angles", mutant)
