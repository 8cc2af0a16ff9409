"""The questions of chapter 14: read out of the page, written as flash cards, checked by a test.

The page is the only source. A card is a dropdown of ``book/14-review.ipynb`` whose last paragraph
begins with ``*Measured in*``; its first paragraph is the short answer, and what lies between is
the deeper one. A title may end in the label of the article that asks. ::

    python -m tools.review_cards              # write book/_static/review-cards.*
    python -m tools.review_cards --evidence   # print every answer above the output that it cites

Every number in an answer must stand in a stored output that the answer cites. That catches a slip
of the pen and an output that has changed; whether the sentence around the number is true is for a
reader of ``--evidence`` to say.
"""

from __future__ import annotations

import argparse
import html
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nbformat import NotebookNode

from tools.notebooks import BOOK, printed, read

PAGE = "14-review"
CARDS = BOOK / "_static" / "review-cards.tsv"
SHEET = BOOK / "_static" / "review-cards.html"

CARD = re.compile(
    r"^:::\{admonition\} (?P<question>[^\n]+?)(?: \((?P<asked>S00\d)\))?\n"
    r":class: dropdown\n\n(?P<body>.+?)\n\n:::$",
    re.DOTALL | re.MULTILINE,
)
ROLE = re.compile(r"\{(?:ref|numref|eq|prf:ref)\}`(?:[^`<]*<)?([\w-]+)>?`")
HEADING = re.compile(r"^(#{1,6}) ", re.MULTILINE)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
# Digits that are part of a name, and no measurement.
NAMES = re.compile(r"\[S00\d\]|\bT5\b|\bbfloat16\b|\bfloat(?:16|32|64)\b|\bSmolLM2\b|\bchapter \d+")


@dataclass(frozen=True)
class Card:
    """A question and its answers.

    Attributes:
        question: the title of the dropdown.
        short: one or two sentences, without formulas and links.
        deep: a paragraph, in Markdown.
        cites: labels of the sections, figures, equations and theorems that it rests on.
        asked: the source article that asks the question, such as ``"S001"``, or "".
    """

    question: str
    short: str
    deep: str
    cites: tuple[str, ...]
    asked: str

    def numbers(self) -> list[str]:
        """The numbers in both answers, apart from formulas, code, links and names."""
        text = re.sub(r"\{[\w:]+\}`[^`]*`|`[^`]*`|\$[^$]*\$", " ", f"{self.short}\n{self.deep}")
        return [_plain(number) for number in NUMBER.findall(NAMES.sub(" ", text))]


def cards(notebook: NotebookNode | None = None) -> list[Card]:
    """All cards, in the order of the page."""
    notebook = notebook or read(BOOK / f"{PAGE}.ipynb")
    found = []
    for cell in notebook.cells:
        for match in CARD.finditer(cell.source if cell.cell_type == "markdown" else ""):
            paragraphs = match["body"].split("\n\n")
            if not paragraphs[-1].startswith("*Measured in*"):
                continue
            found.append(
                Card(
                    _without_terms(match["question"]),
                    _without_terms(" ".join(paragraphs[0].splitlines())),
                    "\n\n".join(paragraphs[1:-1]),
                    tuple(ROLE.findall(paragraphs[-1])),
                    match["asked"] or "",
                )
            )
    return found


def _without_terms(text: str) -> str:
    """The words alone of what links to the glossary."""
    return re.sub(r"\{term\}`([^`<]*?)(?:\s*<[^`]*>)?`", r"\1", text)


# ------------------------------------------------------------------- what a label stands for


@cache
def evidence(label: str) -> tuple[str, str] | None:
    """The page that defines a label, and the stored output that belongs to it.

    For a figure that is the output of its cell. For a label in front of a heading it is all
    output up to the next heading of the same rank; for any other label (a paragraph, a theorem,
    an equation), all output up to the next heading.

    Args:
        label: as a reference names it.

    Returns:
        Name of the page and output, or None if no notebook has the label.
    """
    for path in sorted(BOOK.glob("[0-9][0-9]-*.ipynb")):
        notebook = read(path)
        for index, cell in enumerate(notebook.cells):
            if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == label:
                return path.stem, printed(cell)
            if cell.cell_type == "markdown" and (after := _after(label, cell.source)) is not None:
                return path.stem, "\n".join(_section(after, notebook.cells[index + 1 :]))
    return None


def _after(label: str, source: str) -> str | None:
    """What follows the definition of a label in a cell."""
    name = re.escape(label)
    place = rf"^\({name}\)=$|^\$\$ ?\({name}\)$|^:label: {name}$"
    found = re.search(place, source, re.MULTILINE)
    return None if found is None else source[found.end() :]


def _section(after: str, cells: list[NotebookNode]) -> Iterator[str]:
    begins = re.match(r"\s*(#{1,6}) .*", after)
    deepest = len(begins[1]) if begins else 6
    rest = after[begins.end() :] if begins else after
    for text in [rest, *cells]:
        source = text if isinstance(text, str) else text.source
        if isinstance(text, str) or text.cell_type == "markdown":
            if any(len(marks) <= deepest for marks in HEADING.findall(source)):
                return
        else:
            yield printed(text)


def _plain(number: str) -> str:
    return number.replace(",", "")


def unsupported(card: Card) -> list[str]:
    """The numbers of a card that stand in no output that it cites."""
    cited = [found[1] for label in card.cites if (found := evidence(label))]
    shown = {_plain(number) for text in cited for number in NUMBER.findall(text)}
    return [number for number in card.numbers() if number not in shown]


# ------------------------------------------------------------------- cards to take away


def as_tsv(found: list[Card]) -> str:
    """One card a line, question and short answer, as Anki and other programs import it."""
    head = ["#separator:tab", "#html:false", "#columns:Question\tAnswer"]
    lines = [f"{card.question}\t{card.short}" for card in found]
    return "\n".join([*head, *(line.replace("`", "").replace("*", "") for line in lines), ""])


def as_sheet(found: list[Card]) -> str:
    """A page to print, cut along the lines and fold in the middle."""
    rows = "\n".join(
        f"<tr><th scope='row'>{_html(card.question)}</th><td>{_html(card.short)}</td></tr>"
        for card in found
    )
    return SHEET_PAGE.replace("ROWS", rows)


def _html(text: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
    return re.sub(r"(?<!\w)\*([^*]+)\*(?!\w)", r"<em>\1</em>", text)


SHEET_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Where Tokens Are: flash cards</title>
<style>
body { font: 12pt/1.35 serif; margin: 1.5rem auto; max-width: 46rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border: 1px dashed; padding: 0.6rem 0.8rem; text-align: left; vertical-align: middle;
  width: 50%; }
tr { break-inside: avoid; }
@media print { body { font-size: 10.5pt; margin: 0; max-width: none; padding: 0; }
  h1, p { display: none; } }
</style>
</head>
<body>
<main>
<h1>Flash cards</h1>
<p>Print, cut along the dashed lines, fold each strip in the middle.</p>
<table>
<thead><tr><th scope="col">Question</th><th scope="col">Answer</th></tr></thead>
<tbody>
ROWS
</tbody>
</table>
</main>
</body>
</html>
"""


def files(found: list[Card]) -> dict[Path, str]:
    """What the two files have to hold."""
    return {CARDS: as_tsv(found), SHEET: as_sheet(found)}


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or print answers and what they cite."""
    parser = argparse.ArgumentParser(prog="python -m tools.review_cards", description=__doc__)
    parser.add_argument("--evidence", action="store_true", help="print, write nothing")
    chosen = parser.parse_args(arguments)
    found = cards()
    if not chosen.evidence:
        for path, text in files(found).items():
            path.write_text(text, encoding="utf-8")
        print(f"{len(found)} cards")
        return 0
    for card in found:
        print(f"\n=== {card.question}\n{card.short}\n\n{card.deep}")
        for label in card.cites:
            page, text = evidence(label) or ("nowhere", "")
            print(f"\n--- {label} ({page})\n{textwrap.indent(text.strip(), '    ')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
