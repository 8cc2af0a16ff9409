"""The book as EPUB and PDF, made from the built pages."""

from __future__ import annotations

import re
import zipfile

import pytest

from tools import editions
from tools.browser import SITE, built_pages
from tools.build_book import pages

pytestmark = pytest.mark.skipif(not built_pages(), reason="the book is not built (make book)")


def test_the_epub_is_sound_and_complete(chromium, base, tmp_path):
    out = tmp_path / "book.epub"
    editions.write_epub(chromium, base, out)
    assert editions.check_epub(out) == []
    assert not editions.epubcheck(out)  # None where it is not installed: the line above remains
    with zipfile.ZipFile(out) as book:
        for page in pages():
            text = book.read(f"book/{page}.xhtml").decode()
            shown = (SITE / f"{page}.html").read_text(encoding="utf8")
            shown = shown.split("<article")[1].split("</article")[0]
            formulas = re.findall(r'<(?:span|div) class="[^"]*\bmath\b[^"]*"', shown)
            assert len(re.findall(r"<math\b", text)) >= len(formulas), page
            assert not re.search(
                r"\\[\[(]", re.sub(r"(?s)<(pre|code|annotation).*?</\1>", "", text)
            )
            figures = re.findall(r'<img[^>]* src="_images/', shown)
            assert len(re.findall(r"<img ", text)) >= len(figures), page


def test_the_pdf_has_every_page_and_no_link_to_this_machine(chromium, base, tmp_path, monkeypatch):
    monkeypatch.setattr(editions, "pages", lambda: pages()[:2])
    out = tmp_path / "book.pdf"
    editions.write_pdf(chromium, base, out)
    data = out.read_bytes()
    assert data.startswith(b"%PDF") and len(data) > 50_000
    assert b"127.0.0.1" not in data and b"file://" not in data
    assert data.count(b"/Title") > 5 and b"/StructTreeRoot" in data
