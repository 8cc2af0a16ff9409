"""Sitemap, page for missing pages, citation lines and dates."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from from_file import load
from PIL import Image

import posenc_tutorial

ROOT = Path(__file__).resolve().parents[1]
site_files = load(ROOT / "book" / "_ext" / "site_files.py")


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


def test_the_version_in_the_address_is_the_package_version():
    version = f"v{posenc_tutorial.__version__}"
    assert site_files.site_version({}) == ""
    assert site_files.site_version({"POSENC_SITE_VERSION": version}) == version
    for other in ("v99.0.0", posenc_tutorial.__version__, "latest"):
        with pytest.raises(site_files.ExtensionError, match="but the package is"):
            site_files.site_version({"POSENC_SITE_VERSION": other})


def test_a_notice_names_the_version_and_links_to_the_latest_edition():
    text = site_files.notice("v1.2.3", "https://x/a.html")
    assert "This is version 1.2.3 of the book." in text
    assert '<a href="https://x/a.html">' in text


# A site of one page with the theme of the book and these extensions.
SMALL = """
import sys
sys.path.insert(0, {extensions!r})
project, author, language = "The book", "Us", "en"
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxext.opengraph"]
extensions += ["book_fixes", "site_files"]
html_theme = "sphinx_book_theme"
html_baseurl = "https://example.org/b/"
html_theme_options = {{"repository_url": "https://github.com/a/b"}}
exclude_patterns = ["out*"]
"""


@pytest.fixture(scope="module")
def small_sites(tmp_path_factory):
    """The same small site twice: the latest edition, and that of a release."""
    source = tmp_path_factory.mktemp("small")
    (source / "conf.py").write_text(SMALL.format(extensions=str(ROOT / "book" / "_ext")))
    (source / "index.rst").write_text("A page\n======\n\nText.\n")
    out = {}
    for version in ("", f"v{posenc_tutorial.__version__}"):
        out[version] = source / f"out{version}"
        environment = {**os.environ, "POSENC_SITE_VERSION": version}
        command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", source, out[version]]
        subprocess.run(command, check=True, env=environment)
    return out


def test_canonical_links_lead_to_the_latest_edition(small_sites):
    for site in small_sites.values():
        for page in ("index", "search", "genindex"):
            text = (site / f"{page}.html").read_text("utf8")
            found = re.findall(r'<link rel="canonical" href="([^"]*)"', text)
            assert found == [f"https://example.org/b/{page}.html"]


def test_a_release_says_so_on_every_page_and_the_latest_edition_does_not(small_sites):
    latest, release = small_sites.values()
    for page in ("index", "search", "genindex"):
        assert "This is version" not in (latest / f"{page}.html").read_text("utf8")
        text = (release / f"{page}.html").read_text("utf8")
        assert f"This is version {posenc_tutorial.__version__} of the book." in text
        assert f'<a href="https://example.org/b/{page}.html">Read this page' in text


def test_a_release_is_cited_at_the_address_that_stays(small_sites):
    (latest, _), (release, version) = ((s, v) for v, s in small_sites.items())
    cited = re.compile(r"To cite this page: .*? (https://\S+)</p>")
    assert cited.search((latest / "index.html").read_text("utf8"))[1] == (
        "https://example.org/b/index.html"
    )
    assert cited.search((release / "index.html").read_text("utf8"))[1] == (
        f"https://example.org/b/{version}/index.html"
    )


def test_only_the_latest_edition_has_the_files_of_the_site(small_sites):
    latest, release = small_sites.values()
    for name in ("sitemap.xml", "404.html"):
        assert (latest / name).is_file() and not (release / name).exists()


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
