"""The record of a test run: what is in it, when it is complete, and which one reaches the book."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from tools import run_all, run_notebooks, tested
from tools.notebooks import ROOT


def step(**changes):
    return {"title": "a step", "passed": True, "seconds": 1.0, **changes}


def run(name, **changes):
    entry = {"name": name, "kernel": "posenc-cpu", "device": "CPU", "passed": True}
    return {**entry, "cells": 3, "pictures": 1, "seconds": 2.0, **changes}


def made(steps=None, notebooks=None):
    steps = {"unit": step(tests=9, skipped=1), "nbval": step()} if steps is None else steps
    notebooks = [run("02-b"), run("01-a")] if notebooks is None else notebooks
    return tested.make_record(
        steps, notebooks, all_steps=["unit", "nbval"], all_notebooks=["01-a", "02-b"]
    )


def test_a_run_of_everything_that_passes_is_complete():
    record = made()
    assert record["complete"] is True
    assert [entry["name"] for entry in record["notebooks"]] == ["01-a", "02-b"]
    assert record["versions"]["Python"] == platform.python_version()
    assert record["versions"]["torch"]
    assert record["machine"]["cores"] >= 1


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": {"unit": step()}},
        {"steps": {"unit": step(), "nbval": step(passed=False)}},
        {"steps": {"unit": step(tests=4, skipped=4), "nbval": step()}},
        {"notebooks": [run("01-a")]},
        {"notebooks": [run("01-a"), run("02-b", passed=False)]},
        {"notebooks": [run("01-a"), run("02-b"), run("02-b", kernel="gpu", passed=False)]},
    ],
    ids=["step left out", "step failed", "all skipped", "chapter", "failed", "failed on one"],
)
def test_anything_less_is_not(changes):
    assert made(**changes)["complete"] is False


def test_no_name_of_this_machine_is_written_down():
    text = json.dumps(made())
    for name in (platform.node(), str(ROOT), str(Path.home())):
        assert len(name) < 3 or name not in text


def test_a_complete_record_survives_shorter_runs_and_reaches_the_book(tmp_path, capsys):
    out = tmp_path / "book.json"
    assert tested.main([], tmp_path, out) == 1 and not out.exists()
    assert tested.keep(made(), tmp_path).name == "tested.json"
    short = made(notebooks=[run("01-a")])
    assert tested.keep(short, tmp_path).name == "tested-latest.json"
    assert tested.main([], tmp_path, out) == 0
    assert json.loads(out.read_text("utf-8")) == made()
    assert "complete run" in capsys.readouterr().out
    assert tested.main(["--incomplete"], tmp_path, out) == 0
    assert json.loads(out.read_text("utf-8")) == short


def test_tests_are_counted_from_the_report_of_pytest(tmp_path):
    report = tmp_path / "unit.xml"
    report.write_text(
        '<testsuites><testsuite tests="7" skipped="2" hostname="x"/></testsuites>', "utf-8"
    )
    assert tested.counted(report) == {"tests": 7, "skipped": 2}
    assert tested.counted(tmp_path / "none.xml") == {}


def test_the_record_of_a_notebook_has_what_the_page_shows():
    report = {"cells": 12, "pictures": 2, "slowest_cell": "Cell 3"}
    outcome = run_notebooks.Outcome("03-c", True, 4.56, report, "a log")
    assert run_notebooks.recorded([outcome], "posenc-cpu", "CPU") == [
        run("03-c", cells=12, pictures=2, seconds=4.6)
    ]


def test_a_step_says_what_it_counted(tmp_path, monkeypatch):
    code = "import sys, pathlib; pathlib.Path(sys.argv[-1].split('=')[1]).write_text(%r)"
    xml = '<testsuites><testsuite tests="5" skipped="0"/></testsuites>'
    command = [run_all.PYTHON, "-c", code % xml]
    monkeypatch.setitem(run_all.STEPS, "unit", ("unit tests", command))
    found = run_all.run_step("unit", [], tmp_path)
    assert (found["passed"], found["tests"], found["skipped"]) == (True, 5, 0)
    monkeypatch.setitem(run_all.STEPS, "lint", ("lint", [run_all.PYTHON, "-c", "1/0"]))
    found = run_all.run_step("lint", [], tmp_path)
    assert not found["passed"] and "tests" not in found


def test_what_a_run_wrote_down_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tested, "FOLDER", tmp_path)
    (tmp_path / "nbval.json").write_text(json.dumps([run("01-why-positions")]), "utf-8")
    monkeypatch.setattr(run_all, "ROOT", tmp_path)
    run_all.write_down({"nbval": step()}, tmp_path)
    record = json.loads((tmp_path / "tested-latest.json").read_text("utf-8"))
    assert record["notebooks"] == [run("01-why-positions")] and not record["complete"]
