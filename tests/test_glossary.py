"""Glossary, index, notation: each word is explained, linked where it is first needed, and found.

That a link leads to a term is checked by the build of the book, in which every warning is an
error. Here it is *where* the links stand: at most one for each term in a chapter, on the first
use in the running text, and in the first chapter that uses the word. The opening of a chapter,
before its first code cell, announces what will be explained, and may do without links.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

BOOK = Path(__file__).resolve().parents[1] / "book"
CHAPTERS = sorted(BOOK.glob("[0-9][0-9]-*.ipynb"))

# Words that occur in another sense before the chapter that needs them as terms.
OTHER_SENSE = {
    "embedding": "in chapter 1 as a quotation",
    "gap probe": "linked as *gap*; a proof can have one in chapter 1",
    "pair": "pairs of texts in chapter 2",
    "ramp": "a slope of scores in chapters 4 to 6",
}

LINK = re.compile(r"\{term\}`(?:([^`<]+?)\s*<([^`>]+)>|([^`]+))`")
# What is no running text: code, formulas, other roles, links, headings, heads of directives.
NO_PROSE = re.compile(
    r"""^[ ]*(?P<fence>`{3,}|~{3,}).*?^[ ]*(?P=fence)[ ]*$
    | \$\$.*?\$\$ | (?<!\\)\$[^$\n]+\$
    | \{[\w:+.-]+\}`[^`]+` | `+[^`]+`+ | !?\[[^\]]*\]\([^)\s]*\)
    | ^\#{1,6}[ ][^\n]*$ | ^[ ]*:{3,}[^\n]*$ | ^[ ]*:[\w-]+:[^\n]*$""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def opening_and_body(path: Path) -> tuple[str, str]:
    """The text of a chapter before its first code cell, and from there to the exercises."""
    parts: tuple[list[str], list[str]] = ([], [])
    code = False
    for cell in json.loads(path.read_text("utf8"))["cells"]:
        if cell["cell_type"] == "code":
            code = True
            continue
        text, *rest = re.split(r"^## (?:Questions|Exercises)$", "".join(cell["source"]), flags=re.M)
        parts[code].append(text)
        if rest:
            break
    return "\n\n".join(parts[0]), "\n\n".join(parts[1])


def links(text: str) -> list[tuple[str, str, int]]:
    """``(term, words shown, place)`` of every link to the glossary."""
    return [(m[2] or m[3], m[1] or m[3], m.start()) for m in LINK.finditer(text)]


def first_use(text: str, words: set[str]) -> int | None:
    """Where the running text first uses one of the words outside of any link."""
    plain = NO_PROSE.sub(lambda found: " " * len(found[0]), text)
    names = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    found = re.search(rf"(?<![\w-])(?:{names})s?(?![\w-])", plain, re.IGNORECASE)
    return found.start() if found else None


def misplaced(term: str, chapters: dict[str, tuple[str, str]]) -> list[str]:
    """What is wrong with the links to one term; chapters in order, name -> opening and body."""
    found = {
        name: [link for link in links("\n\n".join(texts)) if link[0] == term]
        for name, texts in chapters.items()
    }
    words = {term} | {shown for shown_links in found.values() for _, shown, _ in shown_links}
    first = next((name for name in chapters if found[name]), None)
    if first is None:
        return [f"{term} is linked nowhere"]
    wrong = []
    for name, (opening, body) in chapters.items():
        if len(found[name]) > 1:
            wrong.append(f"{name} links {term} {len(found[name])} times")
        use = first_use(body, words)
        if use is None:
            continue
        if found[name] and found[name][0][2] > len(opening) + 2 + use:
            wrong.append(f"{name} uses {term} before the link: ...{body[use - 30 : use + 40]!r}")
        if name < first and term not in OTHER_SENSE:
            wrong.append(f"{name} uses {term}, and {first} is the first to link it")
    return wrong


def glossary() -> dict[str, str]:
    """Term -> what the glossary says about it."""
    text = (BOOK / "glossary.md").read_text("utf8").split(":::{glossary}")[1].split("\n:::")[0]
    entries: dict[str, str] = {}
    for block in text.strip().split("\n\n"):
        terms = [line for line in block.splitlines() if not line.startswith(" ")]
        said = "\n".join(line.strip() for line in block.splitlines() if line.startswith(" "))
        entries |= dict.fromkeys(terms, said)
    return entries


TERMS = glossary()
TEXTS = {path.stem: opening_and_body(path) for path in CHAPTERS}


def index_entries() -> list[str]:
    """All entries that the chapters make for the index."""
    fences = [
        fence
        for texts in TEXTS.values()
        for fence in re.findall(r"^:::\{index\} (.+)$", "\n".join(texts), re.M)
    ]
    return [entry.strip() for fence in fences for entry in fence.split(",")]


# ------------------------------------------------------------------------ the rules


def test_a_link_after_the_first_use_is_found():
    good = {"01": ("A cache helps.", "The *{term}`cache <KV cache>`* holds keys. A cache grows.")}
    assert misplaced("KV cache", good) == []
    late = {"01": ("", "A cache grows. The {term}`cache <KV cache>` holds keys.")}
    assert "before the link" in misplaced("KV cache", late)[0]
    later = {"01": ("", "Two caches."), "02": ("", "A {term}`cache <KV cache>`.")}
    assert misplaced("KV cache", later) == [
        "01 uses KV cache, and 02 is the first to link it",
    ]
    twice = {"01": ("", "A {term}`cache <KV cache>` is a {term}`KV cache`.")}
    assert misplaced("KV cache", twice) == ["01 links KV cache 2 times"]
    assert misplaced("KV cache", {"01": ("", "Nothing.")}) == ["KV cache is linked nowhere"]


def test_code_formulas_headings_and_other_links_are_no_use():
    text = (
        "## A base\n\n`base` $base$ {ref}`base` [base](https://x/) base-2\n\n$$\nbase\n$$\n\nbase"
    )
    assert first_use(text, {"base"}) == len(text) - 4
    assert first_use("Databases and bases.", {"base"}) == 14
    assert first_use("Nothing.", {"base"}) is None


# ------------------------------------------------------------------------ the book


@pytest.mark.parametrize("term", TERMS)
def test_each_term_is_linked_where_the_chapters_first_use_it(term):
    assert misplaced(term, TEXTS) == []


def test_chapters_link_terms_that_exist_as_they_are_spelled():
    for name, texts in TEXTS.items():
        unknown = {term for term, _, _ in links("\n".join(texts))} - TERMS.keys()
        assert not unknown, f"{name}: {unknown}"


def test_words_in_another_sense_are_terms_and_do_occur_earlier():
    for term in OTHER_SENSE:
        assert term in TERMS
        found = {
            name for name, texts in TEXTS.items() if term in {t for t, _, _ in links(texts[1])}
        }
        words = {term} | {shown for x in TEXTS.values() for t, shown, _ in links(x[1]) if t == term}
        assert any(
            first_use(TEXTS[name][1], words) is not None for name in TEXTS if name < min(found)
        )


def test_the_glossary_is_sorted_and_each_entry_leads_to_a_place():
    said = list(dict.fromkeys(TERMS.values()))
    assert len(said) >= 60
    heads = [next(term for term in TERMS if TERMS[term] == text) for text in said]
    assert heads == sorted(heads, key=lambda term: re.sub(r"[^a-z0-9]", "", term.lower()))
    for term, text in TERMS.items():
        assert re.search(r"\{(?:doc|ref|eq|prf:ref)\}`", text), term
        assert 2 <= len(text.splitlines()) <= 5, term


def test_what_one_looks_up_is_in_the_index():
    found = {entry.split(";")[0].strip() for entry in index_entries()} | TERMS.keys()
    for word in (
        *("rotate_half", "KV cache", "YaRN", "NTK-aware scaling", "attention factor", "base"),
        *("bucket", "rope_theta", "config.json", "layout", "left padding", "packing", "xPos"),
        *("sliding window", "attention sink", "critical dimension", "Triton", "torch.compile"),
    ):
        assert word in found, word


def test_entries_of_the_index_are_words_and_no_place_names_one_twice():
    for entry in index_entries():
        assert re.fullmatch(r"[A-Za-z][^,;]*(?:; [^,;]+)?", entry), entry
    for texts in TEXTS.values():
        for fence in re.findall(r"^:::\{index\} (.+)\n:::$", "\n".join(texts), re.M):
            entries = [entry.strip() for entry in fence.split(",")]
            assert len(entries) == len(set(entries))


@pytest.mark.parametrize("name", [path.stem for path in CHAPTERS if path.stem < "14"])
def test_each_chapter_enters_its_sections(name):
    assert len(re.findall(r"^:::\{index\} .+\n:::$", TEXTS[name][1], re.M)) >= 5


# ------------------------------------------------------------------------ the page of notation


def notation_rows() -> list[list[str]]:
    """The cells of every row of the tables with five columns."""
    text = (BOOK / "notation.md").read_text("utf8")
    rows = [[cell.strip() for cell in line.split(" |")] for line in text.splitlines()]
    rows = [row[:-1] for row in rows if len(row) == 6 and row[0].startswith("| $")]
    assert len(rows) > 30
    return rows


def test_names_in_the_code_are_names_in_the_code():
    files = [*(BOOK.parent / "posenc_tutorial").rglob("*.py"), *CHAPTERS]
    code = "\n".join(path.read_text("utf8") for path in files)
    for row in notation_rows():
        for name in re.findall(r"`(\w+)`", row[4]):
            assert re.search(rf"\b{name}\b", code), f"{row[0]}: {name}"
