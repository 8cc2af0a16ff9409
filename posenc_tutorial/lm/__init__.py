"""A small byte-level language model that runs with any encoding, and what it is fed and asked."""

from __future__ import annotations

from .corpus import Corpus, standard_library_corpus
from .evaluate import attention_maps, loss_by_position, mean_loss
from .model import LanguageModel
from .train import train

__all__ = [
    "Corpus",
    "LanguageModel",
    "attention_maps",
    "loss_by_position",
    "mean_loss",
    "standard_library_corpus",
    "train",
]
