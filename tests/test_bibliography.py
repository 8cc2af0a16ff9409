"""The bibliography: every work is cited, can be found by its address, and stands there once."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

BOOK = Path(__file__).resolve().parents[1] / "book"
NEEDED = {
    "article": {"journal"},
    "inproceedings": {"booktitle"},
    "techreport": {"institution"},
    "misc": set(),
}


def read(text: str) -> dict[str, dict[str, str]]:
    """Key -> fields, with the kind of the entry under ``kind``."""
    found = {}
    for kind, key, body in re.findall(r"^@(\w+)\{([^,]+),\n(.*?)^\}$", text, re.M | re.S):
        fields = dict(re.findall(r"^  (\w+) *= \{(.*)\},$", body, re.M))
        assert len(fields) == body.count("\n"), f"{key}: a line that is no field"
        assert key not in found, f"{key} stands there twice"
        found[key] = {"kind": kind, **fields}
    assert len(found) == len(re.findall(r"^@", text, re.M))
    return found


WORKS = read((BOOK / "references.bib").read_text("utf-8"))


def arxiv_ids(work: dict[str, str]) -> set[str]:
    """The arXiv ids that an entry mentions, in any of its fields."""
    text = " ".join([work.get("url", ""), work.get("note", "")])
    found = set(re.findall(r"arxiv\.org/abs/(\S+)|arXiv:(\S+)", text))
    ids = {a or b for a, b in found}
    return ids | ({work["eprint"]} if "eprint" in work else set())


def problems(work: dict[str, str]) -> list[str]:
    """What is wrong with the form of an entry."""
    found = [f"no {name}" for name in ("author", "title", "year") if not work.get(name)]
    found += [f"no {name}" for name in NEEDED[work["kind"]] if not work.get(name)]
    year = int(work["year"]) if re.fullmatch(r"(19|20)\d\d", work.get("year", "")) else 0
    if not year:
        found.append("odd year")
    if not {"doi", "eprint", "url"} & set(work):
        found.append("no address")
    if "doi" in work and not re.fullmatch(r"10\.\d{4,9}/[\w./-]+", work["doi"]):
        found.append("odd DOI")
    if "url" in work and not re.fullmatch(r"https://[\w.-]+/[\w./?=-]+", work["url"]):
        found.append("odd URL")
    ids = arxiv_ids(work)
    if len(ids) > 1:
        found.append("several arXiv ids")
    for number in ids:
        match = re.fullmatch(r"(\d\d)(0[1-9]|1[0-2])\.(\d{4,5})", number)
        if not match or len(match[3]) != (5 if int(match[1]) >= 15 else 4):
            found.append("odd arXiv id")
        elif year and not 0 <= year - 2000 - int(match[1]) <= 4:
            found.append("year and arXiv id disagree")
    names = work.get("author", "").split(" and ")
    if any("," in name or not name.strip() for name in names):
        found.append("authors are written 'First Last and First Last'")
    return found


@pytest.mark.parametrize("key", WORKS)
def test_entry(key):
    assert problems(WORKS[key]) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"title": ""}, "no title"),
        ({"booktitle": ""}, "no booktitle"),
        ({"year": "17"}, "odd year"),
        ({"url": "http://a.org/b"}, "odd URL"),
        ({"doi": "https://doi.org/10.1145/1"}, "odd DOI"),
        ({"url": "https://arxiv.org/abs/1713.03762"}, "odd arXiv id"),
        ({"url": "https://arxiv.org/abs/1706.3762"}, "odd arXiv id"),
        ({"url": "https://arxiv.org/abs/2306.03762"}, "year and arXiv id disagree"),
        ({"note": "arXiv:1706.00001"}, "several arXiv ids"),
        ({"author": "Vaswani, Ashish"}, "authors are written 'First Last and First Last'"),
    ],
)
def test_a_problem_is_noticed(change, problem):
    assert problems({**WORKS["vaswani2017attention"], **change}) == [problem]


def test_an_entry_without_an_address_is_noticed():
    work = {name: text for name, text in WORKS["goldberg1991every"].items() if name != "doi"}
    assert problems(work) == ["no address"]


def test_no_work_stands_there_twice():
    """One work has two entries on purpose: a preprint, and the journal's version of it."""
    addresses = [tuple(sorted(arxiv_ids(w))) or w.get("doi") or w["url"] for w in WORKS.values()]
    assert len(addresses) == len(set(addresses))
    plain = [re.sub(r"\W", "", work["title"]).lower() for work in WORKS.values()]
    twice = {title for title in plain if plain.count(title) > 1}
    assert twice == {"roformerenhancedtransformerwithrotarypositionembedding"}


def test_every_work_is_cited():
    text = "\n".join(path.read_text("utf-8") for path in BOOK.glob("*.md"))
    for path in BOOK.glob("*.ipynb"):
        cells = nbformat.read(path, 4).cells
        text += "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    cited = re.findall(r"\{cite:\w+\}`([^`]+)`", text)
    keys = {key.strip() for group in cited for key in group.split(",")}
    assert set(WORKS) - keys == set()
