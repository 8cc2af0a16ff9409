"""Links: outside ones are well-formed and on a reviewed list, inside ones lead somewhere.

    python -m tools.check_links          # after ``make book``; 1 when something is wrong

``tests/data/links.txt`` holds every address outside this project that the book, the README and the
package mention, sorted, one a line. A new address fails the tests until it is added there, and
whoever adds it has opened the page and seen that it says what the text says it does. No check asks
the network: pages come and go, and a build must not depend on them.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from tools.book_numbers import repository
from tools.build_book import BUILD
from tools.notebooks import BOOK, ROOT

REVIEWED = ROOT / "tests" / "data" / "links.txt"
# What is read for addresses: everything that a reader of the book or of the package sees.
READ = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml")
READ += ("_config.yml", "book/*.md", "book/*.bib", "book/*.ipynb")
READ += ("posenc_tutorial/**/*.py", "posenc_tutorial/**/*.json")
ADDRESS = re.compile(r"https?://[^\s<>\"'`)\]}|\\^]+")
NAMESPACES = ("http://www.w3.org/",)  # names that look like addresses and are never opened

GITHUB = re.compile(
    r"/[\w.-]+/[\w.-]+(/(issues|pull|discussions)/\d+|/(blob|tree)/[\w.-]+/[\w./-]*|/issues)?/?"
)
ARXIV = re.compile(r"/abs/\d{4}\.\d{4,5}")


# ------------------------------------------------------------------- outside


def addresses(text: str) -> Iterator[str]:
    """The addresses in a text.

    One that code completes later is none (``https://a/{b}``), nor is a pattern for many.
    """
    for found in ADDRESS.finditer(text):
        address = found[0].rstrip(".,;:!?*_")
        complete = "{" not in address and "." in urlsplit(address).netloc
        if complete and not address.startswith(NAMESPACES):
            yield address


def text_of(path: Path) -> str:
    """The text of a file; of a notebook what its cells hold, without outputs."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return put_together(content)
    if path.suffix != ".ipynb":
        return content
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(content)["cells"])


def put_together(source: str) -> str:
    """Python code with the addresses that it makes of two halves, ``GITHUB + "a/b/issues/1"``."""
    tree = ast.parse(source)
    start: dict[str, str] = {}
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
            if str(line.value.value).startswith("https://"):
                start |= {name.id: line.value.value for name in line.targets}

    def half(node: ast.AST) -> str | None:
        node = node.value if isinstance(node, ast.FormattedValue) else node
        if isinstance(node, ast.Name):
            return start.get(node.id)
        return node.value if isinstance(node, ast.Constant) else None

    whole, used = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            halves = [node.left, node.right]
        elif isinstance(node, ast.JoinedStr):
            halves = node.values[:2]
        else:
            continue
        found = [half(part) for part in halves]
        if len(found) == 2 and found[0] in start.values() and isinstance(found[1], str):
            used.add(found[0])
            whole.append("".join(found))
    for beginning in used:
        source = source.replace(f'"{beginning}"', '""')
    return "\n".join([source, *whole])


def outside(root: Path = ROOT) -> dict[str, list[str]]:
    """Address -> the files that mention it, without those of this project itself."""
    ours = repository()
    found: dict[str, list[str]] = {}
    for path in sorted({path for pattern in READ for path in root.glob(pattern)}):
        for address in addresses(text_of(path)):
            if address.startswith((ours.url, ours.site)):
                continue
            files = found.setdefault(address, [])
            if (name := str(path.relative_to(root))) not in files:
                files.append(name)
    return dict(sorted(found.items()))


def malformed(address: str) -> str:
    """What is wrong with the form of an address, or nothing."""
    parts = urlsplit(address)
    if parts.scheme != "https":
        return "not https"
    if not re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", parts.netloc):
        return "no host"
    if re.search(r"[^\w./~%@+=&?,:-]", parts.path + parts.query) or "//" in parts.path:
        return "odd characters"
    if parts.netloc == "github.com" and not GITHUB.fullmatch(parts.path):
        return "neither a repository nor an issue, a pull request or a file in it"
    if parts.netloc == "arxiv.org" and not ARXIV.fullmatch(parts.path):
        return "not the page of a paper"
    return ""


def reviewed() -> list[str]:
    """The addresses that somebody has looked at."""
    return REVIEWED.read_text(encoding="utf-8").split()


# ------------------------------------------------------------------- inside


class Page(HTMLParser):
    """The names that can be jumped to in a page, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if not value:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.names.add(value)
            elif name in ("href", "src"):
                self.links.append(value)


def inside(site: Path, address: str) -> list[str]:
    """Links of a built site that lead to no file of it, or to no such place in a page.

    Args:
        site: its folder. What lies below ``_static`` are files, no pages.
        address: where it will be served; the page for missing pages links from there.
    """
    paths = [p for p in site.rglob("*.html") if p.relative_to(site).parts[0] != "_static"]
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in paths}
    top = urlsplit(address).path
    found = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            file, _, place = link.partition("#")
            file = unquote(file.partition("?")[0])
            if file.startswith(top):
                target = (site / file.removeprefix(top)).resolve()
            else:
                target = (path.parent / file).resolve() if file else path
            if target.is_dir():
                target = target / "index.html"
            if not target.is_file():
                found.append(f"{path.name}: {link} leads to no file")
            elif place and target in pages and unquote(place) not in pages[target].names:
                found.append(f"{path.name}: {link} leads to no such place")
    return found


def derived(site: Path, address: str) -> list[str]:
    """Links of the derived notebooks into the book, or within one of them, that lead nowhere."""
    pages = {path.name: Page(path.read_text("utf-8")).names for path in site.glob("*.html")}
    found = []
    for path in sorted((BOOK / "colab").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        names = set(re.findall(r'<a id="([^"]+)"', text))
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            place = urlsplit(link).fragment
            if link.startswith("#"):
                if place not in names:
                    found.append(f"{path.name}: {link} leads to no such place")
            elif link.startswith(address):
                page = urljoin(link, urlsplit(link).path).removeprefix(address) or "index.html"
                if not (site / page).is_file():
                    found.append(f"{path.name}: {link} leads to no page and no file")
                elif place and unquote(place) not in pages.get(page, ()):
                    found.append(f"{path.name}: {link} leads to no such place")
    return found


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    found = [f"{address}: {why}" for address in outside() if (why := malformed(address))]
    known = reviewed()
    for address, files in outside().items():
        if address not in known:
            found.append(f"{address}: not reviewed, in {', '.join(files)}")
    site = BUILD / "html"
    if site.is_dir():
        address = repository().site
        found += inside(site, address) + derived(site, address)
    print("\n".join(found) or f"{len(known)} addresses, no findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
