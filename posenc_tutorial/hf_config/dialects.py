"""The same rotary settings as four programs want them written.

Read on 29 November 2026:

- transformers 5.24.0, ``modeling_rope_utils.RopeParameters`` and
  https://huggingface.co/docs/transformers/internal/rope_utils;
- vLLM, https://docs.vllm.ai/en/stable/features/context_extension/ (older versions had an option
  ``--rope-scaling``, which that page says is gone);
- TensorRT-LLM, ``tensorrt_llm/_torch/attention_backend/interface.py`` at commit
  000a01de66f0eab4ab05640711f0253f50f5209c (https://github.com/NVIDIA/TensorRT-LLM): its PyTorch
  backend takes the fields from the model's ``config.json``, and ``--max_seq_len`` of
  ``trtllm-serve`` from https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve.html;
- llama.cpp, the options of its server (``tools/server/README.md`` in
  https://github.com/ggml-org/llama.cpp).

What is written here was read there, not run: none of the four but transformers is installed when
this package is tested. What a program is not known to do is a ``ValueError`` rather than a guess.
"""

from __future__ import annotations

import json
from typing import Any

from . import RopeConfig

PROGRAMS = ("transformers", "vllm", "tensorrt-llm", "llama.cpp")

_FIELDS = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": (
        *("factor", "original_max_position_embeddings", "attention_factor"),
        *("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    ),
    "llama3": (
        *("factor", "low_freq_factor", "high_freq_factor"),
        "original_max_position_embeddings",
    ),
    "longrope": (
        *("factor", "original_max_position_embeddings", "attention_factor"),
        *("short_factor", "long_factor", "short_mscale", "long_mscale"),
    ),
    "proportional": ("factor",),
}
# Rules that the file read for TensorRT-LLM has a branch for, and fields that it does not read.
_TENSORRT_RULES = ("default", "linear", "dynamic", "yarn", "llama3", "longrope")
_TENSORRT_IGNORES = ("attention_factor", "truncate", "alpha", "short_mscale", "long_mscale")


def written_for(config: RopeConfig, program: str, *, max_length: int | None = None) -> str:
    """The settings of a configuration in the words of one program.

    Args:
        config: of :func:`~posenc_tutorial.hf_config.read_rope_config`.
        program: ``"transformers"``, ``"vllm"``, ``"tensorrt-llm"`` or ``"llama.cpp"``.
        max_length: tokens that the program should be ready for; by default
            ``config.max_positions``.

    Returns:
        A piece of a ``config.json``, or a command line, ready to copy. ``MODEL`` stands for the
        model's name or path.

    Raises:
        ValueError: an unknown program; a rule or a setting that the program is not known to have.
    """
    if program not in PROGRAMS:
        raise ValueError(f"program must be one of {PROGRAMS}, got {program!r}")
    if config.rope_type == "qwen" or config.block.get("alpha") is not None:
        raise ValueError("this dialect of a single model has no form in other programs")
    length = config.max_positions if max_length is None else max_length
    return _WRITERS[program](config, length)


def _block(config: RopeConfig) -> dict[str, Any]:
    """One ``rope_parameters`` block with everything the rule reads."""
    block: dict[str, Any] = {"rope_type": config.rope_type, "rope_theta": config.base}
    for name in _FIELDS[config.rope_type]:
        value = config.block.get(name)
        if value is not None:
            block[name] = value
    if config.rotary_fraction != 1:
        block["partial_rotary_factor"] = config.rotary_fraction
    return block


def _transformers(config: RopeConfig, length: int | None) -> str:
    block: dict[str, Any] = _block(config)
    if config.layer_type is not None:
        block = {config.layer_type: block}
    fields: dict[str, Any] = {"rope_parameters": block}
    if length is not None:
        fields["max_position_embeddings"] = length
    return json.dumps(fields, indent=2)


def _vllm(config: RopeConfig, length: int | None) -> str:
    _one_block_only(config, "vLLM")
    override = json.dumps({"rope_parameters": _block(config)})
    limit = "" if length is None else f" \\\n  --max-model-len {length}"
    return f"vllm serve MODEL \\\n  --hf-overrides '{override}'{limit}"


def _tensorrt(config: RopeConfig, length: int | None) -> str:
    _one_block_only(config, "TensorRT-LLM")
    if config.rope_type not in _TENSORRT_RULES:
        raise ValueError(f"TensorRT-LLM is not known to read rope type {config.rope_type!r}")
    block = _block(config)
    ignored = [name for name in _TENSORRT_IGNORES if block.get(name) is not None]
    if ignored:
        raise ValueError(f"TensorRT-LLM is not known to read {', '.join(ignored)}")
    base = block.pop("rope_theta")
    fraction = block.pop("partial_rotary_factor", None)
    fields: dict[str, Any] = {"rope_theta": base}
    if fraction is not None:
        fields["partial_rotary_factor"] = fraction
    fields["rope_scaling"] = None if config.rope_type == "default" else block
    if length is not None:
        fields["max_position_embeddings"] = length
    limit = "" if length is None else f" --max_seq_len {length}"
    return f"{json.dumps(fields, indent=2)}\ntrtllm-serve MODEL{limit}"


def _llama_cpp(config: RopeConfig, length: int | None) -> str:
    _one_block_only(config, "llama.cpp")
    if config.rope_type not in ("default", "linear", "yarn"):
        raise ValueError(
            f"llama.cpp has no option for rope type {config.rope_type!r}; what its converter puts "
            "into the GGUF file is another matter"
        )
    options = [f"--rope-freq-base {_exactly(config.base)}"]
    block = config.block
    if config.rope_type == "default":
        options.insert(0, "--rope-scaling none")
    else:
        factor = _exactly(block["factor"])
        options.insert(0, f"--rope-scaling {config.rope_type} --rope-scale {factor}")
    if config.rope_type == "yarn":
        for name in ("attention_factor", "mscale", "mscale_all_dim", "truncate"):
            if block.get(name) is not None:
                raise ValueError(f"llama.cpp has no option for {name} as the file states it")
        options.append(f"--yarn-orig-ctx {config.original_max_positions}")
        for name in ("beta_fast", "beta_slow"):
            if block.get(name) is not None:
                options.append(f"--yarn-{name.replace('_', '-')} {_exactly(block[name])}")
    limit = [] if length is None else [f"--ctx-size {length}"]
    return "llama-server -m MODEL.gguf \\\n  " + " \\\n  ".join(limit + options)


def _exactly(number: float) -> str:
    """All digits, and no point behind a whole number."""
    return f"{number:.0f}" if number == int(number) else repr(number)


def _one_block_only(config: RopeConfig, program: str) -> None:
    if config.layer_type is not None:
        raise ValueError(f"{program} is given one block; this model has one for each layer type")


_WRITERS = {
    "transformers": _transformers,
    "vllm": _vllm,
    "tensorrt-llm": _tensorrt,
    "llama.cpp": _llama_cpp,
}
