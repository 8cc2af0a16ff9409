"""Run every notebook again and compare each output with the stored one.

nbval does it, strictly: one fresh kernel a notebook, the notebook alone in an empty folder, a
limit for every cell. Always on the kernel ``posenc-cpu``; on ``posenc-gpu`` too where CUDA is
present, and named as skipped where it is not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.notebooks import (
    CELL_TIMEOUT,
    CHAPTER_LIMIT,
    CPU_KERNEL,
    GPU_KERNEL,
    JOBS,
    ROOT,
    chapters,
    kernel_environment,
    warm_up,
)


@dataclass(frozen=True)
class Outcome:
    """How one notebook went."""

    name: str
    passed: bool
    seconds: float
    report: dict[str, Any]
    log: str


def run_notebook(path: Path, kernel: str, *, timeout: float = CELL_TIMEOUT) -> Outcome:
    """nbval on one notebook, in a pytest of its own.

    Args:
        path: the notebook; a copy of it runs, alone in an empty folder.
        kernel: name of the Jupyter kernel.
        timeout: seconds that a cell may take.

    Returns:
        The outcome; ``log`` is what pytest printed.
    """
    start = time.perf_counter()
    with kernel_environment() as (work, environment):
        copy = work / path.name
        shutil.copyfile(path, copy)
        report = work.parent / "report.json"
        command = [sys.executable, "-m", "pytest", "-p", "tools.nbval_plugin"]
        # The configuration of the repository's own tests must not apply here.
        command += ["-c", os.devnull, "--rootdir", str(work), "-p", "no:cacheprovider", "-q"]
        command += ["--nbval", "--nbval-kernel-name", kernel, "--color", "no", "--no-header"]
        command += ["--nbval-cell-timeout", str(timeout), "--notebook-report", str(report)]
        done = subprocess.run(
            [*command, str(copy)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
        log = done.stdout
        for prefix in (os.path.relpath(work, ROOT), str(work)):
            log = log.replace(prefix + os.sep, "")
    passed = done.returncode == 0 and found.get("cells", 0) > 0 and found.get("failed") == 0
    return Outcome(path.stem, passed, time.perf_counter() - start, found, log)


def run_all(paths: Sequence[Path], kernel: str, *, jobs: int = JOBS) -> list[Outcome]:
    """Run notebooks, some at a time; print a line for each and the log of each that fails."""

    def run_one(path: Path) -> Outcome:
        outcome = run_notebook(path, kernel)
        line = f"{kernel} {outcome.name}: {'passed' if outcome.passed else 'FAILED'}"
        print(f"{line} in {outcome.seconds:.1f} s", flush=True)
        if not outcome.passed:
            print(outcome.log, flush=True)
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run_one, paths))


def table(outcomes: Sequence[Outcome], kernel: str, seconds: float) -> str:
    """Cells, pictures and seconds of each notebook, as text."""
    width = max([len(outcome.name) for outcome in outcomes] + [8])
    lines = [f"{kernel:{width}}  cells  pictures  seconds  slowest cell"]
    for outcome in outcomes:
        report = outcome.report
        slow = f"{report.get('slowest_cell', '-')} ({report.get('slowest_seconds', 0):.1f} s)"
        line = (
            f"{outcome.name:{width}}  {report.get('cells', 0):5}  {report.get('pictures', 0):8}"
            f"  {outcome.seconds:7.1f}  {slow}"
        )
        if not outcome.passed:
            line += "  FAILED"
        if outcome.seconds > CHAPTER_LIMIT:
            line += f"  over the {CHAPTER_LIMIT} s that a chapter may take on two idle cores"
        lines.append(line)
    total = sum(outcome.seconds for outcome in outcomes)
    lines.append(f"{'together':{width}}  {'':15}  {total:7.1f}  ({seconds:.1f} s on the clock)")
    for reason in sorted({outcome.report.get("skip_reason") or "" for outcome in outcomes} - {""}):
        count = sum(outcome.report.get("pictures_skipped", 0) for outcome in outcomes)
        lines.append(f"pictures: {count} comparisons skipped, {reason}")
    return "\n".join(lines)


def recorded(outcomes: Sequence[Outcome], kernel: str, device: str) -> list[dict[str, Any]]:
    """What ``tools/tested.py`` keeps of a run: one entry a notebook."""
    return [
        {
            "name": outcome.name,
            "kernel": kernel,
            "device": device,
            "passed": outcome.passed,
            "cells": outcome.report.get("cells", 0),
            "pictures": outcome.report.get("pictures", 0),
            "seconds": round(outcome.seconds, 1),
        }
        for outcome in outcomes
    ]


def cuda_name() -> str:
    """What the first CUDA device is called, asked in another process."""
    code = "import torch; print(torch.cuda.get_device_name())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def cuda_is_available() -> bool:
    """Whether PyTorch sees a CUDA device, asked in another process so that none is held here."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def main(arguments: list[str] | None = None) -> int:
    """Run the notebooks on every kernel this machine has; 1 when one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.run_notebooks", description=__doc__)
    parser.add_argument("notebooks", nargs="*", help="default: all in book/")
    parser.add_argument("--jobs", type=int, default=JOBS, help="notebooks at a time (CPU)")
    parser.add_argument("--record", type=Path, help="write what was run here (JSON)")
    options = parser.parse_args(arguments)
    paths = chapters(options.notebooks)
    if not paths:
        print("no notebooks in book/")
        return 0
    warm_up()
    summary, runs, passed = [], [], True
    kernels = [(CPU_KERNEL, options.jobs)]
    if cuda_is_available():
        kernels.append((GPU_KERNEL, 1))
    else:
        names = ", ".join(path.stem for path in paths)
        summary.append(f"GPU kernel {GPU_KERNEL}: skipped, no CUDA device: {names}")
    for kernel, jobs in kernels:
        start = time.perf_counter()
        outcomes = run_all(paths, kernel, jobs=jobs)
        passed = passed and all(outcome.passed for outcome in outcomes)
        summary.append(table(outcomes, kernel, time.perf_counter() - start))
        if options.record:
            device = "CPU" if kernel == CPU_KERNEL else cuda_name()
            runs += recorded(outcomes, kernel, device)
    if options.record:
        options.record.write_text(json.dumps(runs), encoding="utf-8")
    print("\n" + "\n\n".join(reversed(summary)), flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
