"""The factor is computed once, from the longest text allowed."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/issues/3488"
DESCRIPTION = "short texts get the base of a text of 4096 tokens"
TESTS = [
    "tests/test_rope_module.py::test_dynamic_ntk_is_plain_rope_within_the_original_length",
    "tests/test_rope_module.py::test_the_published_sequence_of_lengths",
]


def install() -> None:
    from posenc_tutorial.rope import RotaryEmbedding

    correct = RotaryEmbedding.parameters_at

    def mutant(self, seq_len):
        return correct(self, 4096)

    replace("posenc_tutorial.rope", "RotaryEmbedding.parameters_at", mutant)
