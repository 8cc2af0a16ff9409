"""Right and wrong answers to a chapter's exercises, and the tests that all such lists take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posenc_tutorial.exercises import evaluate


class Answers:
    """Answers by other means than the references; a module keeps its own.

    ``WRONG`` holds exercise, keys of the mistakes and answer, ``RIGHT`` exercise and answer.
    """

    def __init__(self) -> None:
        self.WRONG: list[tuple[str, tuple[str, ...], Any]] = []
        self.RIGHT: list[tuple[str, Any]] = []

    def wrong(self, name: str, mistakes: str, answer: Any) -> None:
        """Add an answer with the mistakes that the check must name, keys with spaces between."""
        self.WRONG.append((name, tuple(mistakes.split()), answer))

    def right(self, name: str, answer: Any) -> None:
        """Add an answer that the check must accept."""
        self.RIGHT.append((name, answer))

    def tests(self) -> tuple[Callable, Callable]:
        """Of what was added so far: each mistake gets its name, each right answer passes."""

        @pytest.mark.parametrize(("name", "mistakes", "answer"), self.WRONG)
        def mistakes_are_recognised(name, mistakes, answer):
            found = evaluate(name, answer)
            assert found.status == "wrong" and found.mistakes == mistakes, str(found)

        @pytest.mark.parametrize(("name", "answer"), self.RIGHT)
        def right_answers_are_right(name, answer):
            found = evaluate(name, answer)
            assert found.status == "correct", str(found)

        return mistakes_are_recognised, right_answers_are_right
