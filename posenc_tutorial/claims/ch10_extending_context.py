"""Claims decided in chapter 10: numbers 13, 14, 15, 16, 17 and 29."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch

from ..frequencies import RopeParameters, inverse_frequencies
from . import FAILS, HOLDS, HOLDS_IF, Verdict

#: What float64 may leave of a difference that should be 0.
EXACT = 1e-9
#: Nats per byte; a loss that is larger by so much is really larger.
MARGIN = 0.02


def claim_13(
    rule: Callable[[int, float, float], torch.Tensor],
    *,
    dims: Sequence[int] = (32, 64, 128),
    base: float = 10000.0,
    alpha: float = 4.0,
) -> Verdict:
    """Claim: NTK-aware scaling is base × α, so that high frequencies change more slowly. ([S001])

    Asked of the rule that the claim states: is the slowest pair divided by exactly α, and is it the
    fast pairs that are slowed?

    Args:
        rule: ``rule(dim, base, alpha) -> (dim/2,)``, frequencies, radians per token.
        dims: widths to try.
        base: of the plain frequencies.
        alpha: how much.

    Returns:
        Verdict 13. It holds if the slowest pair is divided by α in every width and the fast pairs
        are slowed more than the slow ones.
    """
    slowest, first, fast_more = [], [], []
    for dim in dims:
        divisor = inverse_frequencies(dim, base) / rule(dim, base, alpha)
        slowest.append(float(divisor[-1]))
        first.append(float(divisor[0]))
        fast_more.append(bool(divisor[0] > divisor[-1]))
    exact = all(abs(value - alpha) < EXACT * alpha for value in slowest)
    near = all(0.9 * alpha < value < 1.1 * alpha for value in slowest)
    widths = ", ".join(str(dim) for dim in dims)
    evidence = (
        f"with alpha {alpha:g} and widths {widths} the slowest pair is divided by "
        f"{', '.join(f'{value:.3f}' for value in slowest)}, the fastest by "
        f"{', '.join(f'{value:.3f}' for value in first)}"
    )
    if exact and all(fast_more):
        return Verdict(13, HOLDS, evidence)
    faults = []
    if not exact:
        faults.append("nearly right in size, wrong in the exponent" if near else "wrong in size")
    if not any(fast_more):
        faults.append("backwards about which pairs")
    return Verdict(13, f"{FAILS} as said: {', '.join(faults) or 'not for every width'}", evidence)


def claim_14(
    rule: Callable[[int], RopeParameters], *, trained: int, longest: int, stale_error: float
) -> Verdict:
    """Claim: dynamic NTK grows the base gradually during training. ([S001])

    Args:
        rule: length of a text to the parameters used for it.
        trained: training has no longer texts.
        longest: tokens; lengths up to this are tried.
        stale_error: largest error of a score when cached keys keep the rotation that they got at
            a shorter length, measured beside.

    Returns:
        Verdict 14. It holds if the rule does anything within the trained length.
    """
    plain = rule(1).inv_freq
    acts = [n for n in range(1, trained + 1) if not torch.equal(rule(n).inv_freq, plain)]
    slowest = [float(rule(n).inv_freq[-1]) for n in range(trained, longest + 1)]
    falls = all(later < earlier for earlier, later in zip(slowest, slowest[1:], strict=False))
    evidence = (
        f"of the lengths 1 to {trained:,}, {len(acts)} get other frequencies than plain RoPE; from "
        f"{trained:,} to {longest:,} the slowest pair "
        f"{'slows with every token' if falls else 'does not slow with every token'}"
    )
    if acts:
        return Verdict(14, HOLDS, evidence)
    clash = stale_error > 1e-6
    ending = "clashes with a cache of rotated keys" if clash else "agrees with a cache"
    evidence += f"; a cached key is off by up to {stale_error:.2f}" if clash else ""
    return Verdict(14, f"{FAILS}: it acts at inference only, and {ending}", evidence)


def claim_15(
    rule: Callable[[float], RopeParameters],
    *,
    trained: int,
    factors: Sequence[float] = (2.0, 4.0, 8.0, 16.0),
) -> Verdict:
    """Claim: interpolation maps long texts into the trained range, at the price of resolution.

    ([S001]) The resolution is how far two neighbouring positions turn a key apart, the chord
    ``2 |sin(ω/2)|`` of every pair, summed over the pairs as a length.

    Args:
        rule: factor to parameters; a factor of 1 must be plain RoPE.
        trained: ``L``, tokens.
        factors: to try.

    Returns:
        Verdict 15. It holds if no pair leaves the angles of training and neighbours come closer
        with every factor.
    """
    plain = rule(1.0).inv_freq
    chords = {1.0: _chord(plain)}
    outside = 0
    for factor in factors:
        speeds = rule(factor).inv_freq
        # As distances: the largest is one less than the number of positions.
        reached = speeds * (factor * trained - 1)
        outside += int((reached > (plain * trained).clamp(max=2 * math.pi) + EXACT)
                       .logical_and(plain * trained < 2 * math.pi).sum())  # fmt: skip
        chords[factor] = _chord(speeds)
    closer = [chords[1.0] / chords[factor] for factor in factors]
    falls = all(b > a for a, b in zip([1.0, *closer], closer, strict=False))
    shown = ", ".join(f"{c:.2f} with {f:g}" for f, c in zip(factors, closer, strict=True))
    evidence = (
        f"{outside} pairs reach an angle that training has not shown; neighbours are closer by "
        f"{shown}"
    )
    if outside:
        return Verdict(15, f"{FAILS}: some pairs leave the range", evidence)
    if not falls:
        return Verdict(15, f"{HOLDS} for the range, and costs no resolution", evidence)
    return Verdict(15, HOLDS, evidence)


def _chord(speeds: torch.Tensor) -> float:
    return float((2 * (speeds / 2).sin()).norm())


def claim_16(
    rule: Callable[[float, int], RopeParameters],
    losses: Mapping[str, Sequence[float]],
    *,
    name: str = "YaRN",
    trained: int = 4096,
    dim: int = 128,
    base: float = 10000.0,
    factor: float = 16.0,
    margin: float = MARGIN,
) -> Verdict:
    """Claim: YaRN is NTK by parts with a temperature, and currently the best. ([S001])

    Args:
        rule: ``rule(factor, trained) -> RopeParameters`` for ``dim`` and ``base``.
        losses: method to its losses in one or more tests, such as without and with fine-tuning,
            the same tests for all; nats.
        name: of YaRN in ``losses``.
        trained: ``L`` for the formula.
        dim: for the formula.
        base: for the formula.
        factor: for the formula.
        margin: losses within it are equal.

    Returns:
        Verdict 16. It holds if the formula does and no method beats YaRN in any test; if only the
        second fails, the formula holds.

    Raises:
        ValueError: no losses of ``name``, or of it alone.
    """
    if name not in losses or len(losses) < 2:
        raise ValueError(f"need the losses of {name!r} and of another method, got {list(losses)}")
    plain = inverse_frequencies(dim, base)
    parameters = rule(factor, trained)
    turns = trained * plain / (2 * math.pi)
    divisor = plain / parameters.inv_freq
    # One pair of tolerance at both ends: published code rounds them to whole pairs.
    fast, slow = turns > 32, turns < 1
    by_parts = bool((divisor[fast] == 1).all()) and bool(
        ((divisor[slow][1:] - factor).abs() < EXACT * factor).all()
    )
    magnitude = abs(parameters.attention_factor - (0.1 * math.log(factor) + 1)) < EXACT
    beaten = sorted(
        other
        for other, values in losses.items()
        if any(a < b - margin for a, b in zip(values, losses[name], strict=True))
    )
    evidence = (
        f"width {dim}, L = {trained:,}: of {len(plain)} pairs {int((divisor == 1).sum())} are left "
        f"alone and {int(((divisor - factor).abs() < EXACT * factor).sum())} divided by "
        f"{factor:g}; attention factor {parameters.attention_factor:.4f}; beaten by "
        f"{', '.join(beaten) or 'no other method'} in at least one of {len(losses[name])} tests"
    )
    if not (by_parts and magnitude):
        return Verdict(16, f"{FAILS}: another formula", evidence)
    if beaten:
        return Verdict(16, f'{HOLDS} for the formula; "best" depends on the test', evidence)
    return Verdict(16, HOLDS, evidence)


def claim_17(
    unfinished: Mapping[float, int],
    losses: Mapping[str, Mapping[int, float]],
    *,
    margin: float = MARGIN,
) -> Verdict:
    """Claim: a larger base, such as 500,000, helps with long contexts. ([S001])

    Args:
        unfinished: base to the number of pairs that complete no turn within the trained length,
            two bases.
        losses: ``"small"``: the model with the small base; ``"large"``: one trained with the
            large base; ``"changed"``: the first one, run with the large base and no training;
            each a mapping from the length of the text to the loss. The shortest is the trained
            length.
        margin: losses within it are equal.

    Returns:
        Verdict 17. It holds if the model trained with it is better on the longest texts and no
        worse at the trained length; what becomes of a change without training is said beside.

    Raises:
        ValueError: one of the three is missing.
    """
    if set(losses) != {"small", "large", "changed"}:
        raise ValueError(f"need the losses of small, large and changed, got {sorted(losses)}")
    short, far = min(losses["small"]), max(losses["small"])
    gain = losses["small"][far] - losses["large"][far]
    price = losses["large"][short] - losses["small"][short]
    switched = losses["changed"][short] - losses["small"][short]
    reach = losses["small"][far] - losses["changed"][far]
    few, many = (unfinished[key] for key in sorted(unfinished))
    evidence = (
        f"pairs without a full turn: {few} with the small base, {many} with the large; loss at "
        f"{far} with the large base: {_words(-gain)} if trained with it, {_words(-reach)} if "
        f"changed afterwards; at {short}: {_words(price)} and {_words(switched)}"
    )
    if gain <= margin:
        after = "; changed afterwards it helps, at a price" if reach > margin else ""
        return Verdict(17, f"{FAILS} for a model trained on short texts{after}", evidence)
    if price > margin or switched > margin:
        return Verdict(17, f"{HOLDS_IF} the model is trained with it", evidence)
    return Verdict(17, HOLDS, evidence)


def _words(difference: float) -> str:
    """A difference of losses in words that do not hang on its last digit."""
    passed = [level for level in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if abs(difference) > level]
    if not passed:
        return "equal within 0.02"
    return f"{'higher' if difference > 0 else 'lower'} by more than {passed[-1]:g}"


def claim_29(
    losses: Mapping[float, tuple[float, float]], *, factor: float, margin: float = MARGIN
) -> Verdict:
    """Claim: an α that is too small does not reach far enough, a large one blurs what is near.

    ([S001])

    Args:
        losses: α to the loss at the trained length and at ``factor`` times it, nats.
        factor: how many times longer the long texts are.
        margin: losses within it are equal.

    Returns:
        Verdict 29. It holds if the smallest α is worse on long texts than a middle one, and the
        largest is worse than it on short ones and on long ones.

    Raises:
        ValueError: fewer than three values of α.
    """
    alphas = sorted(losses)
    if len(alphas) < 3:
        raise ValueError(f"need at least three values of alpha, got {alphas}")
    best = min(alphas, key=lambda alpha: losses[alpha][1])
    low, high = alphas[0], alphas[-1]
    short_reach = losses[low][1] > losses[best][1] + margin
    far_blur = losses[high][1] > losses[best][1] + margin
    near_blur = losses[high][0] > losses[low][0] + margin
    evidence = (
        f"alpha from {low:g} to {high:g}; at {factor:g} times the length, compared with the best: "
        f"the smallest {_words(losses[low][1] - losses[best][1])}, the largest "
        f"{_words(losses[high][1] - losses[best][1])}; at the trained length the largest is "
        f"{_words(losses[high][0] - losses[low][0])} than the smallest"
    )
    if short_reach and near_blur:
        end = "" if far_blur else "; within the range tried, long texts do not get worse again"
        return Verdict(29, HOLDS + end, evidence)
    return Verdict(29, FAILS, evidence)
