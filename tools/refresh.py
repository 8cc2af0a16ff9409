"""``make refresh``: execute notebooks again and store their outputs in normal form.

Each notebook runs from top to bottom in a fresh ``posenc-cpu`` kernel whose working directory is
empty. Nothing is written when a cell fails. With ``--no-execute`` the stored outputs stay and only
the form is renewed, which is enough after a change of the prose. Then the derived edition of every
chapter is renewed (``tools/derive.py``), since a new figure here may be another number there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tools import check_notebooks, derive
from tools.notebooks import (
    BOOK,
    CELL_TIMEOUT,
    CPU_KERNEL,
    chapters,
    kernel_environment,
    normalise,
    read,
    shown,
    text_of,
    warm_up,
)


def execute(path: Path, *, kernel: str = CPU_KERNEL) -> nbformat.NotebookNode:
    """Run a notebook and return it with fresh outputs, not yet normalised.

    Raises:
        CellExecutionError: a cell raised an exception, tagged as expected or not.
    """
    notebook = nbformat.convert(read(path), 4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    with kernel_environment() as (work, environment):
        client = NotebookClient(
            notebook,
            kernel_name=kernel,
            timeout=CELL_TIMEOUT,
            record_timing=False,
            allow_errors=False,
            resources={"metadata": {"path": str(work)}},
        )
        # What the kernel process itself writes to its terminal is no output of a cell.
        client.execute(env=environment, stderr=subprocess.DEVNULL)
    for index, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                message = f"cell {index} ends in {output.ename}: {output.evalue}"
                raise CellExecutionError(message, output.ename, output.evalue)
    return notebook


def main(arguments: list[str] | None = None, *, kernel: str = CPU_KERNEL) -> int:
    """Refresh the notebooks; 1 when one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.refresh", description=__doc__)
    parser.add_argument("notebooks", nargs="*", help="default: all in book/")
    parser.add_argument("--no-execute", action="store_true", help="renew the form only")
    options = parser.parse_args(arguments)
    paths = chapters(options.notebooks)
    if not options.no_execute:
        warm_up()
    failed = []
    for path in paths:
        print(f"{shown(path)}: ", end="", flush=True)
        start = time.perf_counter()
        try:
            notebook = read(path) if options.no_execute else execute(path, kernel=kernel)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            print(f"FAILED, nothing written\n{error}")
            failed.append(path)
            continue
        before = path.read_text(encoding="utf-8")
        after = text_of(normalise(notebook))
        if after != before:
            # Written beside and moved, so that an interruption never leaves half a notebook.
            draft = path.with_suffix(".ipynb.new")
            draft.write_text(after, encoding="utf-8")
            os.replace(draft, path)
        seconds = time.perf_counter() - start
        print(f"{'changed' if after != before else 'same'}, {seconds:.1f} s")
        for finding in check_notebooks.check_notebook(path):
            print(f"  to do: {finding}")
    if failed:
        print(f"failed: {', '.join(shown(path) for path in failed)}")
    underived = any(path.parent == BOOK for path in paths) and derive.main([])
    return 1 if failed or underived else 0


if __name__ == "__main__":
    sys.exit(main())
