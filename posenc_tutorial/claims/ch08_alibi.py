"""Claims decided in chapter 08: numbers 18 and 19."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from . import FAILS, HOLDS, HOLDS_IF, Verdict

#: Nats per byte; a loss that rises by no more than this is kept.
MARGIN = 0.1


def slope_pattern(slopes: torch.Tensor) -> str:
    """What a list of slopes looks like, read from its first to its last head.

    Args:
        slopes: ``(heads,)``, all positive.

    Returns:
        ``"halving"`` for 1/2, 1/4, 1/8 …; ``"geometric"`` for another series that starts with its
        own ratio; ``"sorted"`` for other falling lists; ``"unsorted"`` for the rest.
    """
    exponents = torch.log2(slopes.double())
    steps = torch.diff(exponents, prepend=torch.zeros(1, dtype=torch.float64))
    if (steps + 1).abs().max() < 1e-6:
        return "halving"
    if (steps - steps[0]).abs().max() < 1e-6:
        return "geometric"
    return "sorted" if (steps[1:] < 0).all() else "unsorted"


def claim_18(
    slopes_of: Callable[[int], torch.Tensor], heads: Sequence[int] = range(2, 65)
) -> Verdict:
    """Claim: the slopes of ALiBi are 1/2, 1/4, 1/8 … ([S001])

    Args:
        slopes_of: number of heads to ``(heads,)`` slopes.
        heads: the numbers of heads to look at.

    Returns:
        Verdict 18. It holds if every number of heads gives this list, and on condition if some do.
    """
    found = {n: slope_pattern(slopes_of(n)) for n in heads}

    def those(pattern: str) -> list[int]:
        return [n for n, seen in found.items() if seen == pattern]

    others = len(those("sorted")) + len(those("unsorted"))
    evidence = (
        f"of {min(heads)} to {max(heads)} heads, 1/2, 1/4, 1/8 … with "
        f"{_listed(those('halving'))}; another series that starts with its own ratio with "
        f"{_listed(those('geometric'))}; no series for {others} numbers of heads, "
        f"{len(those('sorted')) or 'none'} of them sorted"
    )
    if len(those("halving")) == len(found):
        return Verdict(18, HOLDS, evidence)
    if not those("halving"):
        return Verdict(18, FAILS, evidence)
    return Verdict(18, f"{HOLDS_IF} there are {_listed(those('halving'))} heads", evidence)


def claim_19(
    losses: Mapping[str, Mapping[int, float]],
    windowed: float,
    *,
    trained: int,
    window: int,
    name: str = "ALiBi",
) -> Verdict:
    """Claim: ALiBi keeps its loss on longer texts because it depends on distance alone. ([S001])

    Args:
        losses: encoding to length to loss, nats per byte, on the same bytes. Beside ALiBi at least
            one other encoding whose scores depend on distance alone.
        windowed: ALiBi's loss at the largest length if a token sees no further than ``window``.
        trained: the trained length.
        window: see ``windowed``.
        name: which of ``losses`` is ALiBi.

    Returns:
        Verdict 19. It does not hold if ALiBi's loss rises by more than ``MARGIN``. It holds as said
        if no other encoding fails. Otherwise the loss holds and the reason is not enough; then the
        window says whether what lies far away matters to ALiBi at all.

    Raises:
        ValueError: no ALiBi, nothing to compare it with, or no longer length.
    """
    if name not in losses or len(losses) < 2:
        raise ValueError(f"need {name!r} and another encoding, got {sorted(losses)}")
    longest = max(losses[name])
    if longest <= trained or trained not in losses[name]:
        raise ValueError(f"need a loss at {trained} and at a longer text, got {losses[name]}")
    rises = {which: loss[longest] - loss[trained] for which, loss in losses.items()}
    worse = [which for which, rise in rises.items() if rise > MARGIN and which != name]
    held = rises[name] <= MARGIN
    local = abs(windowed - losses[name][longest]) <= MARGIN
    evidence = (
        f"trained on {trained} bytes, at {longest} the loss rises by "
        f"{'no more' if held else 'more'} than {MARGIN} nats per byte with {name}, by more than "
        f"that with {', '.join(worse) or 'no other'}; {name} that sees only the nearest {window} "
        f"tokens loses {'no more' if local else 'more'} than {MARGIN}"
    )
    if not held:
        return Verdict(19, FAILS, evidence)
    if not worse:
        return Verdict(19, HOLDS, evidence)
    far = "far tokens hardly count" if local else "far tokens count"
    others = f"{' and '.join(worse)} {'depend' if len(worse) > 1 else 'depends'}"
    reason = f"{others} on relative position alone too, which is not enough; {far}"
    return Verdict(19, f"{HOLDS} for the loss; {reason}", evidence)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
