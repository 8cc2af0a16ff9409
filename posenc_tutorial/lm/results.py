"""Tables of results: CSV files with a JSON file beside each that says how they were made."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .checkpoint import replace_file

RESULTS = Path(__file__).parent / "results"
"""Where the tables that come with the package are."""


def write_table(path: Path | str, rows: Sequence[Mapping], facts: Mapping) -> None:
    """Write ``<path>`` (CSV) and, beside it, how it was made (JSON).

    Args:
        path: ends in ``.csv``.
        rows: mappings with the same keys in the same order.
        facts: versions, corpus, settings: whatever the numbers depend on.

    Raises:
        ValueError: no rows, or rows with different keys.
    """
    path = Path(path)
    keys = list(rows[0]) if rows else []
    if not keys or any(list(row) != keys for row in rows):
        raise ValueError(f"{path.name}: a table needs rows, all with the same keys, got {keys}")
    text = io.StringIO()
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {k: format(v, ".6g") if isinstance(v, float) else v for k, v in row.items()} for row in rows
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda file: file.write(text.getvalue().encode()))
    told = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
    replace_file(path.with_suffix(".json"), lambda file: file.write(told.encode()))


def read_table(name: Path | str) -> list[dict]:
    """Read a table; numbers come back as numbers.

    Args:
        name: of a table that comes with the package, such as ``"length"``, or a path.

    Raises:
        FileNotFoundError: there is no such table.
    """
    with open(_find(name), newline="", encoding="utf-8") as file:
        return [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(file)]


def read_facts(name: Path | str) -> dict:
    """How a table was made: versions, corpus, settings, seeds.

    Args:
        name: see :func:`read_table`.

    Raises:
        FileNotFoundError: there is no such table.
    """
    return json.loads(_find(name).with_suffix(".json").read_text(encoding="utf-8"))


def mean_and_spread(rows: Iterable[Mapping], by: Sequence[str], value: str) -> list[dict]:
    """Group rows and give the mean and the sample standard deviation of each group.

    Args:
        rows: mappings.
        by: the columns that name a group.
        value: the column to average, usually over seeds.

    Returns:
        One row a group, in the order of their first appearance: the columns ``by``, ``mean``,
        ``std`` (divisor n - 1; nan for a single number) and ``n``.

    Raises:
        KeyError: a column that is not there.
    """
    groups: dict[tuple, list[float]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in by), []).append(float(row[value]))
    summary = []
    for key, numbers in groups.items():
        mean = math.fsum(numbers) / len(numbers)
        squares = math.fsum((x - mean) ** 2 for x in numbers)
        std = math.sqrt(squares / (len(numbers) - 1)) if len(numbers) > 1 else math.nan
        summary.append({**dict(zip(by, key, strict=True)), "mean": mean, "std": std})
        summary[-1]["n"] = len(numbers)
    return summary


def _find(name) -> Path:
    packaged = RESULTS / f"{name}.csv"
    if packaged.is_file():
        return packaged
    if not Path(name).is_file():
        there = ", ".join(sorted(p.stem for p in RESULTS.glob("*.csv")))
        raise FileNotFoundError(f"no table {str(name)!r}; the package has: {there}")
    return Path(name)


def _number(text: str):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
