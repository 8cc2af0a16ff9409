"""Claims about positional encodings, each decided by a measurement.

The articles that the book follows make claims, and so do many others. A function here takes what
was measured, or the thing to measure, and returns a :class:`Verdict` that depends on it: given a
counter-example it returns another one. One module a chapter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HOLDS = "holds"
HOLDS_IF = "holds if"
FAILS = "does not hold"

KINDS = ("holds", "holds with a condition", "does not hold")
"""What a verdict can come to; the page "Claims, checked" counts these."""


def check_verdict(name: str, verdict: str, evidence: str) -> None:
    """Refuse what is no verdict.

    Raises:
        ValueError: a verdict that begins with neither ``"holds"`` nor ``"does not hold"``, or no
            evidence; the message says whose it is.
    """
    if not verdict.startswith((HOLDS, FAILS)):
        raise ValueError(
            f"{name}: a verdict begins with {HOLDS!r}, {HOLDS_IF!r} or {FAILS!r}, got {verdict!r}"
        )
    if not evidence:
        raise ValueError(f"{name}: a verdict needs evidence")


@dataclass(frozen=True)
class Verdict:
    """What a measurement says about a claim.

    Attributes:
        claim: number of the claim in the book's list, from 1.
        verdict: begins with ``"holds"``, ``"holds if"`` or ``"does not hold"``; a condition or
            a correction may follow.
        evidence: the measured numbers, in a few words.

    Raises:
        ValueError: a verdict that begins otherwise, or no evidence.
    """

    claim: int
    verdict: str
    evidence: str

    def __post_init__(self) -> None:
        check_verdict(f"claim {self.claim}", self.verdict, self.evidence)

    @property
    def kind(self) -> str:
        """One of :data:`KINDS`, read from the words before the first comma or semicolon.

        "holds exactly, but ..." holds; "holds for 8 heads" and "holds if ..." have a condition.
        """
        if self.verdict.startswith(FAILS):
            return KINDS[2]
        start = re.split(r"[,;:]", self.verdict)[0]
        return KINDS[0] if start in (HOLDS, f"{HOLDS} exactly") else KINDS[1]

    def __repr__(self) -> str:
        return f"Claim {self.claim}: {self.verdict}. Evidence: {self.evidence}"


def read_verdicts(text: str) -> list[Verdict]:
    """The verdicts in what a cell printed: the way back from ``repr``.

    Args:
        text: the output of a cell; lines of another form are skipped.
    """
    found = re.findall(r"^Claim (\d+): (.+?)\. Evidence: (.+)$", text, re.MULTILINE)
    return [Verdict(int(claim), verdict, evidence) for claim, verdict, evidence in found]
