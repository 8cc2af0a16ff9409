"""What somebody meets who reads without eyes or without a mouse: headings, languages, Tab stops."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from tools.browser import SITE, built_pages, opened

PAGES = built_pages()
CHINESE = re.compile(r"[\u3400-\u9fff]")
# Comments for programs, which a page should not show.
FOR_TOOLS = re.compile(r"#\s*(?:fmt: ?(?:skip|off|on)|noqa|type: ?ignore|ruff:|pragma:)")
VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())


class Outline(HTMLParser):
    """The headings of a page, and its Chinese texts with the language they stand in."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[tuple[int, str]] = []
        self.chinese: list[tuple[str, str]] = []
        self.open: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("lang")))
        if tag == "article":
            self.headings = []  # above it stands the title once more, for printing
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self.open]
        if "script" in tags or "style" in tags or "head" in tags:
            return
        self.text.append(data)
        if any(re.fullmatch("h[1-6]", tag) for tag in tags):
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)
        if CHINESE.search(data):
            language = next((lang for _, lang in reversed(self.open) if lang), "")
            self.chinese.append((language, data))


def outline(html: str) -> Outline:
    parser = Outline()
    parser.feed(html)
    return parser


def jumps(levels: list[int]) -> list[int]:
    """Places where a heading is more than one level below the one before."""
    return [i for i in range(1, len(levels)) if levels[i] > levels[i - 1] + 1]


def test_the_parser_sees_what_these_tests_ask_for():
    page = "<h1>A <em>b</em></h1><h3>c</h3><p>\u4f60<i lang='zh'>\u597d</i></p>"
    found = outline(f"<html lang='en'><h1>A b</h1><article>{page}</article></html>")
    assert found.headings == [(1, "A b"), (3, "c")] and jumps([1, 3]) == [1]
    assert found.chinese == [("en", "\u4f60"), ("zh", "\u597d")]
    assert jumps([1, 2, 3, 2, 3, 1, 2]) == []


@pytest.mark.parametrize("page", PAGES)
def test_headings_follow_each_other(page):
    headings = outline((SITE / f"{page}.html").read_text("utf8")).headings
    levels = [level for level, text in headings]
    assert levels.count(1) == 1 and levels[0] == 1
    assert [headings[i] for i in jumps(levels)] == []
    assert all(text.strip() for _, text in headings)


@pytest.mark.parametrize("page", PAGES)
def test_chinese_is_marked_as_chinese(page):
    found = outline((SITE / f"{page}.html").read_text("utf8")).chinese
    assert [text for language, text in found if not language.startswith("zh")] == []


@pytest.mark.parametrize("page", PAGES)
def test_code_shows_no_comments_for_programs(page):
    text = "".join(outline((SITE / f"{page}.html").read_text("utf8")).text)
    assert FOR_TOOLS.findall(text) == []


# What has the focus: where it is, and whether one sees that.
FOCUS = """() => {
  const e = document.activeElement;
  if (!e || e === document.body) return null;
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  const label = e.labels && e.labels.length ? e.labels[0].innerText : '';
  // The copy buttons hold a drawing with a title, which is text that is not shown.
  const words = e.getAttribute('aria-label') || e.textContent || label || e.title || '';
  return {
    what: e.tagName.toLowerCase() + '.' + (e.getAttribute('class') || ''),
    name: words.trim() || [...e.querySelectorAll('img')].map(i => i.alt).join(''),
    visible: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight,
    marked: style.outlineStyle !== 'none' || style.boxShadow !== 'none',
    jumps: e.tabIndex > 0,  // out of the order of the page
    explorer: !!e.closest('.posenc-explorer'),
    question: !!e.closest('.posenc-quiz'),
  };
}"""


def walk(tab: Any, most: int = 3000) -> list[dict[str, Any]]:
    """Press Tab from the top of the page until the focus leaves it."""
    stops = []
    for _ in range(most):
        tab.keyboard.press("Tab")
        stop = tab.evaluate(FOCUS)
        if stop is None:
            return stops
        stops.append(stop)
    raise AssertionError(f"the focus does not leave the page; last at {stops[-1]}")


def with_explorer() -> str:
    """The first chapter that has an explorer and questions."""
    for page in PAGES:
        text = (SITE / f"{page}.html").read_text("utf8")
        if "posenc-explorer" in text and "posenc-quiz" in text:
            return page
    return "index"


@pytest.mark.skipif(not PAGES, reason="the book is not built (make book)")
@pytest.mark.parametrize("page", ["index", "search", with_explorer()])
def test_the_tab_key_leads_through_the_whole_page(page, chromium, base):
    with opened(chromium, base, page) as (tab, _):
        # Where the page scrolls slowly, the focus is out of sight for a moment.
        tab.add_style_tag(content="html { scroll-behavior: auto !important; }")
        controls = tab.locator(".posenc-explorer :is(input, select)").count()
        choices = tab.locator(".posenc-quiz summary").count()
        stops = walk(tab)
    assert stops[0]["name"].startswith("Skip to")
    assert [s["what"] for s in stops if not s["name"]] == []
    assert [s["what"] for s in stops[1:] if not s["visible"]] == []
    assert [s["what"] for s in stops if not s["marked"]] == []
    # Groups of radio buttons are one stop; every other control and every choice is one.
    assert sum(s["explorer"] for s in stops) >= min(controls, 2)
    assert sum(s["question"] for s in stops) == choices
    assert [s["what"] for s in stops if s["jumps"]] == []
