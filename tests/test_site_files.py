"""Sitemap, page for missing pages, citation lines and dates."""

from __future__ import annotations

import importlib.util
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image

import posenc_tutorial

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("site_files", ROOT / "book/_ext/site_files.py")
site_files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(site_files)


def test_the_sitemap_names_every_page_and_the_days_that_are_known():
    text = site_files.sitemap("https://example.org/b/", ["a", "c&d"], {"a": "2026-01-02"})
    space = {"s": "http://www.sitemaps.org/schemas/sitemap/0.9"}
    entries = ElementTree.fromstring(text.encode()).findall("s:url", space)
    found = [
        (e.findtext("s:loc", None, space), e.findtext("s:lastmod", None, space)) for e in entries
    ]
    assert found == [
        ("https://example.org/b/a.html", "2026-01-02"),
        ("https://example.org/b/c&d.html", None),
    ]


def test_a_citation_has_page_book_version_year_and_address():
    line = site_files.citation(
        "A & B", "Book", "The authors", "1.2", "2026-11-29", "https://x/a.html"
    )
    assert line == (
        "<p>To cite this page: The authors (2026). “A &amp; B”. In <em>Book</em>, version 1.2. "
        "https://x/a.html</p>"
    )
    assert "“" not in site_files.citation("Book", "Book", "A", "1", "", "https://x/")
    assert "()" not in site_files.citation("Book", "Book", "A", "1", "", "https://x/")


def test_the_version_is_the_package_version():
    assert site_files.package_version() == posenc_tutorial.__version__


def test_a_day_is_known_for_committed_files_only(tmp_path):
    assert site_files.last_change(tmp_path / "none.md") == ""
    day = site_files.last_change(ROOT / "LICENSE")
    assert day == "" or len(day) == 10, "no history in an archive"


def test_the_page_for_missing_pages_needs_no_file():
    text = site_files.NOT_FOUND.format(root="/book/", title="T")
    assert 'href="/book/index.html"' in text and 'action="/book/search.html"' in text
    assert "src=" not in text and "{" not in text.split("<style>")[0]
    HTMLParser().feed(text)


def test_the_social_card_is_there_and_small():
    path = ROOT / "book" / "_static" / "social-card.png"
    assert Image.open(path).size == (1200, 630)
    assert path.stat().st_size < 100_000
    assert "_static/social-card.png" in (ROOT / "_config.yml").read_text("utf8")
