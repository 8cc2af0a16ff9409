"""Loss at any length, always on the same target bytes."""

from __future__ import annotations

import torch
from torch import nn

from .model import LanguageModel


@torch.no_grad()
def loss_by_position(
    model: LanguageModel,
    data: torch.Tensor,
    *,
    length: int,
    chunk: int = 1024,
    num_chunks: int = 64,
    batch_bytes: int = 16384,
) -> torch.Tensor:
    """Mean loss at every position of windows of ``length`` bytes.

    Chunks are spread evenly over the data, and each is cut into windows. Whatever the length, the
    same bytes are predicted; only how many bytes come before them differs. So lengths can be
    compared.

    Args:
        model: on any device; called with positions ``0 … length - 1``.
        data: ``(n,)``, uint8.
        length: bytes per window; must divide ``chunk``.
        chunk: bytes per chunk.
        num_chunks: number of chunks.
        batch_bytes: about so many bytes are run at a time.

    Returns:
        ``(length,)``, nats per byte, float64, on the CPU.

    Raises:
        ValueError: a ``length`` that does not divide ``chunk``, or too little data.
    """
    if length < 1 or chunk % length:
        raise ValueError(f"length must divide the chunk of {chunk} bytes, got {length}")
    if data.numel() <= chunk:
        raise ValueError(f"data must be longer than a chunk of {chunk}, got {data.numel()}")
    starts = torch.linspace(0, data.numel() - chunk - 1, num_chunks).long()[:, None]
    inputs = data[starts + torch.arange(chunk)].view(-1, length)
    targets = data[starts + torch.arange(1, chunk + 1)].view(-1, length)
    device = model.embedding.weight.device
    total = torch.zeros(length, dtype=torch.float64)
    rows = max(1, batch_bytes // length)
    for x, y in zip(inputs.split(rows), targets.split(rows), strict=True):
        logits = model(x.to(device))
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), y.long().to(device).flatten(), reduction="none"
        )
        total += loss.view(-1, length).sum(0).cpu().double()
    return total / len(inputs)


def mean_loss(model: LanguageModel, data: torch.Tensor, *, length: int, **options) -> float:
    """Mean of :func:`loss_by_position`, nats per byte."""
    return loss_by_position(model, data, length=length, **options).mean().item()
