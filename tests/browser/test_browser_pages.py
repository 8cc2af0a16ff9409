"""Every page of the built book, as a browser sees it: light and dark, wide and narrow."""

from __future__ import annotations

import re

import pytest

from tools.browser import SCHEMES, SITE, WIDTHS, built_pages, opened
from tools.notebooks import ROOT

PAGES = built_pages()
CHAPTERS = [page for page in PAGES if re.match(r"\d\d-", page)]
MEGABYTE = 1_000_000

every_page = pytest.mark.parametrize("page", PAGES)
every_chapter = pytest.mark.parametrize("page", CHAPTERS)


@every_page
def test_nothing_fails_and_nothing_is_wider_than_the_page(page, visits):
    seen = visits[page]["problems"]
    assert len(seen) == len(SCHEMES) * len(WIDTHS)
    assert {where: found for where, found in seen.items() if found} == {}


@every_page
def test_axe_finds_nothing(page, visits):
    seen = visits[page]["axe"]
    assert len(seen) == len(SCHEMES) * len(WIDTHS)
    assert {where: found for where, found in seen.items() if found} == {}


@every_page
def test_a_page_is_light(page, visits):
    weight = visits[page]["weight"]
    assert weight["raw"] <= 2.8 * MEGABYTE
    assert weight["gzip"] <= 1.5 * MEGABYTE
    assert weight["figures"] <= 1.0 * MEGABYTE


@every_chapter
def test_chapters_have_formulas_and_they_are_typeset(page, visits):
    # That each is typeset and none is an error box is part of the first test.
    assert visits[page]["formulas"] >= 10


@every_chapter
def test_the_colab_link_opens_the_derived_notebook(page, chromium, base):
    with opened(chromium, base, page) as (tab, _):
        links = tab.locator('a[href^="https://colab.research.google.com"]')
        targets = {links.nth(i).get_attribute("href") for i in range(links.count())}
        assert len(targets) == 1, "one notebook a page"
        path = targets.pop().split("/blob/main/")[1]
        assert path == f"book/colab/{page}.ipynb"
        assert (ROOT / path).is_file()


@every_chapter
def test_questions_open_with_the_keyboard_and_answer(page, chromium, base):
    with opened(chromium, base, page, width=390) as (tab, _):
        choices = tab.locator(".posenc-quiz details")
        if not choices.count():
            pytest.skip("no questions on this page")
        right = tab.locator(".posenc-quiz details.posenc-right").count()
        assert right == tab.locator(".posenc-quiz .posenc-question").count()
        for i in (0, choices.count() - 1):
            choice = choices.nth(i)
            assert not choice.locator("p").is_visible()
            choice.locator("summary").focus()
            tab.keyboard.press("Enter")
            assert choice.locator("p").is_visible()
            said = "Right." if "posenc-right" in choice.get_attribute("class") else "Wrong."
            assert said in choice.locator("p strong").text_content()
            tab.keyboard.press("Space")
            assert not choice.locator("p").is_visible()


@pytest.mark.parametrize("page", [page for page in ("index", *CHAPTERS[-1:]) if page in PAGES])
def test_pages_open_from_the_file_system(page, chromium):
    with opened(chromium, f"{SITE.as_uri()}/", page) as (tab, record):
        assert record["foreign"] == record["failed"] == record["console"] == []
        formulas = tab.locator(".math").count()
        assert tab.locator(".math mjx-container").count() >= formulas


@pytest.mark.skipif(not PAGES, reason="the book is not built (make book)")
@pytest.mark.parametrize("words", ["rotate_half", "YaRN", "KV cache", "token"])
def test_the_search_finds(words, chromium, base):
    with opened(chromium, base, "search") as (tab, record):
        tab.goto(f"{base}search.html?q={words.replace(' ', '+')}")
        tab.locator("#search-results .search-summary", has_text="finished").wait_for()
        assert tab.locator("#search-results .search li a").count() > 1
        # Each thing found says in words what it is: index entries too, which mark an empty place.
        bare = tab.locator("#search-results .search li:not(:has(p.context, a ~ span))")
        bare.first.wait_for(state="detached")
        assert record["failed"] == record["console"] == []


@pytest.mark.skipif(not PAGES, reason="the book is not built (make book)")
def test_the_search_dialog_works_with_the_keyboard(chromium, base):
    with opened(chromium, base, "index") as (tab, record):
        tab.keyboard.press("Control+k")
        tab.locator("#pst-search-dialog input").wait_for()
        tab.keyboard.type("clock")
        tab.keyboard.press("Enter")
        tab.locator("#search-results .search li a").first.wait_for()
        assert record["failed"] == record["console"] == []


@pytest.mark.skipif(not CHAPTERS, reason="the book is not built (make book)")
def test_the_first_tab_stop_skips_to_the_text(chromium, base):
    with opened(chromium, base, CHAPTERS[0]) as (tab, _):
        tab.keyboard.press("Tab")
        assert "main content" in tab.evaluate("document.activeElement.textContent")
        tab.keyboard.press("Enter")
        tab.keyboard.press("Tab")
        assert tab.evaluate("!!document.activeElement.closest('main')")
