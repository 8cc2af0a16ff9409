"""What makes a page easy to find, to share and to cite.

At the foot of every page: when its source last changed, and how to cite it. For the site: a
``sitemap.xml``, and a ``404.html`` that works at any depth and needs no other file.

With ``POSENC_SITE_VERSION=v1.2.3`` the build is the edition of that release, which keeps its
address, ``.../v1.2.3/`` (``tools/site_versions.py`` puts it there). Its pages say which version
they are and link to the same page of the latest edition, which stays the canonical one for search
engines; the line for citing names the address that stays.
"""

from __future__ import annotations

import html
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[2]
VERSION = "POSENC_SITE_VERSION"
NOT_IN_SITEMAP = frozenset({"search", "genindex", "prf-prf", "py-modindex", "404"})

NOT_FOUND = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="robots" content="noindex" />
<title>No such page - {title}</title>
<style>
:root {{ color-scheme: light dark; background: #fff; color: #222; }}
a {{ color: #0b4fb3; }}
@media (prefers-color-scheme: dark) {{
:root {{ background: #121212; color: #ddd; }}
a {{ color: #8ab4f8; }}
}}
body {{ font: 1.1rem/1.6 system-ui, sans-serif; margin: 0 auto; max-width: 36rem;
padding: 2rem 1rem; }}
input, button {{ font: inherit; }}
</style>
</head>
<body>
<main>
<h1>No token at this position</h1>
<p>There is no page at this address. It may have moved.</p>
<p><a href="{root}index.html">To the first page of {title}</a></p>
<form action="{root}search.html" role="search">
<label for="q">Search the book</label>
<input id="q" name="q" type="search" /> <button>Search</button>
</form>
</main>
</body>
</html>
"""


def sitemap(base: str, pages: list[str], dates: dict[str, str]) -> str:
    """A sitemap of pages, with the day of their last change where it is known."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>']
    lines.append('<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">')
    for page in pages:
        changed = f"<lastmod>{dates[page]}</lastmod>" if dates.get(page) else ""
        lines.append(f"<url><loc>{html.escape(f'{base}{page}.html')}</loc>{changed}</url>")
    return "\n".join([*lines, "</urlset>", ""])


def citation(title: str, book: str, author: str, version: str, day: str, address: str) -> str:
    """One line for a bibliography, as HTML."""
    year = f" ({day[:4]})" if day else ""
    page = f"“{html.escape(title)}”. In " if title != book else ""
    return (
        f"<p>To cite this page: {html.escape(author)}{year}. {page}<em>{html.escape(book)}</em>, "
        f"version {html.escape(version)}. {html.escape(address)}</p>"
    )


def last_change(source: Path) -> str:
    """Day of the last commit of a file, or "" where git or the history is missing."""
    command = ["git", "log", "-1", "--format=%cs", "--", str(source)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def package_version() -> str:
    """The version, read without importing the package."""
    text = (ROOT / "posenc_tutorial" / "__init__.py").read_text(encoding="utf8")
    return text.split('__version__ = "')[1].split('"')[0]


def site_version(environment: Mapping[str, str] = os.environ) -> str:
    """The version in the address of this build, ``"v1.2.3"``; "" for the latest edition.

    Raises:
        ExtensionError: the version asked for is not that of the package in this checkout.
    """
    wanted = environment.get(VERSION, "")
    if wanted not in ("", f"v{package_version()}"):
        raise ExtensionError(f"{VERSION} is {wanted!r}, but the package is {package_version()}")
    return wanted


def notice(version: str, address: str) -> str:
    """What stands above every page of a released version, as HTML."""
    return (
        f"This is version {html.escape(version.removeprefix('v'))} of the book. "
        f'<a href="{html.escape(address)}">Read this page in the latest edition</a>.'
    )


def on_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """The last lines of a page that has a source."""
    if app.builder.format != "html":
        return
    base, version = app.config.html_baseurl, site_version()
    if version:
        context["theme_announcement"] = notice(version, f"{base}{page}.html")
    if doctree is None:
        return
    day = last_change(Path(app.env.doc2path(page)))
    app.env.posenc_changed = {**getattr(app.env, "posenc_changed", {}), page: day}
    context["last_updated"] = day or None
    title = app.env.titles[page].astext() if page in app.env.titles else page
    address = f"{base}{version}{'/' if version else ''}{page}.html"
    context["theme_extra_footer"] = citation(
        title, app.config.project, app.config.author, package_version(), day, address
    )


def on_build_finished(app: Sphinx, exception: Exception | None) -> None:
    """Write the two files of the whole site, which belong to its latest edition."""
    base = app.config.html_baseurl
    if exception or app.builder.format != "html" or not base or site_version():
        return
    out = Path(app.outdir)
    pages = sorted(page for page in app.env.found_docs if page not in NOT_IN_SITEMAP)
    dates = getattr(app.env, "posenc_changed", {})
    (out / "sitemap.xml").write_text(sitemap(base, pages, dates), encoding="utf8")
    root = "/" + base.split("://", 1)[-1].split("/", 1)[-1]
    page = NOT_FOUND.format(root=root, title=html.escape(app.config.project))
    (out / "404.html").write_text(page, encoding="utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", on_page, priority=900)
    app.connect("build-finished", on_build_finished, priority=800)  # before book_fixes
    return {"parallel_read_safe": True, "parallel_write_safe": False}
