"""What Jupyter Book's defaults get wrong for this book, put right in one local Sphinx extension.

The aims: a page asks no other site for anything, opens from the file system as well as from a
server, loads no script it does not need, and says what its buttons and pictures are to somebody
who does not see them. Each function below is one fix; pure functions (text in, text out) come
first and are tested in ``tests/test_book.py``, the Sphinx events that call them stand at the end.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.abc import MetaPathFinder
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.ext import autodoc
from sphinx.util import logging

logger = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "posenc_tutorial"

# ------------------------------------------------------------------- text in, text out

# (why, pattern, replacement); applied in this order to every page that was written.
PAGE_FIXES: list[tuple[str, re.Pattern[str], str]] = [
    (
        # 1.4 MB of script on every page that draws icons which the theme's own web font draws
        # as well. It also inserts <title> elements that contradict the buttons' names.
        "no fontawesome script",
        re.compile(r"\s*<(?:script|link)[^>]*scripts/fontawesome\.js[^>]*?/?>(?:</script>)?"),
        "",
    ),
    (
        # The button reads "Search Ctrl+K"; an aria-label "Search" hides that from voice control,
        # where one says what one sees (axe: label-content-name-mismatch).
        "search button keeps its visible name",
        re.compile(r'(<button class="btn[^>]*search-button-field[^>]*?)\s+aria-label="Search"'),
        r"\1",
    ),
    (
        # The same for "Show code cell source".
        "hidden cells keep their visible name",
        re.compile(r'<summary aria-label="Toggle hidden content">'),
        "<summary>",
    ),
    (
        # The logo and the search field stand outside every landmark (axe: region).
        "logo inside a landmark",
        re.compile(r'<div class="(sidebar-primary-items__start[^"]*)"'),
        r'<div role="region" aria-label="Book" class="\1"',
    ),
    (
        # Docutils puts doc-biblioentry, a deprecated role, into role="list", which may hold
        # nothing but list items (axe: aria-required-children, critical).
        "bibliography entries are list items",
        re.compile(r'role="doc-biblioentry"'),
        'role="listitem"',
    ),
    (
        # A corner of a table that names nothing is no heading (axe: empty-table-header).
        "no empty table heading",
        re.compile(r'<th class="[^"]*\bhead\b[^"]*">(?:<p>\s*</p>)?\s*</th>'),
        "<td></td>",
    ),
    (
        # 55 kB of style and a script for tabs, cards and grids, of which the book has none.
        "no sphinx-design",
        re.compile(
            r"\s*<(?:link|script)[^>]*_static/(?:sphinx-design\.min\.css|design-tabs\.js)[^>]*>"
            r"(?:</script>)?"
        ),
        "",
    ),
    (
        # A print-only heading that has no text (axe: empty-heading).
        "no empty heading",
        re.compile(r"<h1>\s*</h1>"),
        "",
    ),
]

_PICTURE_NAME = re.compile(r"^(?:\.\./)*_(?:images|static)/|^[\w./-]+\.(?:png|svg|jpe?g|gif|webp)$")


# Sphinx writes a signature over several lines as a list of descriptions without terms (axe:
# definition-list).
_SIGNATURE_LINES = re.compile(r'<dl>(\s*<dd><em class="sig-param">.*?)</dl>', re.DOTALL)

# The theme loads the search index (160 kB, and it grows with the book) on every page, for results
# while one types, which Jupyter Book switches off. The search page needs it.
_SEARCH = re.compile(
    r'\s*<script src="(?:\.\./)*(?:_static/searchtools|_static/language_data|searchindex)\.js">'
    r"</script>"
)

# Sphinx loads MathJax (1.3 MB) on a page without formulas if a chapter listed below it has some.
_MATHJAX = re.compile(r"\s*<script[^>]*mathjax/tex-chtml-full\.js[^>]*></script>")
_HAS_MATH = re.compile(r'class="[^"]*\bmath\b')


def fix_page(html: str) -> str:
    """The page with every fix applied; applying it twice changes nothing."""
    for _, pattern, replacement in PAGE_FIXES:
        html = pattern.sub(replacement, html)
    html = _SIGNATURE_LINES.sub(_signature_lines, html)
    html = _one_description(html)
    html = _say_chinese(html)
    if not _HAS_MATH.search(html):
        html = _MATHJAX.sub("", html)
    if 'id="search-results"' not in html:
        html = _SEARCH.sub("", html)
    return html


# The search shows the text at the address of what it found. An index entry's address is an empty
# mark in front of a heading: no text, and an error on the page. The text is that of the section.
_AT_ADDRESS = "if (anchorContent) return anchorContent.textContent;"
_IN_SECTION = """if (anchorContent) {
        const empty = !anchorContent.textContent.trim();
        return (empty ? anchorContent.closest("section, main") : anchorContent).textContent;
      }"""


def fix_search(script: str) -> str:
    """Sphinx's searchtools.js, with a summary for what an index entry points to.

    Raises:
        ExtensionError: if the script is not the one that this mends.
    """
    if _IN_SECTION in script:
        return script
    if script.count(_AT_ADDRESS) != 1:
        raise ExtensionError(f"searchtools.js: no line {_AT_ADDRESS!r} to mend")
    return script.replace(_AT_ADDRESS, _IN_SECTION)


_CHINESE = re.compile(r"[\u4e00-\u9fff][\u3000-\u303f\u4e00-\u9fff]*")
_MARKUP = re.compile(r"(<(?:script|style)\b.*?</(?:script|style)>|<[^>]*>)", re.DOTALL)


def _say_chinese(html: str) -> str:
    """Mark Chinese words as Chinese, so that they are read aloud as such."""
    head, body, rest = html.partition("<body")
    if not _CHINESE.search(rest):
        return html
    pieces = _MARKUP.split(rest)  # texts at even places, markup between them
    for index in range(0, len(pieces), 2):
        if index == 0 or pieces[index - 1] != '<span lang="zh">':
            pieces[index] = _CHINESE.sub(r'<span lang="zh">\g<0></span>', pieces[index])
    return head + body + "".join(pieces)


def _one_description(html: str) -> str:
    """Let a page's own description for sharing replace the one made of its first words."""
    own = re.search(r'<meta content="([^"]*)" name="og:description" />\n?', html)
    if own is None:
        return html
    html = html.replace(own[0], "", 1)
    guessed = re.compile(r'(<meta property="og:description" content=")[^"]*(")')
    return guessed.sub(lambda found: found[1] + own[1] + found[2], html)


def _signature_lines(found: re.Match[str]) -> str:
    lines = found[1].replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")
    return f'<span class="sig-lines">{lines}</span>'


class _Images(HTMLParser):
    """Collect ``(src, alt)`` of every ``<img>``; alt is None where the attribute is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            named = dict(attrs)
            self.found.append((named.get("src") or "", named.get("alt")))


def images_without_alt(html: str) -> list[str]:
    """The ``src`` of every picture whose alternative text says nothing.

    Missing, empty, or the name of a file: myst-nb puts the path of the picture where a cell
    gives no text, and automatic checkers accept that.
    """
    parser = _Images()
    parser.feed(html)
    return [
        src
        for src, alt in parser.found
        if not (alt and alt.strip()) or _PICTURE_NAME.search(alt.strip())
    ]


def pages_address(repository: str) -> str:
    """Where GitHub serves the pages of ``https://github.com/owner/name``; "" for other hosts."""
    match = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+?)/?", repository)
    return f"https://{match[1].lower()}.github.io/{match[2]}/" if match else ""


# An annotation such as ``np.ndarray | None`` cannot be evaluated while numpy is mocked, and is then
# printed as it is written; where matplotlib is installed, opengraph imports it, and autodoc sees
# the private module that defines Axes. Both are turned into the public name.
ALIASES = {
    "np.": "numpy.",
    "nn.": "torch.nn.",
    "dist.": "torch.distributed.",
    "Axes": "matplotlib.axes.Axes",
    "matplotlib.axes._axes.Axes": "matplotlib.axes.Axes",
    "Figure": "matplotlib.figure.Figure",
    "Tensor": "torch.Tensor",
    "Callable": "collections.abc.Callable",
    "Iterable": "collections.abc.Iterable",
    "Mapping": "collections.abc.Mapping",
    "Path": "pathlib.Path",
    "Sequence": "collections.abc.Sequence",
}


def public_name(target: str) -> str:
    """The name under which another project documents what an annotation calls ``target``."""
    prefix, dot, rest = target.partition(".")
    if prefix + dot in ALIASES and rest:
        return ALIASES[prefix + dot] + rest
    return ALIASES.get(target, target)


def resolve_name(target: str, documented: list[str]) -> str | None:
    """The full name that a short reference in a docstring means.

    A docstring says ``RopeParameters``, since the package root re-exports it, and the object is
    documented where it is defined. A short name that two modules define stays unresolved, but an
    explorer gives way to the function whose name it bears.

    Args:
        target: The name as written, with or without leading package.
        documented: Full names of all documented objects.

    Returns:
        The one full name that ends in ``target``, or None.
    """
    short = target.removeprefix("~").removeprefix(PACKAGE + ".")
    found = [
        name
        for name in documented
        if name.startswith(PACKAGE + ".") and (name == target or name.endswith("." + short))
    ]
    if len(found) > 1:
        found = [name for name in found if ".explorers." not in name]
    return found[0] if len(found) == 1 else None


# ------------------------------------------------------------------- MathJax from a package


def mathjax_files() -> list[tuple[Path, str]]:
    """The files of MathJax that the site needs: ``(source, path below _static/mathjax)``.

    They come out of the installed package sphinx-mathjax-offline, so that nothing is committed
    and nothing is fetched by the reader. ``tex-chtml-full.js`` knows every TeX macro: the smaller
    ``tex-chtml.js`` fetches macros one by one, and a single missing file stops the whole page.
    """
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or not spec.submodule_search_locations:
        raise ExtensionError("MathJax is missing: pip install sphinx-mathjax-offline==0.0.2")
    base = Path(spec.submodule_search_locations[0]) / "static" / "mathjax"
    files = [base / "tex-chtml-full.js", *sorted((base / "output").rglob("*.woff"))]
    if len(files) < 2 or not files[0].is_file():
        raise ExtensionError(f"{base} does not hold tex-chtml-full.js and its fonts")
    return [(path, path.relative_to(base).as_posix()) for path in files]


# ------------------------------------------------------------------- imports of the API pages


class NotInstalled(MetaPathFinder):
    """Make some modules look as if they were not installed.

    Autodoc mocks torch while it imports a module of the package, but reads the bases of a class
    without the mock. Where torch is installed, that imports the real one, and every later
    signature names its private modules (``torch._C.Generator``). With this finder on
    ``sys.meta_path``, before autodoc puts its own in front, a build on such a machine is the
    build on a machine without torch.
    """

    def __init__(self, names: list[str]) -> None:
        self.names = frozenset(names)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"{fullname} takes no part in the build", name=fullname)
        return None


def _not_for_attributes(handler: Callable[..., None]) -> Callable[..., None]:
    """A docstring handler that leaves constants, attributes and properties alone."""

    def process(app: Sphinx, what: str, *rest: object) -> None:
        if what not in ("attribute", "data", "property"):
            handler(app, what, *rest)

    return process


# ------------------------------------------------------------------- Sphinx events


def on_config(app: Sphinx, config: Config) -> None:
    """Take thebe out, find the package, and derive the addresses from the repository's."""
    # Jupyter Book loads sphinx_thebe whether or not a page can run code. It writes the same
    # `const` twice, so that every page starts with a script error, and it points at a CDN.
    for listeners in app.events.listeners.values():
        listeners[:] = [
            listener
            for listener in listeners
            if (listener.handler.__module__ or "").split(".")[0] != "sphinx_thebe"
        ]
    app.registry.css_files[:] = [c for c in app.registry.css_files if c[0] != "sphinx-thebe.css"]

    # Napoleon reads "two words: a sentence" on a constant or a property as "type: description".
    # The package annotates its types, so a colon there is a colon.
    docstrings = app.events.listeners["autodoc-process-docstring"]
    docstrings[:] = [
        listener._replace(handler=_not_for_attributes(listener.handler))
        if listener.handler.__module__ == "sphinx.ext.napoleon"
        else listener
        for listener in docstrings
    ]

    # A mocked torch.nn.Module brings a __new__(*args, **kwargs), which autodoc would print as the
    # signature of every class derived from it. This list names what it must not use.
    autodoc._CLASS_NEW_BLACKLIST.append("sphinx.ext.autodoc.mock._MockObject.__new__")

    # The API pages import the package from the checkout: rendering does not install it.
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    sys.meta_path.insert(0, NotInstalled(config.autodoc_mock_imports))

    # _config.yml holds the address of the repository and no other one.
    site = pages_address(config.html_theme_options.get("repository_url", ""))
    if site and not config.html_baseurl:
        config.html_baseurl = site
    if site and not config.ogp_site_url:
        config.ogp_site_url = site


def on_env_updated(app: Sphinx, env: BuildEnvironment) -> None:
    """Keep the names of the API page out of the index, which is for the words of the chapters."""
    env.get_domain("index").data["entries"].pop("api", None)


def on_missing_reference(
    app: Sphinx, env: BuildEnvironment, node: nodes.Element, contnode: nodes.Element
) -> nodes.Element | None:
    """Let docstrings and annotations use short names: the package root's, and ``np.`` and kin."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    full = resolve_name(node.get("reftarget", ""), list(domain.objects))
    if full is None:
        # Not ours: intersphinx, which is asked next, looks for the name under which it is public.
        node["reftarget"] = public_name(node.get("reftarget", ""))
        return None
    links = domain.resolve_any_xref(env, node["refdoc"], app.builder, full, node, contnode)
    return links[0][1] if links else None


def on_build_finished(app: Sphinx, exception: Exception | None) -> None:
    """Copy MathJax, mend the pages, refuse pictures without words, drop what nobody requests."""
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for source, name in mathjax_files():
        target = out / "_static" / "mathjax" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_file() or target.stat().st_size != source.stat().st_size:
            shutil.copyfile(source, target)
    unused = [*out.rglob("*.map"), out / "_static" / "scripts" / "fontawesome.js"]
    for path in unused:  # 3.4 MB of source maps, and the script that no page loads any more
        path.unlink(missing_ok=True)
    search = out / "_static" / "searchtools.js"
    search.write_text(fix_search(search.read_text(encoding="utf8")), encoding="utf8")
    for path in sorted(out.rglob("*.html")):
        before = path.read_text(encoding="utf8")
        after = fix_page(before)
        if after != before:
            path.write_text(after, encoding="utf8")
        page = path.relative_to(out).with_suffix("").as_posix()
        for src in images_without_alt(after):
            # A warning, so that the build (-W) fails and still lists every such picture.
            logger.warning("picture without alternative text: %s", src, location=page)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", on_config, priority=100)
    app.connect("env-updated", on_env_updated)
    app.connect("missing-reference", on_missing_reference, priority=400)  # before intersphinx
    app.connect("build-finished", on_build_finished, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
