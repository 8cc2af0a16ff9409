"""Multiple-choice questions with an explanation behind every choice.

For what code cannot ask. A question is plain HTML: each choice is a ``<details>`` element, which
opens with a click, with Enter or with the space bar and then says whether it is right, and why.
There is no script and no style sheet in it, so it works in a static page, in JupyterLab (trusted
or not), in Colab and in an e-book, from the stored output and without a kernel; where HTML is not
shown there is a text with the answers below. The output depends on the questions alone. ::

    quiz(
        ask(
            "Which row of attention's output changes when two other words swap places?",
            right("None", "The sum runs over the same two terms."),
            wrong("Both", "Those are the rows that swap places; they keep their values."),
        ),
    )

In all texts ``*emphasis*``, ``x_{i}``, ``x^{2}`` and code between backticks are understood, and
nothing else: formulas need a script that is not there.
"""

from __future__ import annotations

import html
import re
import textwrap
from dataclasses import dataclass

__all__ = ["Choice", "Question", "Quiz", "ask", "quiz", "right", "wrong"]

LETTERS = "abcdefgh"
WIDTH = 88  # of the text version


@dataclass(frozen=True)
class Choice:
    """One answer that may be picked.

    Attributes:
        text: the answer.
        explanation: why it is right, or what somebody who picks it has mistaken.
        correct: whether it is right.
    """

    text: str
    explanation: str
    correct: bool


@dataclass(frozen=True)
class Question:
    """A question and its choices, exactly one of which is right."""

    text: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Quiz:
    """Some questions, shown when it is the last line of a cell."""

    questions: tuple[Question, ...]

    def _repr_html_(self) -> str:
        parts = [_question_html(number, q) for number, q in enumerate(self.questions, start=1)]
        return '<div class="posenc-quiz">\n' + "\n".join(parts) + "\n</div>"

    def __repr__(self) -> str:
        asked = [_question_text(number, q) for number, q in enumerate(self.questions, start=1)]
        answered = [_answer_text(number, q) for number, q in enumerate(self.questions, start=1)]
        return "\n\n".join([*asked, "Answers", *answered])


def right(text: str, explanation: str) -> Choice:
    """The right choice, and why it is right.

    Raises:
        TypeError: not texts.
        ValueError: an empty text.
    """
    return Choice(_text(text, "choice"), _text(explanation, "explanation"), True)


def wrong(text: str, explanation: str) -> Choice:
    """A wrong choice, and what is mistaken about it.

    Raises:
        TypeError: not texts.
        ValueError: an empty text.
    """
    return Choice(_text(text, "choice"), _text(explanation, "explanation"), False)


def ask(text: str, *choices: Choice) -> Question:
    """A question.

    Args:
        text: the question.
        choices: 2 to 8 of them, made by :func:`right` and :func:`wrong`, in the order shown.

    Returns:
        The question, for :func:`quiz`.

    Raises:
        TypeError: something else among the choices.
        ValueError: too few or too many, two that read alike, or not exactly one that is right.
    """
    text = _text(text, "question")
    for choice in choices:
        if not isinstance(choice, Choice):
            raise TypeError(f"a choice is made by right() or wrong(), got {type(choice).__name__}")
    if not 2 <= len(choices) <= len(LETTERS):
        raise ValueError(f"a question has 2 to {len(LETTERS)} choices, got {len(choices)}: {text}")
    correct = sum(choice.correct for choice in choices)
    if correct != 1:
        raise ValueError(f"exactly one choice must be right, got {correct}: {text}")
    if len({choice.text for choice in choices}) < len(choices):
        raise ValueError(f"two choices read alike: {text}")
    return Question(text, choices)


def quiz(*questions: Question) -> Quiz:
    """Questions made by :func:`ask`, numbered in order.

    Raises:
        TypeError: something else among them.
        ValueError: none.
    """
    for question in questions:
        if not isinstance(question, Question):
            raise TypeError(f"a question is made by ask(), got {type(question).__name__}")
    if not questions:
        raise ValueError("a quiz needs a question, got none")
    return Quiz(questions)


# HTML


def _question_html(number: int, question: Question) -> str:
    # The name lets a browser that knows it close one choice when another is opened.
    choices = "\n".join(_choice_html(choice) for choice in question.choices)
    return (
        '<div class="posenc-question" style="margin: 1em 0 1.5em">\n'
        f"<p><strong>Question {number}.</strong> {_markup(question.text)}</p>\n"
        f"{choices}\n</div>"
    )


def _choice_html(choice: Choice) -> str:
    kind, word = ("right", "Right.") if choice.correct else ("wrong", "Wrong.")
    mark = "&#10003;" if choice.correct else "&#10007;"
    return (
        f'<details class="posenc-{kind}" style="margin: 0.35em 0 0.35em 1em">\n'
        f'<summary style="cursor: pointer">{_markup(choice.text)}</summary>\n'
        '<p style="margin: 0.35em 0 0.7em 1em; padding-left: 0.7em; '
        'border-left: 3px solid currentColor">'
        f"<strong>{mark} {word}</strong> {_markup(choice.explanation)}</p>\n"
        "</details>"
    )


def _markup(text: str) -> str:
    """The little markup that is understood, as HTML that is also XHTML."""
    parts = re.split(r"(`[^`]+`)", text)
    done = []
    for part in parts:
        if len(part) > 2 and part.startswith("`") and part.endswith("`"):
            done.append(f"<code>{html.escape(part[1:-1], quote=False)}</code>")
            continue
        part = html.escape(part, quote=False)
        part = re.sub(r"_\{([^{}]+)\}", r"<sub>\1</sub>", part)
        part = re.sub(r"\^\{([^{}]+)\}", r"<sup>\1</sup>", part)
        done.append(re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"<em>\1</em>", part))
    return "".join(done)


# Text


def _question_text(number: int, question: Question) -> str:
    lines = [_wrapped(f"Question {number}. ", question.text)]
    for letter, choice in zip(LETTERS, question.choices, strict=False):
        lines.append(_wrapped(f"  ({letter}) ", choice.text))
    return "\n".join(lines)


def _answer_text(number: int, question: Question) -> str:
    lines = []
    for letter, choice in zip(LETTERS, question.choices, strict=False):
        word = "right." if choice.correct else "wrong."
        lines.append(_wrapped(f"{number} ({letter}) ", f"{word} {choice.explanation}"))
    return "\n".join(lines)


def _wrapped(head: str, text: str) -> str:
    plain = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"\1", text)
    plain = re.sub(r"([_^])\{(\w|[^\W\d])\}", r"\1\2", plain)
    return textwrap.fill(
        plain, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False
    )


def _text(value: str, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {what} is a text, got {type(value).__name__}")
    if not value.strip():
        raise ValueError(f"a {what} must not be empty, got {value!r}")
    return " ".join(value.split())
