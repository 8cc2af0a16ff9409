"""The record of a test run that the page "How this book is tested" shows.

Every ``make test`` (:mod:`tools.run_all`) writes down what it ran, into ``dist/``. A run of all
steps and all notebooks that passed is kept in a file of its own, which no shorter run overwrites.

    python -m tools.tested                # that one becomes book/tested.json, which is committed
    python -m tools.tested --incomplete   # the last run, whatever it was

No names of machines, users or folders are written down.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tools.notebooks import BOOK, ROOT

RECORD = BOOK / "tested.json"
FOLDER = ROOT / "dist"  # make book, which is one of the steps, empties _build
COMPLETE, LATEST = "tested.json", "tested-latest.json"
PROGRAMS = ("torch", "numpy", "matplotlib", "transformers", "jupyter-book", "pytest")


def versions() -> dict[str, str]:
    """Python and the programs that matter, where they are installed."""
    found = {"Python": platform.python_version()}
    for name in PROGRAMS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def counted(report: Path) -> dict[str, int]:
    """How many tests a step of pytest ran and skipped, from its JUnit report."""
    if not report.is_file():
        return {}
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    return {
        "tests": sum(int(suite.get("tests", 0)) for suite in suites),
        "skipped": sum(int(suite.get("skipped", 0)) for suite in suites),
    }


def make_record(
    steps: Mapping[str, Mapping[str, Any]],
    notebooks: Sequence[Mapping[str, Any]],
    *,
    all_steps: Sequence[str],
    all_notebooks: Sequence[str],
) -> dict[str, Any]:
    """What a run has to say about itself.

    Args:
        steps: name to title, passed, seconds and, for steps of pytest, tests and skipped.
        notebooks: one entry for every notebook and kernel.
        all_steps: what a complete run has to consist of; a step whose tests were all skipped
            does not count.
        all_notebooks: names of all chapters.
    """
    ran = {
        name
        for name, step in steps.items()
        if step["passed"] and ("tests" not in step or step["tests"] > step["skipped"])
    }
    passed = {run["name"] for run in notebooks if run["passed"]}
    failed = {run["name"] for run in notebooks if not run["passed"]}
    return {
        "complete": ran >= set(all_steps) and passed >= set(all_notebooks) and not failed,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "version": version("posenc-tutorial"),
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
        },
        "versions": versions(),
        "steps": dict(steps),
        "notebooks": sorted(notebooks, key=lambda run: (run["name"], run["kernel"])),
    }


def keep(record: Mapping[str, Any], folder: Path | None = None) -> Path:
    """Write a record down; one that is complete goes where no other overwrites it."""
    folder = folder or FOLDER
    folder.mkdir(exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (folder / LATEST).write_text(text, encoding="utf-8")
    if not record["complete"]:
        return folder / LATEST
    (folder / COMPLETE).write_text(text, encoding="utf-8")
    return folder / COMPLETE


def main(arguments: list[str] | None = None, folder: Path = FOLDER, out: Path = RECORD) -> int:
    """Copy a record into the book; 1 if there is none."""
    parser = argparse.ArgumentParser(prog="python -m tools.tested", description=__doc__)
    parser.add_argument(
        "--incomplete", action="store_true", help="the last run, even of some steps only"
    )
    source = folder / (LATEST if parser.parse_args(arguments).incomplete else COMPLETE)
    if not source.is_file():
        print("no record of such a run: make test writes one, complete if every step passes")
        return 1
    shutil.copyfile(source, out)
    record = json.loads(out.read_text(encoding="utf-8"))
    extent = "complete" if record["complete"] else "incomplete"
    runs = len(record["notebooks"])
    print(f"{out.name}: {extent} run of {record['date']}, {runs} notebook runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
