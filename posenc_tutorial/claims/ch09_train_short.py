"""Claims decided in chapter 09: numbers 8, 20, 25, 28 and 35. The loss half of 19 is shared with
chapter 08, whose function is used."""

from __future__ import annotations

from collections.abc import Mapping

from . import FAILS, HOLDS, HOLDS_IF, Verdict

#: Nats per byte; smaller differences between small models are not worth a verdict.
MARGIN = 0.03
#: Nats per byte; a loss that rises by no more than this is kept on longer texts.
KEPT = 0.1
#: Nats per byte; a model that is behind by more than this is not slightly behind.
SLIGHT = 0.15
#: Attention has drifted if its entropy, or its mass on a range of distances, moves by so much.
DRIFT = 0.05


def _trained_and_longest(losses: Mapping[int, float], trained: int) -> tuple[float, int, float]:
    longest = max(losses, default=0)
    if trained not in losses or longest <= trained:
        raise ValueError(f"need a loss at {trained} and at a longer text, got {sorted(losses)}")
    return losses[trained], longest, losses[longest]


def claim_8(losses: Mapping[int, float], *, trained: int, computable: bool) -> Verdict:
    """Claim: sinusoidal positions extrapolate in theory to lengths not seen in training. ([S001])

    Args:
        losses: length to loss, nats per byte, on the same bytes.
        trained: the trained length, in ``losses`` together with longer ones.
        computable: whether there is a finite encoding at the longest length.

    Returns:
        Verdict 8: holds if the loss is kept, on condition if positions can only be computed.

    Raises:
        ValueError: no loss at the trained length, or none beyond.
    """
    inside, longest, beyond = _trained_and_longest(losses, trained)
    rise = beyond - inside
    evidence = (
        f"positions up to {longest} {'can' if computable else 'cannot'} be computed; trained on "
        f"{trained}, the loss at {longest} {_moved(rise)}"
    )
    if not computable:
        return Verdict(8, f"{FAILS}: there is no encoding beyond", evidence)
    if rise > KEPT:
        return Verdict(8, f"{HOLDS_IF} to extrapolate means to be computable", evidence)
    return Verdict(8, HOLDS, evidence)


def claim_20(
    losses: Mapping[str, Mapping[int, float]], *, trained: int, baseline: str = "nope"
) -> Verdict:
    """Claim: relative encodings extrapolate naturally to longer texts. ([S001])

    Args:
        losses: encoding to length to loss, nats per byte, on the same bytes: the relative ones,
            and the baseline.
        trained: the trained length.
        baseline: an encoding without any position in it, for comparison; its loss may rise.

    Returns:
        Verdict 20. It holds if no relative encoding loses more than ``KEPT`` at the longest text,
        on condition if some do, and does not hold if all do.

    Raises:
        ValueError: no baseline, nothing to judge, or a loss that is missing.
    """
    relative = [name for name in losses if name != baseline]
    if baseline not in losses or not relative:
        raise ValueError(f"need {baseline!r} and a relative encoding, got {sorted(losses)}")
    rises, far = {}, {}
    for name, loss in losses.items():
        inside, longest, far[name] = _trained_and_longest(loss, trained)
        rises[name] = far[name] - inside
    lost = [name for name in relative if rises[name] > KEPT]
    kept = [name for name in relative if name not in lost]
    behind = [name for name in lost if far[name] > far[baseline]]
    evidence = (
        f"from {trained} to {longest} bytes the loss rises by more than {KEPT} nats per byte with "
        f"{_names(lost)}, and not with {_names(kept)}; worse at {longest} than {baseline}, which "
        f"has no positions: {_names(behind)}"
    )
    if not lost:
        return Verdict(20, HOLDS, evidence)
    if not kept:
        return Verdict(20, FAILS, evidence)
    return Verdict(20, f"{FAILS} for {_names(lost)}", evidence)


def claim_25(
    held_out: Mapping[int, Mapping[str, float]],
    *,
    spread: float = 0.0,
    fixed: str = "sinusoidal",
    learned: str = "learned",
) -> Verdict:
    """Claim: with scarce data take sinusoidal positions, with plentiful data learned ones. ([S004])

    Args:
        held_out: size of the training data to encoding to held-out loss, nats per byte; two sizes.
        spread: of the losses over seeds; differences within it, or ``MARGIN``, count as ties.
        fixed: the one that has nothing to learn.
        learned: the other one.

    Returns:
        Verdict 25. It holds if each wins where it should.

    Raises:
        ValueError: fewer than two sizes.
    """
    if len(held_out) < 2:
        raise ValueError(f"need two sizes of training data, got {sorted(held_out)}")
    margin = max(MARGIN, spread)
    winners = {}
    for size in (min(held_out), max(held_out)):
        gap = held_out[size][learned] - held_out[size][fixed]
        winners[size] = "neither" if abs(gap) <= margin else (fixed if gap > 0 else learned)
    (small, scarce), (large, plentiful) = winners.items()
    evidence = (
        f"lower held-out loss by more than {margin:.2g} nats per byte: {scarce} with {small:,} "
        f"training bytes, {plentiful} with {large:,}"
    )
    if scarce == fixed and plentiful == learned:
        return Verdict(25, HOLDS, evidence)
    if scarce == fixed or plentiful == learned:
        half = "scarce" if scarce == fixed else "plentiful"
        return Verdict(25, f"{HOLDS_IF} the data are {half}", evidence)
    return Verdict(25, FAILS, evidence)


def claim_28(alibi: float, rope: float, *, spread: float = 0.0) -> Verdict:
    """Claim: the ceiling of ALiBi is slightly below that of RoPE. ([S001])

    Args:
        alibi: loss at the trained length, nats per byte.
        rope: the same of RoPE, same model, same bytes.
        spread: of the losses over seeds; a difference within it, or ``MARGIN``, is a tie.

    Returns:
        Verdict 28.
    """
    margin = max(MARGIN, spread)
    gap = alibi - rope
    evidence = (
        f"at the trained length, same model and bytes, ALiBi costs {abs(gap):.1f} nats per byte "
        f"{'more' if gap > 0 else 'less'} than RoPE"
    )
    if gap > max(SLIGHT, margin):
        return Verdict(28, f'{HOLDS}, but for "slightly"', evidence)
    if gap > margin:
        return Verdict(28, HOLDS, evidence)
    return Verdict(28, f"{FAILS}: {'a tie' if gap >= -margin else 'it is above'}", evidence)


def claim_35(
    entropy: Mapping[int, float], near: Mapping[int, float], *, window: int, trained: int
) -> Verdict:
    """Claim: past L the attention distribution of sinusoidal positions drifts. ([S000])

    The same texts of ``window`` tokens stand at several offsets, so the number of tokens to attend
    to is the same everywhere.

    Args:
        entropy: offset to the mean entropy of the attention weights, nats.
        near: offset to the mean attention mass on the nearest few tokens.
        window: length of the texts.
        trained: the trained length ``L``.

    Returns:
        Verdict 35: it holds if, beyond ``L``, either number is further from its mean inside than
        ``DRIFT`` and than anything inside.

    Raises:
        ValueError: fewer than two offsets inside, or none beyond.
    """
    inside = [offset for offset in entropy if offset <= trained - window]
    beyond = [offset for offset in entropy if offset >= trained]
    if len(inside) < 2 or not beyond:
        raise ValueError(f"need offsets inside and beyond {trained}, got {sorted(entropy)}")

    def moved(values: Mapping[int, float]) -> tuple[float, bool]:
        middle = sum(values[o] for o in inside) / len(inside)
        far = sum(values[o] for o in beyond) / len(beyond) - middle
        usual = max(abs(values[o] - middle) for o in inside)
        return far, abs(far) > max(DRIFT, usual)

    (change, wider), (shift, moves) = moved(entropy), moved(near)
    evidence = (
        f"the same texts beyond {trained}: the entropy of their attention "
        f"{_direction(change, wider)}, the mass on the nearest tokens {_direction(shift, moves)}"
    )
    return Verdict(35, HOLDS if wider or moves else f"{FAILS}: no further than inside", evidence)


def _direction(change: float, counts: bool) -> str:
    return ("rises" if change > 0 else "falls") if counts else "stays"


def _moved(rise: float) -> str:
    if abs(rise) <= KEPT:
        return f"stays within {KEPT} nats per byte"
    return f"{'rises' if rise > 0 else 'falls'} by more than {KEPT} nats per byte"


def _names(names: list[str]) -> str:
    return ", ".join(names) or "none"
