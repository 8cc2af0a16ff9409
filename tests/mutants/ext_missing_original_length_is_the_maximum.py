"""A missing original length is taken for the extended one, and nobody is told."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/modeling_rope_utils.py"
DESCRIPTION = "original_max_position_embeddings defaults to max_position_embeddings"
TESTS = [
    "tests/test_hf_config_command.py::test_errors_are_named_on_stderr_and_in_the_status",
    "tests/test_hf_config.py::test_bad_fields_are_named",
]


def install() -> None:
    def mutant(config):
        return config.original_max_positions or config.max_positions

    replace("posenc_tutorial.hf_config", "_original_length", mutant)
