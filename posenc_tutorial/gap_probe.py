"""Can a model still copy across a gap of ten thousand positions? Answered in seconds.

A language model that meets a text for the second time copies: some heads look for the place where
the current token stood before, and read off what followed. Here a text stands twice, for example
one of random tokens, where nothing can be guessed and only copying helps. The *positions* of the
second copy are moved away by a gap:

    first copy    positions 0 … n - 1
    second copy   positions n + gap … 2 n - 1 + gap

Only ``2 n`` tokens are computed, whatever the gap. If the model copies, its heads can cope with a
distance of ``n + gap``; if it cannot, the second copy is as unpredictable as the first.

What this does not test: in a real long text there are tokens in the gap, thousands of keys that
compete for attention. It is a test of distance alone.

The idea of repeated random tokens is that of Olsson et al. 2022 (In-context learning and
induction heads, arXiv 2209.11895).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Probe:
    """What a model lost on both copies, nats per token.

    Attributes:
        gap: tokens left out between the copies.
        first: ``(sequences,)``, mean loss on the first copy: everything is new there.
        second: ``(sequences,)``, mean loss on the second copy, its first token left out, since
            nothing announces that the text begins again.
    """

    gap: int
    first: torch.Tensor
    second: torch.Tensor

    @property
    def copies(self) -> bool:
        """Whether every sequence costs less than half as much the second time."""
        return bool((self.second < 0.5 * self.first).all())


def random_copies(
    vocabulary: int, *, length: int = 96, sequences: int = 3, seed: int = 0, first: int = 1000
) -> torch.Tensor:
    """Random token numbers, each sequence twice in a row.

    Args:
        vocabulary: number of tokens.
        length: tokens of one copy, at least 2.
        sequences: how many.
        seed: of the random numbers, which are drawn on the CPU.
        first: smallest token number used; those before it are control tokens and single bytes.

    Returns:
        ``(sequences, 2 * length)``, int64.

    Raises:
        ValueError: fewer than 2 tokens or 1 sequence, or no token left to draw.
    """
    if length < 2 or sequences < 1 or not 0 <= first < vocabulary:
        raise ValueError(
            "expected length >= 2, sequences >= 1 and first below the vocabulary "
            f"({vocabulary}), got {length}, {sequences} and {first}"
        )
    generator = torch.Generator(device="cpu").manual_seed(seed)
    drawn = torch.randint(first, vocabulary, (sequences, length), generator=generator)
    return drawn.repeat(1, 2)


def gap_positions(length: int, gap: int) -> torch.Tensor:
    """Positions of two copies of ``length`` tokens with a gap between them.

    Args:
        length: tokens of one copy.
        gap: positions left out, a whole number from 0 to 2**62.

    Returns:
        ``(2 * length,)``, int64.

    Raises:
        ValueError: a gap that is negative, no whole number, or too large for an int64; a negative
            length.
    """
    if length < 0:
        raise ValueError(f"length must be at least 0, got {length}")
    if gap < 0:
        raise ValueError(f"gap must be at least 0, got {gap}")
    if not gap <= 2**62 or gap != int(gap):
        raise ValueError(f"gap must be a whole number of at most 2**62, got {gap}")
    positions = torch.arange(2 * length, device="cpu")
    positions[length:] += int(gap)
    return positions


@torch.no_grad()
def gap_probe(model: nn.Module, tokens: torch.Tensor, gap: int) -> Probe:
    """Loss of a causal language model on both copies.

    Args:
        model: called as ``model(tokens, positions=positions)`` with ``(batch, n)`` tokens, returns
            ``(batch, n, vocabulary)``; a token must see all tokens before it, whatever their
            positions.
        tokens: of :func:`random_copies`, on the device of the model.
        gap: positions left out between the copies.

    Returns:
        The losses, on the CPU.

    Raises:
        ValueError: as :func:`gap_positions`; no sequence, an odd number of tokens, or copies of
            fewer than 2, of which nothing could be predicted.
    """
    if tokens.ndim != 2 or not len(tokens) or tokens.shape[1] % 2 or tokens.shape[1] < 4:
        raise ValueError(
            "tokens must be (sequences, 2 * length) with length >= 2, at least one sequence, "
            f"got {tuple(tokens.shape)}"
        )
    length = tokens.shape[1] // 2
    positions = gap_positions(length, gap).to(tokens.device)
    logits = model(tokens[:, :-1], positions=positions[:-1])  # (sequences, 2 n - 1, vocabulary)
    losses = F.cross_entropy(logits.float().mT, tokens[:, 1:].long(), reduction="none").cpu()
    return Probe(gap, losses[:, : length - 1].mean(1), losses[:, length:].mean(1))
