"""The stored results of ``make bench``: what chapter 12 draws.

Timings belong to a machine, so that a page cannot print its own: it shows these, which say where
they come from.
"""

from __future__ import annotations

import csv
from importlib import resources


def measured(part: str, **wanted: object) -> list[dict[str, str]]:
    """Rows of the stored benchmark.

    Args:
        part: ``"machine"``, ``"rope forward"``, ``"rope forward+backward"``,
            ``"attention forward"``, ``"attention forward+backward"`` or ``"share of a layer"``.
        wanted: columns and the values that they must have, for example ``n=2048``.

    Returns:
        One dictionary of texts a row.

    Raises:
        ValueError: there is no such row.
    """
    path = resources.files("posenc_tutorial.kernels") / "measured.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    wanted = {"part": part, **wanted}
    found = [row for row in rows if all(row[key] == str(value) for key, value in wanted.items())]
    if not found:
        raise ValueError(f"the stored benchmark has no row with {wanted}")
    return found
