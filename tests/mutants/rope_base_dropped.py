"""The base of the configuration is never used."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/unslothai/unsloth/pull/7028"
DESCRIPTION = "RotaryEmbedding ignores base"
TESTS = ["tests/test_rope_module.py::test_the_base_is_used"]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.__init__

    def mutant(self, head_dim, *, base=10000.0, **kwargs):
        correct(self, head_dim, **kwargs)

    replace("posenc_tutorial.rope", "RotaryEmbedding.__init__", mutant)
