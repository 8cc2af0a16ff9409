"""Training on random windows of a fixed length."""

from __future__ import annotations

import math

import torch
from torch import nn

from .model import LanguageModel


def train(
    model: LanguageModel,
    data: torch.Tensor,
    *,
    length: int,
    steps: int,
    batch_size: int = 32,
    learning_rate: float = 3e-3,
    warmup: int = 50,
    positions: torch.Tensor | None = None,
    seed: int = 0,
) -> list[float]:
    """Minimise the next-byte loss with AdamW; warm-up, then a cosine down to a tenth.

    Args:
        model: trained in place, on the device it is on.
        data: ``(n,)``, uint8.
        length: bytes per window.
        steps: number of updates.
        batch_size: windows per update.
        learning_rate: at its peak.
        warmup: steps of linear warm-up.
        positions: ``(length,)``, where the bytes of every window stand; default ``0 … length-1``.
        seed: decides which windows are drawn, on every device alike.

    Returns:
        The loss of every step, nats per byte.

    Raises:
        TypeError: data that is not integers.
        ValueError: ``length``, ``steps`` or ``batch_size`` below 1, or data that is not one row
            of bytes longer than one window.
    """
    if length < 1 or steps < 1:
        raise ValueError(f"length and steps must be >= 1, got {length} and {steps}")
    if batch_size < 1:
        raise ValueError(f"batch_size must be >= 1, got {batch_size}")
    if data.dim() != 1 or data.numel() <= length:
        raise ValueError(
            f"data must be one row longer than one window of {length}, got {tuple(data.shape)}"
        )
    device = model.embedding.weight.device
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1
    )
    window = torch.arange(length + 1)
    losses = []
    model.train()
    for step in range(steps):
        progress = (step - warmup) / max(1, steps - warmup)
        decay = 0.1 + 0.45 * (1 + math.cos(math.pi * max(0.0, progress)))
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * min(1.0, (step + 1) / max(1, warmup)) * decay
        starts = torch.randint(data.numel() - length, (batch_size, 1), generator=generator)
        tokens = data[starts + window].to(device)  # (batch, length + 1)
        logits = model(tokens[:, :-1], positions=positions)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].long().flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    model.eval()
    return losses
