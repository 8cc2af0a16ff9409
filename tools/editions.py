"""``make pdf`` and ``make epub``: the whole book in one file, without LaTeX.

Both start from the built book (``make book``) and let a browser typeset every page. The PDF is
all pages in one long document, printed once, so that its links and its outline work. The EPUB holds
one XHTML file a page, formulas as MathML, which readers with a screen reader can follow, and a
still picture in the place of each explorer. It is checked here (``check_epub``), and by the W3C's
EPUBCheck as well where that is installed.

Usage: ``python -m tools.editions pdf [epub]``; the files are ``dist/where-tokens-are.pdf`` and
``.epub``. Needs a Chromium (``tools/browser.py``).
"""

from __future__ import annotations

import argparse
import base64
import html
import mimetypes
import re
import shutil
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import yaml

from tools.book_numbers import repository
from tools.browser import SITE, launched, opened, reason_to_skip, serve
from tools.build_book import pages
from tools.notebooks import BOOK, ROOT, read

NAME = "where-tokens-are"
FOLDER = ROOT / "dist"  # make book empties _build
XHTML = "http://www.w3.org/1999/xhtml"

# What has no use on paper or in an e-book goes; what is folded is unfolded; links between pages
# become links within the document, those to other pages of the site lead to the site.
PREPARE = """([page, pages, site, paper]) => {
  const article = document.querySelector('article.bd-article');
  const drop = ['.headerlink', 'button', '.copybtn', 'noscript', 'script', '.colab-link',
    '.posenc-explorer form'];
  article.querySelectorAll(drop.join(', ')).forEach(e => e.remove());
  article.querySelectorAll('summary .expanded').forEach(e => e.remove());
  if (paper) {  // nothing opens there, so everything is open; an e-book's reader can open it
    article.querySelectorAll('details').forEach(e => { e.open = true; });
    article.querySelectorAll('summary .collapsed').forEach(e => {
      e.textContent = /solution/.test(e.textContent) ? 'Solution' : 'Code';
    });
  }
  article.querySelectorAll('.toggle-hidden').forEach(e => e.classList.remove('toggle-hidden'));
  article.querySelectorAll('[tabindex]').forEach(e => e.removeAttribute('tabindex'));
  const seen = new Set();  // sphinx-exercise and sphinx-proof repeat theirs
  article.querySelectorAll('[id]').forEach(e => {
    if (seen.has(e.id)) e.removeAttribute('id');
    seen.add(e.id);
  });
  const own = id => paper ? `${page}--${id}` : id;
  article.querySelectorAll('[id]').forEach(e => { e.id = own(e.id); });
  article.querySelectorAll('a[href]').forEach(a => {
    const href = a.getAttribute('href');
    if (/^(https?:|mailto:)/.test(href)) return;
    const [file, id] = href.split('#');
    const target = file ? file.replace(/\\.html$/, '') : page;
    if (!pages.includes(target)) { a.setAttribute('href', site + href); return; }
    if (paper) a.setAttribute('href', `#${target}--${id || 'top'}`);
    else a.setAttribute('href', file ? `${target}.xhtml${id ? '#' + id : ''}` : `#${id}`);
  });
  article.querySelectorAll('[aria-labelledby], [aria-describedby], label[for]').forEach(e => {
    for (const name of ['aria-labelledby', 'aria-describedby', 'for']) {
      if (e.hasAttribute(name)) e.setAttribute(name, own(e.getAttribute(name)));
    }
  });
  const title = article.querySelector('h1').textContent.trim();
  const styles = [...document.querySelectorAll('style[id^=MJX]')].map(e => e.textContent).join('');
  if (paper) {
    article.querySelectorAll('mjx-assistive-mml').forEach(e => e.remove());
    return { title, styles, body: article.innerHTML };
  }
  article.querySelectorAll('mjx-container').forEach(e => {
    const formula = e.querySelector('mjx-assistive-mml math').cloneNode(true);
    if (e.getAttribute('display') === 'true') formula.setAttribute('display', 'block');
    e.replaceWith(formula);
  });
  article.querySelectorAll('.posenc-explorer').forEach(e => {
    const still = document.createElement('img'), words = document.createElement('p');
    still.setAttribute('src', 'explorer:' + e.dataset.explorer);
    still.setAttribute('alt', e.querySelector('svg').getAttribute('aria-label'));
    words.textContent = e.querySelector('.say').textContent;
    e.replaceWith(still, words);
  });
  article.querySelectorAll('summary p').forEach(e => {  // no paragraph may stand there
    const line = document.createElement('span');
    line.className = e.className;
    line.append(...e.childNodes);
    e.replaceWith(line);
  });
  article.querySelectorAll('[lang]').forEach(e => {
    e.setAttributeNS('http://www.w3.org/XML/1998/namespace', 'xml:lang', e.lang);
  });
  article.querySelectorAll('[style]').forEach(e => e.removeAttribute('style'));
  const pictures = [...article.querySelectorAll('img')].map(e => e.getAttribute('src'));
  const serial = new XMLSerializer();
  const body = [...article.childNodes].map(n => serial.serializeToString(n)).join('');
  return { title, body, pictures, formulas: article.querySelectorAll('math').length };
}"""

PRINT_STYLE = """
@page { size: A4; margin: 18mm 16mm; }
html, body { background: #fff; font-size: 15px; }
article { max-width: none; }
section.page { break-before: page; }
h1, h2, h3, h4, .admonition-title { break-after: avoid; }
figure, img, mjx-container, .math, table, .posenc-explorer, .cell_input { break-inside: avoid; }
.bd-content pre, .highlight pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.bd-content :is(div.math, .amsmath, .pst-scrollable-table-container, .output) {
  overflow: visible !important; }
.admonition.toggle > * { display: block !important; height: auto !important;
  visibility: visible !important; opacity: 1 !important; }
details :is(.cell_input, .highlight, pre) { break-inside: auto !important; }
details[open] > summary .collapsed { display: inline !important; }
.titlepage { text-align: center; padding-top: 35mm; }
.titlepage img { width: 80mm; }
"""
EPUB_STYLE = """
body { line-height: 1.5; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.8em; }
img { max-width: 100%; }
figcaption, .caption-text { font-style: italic; }
table { border-collapse: collapse; }
td, th { padding: 0.2em 0.5em; border-bottom: 1px solid #888; text-align: left; }
.admonition { border-left: 4px solid #888; margin: 1em 0; padding: 0.2em 1em; }
.admonition-title { font-weight: bold; }
.eqno { float: right; }
div.math { overflow-x: auto; }
summary { font-weight: normal; }
.sig-line { display: block; padding-left: 2em; }
"""


def facts() -> dict[str, str]:
    """Title, author, address and version of the book."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    text = (ROOT / "posenc_tutorial" / "__init__.py").read_text(encoding="utf-8")
    return {
        "title": config["title"],
        "author": config["author"],
        "site": repository().site,
        "version": text.split('__version__ = "')[1].split('"')[0],
    }


def prepared(browser: Any, base: str, page: str, site: str, *, paper: bool) -> dict[str, Any]:
    """The article of a page, typeset and rewritten for one of the two editions."""
    with opened(browser, base, page) as (tab, record):
        found = tab.evaluate(PREPARE, [page, pages(), site, paper])
        bad = record["failed"] + record["console"] + record["foreign"]
        if bad:
            raise RuntimeError(f"{page}: {bad[0]}")
        return {"page": page, **found}


def write_pdf(browser: Any, base: str, out: Path) -> None:
    """Print all pages as one document."""
    about = facts()
    parts = [prepared(browser, base, page, about["site"], paper=True) for page in pages()]
    body = "".join(
        f'<section class="page" id="{part["page"]}--top">{part["body"]}</section>' for part in parts
    )
    front = (
        f'<div class="titlepage"><img src="_static/logo.svg" alt=""/>'
        f"<h1>{html.escape(about['title'])}</h1>"
        f"<p>{html.escape(about['author'])}</p><p>Version {about['version']}. "
        f'<a href="{about["site"]}">{about["site"]}</a></p></div>'
        '<section class="page"><h1>Contents</h1><ul>'
        + "".join(f'<li><a href="#{p["page"]}--top">{p["title"]}</a></li>' for p in parts)
        + "</ul></section>"
    )
    with opened(browser, base, pages()[0]) as (tab, _):
        tab.evaluate(
            """([text, style]) => {
              document.title = document.title.split(' — ').pop();
              document.documentElement.dataset.theme = 'light';
              const content = document.createElement('main');
              content.className = 'bd-content';
              content.style.display = 'block';
              content.innerHTML = `<article class="bd-article">${text}</article>`;
              document.body.replaceChildren(content);
              const sheet = document.createElement('style');
              sheet.textContent = style;
              document.head.append(sheet);
            }""",
            [front + body, "".join(part["styles"] for part in parts) + PRINT_STYLE],
        )
        tab.evaluate("() => Promise.all([...document.images].map(i => i.decode().catch(() => 0)))")
        tab.evaluate("() => document.fonts.ready.then(() => true)")
        tab.emulate_media(media="print", color_scheme="light")
        number = '<div style="font-size:8px;width:100%;text-align:center"><span class="pageNumber">'
        tab.pdf(
            path=out,
            scale=0.8,
            print_background=True,
            prefer_css_page_size=True,
            outline=True,
            tagged=True,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=number + "</span></div>",
        )
    out.write_bytes(mend_outline(out.read_bytes()))


def mend_outline(data: bytes) -> bytes:
    """Titles of the outline said once.

    Chromium writes each piece of a heading at the top of a page twice ("1. 1. Why positionsWhy
    positions"). Every other copy goes, and spaces fill its place, so that nothing moves.
    """

    def once(text: bytes, step: int) -> bytes | None:
        """The text without its second copies, or None if it is not made of such pairs."""
        for size in range(len(text) // 2 // step * step, 0, -step):
            if text[:size] == text[size : 2 * size]:
                rest = once(text[2 * size :], step)
                if rest is not None:
                    return text[:size] + rest
        return None if text else b""

    def mended(found: re.Match[bytes]) -> bytes:
        if found[2] is not None:
            start, mark, text, end, step = b"(", b"", found[2], b")", 1
        else:  # hexadecimal UTF-16
            start, mark, text, end, step = b"<", found[3][:4], found[3][4:], b">", 4
        short = once(text, step)
        if not short:
            return found[0]
        return (found[1] + start + mark + short + end).ljust(len(found[0]))

    return re.sub(rb"(/Title ?)(?:\(((?:\\.|[^\\()])*)\)|<([0-9A-Fa-f]+)>)", mended, data)


def stills(page: str) -> dict[str, bytes]:
    """The still pictures of a page's explorers, out of its notebook."""
    path = BOOK / f"{page}.ipynb"
    found = {}
    for cell in read(path).cells if path.is_file() else []:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if name := re.search(r'data-explorer="(\w+)"', data.get("text/html", "")):
                found[name[1]] = base64.b64decode(data["image/png"])
    return found


def write_epub(browser: Any, base: str, out: Path) -> None:
    """Pack all pages as an EPUB 3."""
    about = facts()
    parts = [prepared(browser, base, page, about["site"], paper=False) for page in pages()]
    files: dict[str, bytes] = {"style.css": EPUB_STYLE.encode()}
    files["pygments.css"] = (SITE / "_static" / "pygments.css").read_bytes()
    items = []
    for part in parts:
        body, own = part["body"], stills(part["page"])
        for source in dict.fromkeys(part["pictures"]):
            if source.startswith("explorer:"):
                name = f"images/{part['page']}-{source[9:]}.png"
                files[name] = own[source[9:]]
            else:
                name = f"images/{Path(unquote(source.split('?')[0])).name}"
                files[name] = (SITE / unquote(source.split("?")[0])).read_bytes()
            body = body.replace(f'src="{html.escape(source)}"', f'src="{name}"')
        files[f"{part['page']}.xhtml"] = _xhtml(part["title"], body).encode()
        kinds = ' properties="mathml"' if part["formulas"] else ""
        items.append(
            f'<item id="p-{part["page"]}" href="{part["page"]}.xhtml" '
            f'media-type="application/xhtml+xml"{kinds}/>'
        )
    entries = "".join(
        f'<li><a href="{p["page"]}.xhtml">{html.escape(p["title"])}</a></li>' for p in parts
    )
    nav = f'<nav epub:type="toc" role="doc-toc"><h1>Contents</h1><ol>{entries}</ol></nav>'
    files["nav.xhtml"] = _xhtml("Contents", nav).encode()
    for number, name in enumerate(n for n in files if not n.endswith(".xhtml")):
        kind = mimetypes.guess_type(name)[0]
        items.append(f'<item id="f-{number}" href="{name}" media-type="{kind}"/>')
    items.append(
        '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
    )
    spine = "".join(f'<itemref idref="p-{part["page"]}"/>' for part in parts)
    files["content.opf"] = _package(about, "".join(items), spine).encode()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as book:

        def put(name: str, data: bytes, method: int = zipfile.ZIP_DEFLATED) -> None:
            # A fixed time: the same book is the same file.
            book.writestr(zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0)), data, method)

        put("mimetype", b"application/epub+zip", zipfile.ZIP_STORED)  # first, and not compressed
        put(
            "META-INF/container.xml",
            b'<?xml version="1.0"?><container version="1.0" '
            b'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
            b'full-path="book/content.opf" media-type="application/oebps-package+xml"/>'
            b"</rootfiles></container>",
        )
        for name, data in files.items():
            put(f"book/{name}", data)


def _xhtml(title: str, body: str) -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        f'<html xmlns="{XHTML}" xmlns:epub="http://www.idpf.org/2007/ops" lang="en" '
        'xml:lang="en" data-theme="light">\n'
        f'<head><meta charset="utf-8"/><title>{html.escape(title)}</title>'
        '<link rel="stylesheet" href="style.css"/><link rel="stylesheet" href="pygments.css"/>'
        f"</head>\n<body>{body}</body>\n</html>\n"
    )


def _package(about: dict[str, str], items: str, spine: str) -> str:
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{about['site']}{about['version']}")
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<package '
        'xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" '
        'xml:lang="en"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f'<dc:identifier id="id">urn:uuid:{name}</dc:identifier>'
        f"<dc:title>{html.escape(about['title'])}</dc:title>"
        f"<dc:creator>{html.escape(about['author'])}</dc:creator><dc:language>en</dc:language>"
        '<meta property="dcterms:modified">2000-01-01T00:00:00Z</meta>'
        '<meta property="schema:accessMode">textual</meta>'
        '<meta property="schema:accessMode">visual</meta>'
        '<meta property="schema:accessModeSufficient">textual</meta>'
        '<meta property="schema:accessibilityFeature">MathML</meta>'
        '<meta property="schema:accessibilityFeature">alternativeText</meta>'
        '<meta property="schema:accessibilityHazard">none</meta>'
        f"</metadata><manifest>{items}</manifest><spine>{spine}</spine></package>\n"
    )


# Elements that hold a line of text, and elements that are more than that.
LINES = frozenset("p span summary h1 h2 h3 h4 h5 h6 em strong code pre".split())
BLOCKS = frozenset("p div ul ol dl table pre figure section h1 h2 h3 h4 h5 h6".split())
UNWANTED = frozenset("script iframe form button mjx-container merror".split())
# How the files of each kind begin.
PICTURES = {".png": b"\x89PNG", ".jpg": b"\xff\xd8", ".svg": b"<", ".webp": b"RIFF"}


def check_epub(path: Path) -> list[str]:
    """What is wrong with an EPUB; empty if nothing is.

    The file as a whole: mimetype first and not compressed, manifest and files the same, every
    page in the order of reading and in the table of contents, pictures that are pictures. Every
    page: well-formed, no id twice, links and pictures that lead somewhere, words for every
    picture, no block inside a line, no formula with an error, nothing that only a browser runs.
    """
    with zipfile.ZipFile(path) as book:
        found = _file_findings(book)
        pages = {name: book.read(name) for name in book.namelist() if name.endswith(".xhtml")}
        inside = set(book.namelist())
    trees = {}
    for name, text in sorted(pages.items()):
        try:
            trees[name] = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            found.append(f"{name}: not well-formed, {error}")
    ids = {name: [e.get("id") for e in tree.iter() if e.get("id")] for name, tree in trees.items()}
    for name, tree in trees.items():
        own = ids[name]
        found += [f"{name}: the id {i} twice" for i in sorted({i for i in own if own.count(i) > 1})]
        found += [f"{name}: {text}" for text in _page_findings(name, tree, inside, ids)]
    return found


def _kind(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _file_findings(book: zipfile.ZipFile) -> list[str]:
    found = []
    names = book.namelist()
    if names[0] != "mimetype" or book.getinfo("mimetype").compress_type != zipfile.ZIP_STORED:
        found.append("the first file is not an uncompressed mimetype")
    package = ElementTree.fromstring(book.read("book/content.opf"))
    space = {"o": "http://www.idpf.org/2007/opf"}
    items = {item.get("id"): item for item in package.findall(".//o:item", space)}
    listed = {f"book/{item.get('href')}" for item in items.values()}
    inside = {n for n in names if n.startswith("book/")} - {"book/content.opf"}
    found += [f"not in the manifest: {n}" for n in sorted(inside - listed)]
    found += [f"in the manifest only: {n}" for n in sorted(listed - inside)]
    contents = [i for i in items.values() if "nav" in (i.get("properties") or "").split()]
    if len(contents) != 1:
        return [*found, f"{len(contents)} tables of contents, expected one"]
    nav = ElementTree.fromstring(book.read(f"book/{contents[0].get('href')}"))
    linked = {e.get("href", "").partition("#")[0] for e in nav.iter() if _kind(e) == "a"}
    order = {ref.get("idref") for ref in package.findall(".//o:itemref", space)}
    found += [f"in the order of reading only: {i}" for i in sorted(order - set(items))]
    for name, item in items.items():
        if not str(item.get("href")).endswith(".xhtml") or item is contents[0]:
            continue
        if name not in order:
            found.append(f"not in the order of reading: {item.get('href')}")
        if item.get("href") not in linked:
            found.append(f"not in the table of contents: {item.get('href')}")
    for name in sorted(inside):
        start = PICTURES.get(Path(name).suffix)
        if start and not book.read(name).lstrip().startswith(start):
            found.append(f"not a picture: {name}")
    return found


def _page_findings(
    name: str, tree: ElementTree.Element, inside: set[str], ids: dict[str, list[str]]
) -> Iterator[str]:
    for element in tree.iter():
        kind = _kind(element)
        if kind in UNWANTED:
            yield f"a {kind} element"
        if kind in LINES:
            for child in element:
                if _kind(child) in BLOCKS:
                    yield f"a {_kind(child)} inside a {kind}"
        if kind == "math" and not "".join(element.itertext()).strip():
            yield "a formula without content"
        if kind == "img":
            if f"book/{element.get('src')}" not in inside:
                yield f"no picture {element.get('src')}"
            if not (element.get("alt") or "").strip():
                yield f"no words for {element.get('src')}"
        if kind == "a" and not re.match("https?:|mailto:", element.get("href", "#")):
            file, _, target = element.get("href", "").partition("#")
            there = f"book/{file}" if file else name
            lost = target and there in ids and unquote(target) not in ids[there]
            if there not in inside or lost:
                yield f"a link to nowhere, {element.get('href')}"


def epubcheck(path: Path) -> list[str] | None:
    """What the W3C's EPUBCheck says of an EPUB; None where it is not installed.

    Any program of that name on the path will do: Debian's package ``epubcheck`` is one.
    """
    program = shutil.which("epubcheck")
    if program is None:
        return None
    # Debian's is a Java archive that the kernel runs where binfmt is set up, and Java elsewhere.
    archive = Path(program).read_bytes()[:2] == b"PK"
    command = ["java", "-jar", program] if archive else [program]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    bad = [line for line in lines if re.match("(FATAL|ERROR|WARNING)", line)]
    return bad or ([f"epubcheck ended with {done.returncode}"] if done.returncode else [])


def main(arguments: list[str] | None = None) -> int:
    """Write what is asked for; 1 if it could not be written or is not sound."""
    parser = argparse.ArgumentParser(prog="python -m tools.editions", description=__doc__)
    parser.add_argument("kinds", nargs="+", choices=("pdf", "epub"))
    kinds = parser.parse_args(arguments).kinds
    if reason := reason_to_skip():
        print(reason)
        return 1
    if not (SITE / "index.html").is_file():
        print("the book is not built (make book)")
        return 1
    found = []
    FOLDER.mkdir(exist_ok=True)
    with launched() as browser:
        base = serve(SITE)
        for kind in kinds:
            out = FOLDER / f"{NAME}.{kind}"
            (write_pdf if kind == "pdf" else write_epub)(browser, base, out)
            print(f"{out.relative_to(ROOT)}: {out.stat().st_size / 1e6:.1f} MB")
            if kind == "epub":
                official = epubcheck(out)
                found += check_epub(out) + (official or [])
                state = "not installed" if official is None else f"{len(official)} findings"
                print(f"epubcheck: {state}")
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
