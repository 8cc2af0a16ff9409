"""The mutant runner tells a noticed bug from a survivor and from a mutant that is itself wrong."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from tools import mutants, mutation

# The bug is put into a small module of the standard library, which costs no import of torch.
TESTS = """
import pytest
from calendar import isleap


def test_value():
    assert isleap(2024)


def test_error():
    with pytest.raises(TypeError):
        isleap("a year")
"""

MUTANT = """
from tools.mutation import replace

CASE = "https://example.org/issues/1"
DESCRIPTION = "a small bug"
TESTS = {tests!r}
{more}

def install():
    import calendar
    correct = calendar.isleap

    def mutant(year):
        {body}

    replace("calendar", "isleap", mutant)
"""


def write_mutant(folder: Path, body: str, *, test: str = "", more: str = "") -> Path:
    tests = folder / "test_small.py"
    tests.write_text(TESTS, encoding="utf-8")
    path = folder / "a_mutant.py"
    named = [str(tests) + test]
    path.write_text(MUTANT.format(tests=named, body=body, more=more), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("body", "more", "result", "detail"),
    [
        ("return not correct(year)", "", "caught", "test_value (AssertionError)"),
        ("return True", "", "caught", "test_error (Failed)"),
        ("return correct(year)", "", "survived", "2 tests passed"),
        ("return year.leap", "", "broken", "by AttributeError, not by an assertion"),
        ("return year.leap", 'RAISES = ["AttributeError"]', "caught", "AttributeError"),
    ],
    ids=["wrong value", "no error", "no change", "crash", "expected crash"],
)
def test_verdicts(tmp_path, body, more, result, detail):
    verdict = mutants.judge(write_mutant(tmp_path, body, more=more))
    assert verdict.result == result, verdict.log
    assert detail in verdict.detail


def test_a_mutant_whose_tests_do_not_exist_is_broken(tmp_path):
    path = write_mutant(tmp_path, "return correct(year)", test="::test_of_another_name")
    assert mutants.judge(path).result == "broken"


def test_a_mutant_without_its_parts_is_broken(tmp_path):
    path = tmp_path / "half.py"
    path.write_text("CASE = DESCRIPTION = ''\n", encoding="utf-8")
    verdict = mutants.judge(path)
    assert verdict.result == "broken"
    assert "TESTS, install" in verdict.detail


def test_a_survivor_fails_the_run(tmp_path, capsys):
    assert mutants.main([str(write_mutant(tmp_path, "return correct(year)"))]) == 1
    assert "0 of 1 mutants caught" in capsys.readouterr().out


@pytest.fixture
def package(monkeypatch):
    """Two modules of the package: the second imported a name from the first."""
    first = types.ModuleType("posenc_tutorial.first_of_two")
    second = types.ModuleType("posenc_tutorial.second_of_two")

    def function():
        return 1

    class Thing:
        def method(self):
            return 1

    first.function, first.Thing, first.NUMBER = function, Thing, 3
    second.function, second.OTHER, second.TABLE = function, 3, {"f": function, "g": len}
    for module in (first, second):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return first, second


def test_replace_reaches_every_importer(package):
    first, second = package

    def new():
        return 2

    old = mutation.replace(first.__name__, "function", new)
    assert old() == 1
    assert (first.function, second.function, second.TABLE) == (new, new, {"f": new, "g": len})


def test_replace_sets_methods_on_the_class_and_numbers_in_one_module(package):
    first, second = package
    mutation.replace(first.__name__, "Thing.method", lambda self: 2)
    assert first.Thing().method() == 2
    mutation.replace(first.__name__, "NUMBER", 4)
    assert (first.NUMBER, second.OTHER) == (4, 3)


@pytest.mark.parametrize("name", ["functoin", "Thing.metod", "Thnig.method"])
def test_replace_of_a_name_that_does_not_exist_is_an_error(package, name):
    with pytest.raises(AttributeError):
        mutation.replace(package[0].__name__, name, None)


def test_every_mutant_of_the_repository_has_its_parts():
    for path in mutants.discover():
        module = mutation.load_mutant(path)
        cases = [module.CASE] if isinstance(module.CASE, str) else module.CASE
        assert all(case.startswith("https://") for case in cases), path
        assert "\n" not in module.DESCRIPTION, path
        for test in module.TESTS:
            assert (mutants.ROOT / test.split("::")[0]).exists(), (path, test)
