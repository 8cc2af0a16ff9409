"""max_position_embeddings, which includes the factor, is multiplied by it once more."""

from __future__ import annotations

import dataclasses

from tools.mutation import replace

CASE = "https://github.com/vllm-project/vllm/pull/56446"
DESCRIPTION = "the derived limit is factor times too long"
TESTS = [
    "tests/test_hf_config.py::test_the_maximum_length_includes_the_factor",
    "tests/test_hf_config.py::test_published_configuration_is_read",
]


def install() -> None:
    from posenc_tutorial import hf_config

    correct = hf_config.read_rope_config

    def mutant(config, *, layer_type=None):
        read = correct(config, layer_type=layer_type)
        factor = read.block.get("factor")
        if factor is None or read.max_positions is None:
            return read
        return dataclasses.replace(read, max_positions=int(read.max_positions * factor))

    replace("posenc_tutorial.hf_config", "read_rope_config", mutant)
