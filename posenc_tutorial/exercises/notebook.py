"""What a learner calls: ``check``, ``hint`` and ``progress``. Here, and only here, is printed."""

from __future__ import annotations

import json
import os
import tempfile
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .diagnosis import Result, judge
from .registry import exercise, exercises
from .runner import SECONDS, run

#: Set to ``1``, a check that fails raises: for tests of the book, and for graders.
STRICT = "POSENC_STRICT"
_FORMAT = 1
_STATES = {"todo", "correct", "wrong", "error", "timeout"}


@dataclass
class _Record:
    state: str = "todo"
    tries: int = 0
    hints: int = 0


_records: dict[str, _Record] = {}
_loaded: set[Path] = set()


def check(name: str, answer: Any) -> None:
    """Check an answer and print one line: correct, or what is wrong.

    Args:
        name: of the exercise, as in the cell.
        answer: the function that you wrote, or the value that you predicted or chose.

    Raises:
        ValueError: no exercise has this name.
        AssertionError: the answer is not correct and the environment has ``POSENC_STRICT=1``.
    """
    result = evaluate(name, answer)
    record = _records.setdefault(name, _Record())
    if result.status != "todo":
        record.tries += 1
    if record.state != "correct":  # once solved, a later experiment does not undo it
        record.state = result.status
    print(result)
    if os.environ.get(STRICT) == "1" and result.status != "correct":
        raise AssertionError(str(result))


def evaluate(name: str, answer: Any, *, seconds: float = SECONDS) -> Result:
    """Run and judge an answer, without printing or remembering anything.

    Args:
        name: of the exercise.
        answer: a function or a value.
        seconds: the limit for all inputs together; see ``runner.run``.

    Returns:
        The verdict.

    Raises:
        ValueError: no exercise has this name.
    """
    done = run(exercise(name), answer, seconds=seconds)
    return judge(name, done.outputs, done.mutated, status=done.status, message=done.message)


def hint(name: str) -> None:
    """Print the next hint; the first says where to look, the last nearly how.

    Args:
        name: of the exercise.

    Raises:
        ValueError: no exercise has this name.
    """
    hints = exercise(name).hints
    record = _records.setdefault(name, _Record())
    record.hints = min(record.hints + 1, len(hints))
    more = "" if record.hints < len(hints) else " (the last one)"
    text = f"Hint {record.hints} of {len(hints)}{more}: {hints[record.hints - 1]}"
    print(textwrap.fill(text, 80))


def progress(save: str | os.PathLike[str] | None = None, *, chapter: int | None = None) -> None:
    """Print how far you are; with a file name, go on from that file and write it again.

    A hosted machine forgets everything when it is recycled: keep the file somewhere that lasts,
    and call this once at the beginning of a session and once at its end.

    Args:
        save: a small JSON file. It is read if it exists, and then written.
        chapter: print this chapter's exercises only.

    Raises:
        OSError: the file cannot be written.
        ValueError: there is no such chapter.
    """
    chapters = sorted({entry.chapter for entry in exercises()})
    if chapter is not None and chapter not in chapters:
        raise ValueError(f"chapter must be one of {chapters}, got {chapter!r}")
    if save is not None:
        path = Path(save).resolve()
        problem = _merge(path)
        if problem:
            print(problem)
        else:
            _write(path)
    _print_table(chapter)


def _merge(path: Path) -> str:
    """Take over what a file holds; a complaint, or nothing."""
    if not path.exists():
        _loaded.add(path)
        return ""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}, expected {_FORMAT}")
        stored = {
            str(name): _Record(str(entry["state"]), int(entry["tries"]), int(entry["hints"]))
            for name, entry in content["exercises"].items()
        }
        unknown = {old.state for old in stored.values()} - _STATES
        if unknown:
            raise ValueError(f"an exercise in it is {min(unknown)!r}")
    except (
        *(OSError, ValueError, KeyError, TypeError, AttributeError),
        *(OverflowError, RecursionError),
    ) as error:
        return f"{path.name} is left alone, it cannot be read as a progress file: {error}"
    first = path not in _loaded
    for name, old in stored.items():
        now = _records.setdefault(name, _Record())
        if old.state == "correct" or now.state == "todo":
            now.state = old.state
        # What this session counted comes on top of the file, but only once.
        now.tries = now.tries + old.tries if first else max(now.tries, old.tries)
        now.hints = max(now.hints, old.hints)
    _loaded.add(path)
    return ""


def _write(path: Path) -> None:
    content = {
        "format": _FORMAT,
        "exercises": {name: asdict(record) for name, record in sorted(_records.items())},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and moved, so that an interruption never leaves half a file.
    draft = tempfile.NamedTemporaryFile(  # noqa: SIM115 - moved away, or removed, below
        "w", dir=path.parent, prefix=path.name, suffix=".new", delete=False, encoding="utf-8"
    )
    try:
        with draft:
            json.dump(content, draft, indent=1)
            draft.write("\n")
        os.replace(draft.name, path)
    except BaseException:
        Path(draft.name).unlink(missing_ok=True)
        raise


def _print_table(chapter: int | None) -> None:
    entries = exercises(chapter)
    width = max([len("exercise"), *(len(entry.name) for entry in entries)])
    print(f"chapter  {'exercise':{width}}  state          tries  hints  points")
    solved = points = 0
    for entry in entries:
        record = _records.get(entry.name, _Record())
        state = "not attempted" if record.state == "todo" else record.state
        earned = entry.points if record.state == "correct" else 0
        solved, points = solved + (record.state == "correct"), points + earned
        print(
            f"{entry.chapter:7}  {entry.name:{width}}  {state:13}  {record.tries:5}"
            f"  {record.hints:5}  {earned}/{entry.points}"
        )
    total = sum(entry.points for entry in entries)
    print(f"{solved} of {len(entries)} exercises solved, {points} of {total} points")
