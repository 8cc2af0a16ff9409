"""Loss at any length, always on the same target bytes."""

from __future__ import annotations

from collections.abc import Sequence

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
    batch_bytes: int = 4096,
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


LENGTHS = (64, 128, 256, 512, 1024)
"""The lengths of the book's tables: the training length and 2, 4, 8 and 16 times as much."""


def loss_by_length(
    model: LanguageModel, data: torch.Tensor, *, lengths: Sequence[int] = LENGTHS, **options
) -> dict[int, float]:
    """Mean loss at each length, always over the same target bytes.

    Args:
        model: on any device.
        data: ``(n,)``, uint8.
        lengths: each must divide ``chunk``.
        options: see :func:`loss_by_position`.

    Returns:
        Length to loss, nats per byte.

    Raises:
        TypeError: see :func:`loss_by_position`.
        ValueError: see :func:`loss_by_position`.
    """
    return {length: mean_loss(model, data, length=length, **options) for length in lengths}


def copy_sequences(
    data: torch.Tensor, *, distance: int, size: int = 16, num_sequences: int = 64, seed: int = 0
) -> torch.Tensor:
    """Random letters, text, and the same letters again.

    Whatever the distance, the letters are the same, and so is the text just before their return.

    Args:
        data: ``(n,)``, uint8, where the text in between is taken from.
        distance: bytes from each letter to its copy, at least ``size``.
        size: number of letters.
        num_sequences: rows.
        seed: decides letters and texts.

    Returns:
        ``(num_sequences, distance + size)``, uint8.

    Raises:
        ValueError: a distance or a size out of range.
    """
    room = data.numel()
    if size < 1 or not size <= distance < room:
        raise ValueError(
            f"size must be >= 1 and distance from size to {room - 1}, got {size} and {distance}"
        )
    if num_sequences < 1:
        raise ValueError(f"num_sequences must be >= 1, got {num_sequences}")
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(97, 123, (num_sequences, size), generator=generator)
    ends = torch.rand(num_sequences, 1, generator=generator, dtype=torch.float64)
    # Texts end at the same places for every distance for which there is room before them.
    first = min(room, max(distance, 2048))
    ends = (first + ends * (room - first)).long()
    text = data[ends - (distance - size) + torch.arange(distance - size)]
    return torch.cat([letters, text.long(), letters], dim=1).to(torch.uint8)


@torch.no_grad()
def copy_accuracy(
    model: LanguageModel,
    data: torch.Tensor,
    *,
    distance: int,
    size: int = 16,
    cue: int = 4,
    num_sequences: int = 64,
    seed: int = 0,
) -> float:
    """How often a model that sees random letters for the second time knows which one comes next.

    Args:
        model: on any device.
        data: ``(n,)``, uint8, see :func:`copy_sequences`.
        distance: bytes from each letter to its copy.
        size: number of letters.
        cue: so many letters of the copy are given before the model is asked.
        num_sequences: rows.
        seed: decides letters and texts.

    Returns:
        Fraction of letters that the model ranks first; 1/26 by chance.

    Raises:
        ValueError: see :func:`copy_sequences`; a ``cue`` that is not from 1 to ``size - 1``.
    """
    if not 0 < cue < size:
        raise ValueError(f"cue must be from 1 to {size - 1}, got {cue}")
    rows = copy_sequences(
        data, distance=distance, size=size, num_sequences=num_sequences, seed=seed
    )
    return _recalled(model, rows, size - cue)


def passkey_sequences(
    data: torch.Tensor,
    *,
    length: int,
    distance: int,
    digits: int = 5,
    num_sequences: int = 64,
    seed: int = 0,
) -> torch.Tensor:
    """Text with a number in one place, and the beginning of the same line at its end.

    Args:
        data: ``(n,)``, uint8, where the text is taken from.
        length: bytes of a row, the answer included.
        distance: bytes from the number to the place where it is asked for.
        digits: of the number.
        num_sequences: rows.
        seed: decides numbers and texts.

    Returns:
        ``(num_sequences, length)``, uint8; the last ``digits`` bytes are the answer.

    Raises:
        ValueError: a length, distance or number of digits out of range.
    """
    before, after = b"\nkey = ", b"\n"
    line = len(before) + digits + len(after)
    if digits < 1 or num_sequences < 1:
        raise ValueError(f"digits and num_sequences must be >= 1, got {digits} and {num_sequences}")
    farthest = length - digits - len(before)
    if not line <= distance <= farthest or length > data.numel():
        raise ValueError(
            f"distance must be from {line} to {farthest} for a length of {length}, and the length "
            f"at most {data.numel()}, got {distance}"
        )
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(48, 58, (num_sequences, digits), generator=generator)
    starts = torch.randint(data.numel() - length + 1, (num_sequences, 1), generator=generator)
    rows = data[starts + torch.arange(length)].long()
    for place in (length - digits - distance, length - digits):
        rows[:, place - len(before) : place] = torch.tensor(list(before))
        rows[:, place : place + digits] = numbers
    rows[:, length - distance] = after[0]
    return rows.to(torch.uint8)


@torch.no_grad()
def passkey_accuracy(
    model: LanguageModel,
    data: torch.Tensor,
    *,
    length: int,
    distance: int,
    digits: int = 5,
    num_sequences: int = 64,
    seed: int = 0,
) -> float:
    """How often each digit of a number that stood earlier in the text is ranked first.

    Args:
        model: on any device.
        data: ``(n,)``, uint8.
        length: bytes of a row, the answer included.
        distance: bytes from the number to the place where it is asked for.
        digits: of the number.
        num_sequences: rows.
        seed: decides numbers and texts.

    Returns:
        Fraction of digits; 1/10 by chance for a model that knows that digits follow.

    Raises:
        ValueError: see :func:`passkey_sequences`.
    """
    rows = passkey_sequences(
        data,
        length=length,
        distance=distance,
        digits=digits,
        num_sequences=num_sequences,
        seed=seed,
    )
    return _recalled(model, rows, digits)


def _recalled(model: LanguageModel, rows: torch.Tensor, last: int) -> float:
    """Of the last so many bytes of each row, the fraction that the model ranks first."""
    device = model.embedding.weight.device
    right = 0
    for batch in rows.split(max(1, 4096 // rows.shape[1])):
        batch = batch.to(device)
        guess = model(batch[:, :-1])[:, -last:].argmax(-1)
        right += int((guess == batch[:, -last:].long()).sum())
    return right / (len(rows) * last)
