"""Explorers: the output that a cell stores. What a browser makes of it: tests/browser."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image

from posenc_tutorial import explorers
from posenc_tutorial.explorers._explorer import Choice, Slider, number, script
from tools.check_notebooks import check_notebook
from tools.notebooks import normalise, text_of

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("alibi_slopes", "rotation_dial", "t5_buckets", "wave_board", "wavelengths")
every = pytest.mark.parametrize("name", NAMES)


def made(name: str) -> explorers.Explorer:
    return getattr(explorers, name)()


def bundle(name: str) -> tuple[dict, dict]:
    return made(name)._repr_mimebundle_()


@every
def test_the_html_is_well_formed_and_named(name):
    shown = made(name).html()
    root = ElementTree.fromstring(shown)
    assert root.get("data-explorer") == name
    assert not any(e.get("id") for e in root.iter()), "two on a page would collide"
    picture = root.find("svg")
    assert picture.get("role") == "img" and len(picture.get("aria-label").split()) >= 10
    controls = [*root.iter("input"), *root.iter("select")]
    labels = list(root.iter("label"))
    assert len(controls) == len(labels) >= 3, "every control inside its own label"
    assert all(label.find("span").text for label in labels)
    assert len({c.get("name") for c in controls}) == len(controls)
    assert all(c.get("type") == "range" for c in root.iter("input"))
    assert root.find("p").get("aria-live") == "polite" and root.find("p").text
    assert root.find("noscript") is not None


@every
def test_nothing_is_loaded_and_nothing_is_random(name):
    data, _ = bundle(name)
    assert not re.search(r"https?:|src=|href=|@import|url\(|import\(|fetch", data["text/html"])
    assert "Math.random" not in data["text/html"] and "Date" not in data["text/html"]
    assert data == bundle(name)[0]
    assert len(data["text/html"]) < 14_000 and len(data["image/png"]) < 110_000


@every
def test_the_still_picture_is_a_picture_with_words(name):
    data, metadata = bundle(name)
    assert set(data) == {"text/html", "image/png", "text/plain"}
    image = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert image.size[0] >= 600 and not image.text
    colours = image.convert("RGB").getcolors(1 << 24)
    assert len(colours) > 20, "an empty picture"
    assert metadata == {"image/png": {"alt": made(name).alt}}


@every
def test_the_text_says_all_that_the_start_shows(name):
    explorer = made(name)
    text = " ".join(repr(explorer).split())
    assert explorer.alt in text and explorer.sentence in text
    for control in explorer.controls:
        shown = control.start if isinstance(control.start, str) else number(control.start)
        assert f"{control.label} {shown}" in text


@every
def test_formulas_come_first_and_touch_no_page(name):
    text = script(name)
    own = text[text.index("// Formulas.") : text.index("// Drawing.")]
    assert re.search(r"^function \w+\(", own, re.M)
    assert not re.search(r"document|window|svg|form", own)
    assert "]]>" not in text and "</script" not in text


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: explorers.rotation_dial(query=41), "query must be in range.0, 41., got 41"),
        (lambda: explorers.rotation_dial(base=3), "base must be in one of"),
        (lambda: explorers.wavelengths(method="yarn"), "method must be one of .*got 'yarn'"),
        (lambda: explorers.wavelengths(dim=63), "dim must be in one of .*got 63"),
        (lambda: explorers.wave_board(first=-1), "first must be in .*got -1"),
        (lambda: explorers.alibi_slopes(heads=8, head=9), "head must be in .*got 9"),
        (lambda: explorers.t5_buckets(num_buckets=33), "num_buckets must be in .*got 33"),
    ],
)
def test_a_setting_that_the_controls_do_not_have_is_refused(make, named):
    with pytest.raises(ValueError, match=named):
        make()


def test_the_arguments_set_the_start():
    sentence = explorers.t5_buckets(bidirectional=False).sentence
    assert sentence.endswith("falls into bucket 17, shared by −20 to −19.")
    assert "21 of 64" not in explorers.wavelengths(method="PI").sentence
    moved = explorers.rotation_dial(query=5, key=15).sentence
    assert moved.split("From")[1] == explorers.rotation_dial(shift=3).sentence.split("From")[1]


def test_controls_are_written_for_any_values():
    slider = Slider("a", "A & B", (1, 10, 0.5), 10)
    assert 'max="2"' in slider.html() and "data-values='[1,10,0.5]'" in slider.html()
    assert "A &amp; B" in slider.html()
    assert '<option selected="selected">y</option>' in Choice("c", "C", ("x", "y"), "y").html()
    assert (number(-20), number(1000000), number(0.5), number(-1.25, 1)) == (
        "−20", "1,000,000", "0.5", "−1.2",
    )  # fmt: skip


def test_the_package_ships_the_scripts():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert '"**/*.js"' in text


def stored(name: str) -> nbformat.NotebookNode:
    data, metadata = bundle(name)
    result = new_output("execute_result", data=data, metadata=metadata, execution_count=9)
    cells = [
        new_code_cell("device()", execution_count=1),
        new_code_cell(f"explorers.{name}()", execution_count=2, outputs=[result]),
    ]
    return normalise(new_notebook(cells=cells))


def test_the_normal_form_keeps_all_three_and_the_words(tmp_path):
    notebook = stored("t5_buckets")
    output = notebook.cells[1].outputs[0]
    assert set(output.data) == {"text/html", "image/png", "text/plain"}
    assert output.metadata["image/png"]["alt"] == made("t5_buckets").alt
    assert notebook.cells[1].metadata["mystnb"]["image"]["alt"] == made("t5_buckets").alt
    assert normalise(notebook) == notebook
    path = tmp_path / "a.ipynb"
    path.write_text(text_of(notebook), "utf-8")
    assert check_notebook(path) == [], "no caption is asked of an explorer"


def test_an_explorer_without_words_is_found(tmp_path):
    notebook = stored("t5_buckets")
    notebook.cells[1].outputs[0].metadata = {}
    path = tmp_path / "a.ipynb"
    path.write_text(text_of(notebook), "utf-8")
    (finding,) = check_notebook(path)
    assert "no alt text" in finding


def test_a_picture_beside_other_html_still_needs_a_caption(tmp_path):
    notebook = stored("t5_buckets")
    notebook.cells[1].outputs[0].data["text/html"] = "<p>something</p>"
    path = tmp_path / "a.ipynb"
    path.write_text(text_of(notebook), "utf-8")
    assert any("caption" in finding for finding in check_notebook(path))


def in_the_book() -> list:
    found = []
    for path in sorted((ROOT / "book").glob("[0-9]*.ipynb")):
        for cell in nbformat.read(path, 4).cells:
            last = cell.source.rstrip().splitlines()[-1:] if cell.cell_type == "code" else []
            if last and re.fullmatch(rf"(?:explorers\.)?({'|'.join(NAMES)})\(.*\)", last[0]):
                found.append(pytest.param(cell, last[0], id=f"{path.stem}-{last[0]}"))
    return found


@pytest.mark.parametrize(("cell", "call"), in_the_book())
def test_explorers_of_the_book_are_fresh(cell, call):
    data = next(o.data for o in cell.outputs if "text/html" in o.get("data", {}))
    made = eval(call, {"explorers": explorers, **vars(explorers)})
    assert data["text/html"] == made.html(), "make refresh"
