"""Is a stored picture the picture that the code draws now?"""

from __future__ import annotations

import base64
import io
import re
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from nbformat import NotebookNode
from PIL import Image

from tools.notebooks import ROOT

# Rounding moves an anti-aliased edge by a few grey levels. Another digit in a label, a curve that
# moved or another colour changes whole pixels.
LEVELS = 48
PIXELS = 12


def pinned_matplotlib() -> str | None:
    """The version in constraints.txt, under which the stored pictures were drawn."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    found = re.search(r"^matplotlib==([^\s;]+)", text, re.MULTILINE)
    return found.group(1) if found else None


def reason_to_skip() -> str | None:
    """Why pictures cannot be compared here, or None when they can be."""
    pinned = pinned_matplotlib()
    try:
        installed = version("matplotlib")
    except PackageNotFoundError:
        installed = "absent"
    if installed == pinned:
        return None
    return f"matplotlib is {installed}, the stored pictures were drawn by {pinned}"


def png_images(outputs: list[NotebookNode]) -> list[bytes]:
    """Every PNG among a cell's outputs, in order."""
    return [
        base64.b64decode(output["data"]["image/png"])
        for output in outputs
        if "image/png" in output.get("data", {})
    ]


def difference(stored: bytes, fresh: bytes) -> str | None:
    """What is different between two PNGs, or None when they are the same but for rounding."""
    old, new = (
        np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"), dtype=np.int16)
        for data in (stored, fresh)
    )
    if old.shape != new.shape:
        sizes = " and ".join(f"{image.shape[1]}x{image.shape[0]}" for image in (old, new))
        return f"stored and fresh picture have sizes {sizes}"
    distance = np.abs(old - new).max(axis=2)
    count = int((distance > LEVELS).sum())
    if count > PIXELS:
        return (
            f"{count} of {distance.size} pixels differ by more than {LEVELS} of 255 levels, "
            f"{PIXELS} may"
        )
    return None


def compare(stored: list[NotebookNode], fresh: list[NotebookNode]) -> str | None:
    """What is different between the pictures of a cell's stored and fresh outputs, or None."""
    old, new = png_images(stored), png_images(fresh)
    if len(old) != len(new):
        return f"{len(old)} pictures are stored, {len(new)} are drawn"
    for number, (left, right) in enumerate(zip(old, new, strict=True), start=1):
        found = difference(left, right)
        if found:
            return f"picture {number}: {found}; if the change is meant, run make refresh"
    return None
