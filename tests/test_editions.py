"""PDF and EPUB: what can be said of them without a browser. The files: tests/browser."""

from __future__ import annotations

import zipfile

from tools import editions
from tools.book_numbers import repository


def packed(path, *, page="<p>a</p>", listed=True, first="mimetype"):
    items = '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>' if listed else ""
    about = {"title": "T", "author": "A", "site": "https://x/", "version": "1"}
    with zipfile.ZipFile(path, "w") as book:
        book.writestr(first, "application/epub+zip")
        if first != "mimetype":
            book.writestr("mimetype", "application/epub+zip")
        book.writestr("book/content.opf", editions._package(about, items, ""))
        book.writestr("book/a.xhtml", page if page.startswith("<?") else editions._xhtml("T", page))
    return path


def test_a_sound_book_has_no_findings(tmp_path):
    page = '<h1 id="t">T</h1><p><a href="#t">up</a> <a href="https://x/">out</a></p>'
    assert editions.check_epub(packed(tmp_path / "a.epub", page=page)) == []


def test_each_fault_is_found(tmp_path):
    faults = {
        '<p id="a">1</p><p id="a">2</p>': "the id a twice",
        "<script>1</script>": "a script element",
        '<img src="none.png" alt="words"/>': "no picture none.png",
        '<img src="a.xhtml" alt=" "/>': "no words for a.xhtml",
        '<a href="b.xhtml">b</a>': "a link to nowhere, b.xhtml",
        '<a href="#b">b</a>': "a link to nowhere, #b",
        "<?xml version='1.0'?><p>": "not well-formed",
    }
    for page, finding in faults.items():
        (found,) = editions.check_epub(packed(tmp_path / "a.epub", page=page))
        assert finding in found
    assert "not in the manifest" in editions.check_epub(packed(tmp_path / "b", listed=False))[0]
    assert "mimetype" in editions.check_epub(packed(tmp_path / "c", first="other"))[0]


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
