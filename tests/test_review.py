"""Chapter 14: every answer rests on output that is there, and the cards are those of the page."""

from __future__ import annotations

import dataclasses
import re

import pytest

from tools import review_cards
from tools.notebooks import BOOK, read
from tools.review_cards import Card, cards, evidence, unsupported

CARDS = cards()
NOTEBOOK = read(BOOK / "14-review.ipynb")
MARKDOWN = "\n\n".join(c.source for c in NOTEBOOK.cells if c.cell_type == "markdown")


def ids(card: Card) -> str:
    return re.sub(r"\W+", "-", card.question.lower())[:50]


# ------------------------------------------------------------------- what an answer rests on


@pytest.mark.parametrize("card", CARDS, ids=ids)
def test_every_label_that_an_answer_cites_exists_and_one_of_them_has_output(card):
    assert card.cites
    found = {label: evidence(label) for label in card.cites}
    assert all(found.values()), [label for label, where in found.items() if where is None]
    assert any(where[1].strip() for where in found.values())
    assert all(where[0] != review_cards.PAGE for where in found.values())


@pytest.mark.parametrize("card", CARDS, ids=ids)
def test_every_number_in_an_answer_stands_in_output_that_it_cites(card):
    assert unsupported(card) == []


def test_numbers_are_quoted_and_not_only_words():
    assert sum(bool(card.numbers()) for card in CARDS) >= 40
    assert sum(len(card.numbers()) for card in CARDS) >= 150


def test_a_wrong_number_is_noticed():
    for card in CARDS:
        wrong = dataclasses.replace(card, deep=card.deep + "\nIt was 31.4159 nats.")
        assert unsupported(wrong) == ["31.4159"]
    (card,) = (card for card in CARDS if "0.63" in card.deep)
    assert unsupported(dataclasses.replace(card, deep=card.deep.replace("0.63", "0.36"))) == [
        "0.36"
    ]
    assert "0.63" in unsupported(dataclasses.replace(card, cites=("claim-18",)))
    assert "0.63" in unsupported(dataclasses.replace(card, cites=("no-such-label",)))


def test_what_counts_as_a_number():
    text = "$2^3$ `x[4]` {eq}`eq-5` [S001] T5 bfloat16 chapter 6: 1,024 ± 0.5, -3 % and 2e-05."
    found = dataclasses.replace(CARDS[0], short="", deep=text).numbers()
    assert found == ["1024", "0.5", "3", "2e-05"]


def test_a_label_stands_for_its_figure_its_section_or_what_follows_it():
    page, text = evidence("fig-two-sentences")
    assert (
        page == "01-why-positions" and text == "xihuan on wo: 0.63 on the left, 0.63 on the right\n"
    )
    _, section = evidence("claim-12")  # a heading of rank two, with three below it
    assert "Claim 12" in section and "both bounds hold" in section and "Claim 33" not in section
    _, paragraph = evidence("claim-27")
    assert "Claim 27" in paragraph and "A first" not in paragraph
    _, theorem = evidence("thm-injective")
    assert "closest 1.471848" in theorem and "as printed" not in theorem
    _, equation = evidence("eq-lead")
    assert "lead needed" in equation and "no sink" not in equation
    assert evidence("no-such-label") is None


# ------------------------------------------------------------------- the form of the cards


@pytest.mark.parametrize("card", CARDS, ids=ids)
def test_a_card_can_be_said_aloud(card):
    assert card.question.endswith("?")
    sentences = re.split(r"(?<=[.?])\s+(?=[A-Z*])", card.short)
    assert 1 <= len(sentences) <= 2
    assert not re.search(r"[$\t{]|\]\(", card.question + card.short)
    assert len(card.deep.splitlines()) >= 3 and "\n\n" not in card.deep


def test_links_to_the_glossary_are_words_on_a_card():
    text = "A {term}`KV cache`, two {term}`caches <KV cache>`."
    assert review_cards._without_terms(text) == "A KV cache, two caches."


def test_the_articles_questions_are_there_and_many_more():
    assert len({card.question for card in CARDS}) == len(CARDS)
    asked = [card.asked for card in CARDS if card.asked]
    assert asked.count("S001") == 7 and asked.count("S004") == 4
    assert len(CARDS) - len(asked) >= 25
    assert "eleven of these questions" in MARKDOWN


def test_every_dropdown_of_the_page_is_a_card_or_says_why_not():
    assert MARKDOWN.count(":class: dropdown") == len(CARDS)


# ------------------------------------------------------------------- files, talk, score


@pytest.mark.parametrize("path", review_cards.files(CARDS), ids=lambda path: path.name)
def test_the_files_hold_the_cards_of_the_page(path):
    assert path.read_text("utf-8") == review_cards.files(CARDS)[path], (
        "python -m tools.review_cards"
    )
    assert f"(_static/{path.name})" in MARKDOWN
    derived = read(BOOK / "colab" / "14-review.ipynb")  # has no such folder beside it
    links = re.findall(rf"\((\S*{path.name})\)", "\n".join(c.source for c in derived.cells))
    assert len(links) == 1 and links[0].startswith("https://")


def test_each_line_of_the_text_file_is_a_card_with_two_sides():
    lines = review_cards.as_tsv(CARDS).splitlines()
    body = [line for line in lines if not line.startswith("#")]
    assert len(body) == len(CARDS) and all(line.count("\t") == 1 for line in body)


def test_the_printed_sheet_escapes_what_it_shows():
    card = dataclasses.replace(CARDS[0], question="Is a < b & *c*?", short="`x` is.")
    sheet = review_cards.as_sheet([card])
    assert "Is a &lt; b &amp; <em>c</em>?" in sheet and "<code>x</code> is." in sheet
    assert "<script" not in sheet and sheet.count("<tr>") == 2


def test_the_talk_fits_five_minutes_and_has_three_figures():
    start, end = MARKDOWN.index("## Five minutes"), MARKDOWN.index("(interview-questions)=")
    talk = MARKDOWN[start:end]
    words = len(re.sub(r"\$\$.*?\$\$", "", talk, flags=re.DOTALL).split())
    assert 500 <= words <= 850, words  # with what is only read, at 150 words a minute
    figures = [c.metadata.get("mystnb", {}).get("figure", {}).get("name") for c in NOTEBOOK.cells]
    assert len([name for name in figures if name]) == 3


def test_the_page_ends_with_a_score():
    last = [cell for cell in NOTEBOOK.cells if cell.cell_type == "code"][-1]
    assert last.source == "progress(chapter=14)"
    assert last.outputs[0].text.splitlines()[-1] == "4 of 4 exercises solved, 12 of 12 points"
