"""The pages at the back say what the stored results say, and follow them when they change."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from from_file import load

from tools.notebooks import BOOK, ROOT

PACKAGE = ROOT / "posenc_tutorial"


pages = load(BOOK / "_ext" / "back_pages.py")
CLAIMS = pages.catalogue.CLAIMS


def notebook(folder: Path, name: str, *cells: str) -> Path:
    """A notebook of cells that decide claims, each with what it printed; Markdown begins with #."""
    made = []
    for text in cells:
        if text.startswith("#") or text.startswith("("):
            made.append({"cell_type": "markdown", "metadata": {}, "source": text})
            continue
        output = {"output_type": "execute_result", "data": {"text/plain": text}}
        made.append(
            {
                "cell_type": "code",
                "metadata": {"tags": ["claim"]},
                "source": "decide()",
                "outputs": [output],
            }
        )
    path = folder / f"{name}.ipynb"
    path.write_text(json.dumps({"cells": made}), encoding="utf-8")
    return path


def section(text: str, number: int) -> str:
    """What the page says of one claim."""
    return text.split(f"(checked-{number})=")[1].split("(checked-")[0]


# ------------------------------------------------------------------- claims


def test_every_claim_has_a_place_a_source_and_a_link_or_an_honest_gap():
    cells = pages.decided(pages.chapters())
    text = pages.claims_list(CLAIMS, cells)
    for claim in CLAIMS:
        own = section(text, claim.number)
        assert f"### {claim.number}. {claim.text}\n" in own
        assert all(f"[{source}] <sources>" in own for source in claim.sources)
        found = [cell for cell in cells if cell.verdict.claim == claim.number]
        assert own.count("{ref}`chapter ") == len(found)
        assert ("Not measured yet" in own) == (not found)


def test_sources_are_those_of_the_index():
    labels = set(re.findall(r"^\[(S\d+)\]$", (BOOK / "index.md").read_text("utf-8"), re.MULTILINE))
    assert {source for claim in CLAIMS for source in claim.sources} == labels


def test_a_verdict_is_what_the_cell_has_stored(tmp_path):
    path = notebook(
        tmp_path,
        "03-clocks",
        "(claim-6)=\n## Moving",
        "Claim 6: holds exactly. Evidence: error below 1e-12 over 4 offsets",
        "Claim 7: does not hold: they are equal. Evidence: 2 of 64",
    )
    moved, slow = pages.decided([path])
    assert moved.page == slow.page == "03-clocks"
    assert moved.label == "claim-6", "the label of the chapter"
    assert slow.label == "claim-7-03", "the cell: the chapter has no label for it"
    text = pages.claims_list(CLAIMS, [moved, slow])
    assert "**Holds exactly.**\nError below 1e-12 over 4 offsets." in section(text, 6)
    assert "{ref}`chapter 3 <claim-6>`" in section(text, 6)
    assert "verdict-fails" in section(text, 7) and "verdict-holds" in section(text, 6)
    assert "Not measured yet" in section(text, 8)


def test_several_chapters_may_decide_one_claim(tmp_path):
    early = notebook(
        tmp_path, "04-a", "(claim-8)=", "Claim 8: holds if computable. Evidence: 1 of 2"
    )
    late = notebook(tmp_path, "09-b", "Claim 8: does not hold. Evidence: 0.3 nats")
    cells = pages.decided([early, late])
    own = section(pages.claims_list(CLAIMS, cells), 8)
    assert "{ref}`chapter 4 <claim-8>`" in own and "{ref}`chapter 9 <claim-8-09>`" in own
    assert pages.kinds(cells) == {8: "does not hold"}, "the least favourable one counts"
    assert pages.kinds(reversed(cells)) == {8: "does not hold"}


def test_the_counts_are_counted(tmp_path):
    path = notebook(
        tmp_path,
        "05-a",
        "Claim 1: holds, and more. Evidence: 1",
        "Claim 2: holds for 8 heads. Evidence: 1",
        "Claim 3: holds if trained. Evidence: 1",
        "Claim 4: does not hold. Evidence: 1",
    )
    text = pages.claims_summary(CLAIMS[:5], pages.decided([path]))
    assert "Of 5 claims:" in text
    assert "- **1 holds**: {ref}`1 <checked-1>`" in text
    assert "- **2 hold with a condition**: {ref}`2 <checked-2>`, {ref}`3 <checked-3>`" in text
    assert "- **1 does not hold**: {ref}`4 <checked-4>`" in text
    assert "- **1 is not measured yet**: {ref}`5 <checked-5>`" in text


def test_the_counts_of_the_book_add_up():
    found = pages.kinds(pages.decided(pages.chapters()))
    text = pages.claims_summary(CLAIMS, pages.decided(pages.chapters()))
    numbers = [int(n) for n in re.findall(r"^- \*\*(\d+) ", text, re.MULTILINE)]
    assert sum(numbers) == len(CLAIMS)
    assert set(found.values()) <= set(pages.verdicts.KINDS)


def test_no_claim_is_decided_twice_in_a_chapter():
    """Their cells would have the same label."""
    cells = [(cell.page, cell.verdict.claim) for cell in pages.decided(pages.chapters())]
    assert len(cells) == len(set(cells))


def test_what_a_cell_printed_is_shown_as_it_was_printed():
    assert pages.escaped("10 * (2*i/d) [a]_b $1 <c>") == r"10 \* (2\*i/d) \[a\]\_b \$1 \<c\>"


def test_cells_that_decide_something_else_are_left_out(tmp_path):
    path = notebook(tmp_path, "13-a", "Criterion 1: holds. Evidence: 0.02 nats")
    assert pages.decided([path]) == []


# ------------------------------------------------------------------- comparison


@pytest.fixture
def copied(tmp_path):
    """A copy of every file that the comparison is made of."""
    package, book = tmp_path / "posenc_tutorial", tmp_path / "book"
    for folder in ("lm/results", "published_configs"):
        shutil.copytree(PACKAGE / folder, package / folder)
    (package / "kernels").mkdir()
    shutil.copy(PACKAGE / "kernels" / "measured.csv", package / "kernels")
    book.mkdir()
    shutil.copy(BOOK / f"{pages.QUOTES}.ipynb", book)
    return package, book


def rows(text: str) -> dict[str, list[str]]:
    """The cells of the comparison, by the name of the method."""
    found = {}
    for row in text.split("\n* - ")[2:]:
        name, *cells = row.split("\n:::")[0].split("\n  - ")
        found[re.search(r"`(.*) <", name)[1]] = cells
    return found


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (path.name, old, text.count(old))
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_copy_gives_the_same_table(copied):
    assert pages.comparison(pages.Experiments(*copied)) == pages.comparison(pages.Experiments())


def test_all_methods_are_there_and_those_without_a_run_say_so():
    found = rows(pages.comparison(pages.Experiments()))
    assert list(found) == [method.name for method in pages.METHODS]
    wanted = "NoPE, sinusoidal, Shaw, T5, ALiBi, RoPE, PI, NTK-aware, dynamic NTK, YaRN, longrope"
    assert set(wanted.split(", ")) <= set(found)
    assert len({len(cells) for cells in found.values()}) == 1
    assert found["Shaw"][1:7] == ["not measured"] * 6
    for name in ("NoPE", "T5", "RoPE", "RoPE, base 500,000"):
        assert all("±" in cell for cell in found[name][2:7]), name
    assert all("±" in cell for cell in found["YaRN"][2:6])


def test_every_method_leads_to_a_chapter_and_every_key_to_a_row():
    found = pages.Experiments()
    for method in pages.METHODS:
        assert (BOOK / f"{method.page}.ipynb").is_file()
        assert not method.trained or (method.trained, 64) in found.length
    stretched = {key[0] for key in found.stretched}
    unmeasured = {m.stretch for m in pages.METHODS if m.stretch} - stretched
    assert unmeasured <= {"llama3", "longrope"}


@pytest.mark.parametrize(
    ("file", "old", "new", "method", "column", "cell"),
    [
        (
            "lm/results/length_mean.csv",
            "rope,1024,3.06238,0.116677,3",
            "rope,1024,4.5,0.25,3",
            "RoPE",
            6,
            "4.50\u202f±\u202f0.25",
        ),
        (
            "lm/results/extension_mean.csv",
            "yarn_1_32,8,512,1.98693,0.0394383,3",
            "yarn_1_32,8,512,1.5,0.1,3",
            "YaRN",
            5,
            "1.50\u202f±\u202f0.10",
        ),
        (
            "published_configs/census.csv",
            "bloom,2022,slope",
            "bloom,2022,rotary",
            "ALiBi",
            -1,
            "1 of 176 folders (mpt); since 2024, 0 of 117",
        ),
        (
            "published_configs/internlm2.5-7b-chat.json",
            '"dynamic"',
            '"yarn"',
            "dynamic NTK",
            -1,
            "0 of 15 configurations",
        ),
    ],
)
def test_a_number_that_changes_in_a_file_changes_in_the_table(
    copied, file, old, new, method, column, cell
):
    package, book = copied
    before = rows(pages.comparison(pages.Experiments(package, book)))
    changed(package / file, old, new)
    after = rows(pages.comparison(pages.Experiments(package, book)))
    assert before[method][column] != after[method][column] == cell


def test_the_parameters_follow_the_runs_which_have_to_agree(copied):
    package, book = copied
    path = package / "lm" / "results" / "runs.csv"
    changed(path, "t5,0,625536", "t5,0,625537")
    with pytest.raises(ValueError, match="runs of t5 have 625537 and 625536"):
        pages.Experiments(package, book)
    changed(path, "t5,1,625536", "t5,1,625537")
    changed(path, "t5,2,625536", "t5,2,625537")
    assert rows(pages.comparison(pages.Experiments(package, book)))["T5"][1] == "129"


def test_the_share_of_a_rotation_and_what_is_remembered_follow_their_files(copied):
    package, book = copied
    # Where it is there, the hidden numbers are a column of their own behind what is remembered.
    (package / "lm" / "results" / "passkey_mean.csv").unlink(missing_ok=True)
    kernel = package / "kernels" / "measured.csv"
    text = kernel.read_text("utf-8")
    slower = re.sub(r'("layer, rotation eager",cpu,float32,,2048),[\d.]+', r"\1,5568", text)
    slower = re.sub(r'("layer, no rotation",cpu,float32,,2048),[\d.]+', r"\1,2784", slower)
    kernel.write_text(slower, "utf-8")
    notebook = book / f"{pages.QUOTES}.ipynb"
    old = "NoPE          more than 0.25 nats up to 128 bytes back"
    changed(notebook, old, old.replace("128", " 77"))
    found = rows(pages.comparison(pages.Experiments(package, book)))
    assert "+100 % of a layer's time at 2,048 tokens" in found["RoPE"][8]
    assert found["NoPE"][7] == "77"


def test_hidden_numbers_get_a_column_once_they_are_measured(copied):
    package, book = copied
    table = package / "lm" / "results" / "passkey_mean.csv"
    table.unlink(missing_ok=True)
    without = rows(pages.comparison(pages.Experiments(package, book)))
    table.write_text(
        "encoding,length,distance,mean,std,n\nrope,64,48,0.5,0.1,3\nrope,256,200,0.125,0.03,3\n",
        encoding="utf-8",
    )
    found = rows(pages.comparison(pages.Experiments(package, book)))
    assert len(found["RoPE"]) == len(without["RoPE"]) + 1
    assert found["RoPE"][8] == "0.50\u202f±\u202f0.10, 0.12\u202f±\u202f0.03"
    assert found["Shaw"][8] == "not measured"


# ------------------------------------------------------------------- how this book is tested

RECORD = {
    "complete": False,
    "date": "2026-01-02",
    "version": "9.9",
    "machine": {"system": "Linux", "architecture": "x86_64", "cores": 3},
    "versions": {"Python": "3.12.1", "torch": "2.9"},
    "steps": {
        "unit": {
            "title": "unit tests",
            "passed": True,
            "seconds": 61.0,
            "tests": 1200,
            "skipped": 4,
        },
        "nbval": {"title": "notebooks run again", "passed": False, "seconds": 9.4},
    },
    "notebooks": [
        {
            "name": "01-a",
            "kernel": "posenc-cpu",
            "device": "CPU",
            "passed": True,
            "cells": 40,
            "pictures": 3,
            "seconds": 12.2,
        }
    ],
}


def test_the_record_is_shown_with_what_the_run_left_out():
    text = pages.record_of_tests(RECORD, ["01-a", "02-b"])
    assert "2026-01-02 (a part of it), version 9.9" in text
    assert "Linux, x86_64, 3 cores" in text and "Python 3.12.1, torch 2.9" in text
    assert "* - `unit`\n  - unit tests\n  - passed\n  - 1,196 passed, 4 skipped" in text
    assert "1\u00a0min\u00a01\u00a0s" in text and "- failed\n" in text
    row = ["{doc}`01-a`", "passed", "12\u00a0s", "`posenc-cpu`", "CPU", "40", "3"]
    assert "\n  - ".join(row) in text
    assert re.search(r"\{doc\}`02-b`\n  - not in this run(\n  - –){5}", text)


def test_both_kernels_of_a_notebook_get_a_row():
    gpu = {**RECORD["notebooks"][0], "kernel": "posenc-gpu", "device": "NVIDIA X"}
    text = pages.record_of_tests({**RECORD, "notebooks": [*RECORD["notebooks"], gpu]}, ["01-a"])
    assert text.count("{doc}`01-a`") == 2 and "NVIDIA X" in text


def test_the_committed_record_can_be_shown_and_names_known_chapters():
    record = json.loads((BOOK / "tested.json").read_text(encoding="utf-8"))
    chapters = [path.stem for path in pages.chapters()]
    assert pages.record_of_tests(record, chapters)
    known = {path.stem for path in BOOK.glob("*.ipynb")}
    assert {run["name"] for run in record["notebooks"]} <= known
    assert all(run["passed"] for run in record["notebooks"])
    assert all(step["passed"] for step in record["steps"].values())


# ------------------------------------------------------------------- places in the pages


class App:
    """As much of Sphinx as the handler of sources needs."""

    def __init__(self) -> None:
        self.env = self
        self.noted: list[str] = []

    def note_dependency(self, path: str) -> None:
        self.noted.append(path)


@pytest.mark.parametrize(
    ("page", "word"),
    [("claims", "(checked-36)="), ("comparison", "longrope"), ("tested", "posenc-cpu")],
)
def test_places_are_filled(page, word):
    app, source = App(), [(BOOK / f"{page}.md").read_text(encoding="utf-8")]
    places = pages.PLACE.findall(source[0])
    assert places and word not in source[0].replace("longrope in one", "")
    pages.on_source(app, page, source)
    assert word in source[0]
    assert not any(f":::{{{name}}}" in source[0] for name in places)
    assert app.noted and all(Path(path).is_file() for path in app.noted)


def test_every_place_is_used_once():
    text = "".join((BOOK / f"{page}.md").read_text("utf-8") for page in PAGES)
    assert sorted(pages.PLACE.findall(text)) == sorted(pages.GENERATED)


PAGES = ("claims", "comparison", "tested")


def test_other_pages_stay_as_they_are():
    app, source = App(), ["# A page\n\n:::{note}\n\nText.\n\n:::\n"]
    pages.on_source(app, "a", source)
    assert source == ["# A page\n\n:::{note}\n\nText.\n\n:::\n"] and not app.noted


def test_nothing_of_torch_is_needed():
    assert not {"torch", "numpy"} & set(vars(pages))
    source = (BOOK / "_ext" / "back_pages.py").read_text(encoding="utf-8")
    assert "import posenc_tutorial" not in source and "from posenc_tutorial" not in source
