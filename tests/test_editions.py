"""PDF and EPUB: what can be said of them without a browser. The files: tests/browser."""

from __future__ import annotations

import os
import zipfile

import pytest

from tools import editions
from tools.book_numbers import repository

PAGE = '<item id="{0}" href="{0}.xhtml" media-type="application/xhtml+xml"{1}/>'
NAV = '<nav epub:type="toc"><ol><li><a href="a.xhtml">A</a></li></ol></nav>'


def packed(path, *, page="<p>a</p>", listed=True, first="mimetype", spine="a", nav=NAV, more=()):
    """A small EPUB with one page, and with the fault that is asked for."""
    items = PAGE.format("nav", ' properties="nav"') + (PAGE.format("a", "") if listed else "")
    items += "".join(f'<item id="m" href="{name}" media-type="image/png"/>' for name, _ in more)
    about = {"title": "T", "author": "A", "site": "https://x/", "version": "1"}
    order = f'<itemref idref="{spine}"/>' if spine else ""
    with zipfile.ZipFile(path, "w") as book:
        book.writestr(first, "application/epub+zip")
        if first != "mimetype":
            book.writestr("mimetype", "application/epub+zip")
        book.writestr("book/content.opf", editions._package(about, items, order))
        book.writestr("book/nav.xhtml", editions._xhtml("T", nav))
        book.writestr("book/a.xhtml", page if page.startswith("<?") else editions._xhtml("T", page))
        for name, data in more:
            book.writestr(f"book/{name}", data)
    return path


def test_a_sound_book_has_no_findings(tmp_path):
    page = '<h1 id="t">T</h1><p><a href="#t">up</a> <a href="https://x/">out</a></p>'
    page += '<img src="b.png" alt="words"/>'
    whole = packed(tmp_path / "a.epub", page=page, more=[("b.png", b"\x89PNG")])
    assert editions.check_epub(whole) == []


@pytest.mark.parametrize(
    ("page", "finding"),
    [
        ('<p id="a">1</p><p id="a">2</p>', "the id a twice"),
        ("<script>1</script>", "a script element"),
        ('<img src="none.png" alt="words"/>', "no picture none.png"),
        ('<img src="a.xhtml" alt=" "/>', "no words for a.xhtml"),
        ('<a href="b.xhtml">b</a>', "a link to nowhere, b.xhtml"),
        ('<a href="#b">b</a>', "a link to nowhere, #b"),
        ("<details><summary><p>b</p></summary></details>", "a p inside a summary"),
        ("<p>a<math><mi> </mi></math></p>", "a formula without content"),
        ("<?xml version='1.0'?><p>", "not well-formed"),
    ],
)
def test_each_fault_of_a_page_is_found(page, finding, tmp_path):
    (found,) = editions.check_epub(packed(tmp_path / "a.epub", page=page))
    assert finding in found


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        ({"listed": False, "spine": ""}, "not in the manifest: book/a.xhtml"),
        ({"first": "other"}, "the first file is not an uncompressed mimetype"),
        ({"spine": ""}, "not in the order of reading: a.xhtml"),
        ({"nav": "<p>none</p>"}, "not in the table of contents: a.xhtml"),
        ({"more": [("b.png", b"GIF")]}, "not a picture: book/b.png"),
    ],
)
def test_each_fault_of_the_file_is_found(fault, finding, tmp_path):
    assert editions.check_epub(packed(tmp_path / "a.epub", **fault)) == [finding]


def program(folder, lines, status):
    """A stand-in for EPUBCheck, first on the path."""
    path = folder / "epubcheck"
    text = "".join(f"echo '{line}'\n" for line in lines)
    path.write_text(f"#!/bin/sh\n{text}exit {status}\n")
    path.chmod(0o755)
    return str(folder)


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands in for EPUBCheck")
def test_epubcheck_is_asked_where_it_is_installed(tmp_path, monkeypatch):
    for lines, status, found in (
        (["No errors or warnings detected."], 0, []),
        (["ERROR(RSC-005): a.epub: p", "end"], 1, ["ERROR(RSC-005): a.epub: p"]),
        ([], 1, ["epubcheck ended with 1"]),
    ):
        monkeypatch.setenv("PATH", program(tmp_path, lines, status))
        assert editions.epubcheck(tmp_path / "a.epub") == found
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert editions.epubcheck(tmp_path / "a.epub") is None


def test_titles_of_the_outline_are_said_once_and_nothing_moves():
    data = (
        b"<</Title (ContentsContents)\n/X 1>> /Title (Once) /Title <FEFF00410041> /Title (a\\)a\\))"
    )
    mended = editions.mend_outline(data)
    assert len(mended) == len(data)
    assert b"/Title (Contents) " in mended and b"\n/X 1" in mended
    assert b"/Title (Once) " in mended
    assert b"/Title <FEFF0041>" in mended
    assert b"/Title (a\\))" in mended
    numbered = editions.mend_outline(b"/Title (1. 1. Why positionsWhy positions)")
    assert numbered.rstrip() == b"/Title (1. Why positions)"


def test_what_the_book_is_called_comes_from_its_configuration():
    about = editions.facts()
    assert about["title"] == "Where Tokens Are"
    assert about["site"] == repository().site


def test_stills_come_from_the_notebook():
    found = editions.stills("03-sinusoidal")
    assert set(found) == {"wave_board"} and found["wave_board"].startswith(b"\x89PNG")
    assert editions.stills("index") == {}
