"""One training run from its settings, and trained models as files of their own."""

from __future__ import annotations

import copy
import json
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy
import torch

from ..encoding import PositionalEncoding
from .checkpoint import load_tensors, save_tensors
from .corpus import Corpus
from .model import LanguageModel
from .recipes import recipe
from .train import train

CHECKPOINTS = Path(__file__).parent / "checkpoints"
"""Where the trained models that come with the package are."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides how a model is built and trained, besides the corpus.

    Attributes:
        encoding: name of a recipe (``posenc_tutorial.lm.recipes.RECIPES``).
        seed: of the initial weights and of the windows.
        length: bytes per window.
        steps: number of updates.
        batch_size: windows per update.
        learning_rate: at its peak.
        warmup: steps of warm-up.
        dim: model width.
        num_layers: number of blocks.
        num_heads: heads per block.
        train_bytes: only the first so many training bytes are used; None for all.

    Raises:
        ValueError: an unknown encoding, or a number out of range.
    """

    encoding: str = "rope"
    seed: int = 0
    length: int = 64
    steps: int = 600
    batch_size: int = 32
    learning_rate: float = 3e-3
    warmup: int = 50
    dim: int = 128
    num_layers: int = 3
    num_heads: int = 4
    train_bytes: int | None = None

    def __post_init__(self) -> None:
        recipe(self.encoding)
        for name in ("length", "steps", "batch_size", "dim", "num_layers", "num_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1, got {getattr(self, name)}")
        for name in ("seed", "warmup"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)}")
        if self.seed >= 2**64:
            raise ValueError(f"seed must be below 2**64, got {self.seed}")
        if not 0 < self.learning_rate < float("inf"):
            raise ValueError(f"learning_rate must be finite and > 0, got {self.learning_rate}")
        if self.train_bytes is not None and self.train_bytes <= self.length:
            raise ValueError(
                f"train_bytes must be more than the length of {self.length}, got {self.train_bytes}"
            )


def versions() -> dict:
    """The releases that a result was made with."""
    return {
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "torch": str(torch.__version__),
        "numpy": str(numpy.__version__),
    }


def build_model(settings: Settings, *, device: torch.device | str = "cpu") -> LanguageModel:
    """The untrained model; the same weights for the same seed, on every device.

    The caller's random state is left as it was.

    Args:
        settings: which encoding, which sizes, which seed.
        device: where the model goes.

    Raises:
        ValueError: sizes that do not fit each other.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        encoding = recipe(settings.encoding).make(settings.dim, settings.num_heads, settings.length)
        model = LanguageModel(
            encoding,
            dim=settings.dim,
            num_layers=settings.num_layers,
            num_heads=settings.num_heads,
        )
    return model.to(device)


def run(
    settings: Settings,
    corpus: Corpus,
    folder: Path | str,
    *,
    device: torch.device | str = "cpu",
    save_every: int = 50,
    label: str = "",
) -> Path:
    """Train one model in a folder of its own, or go on where the last attempt stopped.

    The folder holds ``state.safetensors`` (to resume from), ``log.csv`` (the loss of every step)
    and, when training is done, ``model.safetensors`` (weights in float16, settings, corpus and
    versions).

    Args:
        settings: see :class:`Settings`.
        corpus: what to learn.
        folder: made if it does not exist.
        device: where to train.
        save_every: steps between two saves.
        label: for the progress bar; empty for none.

    Returns:
        The path of ``model.safetensors``.

    Raises:
        ValueError: the folder holds a run with other settings or another corpus.
        FloatingPointError: see :func:`~posenc_tutorial.lm.train`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = build_model(settings, device=device)
    how = recipe(settings.encoding)
    losses = train(
        model,
        corpus.train[: settings.train_bytes],
        length=settings.length,
        steps=settings.steps,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        warmup=settings.warmup,
        seed=settings.seed,
        encoding_rate_factor=how.learning_rate_factor,
        encoding_weight_decay=how.weight_decay,
        checkpoint=folder / "state.safetensors",
        save_every=save_every,
        log=folder / "log.csv",
        label=label,
        # RoPE, ALiBi and none at all have the same weights, and so have 2 heads and 4.
        about={"encoding": settings.encoding, "num_heads": settings.num_heads},
    )
    path = folder / "model.safetensors"
    group = torch.distributed
    if not (group.is_available() and group.is_initialized() and group.get_rank()):
        last = losses[-50:]
        save_model(path, model, settings, corpus=corpus, train_loss=sum(last) / len(last))
    return path


def save_model(
    path: Path | str,
    model: LanguageModel,
    settings: Settings,
    *,
    corpus: Corpus | None = None,
    train_loss: float | None = None,
) -> None:
    """Write a model's weights as float16, with all that is needed to build it again.

    Args:
        path: usually ``*.safetensors``.
        model: any device.
        settings: what it was built from.
        corpus: what it was trained on.
        train_loss: mean of the last steps, nats per byte.
    """
    facts = {
        "settings": asdict(settings),
        "corpus": None if corpus is None else corpus.facts(),
        "train_loss": train_loss,
        "versions": versions(),
    }
    save_tensors(
        path,
        {name: p.half() for name, p in model.named_parameters()},
        {key: json.dumps(value) for key, value in facts.items()},
    )


def checkpoint_path(name: Path | str) -> Path:
    """The file of a trained model.

    Args:
        name: an encoding whose model comes with the package, or the path of a file, or of a
            folder that :func:`run` has filled.

    Raises:
        FileNotFoundError: neither is there.
    """
    packaged = CHECKPOINTS / f"{name}.safetensors"
    if packaged.is_file():
        return packaged
    path = Path(name)
    if path.is_dir():
        path = path / "model.safetensors"
    if not path.is_file():
        there = ", ".join(sorted(p.stem for p in CHECKPOINTS.glob("*.safetensors")))
        raise FileNotFoundError(
            f"no trained model {str(name)!r}: it must be a file, a folder of a finished run, or "
            f"one of those that come with the package ({there})"
        )
    return path


def model_facts(name: Path | str) -> dict:
    """What a file says about its model: ``settings``, ``corpus``, ``train_loss``, ``versions``.

    Args:
        name: see ``checkpoint_path``.
    """
    return _facts(load_tensors(checkpoint_path(name))[1])


def load_model(name: Path | str, *, device: torch.device | str = "cpu") -> LanguageModel:
    """A trained model, its weights widened to float32, ready to be evaluated.

    Args:
        name: see ``checkpoint_path``; for example ``"rope"``.
        device: where it goes.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or not a model of this package.
    """
    path = checkpoint_path(name)
    tensors, metadata = load_tensors(path)
    facts = _facts(metadata)
    if "settings" not in facts:
        raise ValueError(f"{path} holds no model of this package: it has no settings")
    known = {field.name for field in fields(Settings)}
    settings = Settings(**{k: v for k, v in facts["settings"].items() if k in known})
    model = build_model(settings)
    parameters = dict(model.named_parameters())
    if parameters.keys() != tensors.keys():
        raise ValueError(f"{path} lacks or adds {sorted(parameters.keys() ^ tensors.keys())}")
    with torch.no_grad():
        for key, parameter in parameters.items():
            if parameter.shape != tensors[key].shape:
                raise ValueError(
                    f"{path}: {key} must have shape {tuple(parameter.shape)}, "
                    f"got {tuple(tensors[key].shape)}"
                )
            parameter.copy_(tensors[key])
    return model.to(device).eval()


def _facts(metadata: dict) -> dict:
    return {key: json.loads(value) for key, value in metadata.items() if key != "format"}


def with_encoding(model: LanguageModel, encoding: PositionalEncoding) -> LanguageModel:
    """A copy of the model with the same weights and another encoding.

    Args:
        model: stays as it is.
        encoding: takes the old one's place in the model and in all of its layers.

    Raises:
        TypeError: ``encoding`` is not a PositionalEncoding.
    """
    if not isinstance(encoding, PositionalEncoding):
        raise TypeError(f"encoding must be a PositionalEncoding, got {encoding!r}")
    other = copy.deepcopy(model)
    other.encoding = encoding.to(model.embedding.weight.device)
    for block in other.blocks:
        block.attention.encoding = other.encoding
    return other
