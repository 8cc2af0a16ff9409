"""Claims decided in chapter 04: numbers 8, 10, 34 and 35."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from ..attention import MultiHeadAttention
from ..encoding import NoPE, PositionalEncoding
from . import FAILS, HOLDS, HOLDS_IF, Verdict
from .ch01_why_positions import open_doors

#: Nats per byte; smaller differences between two small models are not worth a verdict.
MARGIN = 0.03
#: Nats per byte; an encoding counts as extended if longer texts cost no more than this.
EXTENDED = 0.1
#: A distribution has drifted if it moved so many times as far as inside the trained length.
DRIFT = 2.0


@torch.no_grad()
def value_change(
    encoding: PositionalEncoding,
    x: torch.Tensor,
    positions: torch.Tensor,
    layer: MultiHeadAttention,
) -> torch.Tensor:
    """How far the value of one token moves when the token stands elsewhere.

    Args:
        encoding: only door 1 can reach the values.
        x: ``(dim,)``, the token's embedding.
        positions: ``(n,)``; the first is what the others are compared with.
        layer: its ``value`` projection is used.

    Returns:
        ``(n,)``, the change as a share of the length of the value without positions.
    """
    tokens = x.expand(1, len(positions), -1)
    values = layer.value(encoding.add_to_input(tokens, positions))[0]
    return (values - values[0]).norm(dim=-1) / layer.value(x).norm()


def claim_10(
    encodings: Mapping[str, PositionalEncoding],
    *,
    dim: int,
    num_heads: int,
    layer: MultiHeadAttention | None = None,
    length: int = 64,
) -> Verdict:
    """Claim: adding p mixes positions into Q, K *and* V; RoPE leaves V alone. ([S000])

    Which door an encoding uses is found by sending tensors through it, not by its name. Then one
    token is put at every position and its value is computed.

    Args:
        encodings: the encodings under test, by name.
        dim: width of the input.
        num_heads: number of heads.
        layer: whose values are looked at; default: random weights.
        length: number of positions.

    Returns:
        Verdict 10. It holds if the value moves for every encoding that adds to the input, and for
        no encoding that turns queries and keys.

    Raises:
        ValueError: no encoding that adds, or none that turns.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(dim, generator=generator)
    if layer is None:
        layer = MultiHeadAttention(dim, num_heads, NoPE(), causal=True)
        weight = torch.randn(dim, dim, generator=generator)
        layer.value.weight = torch.nn.Parameter(weight)
    doors, moved = {}, {}
    for name, encoding in encodings.items():
        doors[name] = open_doors(encoding, dim=dim, num_heads=num_heads)
        change = value_change(encoding, x, torch.arange(length), layer)
        moved[name] = float(change.max())
    adding = [name for name in encodings if 1 in doors[name]]
    turning = [name for name in encodings if 3 in doors[name]]
    if not adding or not turning:
        raise ValueError(f"need encodings that add and that turn, got doors {doors}")
    still = [name for name in encodings if moved[name] == 0]
    evidence = (
        f"one token at {length} positions: its value moves for "
        f"{', '.join(name for name in encodings if moved[name]) or 'none'}, and not by a single "
        f"bit for {', '.join(still) or 'none'}"
    )
    clean = [name for name in adding if moved[name] < 1e-5]
    dirty = [name for name in turning if moved[name]]
    if dirty:
        return Verdict(10, f"{FAILS}: {', '.join(dirty)} turns keys and moves values", evidence)
    if clean:
        return Verdict(10, f"{FAILS}: {', '.join(clean)} adds and the values stay", evidence)
    return Verdict(10, HOLDS, evidence)


def claim_8(
    rows: Callable[[torch.Tensor], torch.Tensor],
    losses: Mapping[int, float],
    *,
    trained: int,
    far: int = 2**20,
) -> Verdict:
    """Claim: sinusoidal positions extrapolate in theory to lengths not seen in training. ([S001])

    Args:
        rows: positions ``(n,)`` to their encoding ``(n, dim)``.
        losses: length of the evaluated texts to loss, nats per byte, on the same bytes.
        trained: the trained length, in ``losses`` together with longer ones.
        far: a position to compute.

    Returns:
        Verdict 8. It holds if the encoding can be computed at ``far`` and no longer text costs more
        than ``MARGIN``; it holds with a condition if only the first is true.

    Raises:
        ValueError: no loss at the trained length, or none beyond.
    """
    beyond = {n: loss for n, loss in losses.items() if n > trained}
    if trained not in losses or not beyond:
        raise ValueError(f"need a loss at {trained} and at longer texts, got {sorted(losses)}")
    try:
        computable = bool(rows(torch.tensor([far])).isfinite().all())
    except IndexError:
        computable = False
    worse = [n for n, loss in sorted(beyond.items()) if loss > losses[trained] + MARGIN]
    evidence = (
        f"position {far:,} {'can' if computable else 'cannot'} be computed; trained on {trained}, "
        f"the loss rises by more than {MARGIN} nats per byte at length "
        f"{', '.join(map(str, worse)) or 'none'}"
    )
    if not computable:
        return Verdict(8, f"{FAILS}: there is no encoding beyond", evidence)
    if worse:
        return Verdict(8, f"{HOLDS_IF} to extrapolate means to be computable", evidence)
    return Verdict(8, HOLDS, evidence)


def claim_34(
    extended: Mapping[str, tuple[float, float, float]], *, margin: float = EXTENDED
) -> Verdict:
    """Claim: absolute encodings can hardly be extended to longer texts. ([S004])

    Args:
        extended: name of a method to three losses in nats per byte, all on the same bytes: of the
            model at its trained length, of the extended model on longer texts, and of that model
            after a short further training.
        margin: what the longer texts may cost.

    Returns:
        Verdict 34. It holds if no method stays within the margin, and on condition if one does
        only after further training.

    Raises:
        ValueError: nothing to judge.
    """
    if not extended:
        raise ValueError("give the losses of at least one method")
    at_once = [name for name, (old, new, _) in extended.items() if new <= old + margin]
    later = [name for name, (old, _, tuned) in extended.items() if tuned <= old + margin]
    failed = [name for name in extended if name not in at_once]
    evidence = (
        f"longer texts cost at most {margin} nats per byte, without any training, with "
        f"{', '.join(at_once) or 'none'}; more with {', '.join(failed) or 'none'}"
    )
    if at_once:
        verdict = f"{FAILS} for {' and '.join(at_once)}"
        rest = "; without further training it holds for the rest" if failed else ""
        return Verdict(34, verdict + rest, evidence)
    if later:
        evidence += f"; after a short training at most that with {', '.join(later)}"
        return Verdict(34, f"{HOLDS_IF} nothing is trained further", evidence)
    return Verdict(34, HOLDS, evidence)


def claim_35(
    moved: Mapping[int, float],
    near: Mapping[int, float],
    *,
    window: int,
    trained: int,
    factor: float = DRIFT,
) -> Verdict:
    """Claim: past L the attention distribution of sinusoidal positions drifts. ([S000])

    The same texts of ``window`` tokens stand at several offsets. Inside means that the whole text
    lies within the trained length, beyond that none of it does.

    Args:
        moved: offset to the mean Jensen-Shannon divergence between the attention there and at
            offset 0.
        near: offset to the mean weight on the nearest few tokens.
        window: length of the texts.
        trained: the trained length ``L``.
        factor: so many times further than inside counts as drift.

    Returns:
        Verdict 35, from the means inside and beyond.

    Raises:
        ValueError: no offset inside other than 0, or none beyond.
    """
    inside = [offset for offset in moved if 0 < offset <= trained - window]
    beyond = [offset for offset in moved if offset >= trained]
    if not inside or not beyond:
        raise ValueError(f"need offsets inside and beyond {trained}, got {sorted(moved)}")

    def mean(values: Mapping[int, float], offsets: list[int]) -> float:
        return sum(values[offset] for offset in offsets) / len(offsets)

    drifts = mean(moved, beyond) > factor * mean(moved, inside)
    falls = mean(near, beyond) < mean(near, inside)
    evidence = (
        f"the same texts move the attention {'more' if drifts else 'not more'} than {factor:g} "
        f"times as far beyond {trained} as inside; the weight on the nearest tokens "
        f"{'falls' if falls else 'does not fall'}"
    )
    return Verdict(35, HOLDS if drifts else f"{FAILS}: no further than inside", evidence)
