"""Claims decided in chapter 11: numbers 24 and 30."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..published_configs.census import Row
from . import FAILS, HOLDS, HOLDS_IF, Verdict

#: Nats per token; a length counts as reached if the text costs no more than this above the cost
#: of the plain model at its trained length.
MARGIN = 0.1
#: So many times the trained length is what the claim says.
CLAIMED = 8.0
#: "Almost all" means at least nineteen of twenty.
ALMOST_ALL = 0.95


def lengths_reached(
    losses: Mapping[str, Mapping[int, Sequence[float]]], *, trained: int, margin: float = MARGIN
) -> dict[str, int]:
    """The longest text that each method reads without losing more than a margin.

    Args:
        losses: method to length to one loss for each span of text, nats per token on the same
            targets; ``"plain"`` at ``trained`` is what all others are compared with, span by span.
        trained: the trained length.
        margin: what a longer text may cost.

    Returns:
        Method to the longest measured length, in tokens, up to which every measured length beyond
        ``trained`` stays within the margin on every span; ``trained`` if there is none.

    Raises:
        ValueError: no plain loss at the trained length.
    """
    if trained not in losses.get("plain", {}):
        raise ValueError(f"need the losses of 'plain' at {trained} tokens")
    reference = losses["plain"][trained]
    reached = {}
    for method, points in losses.items():
        longest = trained
        for length in sorted(length for length in points if length > trained):
            pairs = zip(points[length], reference, strict=False)
            if all(loss <= old + margin for loss, old in pairs):
                longest = length
            else:
                break
        reached[method] = longest
    return reached


def claim_24(
    losses: Mapping[str, Mapping[int, Sequence[float]]],
    probe: Mapping[str, Mapping[int, tuple[float, float]]],
    *,
    trained: int,
    margin: float = MARGIN,
) -> Verdict:
    """Claim: interpolation takes a model from 4K to 32K tokens with little or no training. ([S004])

    Nothing is trained here, so only "no training" is decided. The claim is about eight times the
    trained length. Text decides; the probe, which leaves the tokens in between out, is reported.

    Args:
        losses: as for :func:`lengths_reached`, of methods without any training.
        probe: method to gap to mean loss on the first and on the second copy, nats per token.
        trained: the trained length.
        margin: as for :func:`lengths_reached`.

    Returns:
        Verdict 24. It holds if a method other than plain reaches eight times on text, and on
        condition if one reaches at least twice, or all that was measured. Where no text beyond the
        trained length was measured, the probe is all there is, and can do no more than support a
        condition.

    Raises:
        ValueError: as :func:`lengths_reached`; no method beside plain.
    """
    reached = lengths_reached(losses, trained=trained, margin=margin)
    methods = {name: length for name, length in reached.items() if name != "plain"}
    if not methods:
        raise ValueError("need the losses of at least one method beside 'plain'")
    best = max(methods.values())
    names = [name for name, length in methods.items() if length == best]
    longest = max(length for points in losses.values() for length in points)
    copying = {
        name: max((gap for gap, (first, second) in gaps.items() if second < first / 2), default=0)
        for name, gaps in probe.items()
    }
    far = max(copying, key=copying.get) if copying else None
    evidence = (
        f"on text, within {margin:g} nats of the plain model at {trained:,}: plain to "
        f"{reached['plain']:,} tokens, the best ({', '.join(names)}) to {best:,}, tested to "
        f"{longest:,}"
    )
    if far is not None:
        evidence += f"; the probe still copies at a gap of {copying[far]:,} with {far}"
    if longest <= trained:
        evidence = f"no text of more than {trained:,} tokens was measured"
        if far is None or copying[far] < 2 * trained:
            return Verdict(24, f"{FAILS} as far as was tested", evidence)
        evidence += f"; the probe still copies at a gap of {copying[far]:,} with {far}"
        return Verdict(24, f"{HOLDS_IF} copying across a gap is enough", evidence)
    if best >= CLAIMED * trained:
        return Verdict(24, HOLDS, evidence)
    if best >= 2 * trained or best == longest:  # a length that nobody tried has not failed
        return Verdict(24, f"{HOLDS_IF} {best / trained:g} times is enough", evidence)
    return Verdict(24, f"{FAILS} without training", evidence)


def claim_30(rows: Iterable[Row], *, after: int = 2023) -> Verdict:
    """Claim: almost all large language models since 2023 use RoPE. ([S001])

    Args:
        rows: of :func:`~posenc_tutorial.published_configs.census.read_census`.
        after: only rows of later years count; rows without a year do not.

    Returns:
        Verdict 30. It holds if nineteen of twenty rotate; on condition if that is so among those
        that use explicit positions at all.

    Raises:
        ValueError: nothing to count.
    """
    counted = [row for row in rows if row.year is not None and row.year > after]
    if not counted:
        raise ValueError(f"no rows of a year after {after}")
    rotary = sum(row.kind == "rotary" for row in counted)
    explicit = sum(row.kind != "none" for row in counted)
    evidence = (
        f"{rotary} of {len(counted)} model folders dated {after + 1} or later in transformers "
        f"5.24.0 rotate; {len(counted) - explicit} have no explicit positions, "
        f"{explicit - rotary} use something else"
    )
    if rotary >= ALMOST_ALL * len(counted):
        return Verdict(30, HOLDS, evidence)
    if explicit and rotary >= ALMOST_ALL * explicit:
        return Verdict(30, f"{HOLDS_IF} models without explicit positions are left aside", evidence)
    return Verdict(30, FAILS, evidence)
