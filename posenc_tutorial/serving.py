"""Which rotary rules, and which other encodings, four programs take from a model's settings.

What is listed was read in the place that ``source`` names, on the day that ``read`` names. For
transformers the installed library was read, and it is compared again when the package is tested.
Programs change: treat an entry as a dated note, not as a promise. How the settings are spelled is
a matter of :mod:`posenc_tutorial.hf_config.dialects`.
"""

from __future__ import annotations

from dataclasses import dataclass

GITHUB = "https://github.com/"

OWN_NAMES = {
    "none": "default",
    "su": "longrope",
    "deepseek_yarn": "yarn",
    "deepseek_llama_scaling": "yarn",
}
"""What a program calls a rule that this package has under another name."""


@dataclass(frozen=True)
class Program:
    """What one program was seen to support.

    Attributes:
        name: of the program.
        version: that was read.
        read: the day.
        source: address of the file or page.
        rules: names of rotary rules, in the program's own words.
        others: encodings that are no rotation, and rotations on several axes, as far as the
            sources show them.
    """

    name: str
    version: str
    read: str
    source: str
    rules: tuple[str, ...]
    others: tuple[str, ...]

    def has(self, rule: str) -> bool:
        """Whether a rule of this package is among those of the program, under any name."""
        return rule in {OWN_NAMES.get(own, own) for own in self.rules}


PROGRAMS = (
    Program(
        name="transformers",
        version="5.24.0",
        read="2026-11-30",
        source="https://huggingface.co/docs/transformers/internal/rope_utils",
        rules=("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional"),
        others=("learned table", "sinusoids", "T5 buckets", "ALiBi", "several axes", "NoPE layers"),
    ),
    Program(
        name="vLLM",
        version="commit 926c71f",
        read="2026-11-30",
        source=GITHUB + "vllm-project/vllm/blob/926c71f6f25f8fe0a71ba4b168205e64bef24a36/"
        "vllm/model_executor/layers/rotary_embedding/__init__.py",
        rules=(
            *("default", "linear", "ntk", "dynamic", "yarn", "deepseek_yarn"),
            *("deepseek_llama_scaling", "longrope", "llama3", "mllama4", "xdrope"),
        ),
        others=("ALiBi", "several axes"),
    ),
    Program(
        name="TensorRT-LLM",
        version="commit 0071496",
        read="2026-11-30",
        source=GITHUB + "NVIDIA/TensorRT-LLM/blob/0071496dc625910229bf433821453636ef3770eb/"
        "tensorrt_llm/functional.py",
        rules=("none", "linear", "dynamic", "longrope", "llama3", "yarn", "mrope"),
        others=("learned table", "relative bias", "ALiBi", "several axes"),
    ),
    Program(
        name="llama.cpp",
        version="commit 00dc805",
        read="2026-11-30",
        source=GITHUB + "ggml-org/llama.cpp/blob/00dc8057ab28c9cb4c79a6dd6dfce07fe779f63b/"
        "tools/server/README.md",
        rules=("none", "linear", "yarn"),
        others=("relative bias", "ALiBi", "several axes", "NoPE layers"),
    ),
)
"""The four programs. For llama.cpp the rules are the options of its server, and ``others`` are the
fields of ``src/llama-hparams.h`` at commit 027d575; what its converter writes into a model file is
more than can be asked for on the command line. That vLLM's attention takes the slopes of ALiBi is
said on https://docs.vllm.ai/en/v0.11.0/api/vllm/attention/index.html."""


def common_rules(programs=PROGRAMS) -> tuple[str, ...]:
    """The rotary rules that every program has, under one name or another.

    Args:
        programs: which ones.

    Returns:
        Names of this package, in the order of the first program.

    Raises:
        ValueError: no programs.
    """
    if not programs:
        raise ValueError("need at least one program, got none")
    first = dict.fromkeys(OWN_NAMES.get(own, own) for own in programs[0].rules)
    return tuple(rule for rule in first if all(program.has(rule) for program in programs))
