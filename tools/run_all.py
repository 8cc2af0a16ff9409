"""``make test``: every check of the repository, one after the other, and a summary at the end.

A step that fails does not stop the others. Steps may be named on the command line, and notebooks,
to which ``check`` and ``nbval`` are then limited.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from tools.notebooks import ROOT

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


def run_step(name: str, notebooks: list[str]) -> tuple[bool, float]:
    """Run one step with its output on the terminal; whether it passed, and its seconds."""
    title, command = STEPS[name]
    print(f"\n== {name}: {title}", flush=True)
    extra = notebooks if name in TAKES_NOTEBOOKS else []
    start = time.perf_counter()
    done = subprocess.run([*command, *extra], cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    return done.returncode == 0, time.perf_counter() - start


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
    results = {name: run_step(name, notebooks) for name in steps}
    print("\n== summary")
    for name, (passed, seconds) in results.items():
        print(f"{name:7} {'passed' if passed else 'FAILED'} {seconds:7.1f} s  {STEPS[name][0]}")
    total = sum(seconds for _, seconds in results.values())
    print(f"{'all':7} {'':6} {total:7.1f} s")
    return 0 if all(passed for passed, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
