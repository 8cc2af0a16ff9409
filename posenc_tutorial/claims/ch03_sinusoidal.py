"""Claims decided in chapter 03: numbers 5, 6, 7 and 26."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import torch

from ..frequencies import wavelengths
from . import Verdict


def claim_5(
    encode: Callable[[int, int], object],
    dim: int,
    *,
    base: float = 10000.0,
    length: int = 512,
    idle: float = 0.01,
) -> Verdict:
    """Does a printed function compute the paper's sinusoids? (Claim 5, source [S004].)

    Every clock is asked how far it turns in one step, which needs the row of position 1 only:
    the angle of a pair is ``atan2(sin, cos)``. The paper's pair ``i`` turns by
    ``base ** (-2 i / dim)``; the exponent found is compared with that.

    Args:
        encode: ``encode(position, dim)``, the row of one position, sine and cosine side by side.
        dim: width, even, at least 4.
        base: the base that the function claims to use.
        length: a text length in tokens, for counting hands that hardly move within it.
        idle: radians; a hand that turns by less over ``length`` tokens counts as idle.

    Returns:
        Verdict 5. It holds if every exponent is the paper's.
    """
    row = torch.as_tensor(encode(1, dim), dtype=torch.float64)
    turn = torch.atan2(row[0::2], row[1::2])  # radians per token of each pair
    pair = torch.arange(dim // 2, dtype=torch.float64)
    paper = base ** (-2 * pair / dim)
    multiple = (turn[1:].log() / paper[1:].log()).tolist()
    slowest = [float(2 * math.pi / frequencies[-1]) for frequencies in (turn, paper)]
    still = [int(((length - 1) * frequencies < idle).sum()) for frequencies in (turn, paper)]
    evidence = (
        f"slowest wavelength {slowest[0]:,.0f} tokens, the paper's {slowest[1]:,.0f}; "
        f"{still[0]} of {dim // 2} hands turn by less than {idle} rad in {length} tokens, "
        f"the paper's {still[1]}"
    )
    first = multiple[0]
    if any(not math.isfinite(m) or abs(m - first) > 1e-6 for m in multiple):
        return Verdict(5, "does not hold: not a geometric row of frequencies", evidence)
    if abs(first - 1) > 1e-6:
        times = "doubled" if abs(first - 2) < 1e-6 else f"multiplied by {first:.3f}"
        return Verdict(5, f"does not hold: the exponent is {times}", evidence)
    return Verdict(5, "holds", evidence)


def claim_6(
    encode: Callable[[torch.Tensor], torch.Tensor],
    shift: Callable[[int], torch.Tensor],
    positions: torch.Tensor,
    offsets: Iterable[int],
    *,
    tolerance: float = 1e-12,
) -> Verdict:
    """Is PE(p + k) one linear function of PE(p) for all p? (Claim 6, [S000] and [S001].)

    Args:
        encode: positions ``(n,)`` to rows ``(n, dim)``, float64.
        shift: offset to the matrix ``(dim, dim)``, float64, that is to serve every position.
        positions: ``(n,)``, integers; many more than ``dim``, since a few rows would fit any map.
        offsets: offsets to try.
        tolerance: largest error that counts as rounding.

    Returns:
        Verdict 6, from the largest error over all positions and offsets.
    """
    rows = encode(positions)
    worst, tried = 0.0, 0
    for offset in offsets:
        error = (rows @ shift(offset).T - encode(positions + offset)).abs().max()
        worst, tried = max(worst, float(error)), tried + 1
    scope = f"over {len(positions)} positions and {tried} offsets"
    if worst <= tolerance:
        return Verdict(6, "holds exactly", f"largest error below {tolerance:g} {scope}")
    return Verdict(6, "does not hold: no such matrix", f"largest error {worst:.1e} {scope}")


def claim_7(inv_freq: torch.Tensor, base: float, length: int) -> Verdict:
    """Are low channels fast and high ones slow, on several scales? (Claim 7, [S000] and [S001].)

    Args:
        inv_freq: ``(dim/2,)``, radians per token.
        base: the base of the encoding.
        length: a text length in tokens.

    Returns:
        Verdict 7. It holds if wavelengths grow with the pair, from 2 pi to
        ``2 pi base ** ((dim - 2) / dim)``, and some pairs complete a turn within the length while
        others do not.
    """
    waves = wavelengths(inv_freq)
    dim = 2 * len(waves)
    grow = bool((waves[1:] > waves[:-1]).all())
    last = 2 * math.pi * base ** ((dim - 2) / dim)
    ends = math.isclose(float(waves[0]), 2 * math.pi) and math.isclose(float(waves[-1]), last)
    turns = int((waves <= length).sum())
    evidence = (
        f"wavelengths {float(waves[0]):.2f} to {float(waves[-1]):,.0f} tokens; "
        f"{turns} of {len(waves)} pairs complete a turn within {length:,} tokens"
    )
    if not grow:
        return Verdict(7, "does not hold: wavelengths do not grow with the channel", evidence)
    if not ends:
        return Verdict(7, "does not hold: wavelengths end elsewhere", evidence)
    if not 0 < turns < len(waves):
        return Verdict(7, "holds if the text has a length between the scales", evidence)
    return Verdict(7, "holds", evidence)


def claim_26(
    absolute: Mapping[str, Callable[[int], torch.Tensor]],
    relative: Mapping[str, Callable[[int], torch.Tensor]],
    far: int,
) -> Verdict:
    """Do absolute encodings have a largest position and relative ones none? (Claim 26, [S001].)

    Args:
        absolute: name to a function from a position to its encoding; one that has a largest
            position raises IndexError.
        relative: name to a function from a distance to what the score gets; one that gives the
            same for ``far`` and for ``2 * far`` cannot tell such distances apart.
        far: a position, and a distance, in tokens.

    Returns:
        Verdict 26. It holds if every absolute encoding stops and every relative one can tell far
        distances apart.
    """
    stopped, computed = [], []
    for name, encode in absolute.items():
        try:
            row = encode(far)
        except IndexError:
            stopped.append(name)
        else:
            (computed if bool(torch.isfinite(row).all()) else stopped).append(name)
    merged = [name for name, of in relative.items() if torch.equal(of(far), of(2 * far))]
    evidence = (
        f"at position {far:,}: computed by {_names(computed)}, refused by {_names(stopped)}; "
        f"distances {far:,} and {2 * far:,} look the same to {_names(merged)}"
    )
    if computed:
        verdict = "does not hold: tables have a limit, absolute encodings need not"
    elif merged:
        verdict = "does not hold: a relative encoding has a limit as well"
    else:
        verdict = "holds"
    return Verdict(26, verdict, evidence)


def _names(names: list[str]) -> str:
    return " and ".join(names) or "none"
