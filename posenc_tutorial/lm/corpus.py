"""Text that is on every machine: the sources of Python's own standard library, as bytes."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import torch

# Not running text: tests repeat themselves, encodings and topics are tables.
_LEFT_OUT = {
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idlelib",
    "lib2to3",
    "encodings",
    "pydoc_data",
    "__pycache__",
}


@dataclass(frozen=True)
class Corpus:
    """Training bytes and held-out bytes.

    Attributes:
        train: ``(n,)``, uint8.
        held_out: ``(m,)``, uint8, from other files.
        description: sizes, hash and Python version. The standard library differs between Python
            releases, so every result from it must name them.
    """

    train: torch.Tensor
    held_out: torch.Tensor
    description: str


def standard_library_corpus(*, held_out_every: int = 10, min_bytes: int = 2000) -> Corpus:
    """Read the standard library's ``*.py`` files in the order of their paths.

    Args:
        held_out_every: every so many-th file is held out.
        min_bytes: shorter files are skipped.

    Returns:
        The corpus; about 8 million training bytes and 1 million held out for Python 3.11.

    Raises:
        ValueError: ``held_out_every`` below 2.
        FileNotFoundError: a Python without its library's sources.
    """
    if held_out_every < 2:
        raise ValueError(f"held_out_every must be >= 2, got {held_out_every}")
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(
        path
        for path in root.rglob("*.py")
        if not _LEFT_OUT.intersection(path.relative_to(root).parts)
        and path.stat().st_size >= min_bytes
    )
    if len(files) < held_out_every:
        raise FileNotFoundError(f"only {len(files)} source files in the standard library")
    held = b"".join(path.read_bytes() for path in files[::held_out_every])
    rest = b"".join(p.read_bytes() for i, p in enumerate(files) if i % held_out_every)
    digest = hashlib.sha256(rest + held).hexdigest()[:12]
    python = ".".join(str(part) for part in sys.version_info[:3])
    return Corpus(
        train=torch.frombuffer(bytearray(rest), dtype=torch.uint8),
        held_out=torch.frombuffer(bytearray(held), dtype=torch.uint8),
        description=(
            f"standard library of Python {python}: {len(rest)} bytes to train on, "
            f"{len(held)} held out, sha256 {digest}"
        ),
    )
