"""A pytest plugin that writes down which verdicts the tests of the claims have looked at.

Loaded with ``-p tools.claims_plugin`` by ``tests/test_claims_flip.py``. A verdict counts once the
file of a test reads it; that a function returned it is not enough.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from posenc_tutorial import claims

seen: set[tuple[str, int, str]] = set()  # module.function, number of the claim, kind


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("claims", "which verdicts were looked at")
    group.addoption("--verdicts", type=Path, help="write them here (JSON)")


def pytest_configure(config: pytest.Config) -> None:
    made = claims.Verdict.__post_init__

    def note_the_maker(self: claims.Verdict) -> None:
        made(self)
        object.__setattr__(self, "made_by", public_function(sys._getframe(1)))

    def note_the_reader(self: claims.Verdict, name: str) -> Any:
        reader = Path(sys._getframe(1).f_code.co_filename).name
        if name in ("verdict", "kind") and reader.startswith("test_"):
            own = object.__getattribute__
            seen.add((own(self, "made_by"), own(self, "claim"), own(self, "kind")))
        return object.__getattribute__(self, name)

    claims.Verdict.__post_init__ = note_the_maker
    claims.Verdict.__getattribute__ = note_the_reader


def public_function(frame: FrameType | None) -> str:
    """The outermost function of a chapter's claims on the way to ``frame``, or ""."""
    found = ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("posenc_tutorial.claims.ch"):
            found = f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back
    return found


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--verdicts")
    if path is not None:
        path.write_text(json.dumps(sorted(seen)), encoding="utf-8")
