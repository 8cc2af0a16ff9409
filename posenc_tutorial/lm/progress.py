"""A progress bar of one line, shown only to a person at a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator


def progress(
    steps: Iterable, total: int, *, label: str = "", start: int = 0, stream=None
) -> Iterator:
    """Go through ``steps`` and keep one line on the terminal up to date.

    Args:
        steps: anything that can be iterated over.
        total: the number at which the bar is full.
        label: stands before the bar.
        start: how many of ``total`` are done already (a resumed run).
        stream: default ``sys.stderr``. If it is not a terminal, nothing is written at all.

    Yields:
        The items of ``steps``.
    """
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield from steps
        return
    began = shown = time.monotonic()
    done = start
    for item in steps:
        yield item
        done += 1
        now = time.monotonic()
        if now - shown > 0.2 or done == total:
            shown = now
            left = (now - began) / max(1, done - start) * (total - done)
            filled = 30 * done // max(1, total)
            bar = "#" * filled + "." * (30 - filled)
            stream.write(f"\r{label} [{bar}] {done}/{total}, {left:.0f} s left ")
            stream.flush()
    stream.write("\n")
