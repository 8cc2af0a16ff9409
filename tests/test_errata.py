"""Errata of the internet: every entry says what is said and what is so, shows it, and leads on."""

from __future__ import annotations

import ast
import re

import nbformat
import pytest

from tools.build_book import pages
from tools.notebooks import BOOK

CELLS = nbformat.read(BOOK / "errata.ipynb", 4).cells
CHAPTERS = [page for page in pages() if re.match(r"\d\d-", page)]
HEADING = re.compile(r"^#{2,3} .*$", re.M)
LEADS_ON = re.compile(r"\{(doc|ref)\}`[^`<]*<([\w-]+)>`")


def entries() -> dict[str, tuple[int, str, str]]:
    """Title of each entry: the chapter it stands under, its text, and the code below it."""
    found, chapter = {}, 0
    for index, cell in enumerate(CELLS):
        if cell.cell_type != "markdown":
            continue
        starts = [match.start() for match in HEADING.finditer(cell.source)]
        for start, end in zip(starts, starts[1:] + [None] * bool(starts), strict=True):
            title, _, text = cell.source[start:end].partition("\n")
            if number := re.match(r"## Chapter (\d+): ", title):
                chapter = int(number[1])
            elif title.startswith("### "):
                code = CELLS[index + 1].source if index + 1 < len(CELLS) else ""
                found[title.removeprefix("### ")] = (chapter, text, code)
    return found


ENTRIES = entries()


def page_of(kind: str, target: str) -> str:
    """The page that a link in an entry leads to."""
    if kind == "doc":
        return target
    for page in CHAPTERS:
        cells = nbformat.read(BOOK / f"{page}.ipynb", 4).cells
        if any(f"({target})=" in cell.source.split("\n") for cell in cells):
            return page
    raise AssertionError(f"no chapter defines {target}")


def test_there_are_many_and_they_come_in_the_order_of_the_chapters():
    chapters = [chapter for chapter, _, _ in ENTRIES.values()]
    assert len(chapters) >= 14
    assert chapters == sorted(chapters) and chapters[0] == 1
    titles = [title for cell in CELLS for title in re.findall(r"^### (.*)$", cell.source, re.M)]
    assert len(titles) == len(set(titles)) == len(ENTRIES)


@pytest.mark.parametrize("title", ENTRIES)
def test_every_entry_is_complete(title):
    chapter, text, code = ENTRIES[title]
    said, so = text.split("\n\n**In fact.** ")
    assert said.strip().startswith("**Said.** ")
    assert re.search(r"\]\(https://|\[S\d{3}\]|many posts", text), f"{title}: said where?"
    assert LEADS_ON.search(so), f"{title}: no way to the chapter"
    assert any(page_of(*link).startswith(f"{chapter:02d}-") for link in LEADS_ON.findall(so))
    statements = list(ast.walk(ast.parse(code)))
    assert any(isinstance(statement, ast.Assert) for statement in statements), f"{title}: no assert"
    assert "print(" in code


def test_nothing_is_left_out_of_the_comparison():
    """Exact mathematics: no cell may print what depends on the machine."""
    for cell in CELLS:
        assert "nbval-ignore-output" not in cell.metadata.get("tags", [])


def test_no_entry_names_a_person():
    """A page may be linked; who wrote it is nobody's business here. Authors are cited by key."""
    for title, (_, text, _) in ENTRIES.items():
        assert "@" not in text, title
        assert not re.search(r"\b(?:he|she|his|her)\b", text), title
