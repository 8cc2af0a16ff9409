"""Claims decided in chapter 02: numbers 9 and 36."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import Verdict


def claim_9(
    run: Callable[[int], object],
    *,
    rows: int,
    inside: float,
    untrained: float,
    interpolated: float,
    partial: float = 0.2,
    cured: float = 0.9,
    measure: str = "quality",
) -> Verdict:
    """Do learned positions end with the table? (Claim 9, sources [S001] and [S004].)

    Args:
        run: runs the model on so many tokens, as the model was published; what it returns is not
            looked at, only whether it raises an IndexError.
        rows: number of rows of the table.
        inside: quality at positions inside the published table (higher is better).
        untrained: quality past its end when new rows were drawn at random.
        interpolated: quality past its end when the table was interpolated, with no training after.
        partial: interpolation helps if it wins back at least this share of what untrained rows
            lose.
        cured: and it is a cure from this share on.
        measure: what the three numbers measure, in a few words, for the evidence.

    Returns:
        Verdict 9. It holds if ``rows`` tokens run and one more does not; the rest of the verdict
        says what interpolation is worth.

    Raises:
        ValueError: a model that cannot run ``rows`` tokens, about which nothing is decided; or
            untrained rows that lose nothing, so that nothing can be won back.
    """
    if not _runs(run, rows):
        raise ValueError(f"the model does not even run {rows} tokens, its number of rows")
    if untrained >= inside:
        raise ValueError(f"untrained rows lose nothing: {untrained} past the end, {inside} inside")
    if _runs(run, rows + 1):
        return Verdict(9, "does not hold: it runs past its table", f"{rows + 1} tokens run")
    evidence = (
        f"{rows} tokens run, {rows + 1} raise IndexError; {measure} inside {inside:.2f}, past "
        f"the end {interpolated:.2f} interpolated and {untrained:.2f} with untrained rows"
    )
    won_back = (interpolated - untrained) / (inside - untrained)
    if won_back < partial:
        return Verdict(9, "holds, and interpolating the table does not help by itself", evidence)
    if won_back >= cured:
        return Verdict(9, "holds for the table as it is, but interpolating it is a cure", evidence)
    return Verdict(9, "holds, and interpolating the table is a partial cure by itself", evidence)


def claim_36(
    leftover: Mapping[str, float],
    losses: Mapping[str, float],
    *,
    tolerance: float = 1e-9,
    margin: float = 0.03,
) -> Verdict:
    """Can a table hold any pattern, and is it enough at a fixed length? (Claim 36, [S000], [S004].)

    Args:
        leftover: share of an irregular pattern's variance that a linear readout of the encoding
            misses, for ``"learned"`` and at least one other.
        losses: loss at the trained length, same model and same training, for ``"learned"`` and at
            least one other.
        tolerance: a share up to this counts as nothing.
        margin: nats; a loss that is higher by less than this counts as equal.

    Returns:
        Verdict 36. It holds if the table misses nothing, and no other encoding is clearly better
        at the trained length; the verdict names those that were compared.

    Raises:
        ValueError: ``"learned"`` is missing, or has nothing to be compared with.
    """
    for name, numbers in (("leftover", leftover), ("losses", losses)):
        if "learned" not in numbers or len(numbers) < 2:
            raise ValueError(f"{name} needs 'learned' and another encoding, got {list(numbers)}")
    others = {name: loss for name, loss in losses.items() if name != "learned"}
    best = min(others, key=others.__getitem__)
    missed = ", ".join(f"{name} {share:.2f}" for name, share in leftover.items())
    evidence = f"share of the pattern missed: {missed}"
    if leftover["learned"] > tolerance:
        return Verdict(36, "does not hold: the table misses part of the pattern", evidence)
    if losses["learned"] > others[best] + margin:
        worse = f"{evidence}; at the trained length {best} has the lower loss"
        return Verdict(36, "holds if only expressing is meant: it is not the best choice", worse)
    compared = " nor ".join(others)
    fine = f"{evidence}; at the trained length neither {compared} has a clearly lower loss"
    return Verdict(36, f"holds, compared with {' and '.join(others)} only", fine)


def _runs(run: Callable[[int], object], length: int) -> bool:
    try:
        run(length)
    except IndexError:
        return False
    return True
