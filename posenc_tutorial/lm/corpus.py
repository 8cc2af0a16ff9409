"""Text to learn from, as bytes: Python's own standard library, or any folder."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from dataclasses import dataclass, replace
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

    @property
    def sha256(self) -> str:
        """Hash of the training bytes followed by the held-out bytes."""
        digest = hashlib.sha256(self.train.numpy().tobytes())
        digest.update(self.held_out.numpy().tobytes())
        return digest.hexdigest()

    def facts(self) -> dict:
        """What a result made from this corpus has to record."""
        return {
            "description": self.description,
            "train_bytes": len(self.train),
            "held_out_bytes": len(self.held_out),
            "sha256": self.sha256,
        }


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
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(
        path
        for path in root.rglob("*.py")
        if not _LEFT_OUT.intersection(path.relative_to(root).parts)
        and path.stat().st_size >= min_bytes
    )
    python = ".".join(str(part) for part in sys.version_info[:3])
    kind = "source files in the standard library"
    return _split(files, held_out_every, f"standard library of Python {python}", kind)


def folder_corpus(
    folder: Path | str,
    *,
    pattern: str = "*.txt",
    held_out_every: int = 10,
    min_bytes: int = 1,
) -> Corpus:
    """Read the files of a folder and all folders below it, in the order of their paths.

    Args:
        folder: any folder.
        pattern: which files; ``"*"`` for all. They are read as bytes, whatever they hold.
        held_out_every: every so many-th file is held out, from the first.
        min_bytes: shorter files are skipped.

    Returns:
        The corpus.

    Raises:
        ValueError: ``held_out_every`` below 2; a pattern that is empty or not relative.
        FileNotFoundError: no such folder, or fewer than ``held_out_every`` files.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder")
    if not pattern or Path(pattern).anchor:
        raise ValueError(
            f"pattern must be relative to the folder, such as '*.txt', got {pattern!r}"
        )
    files = sorted(
        path
        for path in folder.rglob(pattern)
        if path.is_file() and path.stat().st_size >= max(1, min_bytes)
    )
    kind = f"files {pattern} of {max(1, min_bytes)} bytes or more in {folder}"
    return _split(files, held_out_every, f"folder {folder.resolve().name}", kind)


def _split(files: list[Path], held_out_every: int, name: str, kind: str) -> Corpus:
    if held_out_every < 2:
        raise ValueError(f"held_out_every must be >= 2, got {held_out_every}")
    if len(files) < held_out_every:
        raise FileNotFoundError(
            f"only {len(files)} {kind}; {held_out_every} are needed to hold one of them out"
        )
    held = b"".join(path.read_bytes() for path in files[::held_out_every])
    rest = b"".join(p.read_bytes() for i, p in enumerate(files) if i % held_out_every)
    digest = hashlib.sha256(rest + held).hexdigest()[:12]
    return Corpus(
        train=torch.frombuffer(bytearray(rest), dtype=torch.uint8),
        held_out=torch.frombuffer(bytearray(held), dtype=torch.uint8),
        description=(
            f"{name}: {len(rest)} bytes to train on, {len(held)} held out, sha256 {digest}"
        ),
    )


def copy_corpus(
    source: Corpus, *, num_bytes: int = 2_000_000, size: int = 12, reach: int = 48, seed: int = 0
) -> Corpus:
    """A corpus in which looking back pays: random letters, some text, the same letters again.

    Args:
        source: where the text between the letters and their copy comes from.
        num_bytes: at least so many training bytes; a tenth as many are held out.
        size: number of letters.
        reach: the largest distance from a letter to its copy; the smallest is ``size``.
        seed: decides letters, texts and distances.

    Returns:
        The corpus. A window of the training length shows a copy whole if ``reach + size`` is less.

    Raises:
        ValueError: a size or a reach out of range.
    """
    if size < 1 or reach < size or num_bytes < 1:
        raise ValueError(
            "size and num_bytes must be >= 1 and reach >= size, "
            f"got {size}, {num_bytes} and {reach}"
        )
    generator = torch.Generator().manual_seed(seed)

    def stream(text: torch.Tensor, enough: int) -> torch.Tensor:
        pieces, total = [], 0
        newline = torch.tensor([10], dtype=torch.uint8)
        while total < enough:
            letters = torch.randint(97, 123, (size,), generator=generator, dtype=torch.uint8)
            gap = int(torch.randint(reach - size + 1, (1,), generator=generator))
            start = int(torch.randint(len(text) - gap, (1,), generator=generator))
            pieces += [letters, text[start : start + gap], letters, newline]
            total += 2 * size + gap + 1
        return torch.cat(pieces)

    made = Corpus(stream(source.train, num_bytes), stream(source.held_out, num_bytes // 10), "")
    return replace(
        made,
        description=(
            f"copies of {size} letters within {reach} bytes, seed {seed}: {len(made.train)} bytes "
            f"to train on, {len(made.held_out)} held out, sha256 {made.sha256[:12]}; "
            f"text from: {source.description}"
        ),
    )
