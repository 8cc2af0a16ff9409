"""What the notebook tools share: where notebooks are, how they run, and their normal form.

A notebook in the repository is in *normal form*: executed once from top to bottom, with stable
cell ids, no timestamps, no versions, and pictures without metadata, so that a change of one line
is a difference of one line. ``normalise`` makes that form; running it twice changes nothing.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"

CPU_KERNEL = "posenc-cpu"
GPU_KERNEL = "posenc-gpu"

# Two notebooks at a time with one thread each: measured against one at a time with two threads
# (CONTRIBUTING.md has the numbers). Refreshing uses the same number of threads, since a sum over
# another number of threads may differ in its last digit.
THREADS = 1
JOBS = 2

# Seconds. A chapter should take 45 in all and 90 at most, so a cell that reaches this limit
# hangs; a limit near the usual time would fail on a busy machine.
CELL_TIMEOUT = 300
CHAPTER_LIMIT = 90

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE_INFO = {"name": "python"}
NOTEBOOK_METADATA = ("myst",)
CELL_METADATA = ("mystnb", "nbgrader", "tags")
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Everything a decoder needs; what is left out is text, dates and physical size.
PNG_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"sRGB", b"gAMA", b"IDAT", b"IEND")


def chapters(names: Iterable[str] = ()) -> list[Path]:
    """The notebooks named on a command line, or all in ``book/`` in the order of their names."""
    named = [Path(name).resolve() for name in names]
    for path in named:
        if path.suffix != ".ipynb" or not path.is_file():
            raise SystemExit(f"error: {path} is not a notebook")
    return named or sorted(BOOK.glob("*.ipynb"))


def shown(path: Path) -> str:
    """A path as people type it: relative to the repository where it lies inside."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


@contextmanager
def kernel_environment() -> Iterator[tuple[Path, dict[str, str]]]:
    """An empty working directory for one notebook, and the environment its kernel runs in.

    IPython's own folder is a new one too: a profile of the user's must not change an output,
    and two kernels at a time must not wait for one history file.
    """
    with TemporaryDirectory(prefix="notebook-") as folder:
        work = Path(folder) / "work"
        work.mkdir()
        environment = dict(os.environ)
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[name] = str(THREADS)
        environment["IPYTHONDIR"] = str(Path(folder) / "ipython")
        yield work, environment


def warm_up() -> None:
    """Let matplotlib build its font cache now: the first notebook would print a warning."""
    command = [sys.executable, "-c", "import matplotlib.font_manager"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read(path: Path) -> NotebookNode:
    """A notebook as it is stored, without repairs."""
    return nbformat.reads(path.read_text(encoding="utf-8"), as_version=nbformat.NO_CONVERT)


def text_of(notebook: NotebookNode) -> str:
    """The text of the file that holds this notebook."""
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT) + "\n"


def cell_ids(cells: Iterable[NotebookNode]) -> list[str]:
    """Ids that depend on type and source alone; a repeated cell gets ``-2``, ``-3``, ..."""
    seen: dict[str, int] = {}
    ids = []
    for cell in cells:
        content = f"{cell.cell_type}\n{cell.source.rstrip()}".encode()
        name = hashlib.sha256(content).hexdigest()[:8]
        seen[name] = seen.get(name, 0) + 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return ids


def strip_png(data: bytes) -> bytes:
    """A PNG without the chunks that say which software made it, and when.

    Raises:
        ValueError: the data is not a PNG.
    """
    if not data.startswith(PNG_SIGNATURE):
        raise ValueError(f"not a PNG: it starts with {data[:8]!r}")
    kept = [PNG_SIGNATURE]
    offset = len(PNG_SIGNATURE)
    while offset < len(data):
        (length,) = struct.unpack_from(">I", data, offset)
        end = offset + 12 + length
        if data[offset + 4 : offset + 8] in PNG_CHUNKS:
            kept.append(data[offset:end])
        offset = end
    return b"".join(kept)


def normalise(notebook: NotebookNode) -> NotebookNode:
    """The normal form of an executed notebook, as a new object."""
    result = nbformat.from_dict(notebook)
    result.nbformat, result.nbformat_minor = 4, 5
    metadata = {key: result.metadata[key] for key in NOTEBOOK_METADATA if key in result.metadata}
    result.metadata = nbformat.from_dict(
        {**metadata, "kernelspec": dict(KERNELSPEC), "language_info": dict(LANGUAGE_INFO)}
    )
    count = 0
    for cell in result.cells:
        cell.source = cell.source.rstrip()
        cell.pop("attachments", None)
        cell.metadata = nbformat.from_dict(
            {key: cell.metadata[key] for key in CELL_METADATA if cell.metadata.get(key)}
        )
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = _normal_outputs(cell.outputs, count)
            for output in cell.outputs:
                # An explorer brings the text of its still picture; a page reads it off the cell.
                if alt := output.get("metadata", {}).get("image/png", {}).get("alt"):
                    cell.metadata["mystnb"] = nbformat.from_dict({"image": {"alt": alt}})
    for cell, name in zip(result.cells, cell_ids(result.cells), strict=True):
        cell.id = name
    return result


def _normal_outputs(outputs: list[NotebookNode], count: int) -> list[NotebookNode]:
    merged: list[NotebookNode] = []
    for output in outputs:
        if (
            output.output_type == "stream"
            and merged
            and merged[-1].output_type == "stream"
            and merged[-1].name == output.name
        ):
            merged[-1].text += output.text
            continue
        if output.output_type == "execute_result":
            output.execution_count = count
        if "image/png" in output.get("data", {}):
            png = strip_png(base64.b64decode(output.data["image/png"]))
            data = {"image/png": base64.b64encode(png).decode()}
            for kind in ("text/html", "text/plain"):  # an explorer has all three
                if kind in output.data:
                    data[kind] = output.data[kind]
            alt = output.get("metadata", {}).get("image/png", {}).get("alt")
            output.data = nbformat.from_dict(data)
            output.metadata = nbformat.from_dict({"image/png": {"alt": alt}} if alt else {})
        merged.append(output)
    return merged


def printed(cell: NotebookNode) -> str:
    """Everything that a stored cell printed, pictures left out."""
    texts = []
    for output in cell.get("outputs", []):
        text = "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
        if not text.startswith("<Figure size"):
            texts.append(text)
    return "\n".join(texts)
