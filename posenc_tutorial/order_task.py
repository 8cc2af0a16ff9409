"""A question that only order decides, and an encoder small enough to train while you read.

Two tasks on sequences of random tokens. :func:`order_batch` asks whether token ``A`` stands before
token ``B``; the same tokens in another order can have another answer. :func:`count_batch` asks
which of the two occurs more often; there the order does not matter. A model that is blind to
order can learn the second and cannot learn the first.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from .attention import MultiHeadAttention
from .encoding import PositionalEncoding

A, B = 0, 1  #: the two tokens that the tasks ask about; every other token is filler
VOCABULARY = 16


def order_batch(
    n_sequences: int, *, length: int = 12, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences with one ``A`` and one ``B``: does ``A`` come first?

    Args:
        n_sequences: number of sequences, at least 1.
        length: tokens in a sequence, at least 2.
        generator: source of all randomness, on the CPU.

    Returns:
        Tokens ``(n_sequences, length)`` and labels ``(n_sequences,)``, both int64; the label is 1
        where ``A`` stands before ``B``, else 0.

    Raises:
        ValueError: ``n_sequences`` below 1, or ``length`` too short.
    """
    _check(n_sequences, length, 2)
    tokens = torch.randint(2, VOCABULARY, (n_sequences, length), generator=generator)
    places = torch.rand(n_sequences, length, generator=generator).argsort(dim=1)[:, :2]
    tokens.scatter_(1, places, torch.tensor([A, B]).expand(n_sequences, 2))
    return tokens, (places[:, 0] < places[:, 1]).long()


def count_batch(
    n_sequences: int, *, length: int = 12, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences with some ``A`` and some ``B``, never equally many: which occurs more often?

    Args:
        n_sequences: number of sequences, at least 1.
        length: tokens in a sequence, at least 7.
        generator: source of all randomness, on the CPU.

    Returns:
        Tokens ``(n_sequences, length)`` and labels ``(n_sequences,)``, both int64; the label is 1
        where ``A`` occurs more often than ``B``, else 0. The one has 2 to 4 places, the other at
        least 1 and fewer than the first.

    Raises:
        ValueError: ``n_sequences`` below 1, or ``length`` too short.
    """
    _check(n_sequences, length, 7)
    tokens = torch.randint(2, VOCABULARY, (n_sequences, length), generator=generator)
    labels = torch.randint(0, 2, (n_sequences,), generator=generator)
    many = torch.randint(2, 5, (n_sequences,), generator=generator)
    few = 1 + (torch.rand(n_sequences, generator=generator) * (many - 1)).long()
    winner = torch.where(labels == 1, A, B)[:, None]
    place = torch.rand(n_sequences, length, generator=generator).argsort(dim=1).argsort(dim=1)
    tokens = torch.where(place < (many + few)[:, None], A + B - winner, tokens)
    return torch.where(place < many[:, None], winner, tokens), labels


def with_mirror_images(
    tokens: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Every sequence of an order task, then every sequence read backwards, with the other label.

    A model that cannot tell a sequence from its mirror image is right about exactly one of each
    pair, so on this test set its accuracy is one half, with nothing left to luck.

    Args:
        tokens: ``(n_sequences, length)``.
        labels: ``(n_sequences,)``, 0 or 1.

    Returns:
        Tokens ``(2 n_sequences, length)`` and labels ``(2 n_sequences,)``.
    """
    return torch.cat([tokens, tokens.flip(1)]), torch.cat([labels, 1 - labels])


class OrderClassifier(nn.Module):
    """Embedding, one attention layer, one hidden layer, the mean over the tokens, two scores.

    The mean over the tokens forgets their order, so whatever the answer needs to know about order
    has to come through the encoding, or through a causal mask.

    Args:
        encoding: any :class:`~posenc_tutorial.encoding.PositionalEncoding`, made for width
            ``dim`` (door 1) or head width ``dim / num_heads`` (doors 2 and 3).
        causal: whether a token sees only itself and the tokens before it.
        dim: model width.
        num_heads: number of heads.
    """

    def __init__(
        self,
        encoding: PositionalEncoding,
        *,
        causal: bool = False,
        dim: int = 32,
        num_heads: int = 2,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, dim)
        self.encoding = encoding
        self.norm = nn.LayerNorm(dim)
        self.attention = MultiHeadAttention(dim, num_heads, encoding, causal=causal)
        self.hidden = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim)
        )
        self.answer = nn.Linear(dim, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Token numbers ``(batch, n)`` to scores ``(batch, 2)``."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.encoding.add_to_input(self.embedding(tokens), positions)  # door 1
        x = x + self.attention(self.norm(x))  # doors 2 and 3
        x = x + self.hidden(x)
        return self.answer(x.mean(dim=1))


def train(
    model: nn.Module,
    sample: Callable[..., tuple[torch.Tensor, torch.Tensor]] = order_batch,
    *,
    steps: int = 300,
    batch_size: int = 64,
    lr: float = 3e-3,
    seed: int = 0,
) -> list[float]:
    """Train on fresh batches with Adam (Kingma and Ba 2015).

    Args:
        model: tokens ``(batch, n)`` to scores ``(batch, 2)``. Changed in place.
        sample: :func:`order_batch` or :func:`count_batch`.
        steps: number of batches.
        batch_size: sequences in a batch.
        lr: step size.
        seed: of the batches.

    Returns:
        The cross-entropy of each batch before its step, in nats.
    """
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        tokens, labels = sample(batch_size, generator=generator)
        loss = nn.functional.cross_entropy(model(tokens), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def accuracy(model: nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> float:
    """Share of sequences on which the larger score is that of the label.

    Args:
        model: tokens ``(batch, n)`` to scores ``(batch, 2)``.
        tokens: ``(batch, n)``.
        labels: ``(batch,)``.

    Raises:
        ValueError: another shape of labels, which would be compared with every score.
    """
    if labels.shape != tokens.shape[:1]:
        raise ValueError(f"labels must have shape ({len(tokens)},), got {tuple(labels.shape)}")
    return (model(tokens).argmax(dim=1) == labels).double().mean().item()


def _check(n_sequences: int, length: int, shortest: int) -> None:
    if n_sequences < 1:
        raise ValueError(f"n_sequences must be >= 1, got {n_sequences}")
    if length < shortest:
        raise ValueError(f"length must be >= {shortest} for this task, got {length}")
