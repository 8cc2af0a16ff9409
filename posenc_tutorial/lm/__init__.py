"""A small byte-level language model that runs with any encoding, and what it is fed and asked.

``python -m posenc_tutorial.lm --help`` shows the command line.
"""

from __future__ import annotations

from .checkpoint import load_tensors, save_tensors
from .corpus import Corpus, copy_corpus, folder_corpus, standard_library_corpus
from .evaluate import (
    LENGTHS,
    attention_maps,
    copy_accuracy,
    copy_sequences,
    loss_by_length,
    loss_by_position,
    mean_loss,
    passkey_accuracy,
    passkey_sequences,
)
from .model import LanguageModel
from .recipes import ENCODINGS, RECIPES, Recipe, recipe
from .runs import Settings, build_model, load_model, model_facts, run, save_model, with_encoding
from .train import learning_rate_at, train

__all__ = [
    "Corpus",
    "ENCODINGS",
    "LENGTHS",
    "LanguageModel",
    "RECIPES",
    "Recipe",
    "Settings",
    "attention_maps",
    "build_model",
    "copy_accuracy",
    "copy_corpus",
    "copy_sequences",
    "folder_corpus",
    "learning_rate_at",
    "load_model",
    "load_tensors",
    "loss_by_length",
    "loss_by_position",
    "mean_loss",
    "model_facts",
    "passkey_accuracy",
    "passkey_sequences",
    "recipe",
    "run",
    "save_model",
    "save_tensors",
    "standard_library_corpus",
    "train",
    "with_encoding",
]
