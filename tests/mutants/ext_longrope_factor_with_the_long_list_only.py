"""LongRoPE's attention factor is left out while the short list is in use."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/microsoft/LongRoPE/issues/21"
DESCRIPTION = "attention factor 1 for short texts"
TESTS = [
    "tests/test_context_extension.py::test_longrope_chooses_a_list_by_length",
    "tests/test_hf_config.py::test_phi35_published_magnitude_and_lists",
]


def install() -> None:
    from posenc_tutorial import context_extension
    from posenc_tutorial.frequencies import RopeParameters

    correct = context_extension.longrope

    def mutant(dim, base, short, long, original, maximum, seq_len, *, attention_factor=None):
        params = correct(
            dim, base, short, long, original, maximum, seq_len, attention_factor=attention_factor
        )
        return params if seq_len > original else RopeParameters(params.inv_freq)

    replace("posenc_tutorial.context_extension", "longrope", mutant)
