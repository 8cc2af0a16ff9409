"""``make test``: every check of the repository, one after the other, and a summary at the end.

A step that fails does not stop the others. Steps may be named on the command line, and notebooks,
to which ``check`` and ``nbval`` are then limited. ``tools/tested.py`` keeps a record of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools import tested
from tools.notebooks import ROOT, chapters

PYTHON = sys.executable
STEPS: dict[str, tuple[str, list[str]]] = {
    "lint": ("style and errors of the code", [PYTHON, "-m", "ruff", "check", "."]),
    "unit": ("unit tests", [PYTHON, "-m", "pytest", "-q", "--ignore=tests/browser"]),
    "check": ("notebooks as stored", [PYTHON, "-m", "tools.check_notebooks"]),
    "nbval": ("notebooks run again", [PYTHON, "-m", "tools.run_notebooks"]),
    "book": ("the book, warnings are errors", [PYTHON, "-m", "tools.build_book"]),
    # After the book, which it opens; without a browser its tests are skipped and say so.
    "browser": ("the book in a browser", [PYTHON, "-m", "pytest", "-q", "-rs", "tests/browser"]),
    # After the book, whose numbers it compares.
    "colab": ("derived notebooks", [PYTHON, "-m", "tools.derive", "--check"]),
}
TAKES_NOTEBOOKS = ("check", "nbval")
RUNS_PYTEST = ("unit", "browser")


def run_step(name: str, notebooks: list[str], reports: Path) -> dict[str, Any]:
    """Run one step with its output on the terminal.

    Args:
        name: of the step.
        notebooks: to which it is limited, where it looks at notebooks.
        reports: folder in which the step leaves what it counted.

    Returns:
        title, passed and seconds; tests and skipped, where the step runs pytest.
    """
    title, command = STEPS[name]
    print(f"\n== {name}: {title}", flush=True)
    extra = list(notebooks) if name in TAKES_NOTEBOOKS else []
    if name in RUNS_PYTEST:
        extra.append(f"--junitxml={reports / name}.xml")
    if name == "nbval":
        extra += ["--record", str(reports / "nbval.json")]
    start = time.perf_counter()
    done = subprocess.run([*command, *extra], cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    seconds = round(time.perf_counter() - start, 1)
    step = {"title": title, "passed": done.returncode == 0, "seconds": seconds}
    return {**step, **tested.counted(reports / f"{name}.xml")}


def write_down(steps: dict[str, dict[str, Any]], reports: Path) -> None:
    """Keep the record of this run."""
    path = reports / "nbval.json"
    runs = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    names = [path.stem for path in chapters()]
    record = tested.make_record(steps, runs, all_steps=list(STEPS), all_notebooks=names)
    print(f"record: {tested.keep(record).relative_to(ROOT)} (python -m tools.tested)")


def main(arguments: list[str] | None = None) -> int:
    """Run the steps and print the summary; 1 when one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.run_all", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"{', '.join(STEPS)}, or notebooks; default: all")
    names = parser.parse_args(arguments).names
    notebooks = [name for name in names if name.endswith(".ipynb")]
    steps = [name for name in names if name not in notebooks] or list(STEPS)
    unknown = [name for name in steps if name not in STEPS]
    if unknown:
        parser.error(f"unknown step {unknown[0]!r}, expected one of {', '.join(STEPS)}")
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    with TemporaryDirectory(prefix="reports-") as folder:
        results = {name: run_step(name, notebooks, Path(folder)) for name in steps}
        print("\n== summary")
        for name, step in results.items():
            result = "passed" if step["passed"] else "FAILED"
            print(f"{name:7} {result} {step['seconds']:7.1f} s  {step['title']}")
        print(f"{'all':7} {'':6} {sum(step['seconds'] for step in results.values()):7.1f} s")
        write_down(results, Path(folder))
    return 0 if all(step["passed"] for step in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
