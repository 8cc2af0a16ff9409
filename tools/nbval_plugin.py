"""A pytest plugin for nbval: compares pictures, which nbval leaves out, and writes a report.

Loaded with ``-p tools.nbval_plugin`` by ``tools/run_notebooks.py``, one notebook a session.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tools import pictures


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("notebooks", "what nbval does not do")
    group.addoption("--notebook-report", type=Path, help="write counts and seconds here (JSON)")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NotebookReport(config), "notebook-report")


class NotebookReport:
    """Counts cells and pictures of one session and compares the pictures."""

    def __init__(self, config: pytest.Config) -> None:
        self.path: Path | None = config.getoption("--notebook-report")
        self.skip_reason = pictures.reason_to_skip()
        self.counts = {"cells": 0, "failed": 0, "pictures": 0, "pictures_skipped": 0}
        self.slowest = (0.0, "")
        self.start = time.perf_counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any):
        start = time.perf_counter()
        result = yield  # nbval runs the cell and compares the text; a difference raises here
        seconds = time.perf_counter() - start
        if seconds > self.slowest[0]:
            self.slowest = (seconds, item.name)
        self._compare_pictures(item)
        return result

    def _compare_pictures(self, item: Any) -> None:
        if not hasattr(item, "test_outputs") or not item.options["check"]:
            return
        stored = item.cell.outputs
        number = len(pictures.png_images(stored))
        if self.skip_reason:
            self.counts["pictures_skipped"] += number
            return
        self.counts["pictures"] += number
        found = pictures.compare(stored, item.test_outputs or [])
        if found:
            item.raise_cell_error("Picture is stale", found)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.counts["cells"] += 1
        if report.failed or getattr(report, "wasxfail", None):
            self.counts["failed"] += 1

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self.path is None:
            return
        content = {
            **self.counts,
            "seconds": time.perf_counter() - self.start,
            "slowest_seconds": self.slowest[0],
            "slowest_cell": self.slowest[1],
            "skip_reason": self.skip_reason,
            "exit_status": int(exitstatus),
        }
        self.path.write_text(json.dumps(content), encoding="utf-8")
