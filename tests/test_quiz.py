"""Questions: what is shown, that it is safe in every page, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest

from posenc_tutorial.quiz import Choice, Quiz, ask, quiz, right, wrong

BOOK = Path(__file__).resolve().parents[1] / "book"


def example() -> Quiz:
    return quiz(
        ask(
            "Is `a < b & c` *really* x_{i}^{2}?",
            wrong("No", "It is <b>not</b> no."),
            right("Yes", "It is."),
        ),
        ask("Which?", right("This", "Right here."), wrong("That", "Over *there*.")),
    )


def test_the_page_is_well_formed_and_has_no_script():
    shown = example()._repr_html_()
    root = ElementTree.fromstring(shown)
    assert {element.tag for element in root.iter()} <= {
        "div", "p", "strong", "em", "code", "sub", "sup", "details", "summary",
    }  # fmt: skip
    assert not any(element.get("id") or element.get("name") for element in root.iter())
    assert "\n\n" not in shown, "a blank line would end the HTML in a Markdown cell"


def test_each_choice_opens_to_its_own_explanation():
    root = ElementTree.fromstring(example()._repr_html_())
    opened = [
        ("".join(d.find("summary").itertext()), " ".join("".join(d.find("p").itertext()).split()))
        for d in root.iter("details")
    ]
    assert opened == [
        ("No", "✗ Wrong. It is <b>not</b> no."),
        ("Yes", "✓ Right. It is."),
        ("This", "✓ Right. Right here."),
        ("That", "✗ Wrong. Over there."),
    ]
    assert all(d.get("open") is None for d in root.iter("details")), "nothing is given away"


def test_markup_is_small_and_the_rest_is_text():
    shown = example()._repr_html_()
    assert "<code>a &lt; b &amp; c</code> <em>really</em> x<sub>i</sub><sup>2</sup>?" in shown
    assert "&lt;b&gt;not&lt;/b&gt;" in shown
    starred = quiz(ask("2*3*4 and `*a*`?", right("a", "b"), wrong("c", "d")))._repr_html_()
    assert "2*3*4 and <code>*a*</code>?" in starred


def test_the_output_depends_on_the_questions_alone():
    assert example()._repr_html_() == example()._repr_html_()
    assert repr(example()) == repr(example())


def test_where_html_is_not_shown_the_answers_come_last():
    text = repr(example())
    asked, answered = text.split("Answers")
    assert asked.count("(a)") == asked.count("(b)") == 2
    assert "It is." not in asked and "Right" not in asked
    assert "1 (a) wrong. It is <b>not</b> no." in answered and "1 (b) right." in answered
    assert max(map(len, text.splitlines())) <= 88


def test_colours_come_from_the_page():
    shown = example()._repr_html_()
    assert "currentColor" in shown and not re.search(r"[: ]#[0-9a-fA-F]{3,6}\b|rgb", shown)


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: ask("q", right("a", "b")), ValueError, "2 to 8 choices, got 1"),
        (lambda: ask("q", *[wrong(str(i), "b") for i in range(9)]), ValueError, "got 9"),
        (lambda: ask("q", wrong("a", "b"), wrong("c", "d")), ValueError, "must be right, got 0"),
        (lambda: ask("q", right("a", "b"), right("c", "d")), ValueError, "must be right, got 2"),
        (lambda: ask("q", right("a", "b"), wrong("a", "d")), ValueError, "read alike"),
        (lambda: ask("q", "a", "b"), TypeError, "got str"),
        (lambda: ask(" ", right("a", "b"), wrong("c", "d")), ValueError, "question"),
        (lambda: right("a", ""), ValueError, "explanation"),
        (lambda: wrong(3, "b"), TypeError, "got int"),
        (lambda: quiz(), ValueError, "got none"),
        (lambda: quiz("q"), TypeError, "got str"),
    ],
)
def test_what_is_refused(make, error, named):
    with pytest.raises(error, match=named):
        make()


def stored() -> list:
    found = []
    for path in sorted(BOOK.glob("*.ipynb")):
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "code" and re.search(r"^quiz\(", cell.source, re.M):
                found.append(pytest.param(cell, id=path.stem))
    return found


@pytest.mark.parametrize("cell", stored())
def test_questions_of_the_book(cell):
    space: dict = {}
    head, _, call = cell.source.partition("\nquiz(")
    exec(head, space)
    shown = eval("quiz(" + call, space)
    stored = cell.outputs[0].data
    assert stored["text/html"] == shown._repr_html_(), "make refresh"
    assert stored["text/plain"] == repr(shown), "make refresh"
    assert "remove-input" in cell.metadata.tags, "the code would show the answers"
    assert 3 <= len(shown.questions) <= 5
    places = [[c.correct for c in question.choices].index(True) for question in shown.questions]
    assert len(set(places)) > 1, "the right answer is always at the same place"
    choices: list[Choice] = [c for question in shown.questions for c in question.choices]
    assert all(len(choice.explanation.split()) >= 5 for choice in choices)
    assert not any("$" in c.text + c.explanation for c in choices), "formulas are not typeset here"
    stops = [c.text for c in choices if c.text.endswith(".")]
    assert not stops, "a full stop behind some choices tells them apart"
