"""What the browser tests share: a browser, the built book, and one visit to each of its pages.

Without a browser or without a built book they are skipped, and say why. ``make test`` builds the
book first (``tools/run_all.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools import browser as browser_tools
from tools.browser import SITE, built_pages


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if reason := browser_tools.reason_to_skip():
        pytest.skip(reason)
    with browser_tools.launched() as program:
        yield program


@pytest.fixture(scope="session")
def base() -> str:
    """Where the built book is served."""
    if not built_pages():
        pytest.skip("the book is not built (make book)")
    return browser_tools.serve(SITE)


@pytest.fixture(scope="session")
def visits(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """One visit to every page that a selected test asks about."""
    if reason := browser_tools.reason_to_skip():
        pytest.skip(reason)
    asked = {
        item.callspec.params["page"]
        for item in request.session.items
        if "visits" in getattr(item, "fixturenames", ()) and hasattr(item, "callspec")
    }
    return browser_tools.survey(SITE, sorted(asked))
