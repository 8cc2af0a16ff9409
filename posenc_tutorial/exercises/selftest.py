"""Tests a catalogue of mistakes: does every one of them show, and as itself?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import torch

from .diagnosis import agrees, all_explanations, mistake_sets
from .isolation import usual_defaults
from .registry import Exercise, Explain, Implement
from .runner import portable

SOURCE = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+|claim \d+")


def problems(entry: Exercise) -> list[str]:
    """What is wrong with an exercise's entry.

    Every set of one or two mistakes must give something else than the reference and than every
    other set, and must be recognised as what it is and nothing else.

    Args:
        entry: an exercise.

    Returns:
        One line for each finding; empty when all is well.
    """
    with usual_defaults(), torch.no_grad():
        return [*_form(entry), *_catalogue(entry)]


def count(entries: list[Exercise]) -> dict[str, int]:
    """How many exercises, mistakes, and sets of mistakes there are."""
    return {
        "exercises": len(entries),
        "mistakes": sum(len(entry.mistakes) for entry in entries),
        "sets": sum(len(list(mistake_sets(entry))) for entry in entries),
    }


def outcomes(entry: Exercise, keys: tuple[str, ...] = ()) -> list[Any]:
    """What somebody with these mistakes would hand in, in the form of ``runner.portable``."""
    found = []
    for value in entry.expected(keys):
        if isinstance(value, BaseException):
            names = [kind.__name__ for kind in type(value).__mro__]
            found.append({"raised": names, "text": f"raised {value}"})
        else:
            found.append(portable(value))
    return found


def _form(entry: Exercise) -> Iterator[str]:
    if not entry.name.isidentifier():
        yield f"the name {entry.name!r} is no Python name"
    for field, most in (("difficulty", 3), ("importance", 3), ("minutes", 60), ("points", 10)):
        if not 1 <= getattr(entry, field) <= most:
            yield f"{field} must be in 1 ... {most}, got {getattr(entry, field)}"
    if not entry.hints:
        yield "there is no hint"
    if not entry.mistakes:
        yield "no mistake is named"
    keys = [mistake.key for mistake in entry.mistakes]
    if len(set(keys)) < len(keys):
        yield "two mistakes have one key"
    if len({mistake.message for mistake in entry.mistakes}) < len(keys):
        yield "two mistakes have one message"
    for mistake in entry.mistakes:
        if not mistake.message.isascii() or "\n" in mistake.message:
            yield f"{mistake.key}: the message must be one line of ASCII"
        if not SOURCE.fullmatch(mistake.source):
            yield f"{mistake.key}: the source {mistake.source!r} is no thread and no claim"
        if not set(mistake.excludes) <= set(keys):
            yield f"{mistake.key}: excludes an unknown mistake"
    if isinstance(entry, Explain):
        letters = "ABCDEFGHIJKLMNOP"[: len(entry.statements)]
        if "".join(entry.statements) != letters:
            yield f"the letters must be {letters}"
        if len(entry.statements) == len(entry.mistakes):
            yield "no statement is true"
    if isinstance(entry, Implement) and not entry.signature.startswith(f"def {entry.name}("):
        yield f"the signature does not define {entry.name}"


def _catalogue(entry: Exercise) -> Iterator[str]:
    right = outcomes(entry)
    if not agrees(entry, entry.expected(), right):
        yield "the reference does not agree with itself"
    if next(all_explanations(entry, right), None):
        yield f"the right answer is taken for {next(all_explanations(entry, right))}"
    sets = list(mistake_sets(entry))
    given = {keys: outcomes(entry, keys) for keys in sets}
    exact = {
        keys: entry.expected(keys)
        for keys in sets
        if all(entry.mistake(key).symptom is None for key in keys)
    }
    for keys in sets:
        if agrees(entry, entry.expected(), given[keys]):
            yield f"{keys} gives the right answer"
    for first, second in combinations(exact, 2):
        if agrees(entry, exact[first], given[second]):
            yield f"{first} and {second} give the same"
    for keys in sets:
        found = list(all_explanations(entry, given[keys]))
        if found != [keys]:
            yield f"{keys} is recognised as {found}"
