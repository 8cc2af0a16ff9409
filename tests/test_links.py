"""Links: form, review, and what the checks of tools/check_links.py find."""

from __future__ import annotations

import json

import pytest

from tools import check_links
from tools.check_links import addresses, inside, malformed, outside, put_together, reviewed

FOUND = outside()


def test_every_address_is_well_formed():
    assert [(address, why) for address in FOUND if (why := malformed(address))] == []


def test_every_address_was_reviewed():
    """Open a new page, see that it says what the text says it does, then add its line."""
    new = {address: files for address, files in FOUND.items() if address not in reviewed()}
    assert not new, f"not in {check_links.REVIEWED.name}: {new}"


def test_the_list_is_sorted_and_holds_nothing_that_is_gone():
    assert reviewed() == sorted(set(reviewed()))
    assert set(reviewed()) <= set(FOUND)


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org/a",
        "https://localhost/a",
        "https://example.org/a//b",
        "https://example.org/a b",
        "https://github.com/owner",
        "https://github.com/owner/name/issue/1",
        "https://github.com/owner/name/issues/one",
        "https://github.com/owner/name@main",
        "https://arxiv.org/pdf/1706.03762",
        "https://arxiv.org/abs/1706.376",
    ],
)
def test_a_malformed_address_is_noticed(address):
    assert malformed(address)


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/",
        "https://github.com/owner/na.me",
        "https://github.com/owner/name/pull/12",
        "https://github.com/owner/name/blob/v1.0/src/a.py",
        "https://arxiv.org/abs/2104.09864",
        "https://openreview.net/forum?id=onxoVA9FxMw",
    ],
)
def test_a_well_formed_address_passes(address):
    assert not malformed(address)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see (https://a.org/b).", ["https://a.org/b"]),
        ("[x](https://a.org/b), <https://c.org>", ["https://a.org/b", "https://c.org"]),
        ('"https://a.org/b"', ["https://a.org/b"]),
        ('f"https://a.org/{b}"', []),
        ('r"https://a\\.org/"', []),
        ("http://www.w3.org/2000/svg", []),
        ("{https://a.org/b}", ["https://a.org/b"]),
    ],
)
def test_addresses_in_a_text(text, expected):
    assert list(addresses(text)) == expected


def test_addresses_in_two_halves():
    code = 'A = "https://a.org/"\nB = "https://b.org/c"\nx = [A + "d/1", f"{A}e/{x}", A + y, B]\n'
    assert sorted(addresses(put_together(code))) == [
        "https://a.org/d/1",
        "https://a.org/e/",
        "https://b.org/c",
    ]


def test_outputs_of_notebooks_are_not_read(tmp_path):
    cell = {"source": ["https://a.org/b"], "outputs": [{"text": "https://c.org/d"}]}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    assert check_links.text_of(tmp_path / "a.ipynb") == "https://a.org/b"


@pytest.mark.parametrize(
    ("link", "broken"),
    [
        ("b.html", False),
        ("b.html#there", False),
        ("#here", False),
        ("sub/", False),
        ("sub/index.html?x=1", False),
        ("b%2Ehtml", False),
        ("https://a.org/none", False),
        ("mailto:a@b.org", False),
        ("/name/b.html#there", False),
        ("/name/c.html", True),
        ("/b.html", True),
        ("c.html", True),
        ("b.html#here", True),
        ("#there", True),
        ("none/", True),
    ],
)
def test_links_inside_a_site(tmp_path, link, broken):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_text('<a href="../a.html">a</a>', encoding="utf-8")
    (tmp_path / "a.html").write_text(f'<p id="here"><a href="{link}">x</a></p>', encoding="utf-8")
    (tmp_path / "b.html").write_text('<p id="there"></p>', encoding="utf-8")
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "c.html").write_text('<a href="{{ template }}">', encoding="utf-8")
    assert bool(inside(tmp_path, "https://x.org/name/")) == broken


def test_links_of_derived_notebooks(tmp_path, monkeypatch):
    site, book = tmp_path / "site", tmp_path / "book"
    (book / "colab").mkdir(parents=True)
    site.mkdir()
    (site / "a.html").write_text('<p id="there"></p>', encoding="utf-8")
    (site / "_static").mkdir()
    (site / "_static" / "cards.tsv").write_text("front\tback\n", encoding="utf-8")
    links = ["https://x.org/a.html#there", "#own", "https://y.org/b.html"]
    links += ["https://x.org/_static/cards.tsv"]
    bad = ["https://x.org/a.html#none", "https://x.org/b.html", "#other"]
    bad += ["https://x.org/_static/none.tsv", "https://x.org/_static/cards.tsv#row"]
    text = '<a id="own" name="own"></a>\n' + "\n".join(f"[x]({link})" for link in links + bad)
    cells = [{"cell_type": "markdown", "source": [text]}]
    (book / "colab" / "a.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    monkeypatch.setattr(check_links, "BOOK", book)
    found = check_links.derived(site, "https://x.org/")
    assert [finding.split()[1] for finding in found] == bad
