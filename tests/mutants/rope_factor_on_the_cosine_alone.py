"""YaRN's magnitude reaches the cosine and not the sine."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/turboderp-org/exllamav3/issues/259"
DESCRIPTION = "attention_factor multiplies cos only"
TESTS = [
    "tests/test_rope.py::test_attention_factor_multiplies_cosine_and_sine",
    "tests/test_rope.py::test_norm_is_kept_times_the_attention_factor",
]


def install() -> None:
    from posenc_tutorial import rope

    correct = rope.rope_cos_sin

    def mutant(positions, inv_freq, *, attention_factor=1.0, **kwargs):
        cos, _ = correct(positions, inv_freq, attention_factor=attention_factor, **kwargs)
        _, sin = correct(positions, inv_freq, **kwargs)
        return cos, sin

    replace("posenc_tutorial.rope", "rope_cos_sin", mutant)
