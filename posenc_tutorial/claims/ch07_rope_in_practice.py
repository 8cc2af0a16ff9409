"""Verdicts of chapter 7: the layout that a checkpoint needs, and the code an article prints."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ..frequencies import inverse_frequencies
from ..rope import rope_cos_sin, rotate
from . import FAILS, HOLDS, HOLDS_IF, Verdict

#: Nats per token: what the wrong pairs must cost before the output counts as broken.
BROKEN = 0.7
#: Nats per token: two losses of the same model are the same within this.
SAME = 0.01
#: Scores and outputs of float32 arithmetic on a few dozen tokens are equal within this.
EQUAL = 1e-3


def claim_21(right: float, converted: float, wrong: float, *, without: float) -> Verdict:
    """Claim: a model must be run with the pairs of its weights, or the output breaks. ([S004])

    Args:
        right: loss with the layout of the checkpoint, nats per token.
        converted: loss of the converted checkpoint with the other layout.
        wrong: loss of the unconverted checkpoint with the other layout.
        without: loss without any rotation.

    Returns:
        Verdict 21. It holds if the wrong pairs cost more than ``BROKEN`` and converting the
        checkpoint costs nothing.

    Raises:
        ValueError: a loss that is not finite.
    """
    losses = (right, converted, wrong, without)
    if not all(math.isfinite(loss) for loss in losses):
        raise ValueError(f"losses must be finite, got {losses}")
    lost, everything = wrong - right, without - right
    evidence = (
        f"loss {right:.2f} with the layout of the checkpoint, {converted:.2f} converted, "
        f"{wrong:.2f} with the wrong pairs, {without:.2f} without any rotation"
    )
    if lost <= BROKEN:
        return Verdict(21, f"{FAILS}: the wrong pairs do little harm", evidence)
    if abs(converted - right) > SAME:
        return Verdict(21, f"{FAILS}: no conversion restores the model", evidence)
    if lost < 0.8 * everything:
        return Verdict(21, f"{HOLDS}, though some of the positions get through", evidence)
    return Verdict(21, HOLDS, evidence)


def _turned(x: torch.Tensor, layout: str) -> torch.Tensor:
    positions = torch.arange(x.shape[-2])
    return rotate(x, *rope_cos_sin(positions, inverse_frequencies(x.shape[-1])), layout=layout)


def claim_22(encode: Callable[[torch.Tensor], torch.Tensor]) -> Verdict:
    """Claim: the printed function is RoPE. ([S004])

    Args:
        encode: ``(batch, n, dim)`` to the same shape, base 10,000, positions from 0.

    Returns:
        Verdict 22. It holds if queries and keys come out as in one of the layouts. It holds with
        a condition if only the scores are those of a layout, of the whole width and of a part of
        it: then both must pass through this function.
    """
    generator = torch.Generator().manual_seed(22)
    q, k = (torch.randn(2, 24, 16, generator=generator) for _ in range(2))

    def scores(turn_q: Callable, turn_k: Callable, width: int = 16) -> torch.Tensor:
        a, b = (
            torch.cat([turn(x[..., :width]), x[..., width:]], -1)
            for turn, x in ((turn_q, q), (turn_k, k))
        )
        return a @ b.transpose(-2, -1)

    def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
        return bool((a - b).abs().max() < EQUAL)

    layouts = {name: (lambda x, name=name: _turned(x, name)) for name in ("interleaved", "half")}
    same_output = [name for name, turn in layouts.items() if equal(encode(q), turn(q))]
    same_scores = [
        name
        for name, turn in layouts.items()
        if all(equal(scores(encode, encode, w), scores(turn, turn, w)) for w in (16, 8))
    ]
    mixed = [
        name for name, turn in layouts.items() if equal(scores(encode, turn), scores(turn, turn))
    ]
    rest = "the identity" if equal(encode(q)[:, :1], q[:, :1]) else "not the identity"
    evidence = (
        f"scores equal to those of the layout {' and '.join(same_scores) or 'none'}, full and "
        f"partial; outputs to those of {' and '.join(same_output) or 'none'}; with keys of another "
        f"function right for {' and '.join(mixed) or 'none'}; position 0 is {rest}"
    )
    if same_output:
        return Verdict(22, HOLDS, evidence)
    if same_scores:
        condition = (
            f"queries and keys both pass through it, with {same_scores[0]} weights: its channels "
            "come out in another order"
        )
        return Verdict(22, f"{HOLDS_IF} {condition}", evidence)
    return Verdict(22, f"{FAILS}: its scores are those of neither layout", evidence)
