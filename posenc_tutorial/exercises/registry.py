"""What an exercise is, and where all of them are.

An exercise knows its answer through a *reference*, a function with one boolean argument for every
known mistake: called without them it gives the right answer, called with one or two of them it
gives what somebody gets who makes these mistakes. A check compares an answer with all of these.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

#: One module per chapter, each with a tuple ``EXERCISES``.
CHAPTERS = (
    "ch01_why_positions",
    "ch02_learned",
    "ch03_sinusoidal",
    "ch04_absolute_limits",
    "ch05_relative_bias",
    "ch06_rope",
    "ch07_rope_in_practice",
    "ch08_alibi",
    "ch09_train_short",
    "ch10_extending_context",
    "ch11_long_context",
    "ch12_fast_kernels",
    "ch13_choosing",
    "ch14_review",
)

#: ``(arguments, right answer, given answer)`` for every input.
Cases = Sequence[tuple[tuple[Any, ...], Any, Any]]


@dataclass(frozen=True)
class Mistake:
    """A mistake that people make, and that a check can recognise.

    Args:
        key: name of the boolean argument of the reference; also the name in a grader's table.
        message: what is wrong, without the formula that would be right. One line, ASCII, so that
            every terminal can show it.
        source: who made it: the address of a public thread, or ``"claim 5"``.
        excludes: keys of mistakes that cannot be told apart from this one, or make no difference
            together with it; such pairs are not looked for.
        symptom: for mistakes whose exact numbers depend on the order of operations (half
            precision): a function that looks at all inputs and says whether the error has the
            shape of this mistake.
    """

    key: str
    message: str
    source: str
    excludes: tuple[str, ...] = ()
    symptom: Callable[[Cases], bool] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Exercise:
    """What all kinds of exercise have.

    Args:
        name: a Python name: of the function or variable that holds the answer, of the label
            ``ex-name`` in the book, and of the ``grade_id`` in a notebook.
        title: as the book prints it.
        chapter: number of the chapter.
        difficulty: 1 (apply what you read) to 3 (think).
        importance: 1 (for the curious) to 3 (the rest of the course uses it).
        minutes: for somebody who has read the chapter.
        points: in a graded course.
        hints: in the order in which :func:`~posenc_tutorial.exercises.hint` gives them.
        reference: see the module.
        mistakes: see :class:`Mistake`.
    """

    name: str
    title: str
    chapter: int
    difficulty: int
    importance: int
    minutes: int
    points: int
    hints: tuple[str, ...]
    reference: Callable[..., Any]
    mistakes: tuple[Mistake, ...]

    kind = "exercise"

    def inputs(self) -> list[tuple[Any, ...]]:
        """The inputs of the check, the same at every call; for a value, one that is empty."""
        return [()]

    def expected(self, keys: Sequence[str] = ()) -> list[Any]:
        """What these mistakes together give on every input; without mistakes, the right answer.

        An exception that the reference raises is an outcome like any other and stands in the list.
        """
        return list(_outcomes(self, tuple(keys)))

    def mistake(self, key: str) -> Mistake:
        """The mistake with this key."""
        return next(mistake for mistake in self.mistakes if mistake.key == key)


@dataclass(frozen=True, kw_only=True, eq=False)
class Implement(Exercise):
    """Write a function.

    Args:
        signature: the line that the stub begins with.
        make_inputs: a function without arguments that returns fresh inputs, with a seed of its own.
            They must tell right from nearly right.
        tolerance: a number, or a function of the arguments that returns a number or a tensor that
            fits the answer: rounding grows with the position, so one number for all is either too
            strict far out or too lax near the start.
        any_float: float32 and float64 are both right; otherwise the dtype of the reference is.
        raises: on some inputs the right outcome is an :class:`IndexError`.
        canonical: applied to an answer before it is compared, for outputs that are free in part.
    """

    signature: str
    make_inputs: Callable[[], list[tuple[Any, ...]]]
    tolerance: float | Callable[..., Any] = 1e-5
    any_float: bool = False
    raises: bool = False
    canonical: Callable[[tuple[Any, ...], Any], Any] | None = None

    kind = "implement"

    def inputs(self) -> list[tuple[Any, ...]]:
        return self.make_inputs()

    def tolerance_for(self, arguments: tuple[Any, ...]) -> Any:
        """The tolerance for one input."""
        return self.tolerance(*arguments) if callable(self.tolerance) else self.tolerance


@dataclass(frozen=True, kw_only=True, eq=False)
class Repair(Implement):
    """Repair a function in which bugs were planted.

    The mistakes are the bugs, and each has a ``symptom``: the one test that is meant for it. A test
    looks at the outputs of inputs that were made for it and does not mind the other bugs, so the
    check can name all that are left, however many.
    """


@dataclass(frozen=True, kw_only=True, eq=False)
class Predict(Exercise):
    """Say what will come out, before it is measured.

    The reference measures, and its mistakes are misconceptions: each gives what one would expect
    who holds it. The answer is a number, a text, or a list of these.

    Args:
        tolerance: how far a number may be off.
        parts: for a list, what each entry stands for, as in the task.
    """

    tolerance: float = 0.0
    parts: tuple[str, ...] = ()

    kind = "predict"


@dataclass(frozen=True)
class Statement:
    """A statement that may be chosen.

    Args:
        text: as the book prints it; Markdown.
        why: for a false one, why it is false: the message of the check. For a true one, empty.
        source: for a false one, who believes it.
    """

    text: str
    why: str = ""
    source: str = ""

    @property
    def true(self) -> bool:
        """Whether it holds."""
        return not self.why


@dataclass(frozen=True, kw_only=True, eq=False)
class Explain(Exercise):
    """Choose the statements that are true, by their letters.

    The check names a false one that was chosen and says why it is false.

    Args:
        statements: by letter, ``A`` first.
    """

    statements: dict[str, Statement]

    kind = "explain"


def explain(statements: dict[str, Statement], **fields: Any) -> Explain:
    """An :class:`Explain` whose reference and mistakes follow from its statements."""
    right = {letter for letter, statement in statements.items() if statement.true}

    def reference(**chosen: bool) -> str:
        return "".join(sorted(right | set(chosen)))

    mistakes = tuple(
        Mistake(letter, f"{letter} is not true: {statement.why}", statement.source)
        for letter, statement in statements.items()
        if not statement.true
    )
    return Explain(statements=statements, reference=reference, mistakes=mistakes, **fields)


@lru_cache(maxsize=512)
def _outcomes(entry: Exercise, keys: tuple[str, ...]) -> tuple[Any, ...]:
    found: list[Any] = []
    for arguments in entry.inputs():
        try:
            found.append(entry.reference(*arguments, **dict.fromkeys(keys, True)))
        except IndexError as error:
            found.append(error)
    return tuple(found)


@lru_cache(maxsize=1)
def _all() -> dict[str, Exercise]:
    found: dict[str, Exercise] = {}
    for chapter in CHAPTERS:
        module = importlib.import_module(f"{__package__}.{chapter}")
        for entry in module.EXERCISES:
            if entry.name in found:
                raise ValueError(f"two exercises have the name {entry.name!r}")
            found[entry.name] = entry
    return found


def exercises(chapter: int | None = None) -> list[Exercise]:
    """All exercises, or those of one chapter, in the order of the book.

    Args:
        chapter: number of a chapter.

    Returns:
        A new list.
    """
    return [entry for entry in _all().values() if chapter in (None, entry.chapter)]


def exercise(name: str) -> Exercise:
    """The exercise with this name.

    Args:
        name: as in the check cell.

    Returns:
        Its entry in the registry.

    Raises:
        ValueError: there is none; the message names what is close.
    """
    found = _all()
    if name not in found:
        close = difflib.get_close_matches(str(name), found, n=3) or list(found)
        raise ValueError(f"no exercise is called {name!r}; did you mean {', '.join(close)}?")
    return found[name]
