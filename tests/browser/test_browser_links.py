"""Every link inside the built book, and from the derived notebooks into it, leads somewhere."""

from __future__ import annotations

import pytest

from tools.book_numbers import repository
from tools.browser import SITE, built_pages
from tools.check_links import derived, inside

pytestmark = pytest.mark.skipif(not built_pages(), reason="the book is not built (make book)")


def test_links_of_the_book_lead_to_a_page_and_a_place_in_it():
    assert inside(SITE, repository().site) == []


def test_links_of_the_derived_notebooks_lead_to_a_page_and_a_place_in_it():
    assert derived(SITE, repository().site) == []
