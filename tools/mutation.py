"""A pytest plugin that puts one bug back into the package before any test is collected.

``tests/mutants/README.md`` describes the format of a mutant. Loaded with ``-p tools.mutation``;
without ``--mutant`` it changes nothing and only records how tests failed.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PACKAGE = "posenc_tutorial"
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def replace(module_name: str, attribute: str, new: Any) -> Any:
    """Set an attribute everywhere in the loaded package and return the old object.

    Args:
        module_name: the module that defines the attribute, for example ``posenc_tutorial.rope``.
        attribute: a name in it, or ``Class.method``, which is set on the class.
        new: what to put there.

    Returns:
        The object that was there before.

    Raises:
        AttributeError: the name does not exist.
    """
    module = importlib.import_module(module_name)
    if "." in attribute:
        class_path, name = attribute.rsplit(".", 1)
        owner: Any = module
        for part in class_path.split("."):
            owner = getattr(owner, part)
        getattr(owner, name)  # AttributeError for a name that is not there
        old = owner.__dict__.get(name, getattr(owner, name))
        setattr(owner, name, new)
        return old
    old = getattr(module, attribute)
    setattr(module, attribute, new)
    if isinstance(old, _PLAIN):  # equal numbers are one object in CPython: change the module only
        return old
    for loaded in _loaded_modules():
        for name, value in list(vars(loaded).items()):
            if value is old:
                setattr(loaded, name, new)
            elif type(value) is dict and not name.startswith("__"):
                for key in [key for key, held in value.items() if held is old]:
                    value[key] = new
    return old


def _loaded_modules() -> list[ModuleType]:
    """Every module of the package that is loaded now."""
    return [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType) and (name == PACKAGE or name.startswith(PACKAGE + "."))
    ]


def load_mutant(path: Path) -> ModuleType:
    """Import a mutant's file under a name of its own and check that it has its parts."""
    spec = importlib.util.spec_from_file_location(f"mutant_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    missing = [
        name for name in ("CASE", "DESCRIPTION", "TESTS", "install") if not hasattr(module, name)
    ]
    if missing:
        raise AttributeError(f"{path} has no {', '.join(missing)} (see tests/mutants/README.md)")
    return module


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutation", "one bug put back into the package")
    group.addoption("--mutant", type=Path, help="the mutant's file")
    group.addoption("--mutant-report", type=Path, help="write how each failed test failed (JSON)")


def pytest_configure(config: pytest.Config) -> None:
    recorder = Recorder(config.getoption("--mutant"), config.getoption("--mutant-report"))
    config.pluginmanager.register(recorder, "mutation-recorder")
    if recorder.mutant is not None:
        recorder.mutant.install()


class Recorder:
    """Notes the exception types of failed tests; stops at the first that counts as noticing."""

    def __init__(self, path: Path | None, report: Path | None) -> None:
        self.mutant = load_mutant(path) if path is not None else None
        self.accepted = set(getattr(self.mutant, "RAISES", [])) | {"AssertionError", "Failed"}
        self.report = report
        self.passed = 0
        self.failures: list[dict[str, Any]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]):
        result = yield
        if result.when == "call" and result.passed:
            self.passed += 1
        if result.failed and call.excinfo is not None:
            kinds = sorted(exception_names(call.excinfo.value))
            counts = result.when == "call" and bool(self.accepted & set(kinds))
            self.failures.append(
                {"test": item.nodeid, "when": result.when, "kinds": kinds, "counts": counts}
            )
            if counts and self.mutant is not None:
                item.session.shouldstop = f"{self.mutant.__name__} was noticed"
        return result

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failures.append(
                {"test": report.nodeid, "when": "collect", "kinds": ["collection"], "counts": False}
            )

    def pytest_sessionfinish(self) -> None:
        if self.report is not None:
            outcome = {"passed": self.passed, "failures": self.failures}
            self.report.write_text(json.dumps(outcome), encoding="utf-8")


def exception_names(error: BaseException) -> set[str]:
    """Type names of an exception, its base classes excluded; of a group, those of its members."""
    members = getattr(error, "exceptions", None)
    if members:
        return set().union(*(exception_names(member) for member in members))
    if isinstance(error, AssertionError):
        return {"AssertionError", type(error).__name__}
    return {type(error).__name__}
