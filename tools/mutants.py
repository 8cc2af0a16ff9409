"""``make mutants``: put the bugs of the field back, one at a time, and see whether a test notices.

``tests/mutants/README.md`` describes a mutant. Every mutant runs in a process of its own, whose
pytest stops at the first test that notices; before that, all the tests named run once without a
mutant. Where the system can fork, the processes come from a server that has imported PyTorch and
the package already, which saves most of the time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.mutation import load_mutant
from tools.notebooks import ROOT

FOLDER = ROOT / "tests" / "mutants"
JOBS = 2
# Seconds; a mutant may turn a loop into an endless one, which counts as broken.
TIMEOUT = 300


@dataclass(frozen=True)
class Verdict:
    """What happened to one mutant."""

    name: str
    result: str  # "caught", "survived" or "broken"
    detail: str
    log: str = ""


def discover(names: Sequence[str] = ()) -> list[Path]:
    """The mutants named on a command line, or all of them."""
    if names:
        return [Path(name).resolve() for name in names]
    return sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("_"))


def run_pytest(tests: Sequence[str], mutant: Path | None) -> tuple[int, dict, str]:
    """pytest on some tests with a mutant or without; status, report, printed text."""
    method = "forkserver" if hasattr(os, "fork") else "spawn"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["tools.mutants_preload"])
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        report, log = Path(folder) / "report.json", Path(folder) / "log.txt"
        options = ["-q", "-p", "tools.mutation", "-p", "no:cacheprovider", "--color", "no"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        options += ["--mutant-report", str(report)]
        if mutant is not None:
            options += ["--mutant", str(mutant)]
        process = context.Process(target=_pytest_in_child, args=([*options, *tests], str(log)))
        process.start()
        process.join(TIMEOUT)
        if process.is_alive():
            process.kill()
            process.join()
            return -1, {}, f"no end after {TIMEOUT} s"
        found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return process.exitcode or 0, found, text


def _pytest_in_child(options: list[str], log: str) -> None:
    os.chdir(ROOT)
    # Installed plugins cost more time than most of these tests; none of them is needed.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    target = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(target, 1)
    os.dup2(target, 2)
    sys.exit(int(pytest.main(options)))


def judge(path: Path) -> Verdict:
    """Run the tests that should notice one mutant."""
    try:
        tests = list(load_mutant(path).TESTS)
    except Exception as error:  # the file itself is wrong, in whatever way
        return Verdict(path.stem, "broken", f"{type(error).__name__}: {error}")
    status, report, log = run_pytest(tests, path)
    failures = report.get("failures", [])
    counted = [failure for failure in failures if failure["counts"]]
    if counted:
        kinds = "/".join(counted[0]["kinds"])
        return Verdict(path.stem, "caught", f"{counted[0]['test']} ({kinds})", log)
    if failures:
        kinds = "/".join(sorted({kind for failure in failures for kind in failure["kinds"]}))
        return Verdict(path.stem, "broken", f"failed, but by {kinds}, not by an assertion", log)
    if status == 0 and report.get("passed", 0) > 0:
        return Verdict(path.stem, "survived", f"{report['passed']} tests passed", log)
    last = log.strip().splitlines()[-1:] or ["pytest printed nothing"]
    return Verdict(path.stem, "broken", f"pytest exit {status}: {last[0]}", log)


def main(arguments: list[str] | None = None) -> int:
    """Judge all mutants and print a table; 1 unless each is caught."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("mutants", nargs="*", help="default: all in tests/mutants")
    parser.add_argument("--jobs", type=int, default=JOBS, help="mutants at a time")
    parser.add_argument("--verbose", action="store_true", help="show pytest's text of all")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    paths = discover(options.mutants)
    if not paths:
        print("no mutants")
        return 1
    tests: dict[str, None] = {}
    for path in paths:
        try:
            tests.update(dict.fromkeys(load_mutant(path).TESTS))
        except Exception:  # judged as broken below
            continue
    print(f"== the tests without a mutant ({len(tests)} named)", flush=True)
    status, report, log = run_pytest(list(tests), None)
    if status != 0:
        print(log)
        print("these tests fail without a mutant, so they prove nothing with one")
        return 1
    print(f"{report['passed']} passed\n== {len(paths)} mutants", flush=True)
    width = max(len(path.stem) for path in paths)
    verdicts = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for verdict in pool.map(judge, paths):
            verdicts.append(verdict)
            print(f"{verdict.name:{width}}  {verdict.result:8}  {verdict.detail}", flush=True)
            if options.verbose or verdict.result == "broken":
                print(verdict.log)
    for verdict in verdicts:
        if verdict.result != "caught":
            print(f"{verdict.result}: {verdict.name}: {verdict.detail}")
    caught = sum(verdict.result == "caught" for verdict in verdicts)
    print(f"{caught} of {len(verdicts)} mutants caught")
    return 0 if caught == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
