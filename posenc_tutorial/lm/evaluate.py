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
    positions: torch.Tensor | None = None,
    batch_bytes: int = 16384,
) -> torch.Tensor:
    """Mean loss at every position of windows of ``length`` bytes.

    Chunks are spread evenly over the data, and each is cut into windows. Whatever the length, the
    same bytes are predicted; only how many bytes come before them differs. So lengths can be
    compared.

    Args:
        model: on any device.
        data: ``(n,)``, uint8.
        length: bytes per window; must divide ``chunk``.
        chunk: bytes per chunk.
        num_chunks: number of chunks.
        positions: ``(length,)``, where the bytes of every window stand; default ``0 … length-1``.
        batch_bytes: about so many bytes are run at a time.

    Returns:
        ``(length,)``, nats per byte, float64, on the CPU.

    Raises:
        TypeError: data that is not integers.
        ValueError: a ``length`` that does not divide ``chunk``; no chunks; data that is not one
            row of bytes longer than a chunk.
    """
    if chunk < 1 or num_chunks < 1:
        raise ValueError(f"chunk and num_chunks must be >= 1, got {chunk} and {num_chunks}")
    if length < 1 or chunk % length:
        raise ValueError(f"length must divide the chunk of {chunk} bytes, got {length}")
    if data.dim() != 1 or data.numel() <= chunk:
        raise ValueError(
            f"data must be one row longer than a chunk of {chunk}, got {tuple(data.shape)}"
        )
    # float64: in float32, an offset beyond 2**24 can be rounded past the end of the data.
    last = data.numel() - chunk - 1
    starts = torch.linspace(0, last, num_chunks, dtype=torch.float64).long()[:, None]
    inputs = data[starts + torch.arange(chunk)].view(-1, length)
    targets = data[starts + torch.arange(1, chunk + 1)].view(-1, length)
    device = model.embedding.weight.device
    total = torch.zeros(length, dtype=torch.float64)
    rows = max(1, batch_bytes // length)
    for x, y in zip(inputs.split(rows), targets.split(rows), strict=True):
        logits = model(x.to(device), positions=positions)
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), y.long().to(device).flatten(), reduction="none"
        )
        total += loss.view(-1, length).sum(0).cpu().double()
    return total / len(inputs)


@torch.no_grad()
def attention_maps(
    model: LanguageModel, tokens: torch.Tensor, *, positions: torch.Tensor | None = None
) -> torch.Tensor:
    """The attention weights of every layer and head.

    Args:
        model: on any device.
        tokens: ``(batch, n)``, integers 0 … 255.
        positions: ``(n,)`` or ``(batch, n)``; default ``0 … n-1``.

    Returns:
        ``(layers, batch, heads, n, n)``, on the model's device.
    """
    if positions is None:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
    maps = []

    def look(layer, args, kwargs):
        maps.append(layer.weights(*args, positions=kwargs["positions"], mask=kwargs["mask"]))

    hooks = [
        block.attention.register_forward_pre_hook(look, with_kwargs=True) for block in model.blocks
    ]
    try:
        model(tokens, positions=positions)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(maps)


def mean_loss(model: LanguageModel, data: torch.Tensor, *, length: int, **options) -> float:
    """Mean of :func:`loss_by_position`, nats per byte."""
    return loss_by_position(model, data, length=length, **options).mean().item()
