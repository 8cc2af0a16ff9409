"""A base beside parameters is ignored without a word."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/unslothai/unsloth/pull/7028"
DESCRIPTION = "contradicting arguments are accepted"
TESTS = [
    "tests/test_rope_module.py::test_parameters_that_contradict_the_other_arguments_are_refused",
]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.__init__

    def mutant(self, head_dim, *, base=10000.0, parameters=None, **kwargs):
        if parameters is not None:
            base = 10000.0
        correct(self, head_dim, base=base, parameters=parameters, **kwargs)

    replace("posenc_tutorial.rope", "RotaryEmbedding.__init__", mutant)
