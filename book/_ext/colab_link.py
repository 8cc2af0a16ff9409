"""The way from a page to its notebook in Colab.

The theme's Colab button opens the source of a page. Here it opens the derived edition,
``book/colab/NN-slug.ipynb``: plain Markdown, exercises without solutions (``tools/derive.py``
makes it). Every chapter gets the same address as a link below its title as well, since the button
hides in a menu. Pages without a derived edition get neither. The pages of a released version
(``site_files.py``) lead to the latest notebook too, since it installs the latest package, and say
so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

COLAB = "https://colab.research.google.com"
FOLDER = "colab"
HELP = "colab-help"  # the page on trouble


def has_derived(source: Path) -> bool:
    """Whether a page comes from a notebook that has a derived edition."""
    return source.suffix == ".ipynb" and (source.parent / FOLDER / source.name).is_file()


def address(options: dict[str, Any], page: str) -> str | None:
    """Where Colab opens the derived edition of a page.

    Args:
        options: the theme's options, which Jupyter Book fills in from ``repository:``.
        page: name of the page.

    Returns:
        The address, or None where the repository is not on GitHub.
    """
    repository = str(options.get("repository_url", "")).rstrip("/").removesuffix(".git")
    host = "https://github.com/"
    if not repository.startswith(host):
        return None
    branch = options.get("repository_branch") or "main"
    folder = str(options.get("path_to_docs", "")).strip("/")
    parts = [COLAB, "github", repository.removeprefix(host), "blob", branch, folder, FOLDER]
    return "/".join([*filter(None, parts), f"{page}.ipynb"])


def buttons_for(buttons: list[dict[str, Any]], url: str | None) -> list[dict[str, Any]]:
    """The header buttons, nested groups too, with Colab's pointing at ``url``, or without it."""
    done = []
    for button in buttons:
        if isinstance(button.get("buttons"), list):
            inner = buttons_for(button["buttons"], url)
            if not inner:
                continue
            button = {**button, "buttons": inner}
        elif str(button.get("url", "")).startswith(COLAB + "/"):
            if url is None:
                continue
            button = {**button, "url": url}
        done.append(button)
    return done


def _url(app: Sphinx, page: str) -> str | None:
    if page not in app.env.found_docs or not has_derived(Path(app.env.doc2path(page))):
        return None
    return address(app.config.html_theme_options, page)


def on_doctree_read(app: Sphinx, doctree: nodes.document) -> None:
    """Put the visible link below the title."""
    url = _url(app, app.env.docname)
    title = next(iter(doctree.findall(nodes.title)), None)
    if url is None or title is None:
        return
    what = "the latest edition of " if os.environ.get("POSENC_SITE_VERSION") else ""
    link = nodes.reference("", f"Open {what}this chapter in Colab", refuri=url, internal=False)
    paragraph = nodes.paragraph("", "", link, nodes.Text(": run it, do the exercises."))
    if HELP in app.env.found_docs:
        help_ = nodes.reference("", "If it does not work", refuri=f"{HELP}.html", internal=True)
        paragraph += [nodes.Text(" "), help_, nodes.Text(".")]
    paragraph["classes"].append("colab-link")
    title.parent.insert(title.parent.index(title) + 1, paragraph)


def on_page_context(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Let the button open the derived edition."""
    if "header_buttons" in context:
        buttons = buttons_for(context["header_buttons"], _url(app, pagename))
        context["header_buttons"] = buttons


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", on_doctree_read)
    app.connect("html-page-context", on_page_context, priority=900)  # the theme's is 501
    return {"parallel_read_safe": True, "parallel_write_safe": True}
