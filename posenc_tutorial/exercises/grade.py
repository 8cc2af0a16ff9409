"""Grades notebooks that were handed in: one row for each student and exercise.

    python -m posenc_tutorial.exercises grade submitted/ --csv marks.csv --totals totals.csv

An answer is found by the ``grade_id`` of its cell, runs in a process of its own with limited time
and memory (see :mod:`posenc_tutorial.exercises.answers`), and sends home nothing but numbers and
texts. They are compared here, with the same words as in a notebook, so replaced checks and patched
functions change nothing. Where bubblewrap is installed, those processes have no network, a
read-only file system, and one small scratch folder.
"""

from __future__ import annotations

import argparse
import base64
import csv
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from .diagnosis import Result, judge
from .registry import Exercise, exercise, exercises

MIB = 1 << 20
SECONDS = 10.0
MEMORY = 1024
#: MiB; more is a slip, and more still is no limit that a system can set.
MOST_MEMORY = 1 << 20
#: A notebook with more bytes than this is not read.
LARGEST = 100 * MIB
#: Seconds for importing PyTorch on a slow, busy machine.
START = 120.0
#: Inside the sandbox, the folder for temporary files, which lies in memory.
_TEMPORARY = "/tmp"
#: Inside it, the one folder that an answer may write to.
_SCRATCH = f"{_TEMPORARY}/answer"
_DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16"),
    *("float32", "float64", "complex64", "complex128"),
    *("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"),  # never right, but sent home
)
_STATUS = {"todo": "not attempted"}


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        student: from the name of the folder or file.
        file: the notebook; empty if none of this chapter was handed in.
        exercise: its name.
        status: ``correct``, ``wrong``, ``not attempted``, ``missing`` (no cell), ``duplicated``
            (several cells that disagree), ``syntax error``, ``error``, ``timeout``, ``memory``,
            ``died`` (the process ended), or ``unreadable`` (the file is no notebook).
        points: all of an exercise's points, or none.
        possible: the exercise's points.
        mistakes: keys of the mistakes that were recognised, separated by spaces.
        message: what the learner would read.
        seconds: how long the answer took, with the cells that it needs.
    """

    student: str
    file: str
    exercise: str
    status: str
    points: int
    possible: int
    mistakes: str
    message: str
    seconds: float


# What was handed in


@dataclass(frozen=True)
class Submission:
    """A notebook that was handed in, as far as it could be read.

    Attributes:
        student: from the name of the folder or file.
        path: of the file.
        sources: of its code cells.
        answers: for the name of an exercise, the indices of the cells that carry it.
        problem: why it cannot be read; empty otherwise.
    """

    student: str
    path: Path
    sources: tuple[str, ...] = ()
    answers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    checks: frozenset[int] = frozenset()
    problem: str = ""

    @property
    def chapters(self) -> set[int]:
        """Chapters of its answers, or else the number that the file name begins with."""
        found = {exercise(name).chapter for name in self.answers}
        digits = re.search(r"(?<!\d)(\d\d)-[a-z]", self.path.name)
        known = {entry.chapter for entry in exercises()}
        return found or ({int(digits[1])} & known if digits else set())


def find(paths: Sequence[Path]) -> list[tuple[str, Path]]:
    """Students and their files.

    Args:
        paths: files, and folders that are searched.

    Returns:
        Pairs ``(student, file)``, sorted. A student's name is the part of the path that follows
        ``submitted``; or the first folder below the one that is given; or, when notebooks lie
        side by side, the file's name without the chapter's. A file that is called like a chapter
        belongs to its folder.
    """
    found: dict[Path, str] = {}
    for path in paths:
        if path.is_dir():
            inside = [p for p in path.rglob("*.ipynb") if _counts(p.relative_to(path))]
            for child in inside:
                found.setdefault(child.resolve(), _student(child, path))
            for child in path.iterdir():
                if child.is_dir() and _counts(child.relative_to(path)):
                    if not any(child in p.parents for p in inside):
                        found.setdefault(child.resolve(), _printable(child.name))
        else:
            found.setdefault(path.resolve(), _student(path, None))
    return sorted((student, path) for path, student in found.items())


def _counts(path: Path) -> bool:
    return not any(part.startswith(".") for part in path.parts)


def _student(path: Path, root: Path | None) -> str:
    parts = path.resolve().parts
    if "submitted" in parts[:-2]:
        return _printable(parts[len(parts) - 1 - parts[::-1].index("submitted") + 1])
    if root is not None and len(path.relative_to(root).parts) > 1:
        return _printable(path.relative_to(root).parts[0])
    name = re.sub(r"(^|[ _-]+)\d\d-[a-z][a-z-]*", "", path.stem).strip(" _-")
    return _printable(name or path.resolve().parent.name)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text.encode("utf-8", "replace").decode())


def read(student: str, path: Path) -> Submission:
    """Read a notebook; whatever the file holds, the outcome is a :class:`Submission`.

    Args:
        student: who handed it in.
        path: of the file.

    Returns:
        Its code cells and where the answers are.
    """
    try:
        if path.is_dir():
            return Submission(student, path, problem="the folder holds no notebook")
        if not path.is_file():
            return Submission(student, path, problem="this is no regular file")
        size = path.stat().st_size
        if size > LARGEST:
            return Submission(student, path, problem=f"the file has {size // MIB} MiB")
        if size == 0:
            return Submission(student, path, problem="the file is empty")
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
        cells = content["cells"]
        if not isinstance(cells, list):
            raise TypeError("its cells are no list")
        code = [cell for cell in cells if isinstance(cell, dict) and cell["cell_type"] == "code"]
        sources = tuple(_source(cell) for cell in code)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        return Submission(student, path, problem=f"this is no JSON file: {_short(error)}")
    except (KeyError, TypeError, AttributeError) as error:
        return Submission(student, path, problem=f"this is no notebook: {_short(error)}")
    answers: dict[str, tuple[int, ...]] = {}
    checks = frozenset(i for i, cell in enumerate(code) if _is_check(cell, sources[i]))
    identifiers = [_identifiers(cell) for cell in code]
    for entry in exercises():
        where = [i for i, found in enumerate(identifiers) if entry.name in found]
        if not where:  # metadata can be lost on the way; then the cell that defines the name
            define = re.compile(rf"^(def {entry.name}\b|{entry.name} *=)", re.MULTILINE)
            where = [i for i, text in enumerate(sources) if define.search(text)]
        where = [i for i in where if i not in checks]
        if where:
            answers[entry.name] = tuple(where)
    return Submission(student, path, sources, answers, checks)


def _source(cell: dict[str, Any]) -> str:
    source = cell["source"]
    if isinstance(source, list):
        source = "".join(source)
    if not isinstance(source, str):
        raise TypeError("a cell's source is no text")
    return source.replace("\r\n", "\n").replace("\x00", "").encode("utf-8", "replace").decode()


def _metadata(cell: dict[str, Any]) -> tuple[dict, dict]:
    metadata = cell.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    nbgrader = metadata.get("nbgrader")
    return metadata, nbgrader if isinstance(nbgrader, dict) else {}


def _identifiers(cell: dict[str, Any]) -> set[str]:
    metadata, nbgrader = _metadata(cell)
    return {
        value
        for value in (nbgrader.get("grade_id"), cell.get("id"), metadata.get("id"))
        if isinstance(value, str)
    }


def _is_check(cell: dict[str, Any], source: str) -> bool:
    metadata, nbgrader = _metadata(cell)
    tags = metadata.get("tags")
    name = nbgrader.get("grade_id")
    return (
        (isinstance(tags, list) and "exercise-check" in tags)
        or (nbgrader.get("grade") is True and nbgrader.get("solution") is not True)
        or (isinstance(name, str) and name.startswith("check_"))
        or re.match(r"\s*(check|hint|progress)\(.*\)\s*$", source) is not None
    )


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())[:120]
    return f"{type(error).__name__}{': ' if text else ''}{text}"


# The sandbox


@dataclass(frozen=True)
class Sandbox:
    """A way to start a process with little to reach.

    Attributes:
        prefix: the command in front of Python's; empty without bubblewrap.
        scratch: the folder that an answer may write to; empty for a new temporary one.
        problem: why there is no sandbox; empty if there is one.
    """

    prefix: tuple[str, ...] = ()
    scratch: str = ""
    problem: str = ""


def sandbox(hidden: Iterable[Path] = ()) -> Sandbox:
    """The best sandbox that works here.

    Args:
        hidden: files that answers must not see: what others handed in.

    Returns:
        One with bubblewrap, or one without a prefix that says why.
    """
    if sys.platform != "linux":
        return Sandbox(problem="bubblewrap exists for Linux only")
    program = shutil.which("bwrap")
    if program is None:
        return Sandbox(problem="bubblewrap is not installed")
    explicit = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    explicit += ["--unshare-cgroup-try"]
    for capability in ("SETUID", "SETGID", "KILL", "DAC_OVERRIDE", "FOWNER"):
        explicit += ["--cap-add", f"CAP_{capability}"]
    kinds = [["--unshare-all"]]
    if os.geteuid() == 0:  # no user namespace, so that answers can run as nobody
        kinds.insert(0, explicit)
    with suppress(OSError, subprocess.SubprocessError):
        shown = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=20)
        sized = "--size" in shown.stdout + shown.stderr
        last = ""
        for kind in kinds:
            for processes in (["--proc", "/proc"], []):
                prefix = _bubblewrap(program, kind, processes, sized, hidden)
                trial = subprocess.run(
                    [*prefix, sys.executable, "-I", "-c", "pass"],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    env=_environment(_TEMPORARY),
                )
                if trial.returncode == 0:
                    return Sandbox(tuple(prefix), _SCRATCH)
                last = _printable(trial.stderr.strip()[-200:])
        return Sandbox(problem=f"bubblewrap does not work here ({last})")
    return Sandbox(problem="bubblewrap does not work here")


def _bubblewrap(
    program: str, kind: list[str], processes: list[str], sized: bool, hidden: Iterable[Path]
) -> list[str]:
    def memory_folder(path: str, size: int) -> list[str]:
        return [*(["--perms", "0755", "--size", str(size)] if sized else []), "--tmpfs", path]

    command = [program, "--die-with-parent", "--new-session", *kind, "--ro-bind", "/", "/"]
    command += ["--dev", "/dev", *memory_folder("/dev/shm", 16 * MIB), *processes]
    masks = {Path(p).resolve() for p in (_TEMPORARY, "/var/tmp", "/run")}
    with suppress(RuntimeError):
        masks.add(Path.home().resolve())
    masks = {path for path in masks if path.is_dir() and path != Path("/")}
    for path in sorted(masks):
        command += memory_folder(str(path), MIB)
    kept = _python_folders()
    for path in sorted(kept):
        inside = [parent for parent in path.parents if any(m in parent.parents for m in masks)]
        for parent in inside[::-1] if sized else []:  # without this, bubblewrap makes them 0700
            command += ["--perms", "0755", "--dir", str(parent)]
        if any(mask in path.parents for mask in masks):
            command += ["--ro-bind", str(path), str(path)]
    command += memory_folder(_SCRATCH, 64 * MIB)
    for path in sorted(masks):
        command += ["--remount-ro", str(path)]
    for path in sorted({path.resolve() for path in hidden}):
        masked = any(mask in path.parents for mask in masks)
        shown = any(folder in path.parents for folder in kept)
        if path.is_file() and (shown or not masked):
            command += ["--ro-bind", "/dev/null", str(path)]
    return [*command, "--chdir", _SCRATCH, "--"]


def _python_folders() -> set[Path]:
    folders = {Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1]}
    folders |= {Path(sys.executable).parent, Path(torch.__file__).parent.parent}
    folders |= {Path(path) for path in _import_path() if Path(path).is_dir()}
    package = Path(__file__).parents[1]
    folders.discard(package.parent)  # the checkout around the package is not needed
    return {folder.resolve() for folder in folders} | {package.resolve()}


def _import_path() -> list[str]:
    here = {"", ".", os.getcwd()}
    path = [entry for entry in sys.path if entry not in here]
    return [*path, str(Path(__file__).resolve().parents[2])]


def _environment(home: str) -> dict[str, str]:
    kept = ("PATH", "SYSTEMROOT", "WINDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        **dict.fromkeys(("HOME", "TMPDIR", "TEMP", "TMP", "MPLCONFIGDIR"), home),
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "POSENC_DEVICE": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
    }


# The process that answers run in


class Worker:
    """Starts :mod:`posenc_tutorial.exercises.answers`, asks it, and starts it again when it ends.

    Args:
        place: the sandbox.
        seconds: for one answer.
        memory: MiB for one answer.
        fork: let one process answer everything; otherwise each answer gets a new interpreter.
    """

    def __init__(self, place: Sandbox, seconds: float, memory: int, *, fork: bool) -> None:
        self.place, self.seconds, self.memory, self.fork = place, seconds, memory, fork
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: queue.Queue[bytes] = queue.Queue()
        self._folder = place.scratch or tempfile.mkdtemp(prefix="posenc-answer-")

    def ask(self, name: str, before: Sequence[str], answer: str) -> dict[str, Any]:
        """Run one answer.

        Args:
            name: of the exercise.
            before: sources of the code cells before the answer's.
            answer: source of the answer's cell.

        Returns:
            ``outcome``: ``"done"`` with ``data``, or what ended it.
        """
        request = {
            "exercise": name,
            "before": list(before),
            "answer": answer,
            "seconds": self.seconds,
        }
        line, asked = b"", json.dumps(request).encode("ascii") + b"\n"
        for _ in range(2):
            fresh = self.start()
            with suppress(OSError):
                self._process.stdin.write(asked)
                self._process.stdin.flush()
            line = self._reply(self.seconds + 15.0)
            if not line or not self.fork:
                self.stop()
            if line != b"" or fresh:
                break  # otherwise it may have ended before it was asked, so once more
        if line is None:
            return {"outcome": "timeout"}
        try:
            reply = json.loads(line or b"null")
            return reply if isinstance(reply, dict) else {"outcome": "died"}
        except (ValueError, RecursionError):
            self.stop()
            return {"outcome": "died"}

    def start(self) -> bool:
        """Start the process if there is none; whether that was necessary."""
        if self._process is not None:
            return False
        self._start()
        return True

    def _start(self) -> None:
        options = {
            "fork": self.fork,
            "scratch": self._folder,
            "memory": self.memory,
            "namespace": bool(self.place.prefix),
        }
        code = (
            f"import sys; sys.path[:] = {_import_path()!r}; "
            f"from {__package__}.answers import main; main(**{options!r})"
        )
        # A queue of its own: an earlier process may still have something to say.
        self._replies = queue.Queue()
        self._process = subprocess.Popen(
            [*self.place.prefix, sys.executable, "-I", "-B", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=None if self.place.prefix else self._folder,
            env=_environment(self._folder),
        )
        arguments = (self._process, self._replies)
        threading.Thread(target=_listen, args=arguments, daemon=True).start()
        if self._reply(START) != b'"ready"\n':
            process = self._process
            process.kill()
            said = (
                process.stderr.read()[-2000:].decode("utf-8", "replace") if process.stderr else ""
            )
            self.stop()
            raise RuntimeError(f"the process for answers does not start:\n{said}")

    def _reply(self, seconds: float) -> bytes | None:
        try:
            return self._replies.get(timeout=seconds)
        except queue.Empty:
            return None

    def stop(self) -> None:
        """End the process; the next question starts another."""
        if self._process is not None:
            self._process.kill()
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                with suppress(OSError):
                    stream.close()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End the process and remove its scratch folder."""
        self.stop()
        if not self.place.scratch:
            shutil.rmtree(self._folder, ignore_errors=True)


def _listen(process: subprocess.Popen[bytes], replies: queue.Queue[bytes]) -> None:
    try:
        while line := process.stdout.readline(200 * MIB):
            replies.put(line)
    except (OSError, ValueError):
        pass
    replies.put(b"")


# From what came back to a row


def decoded(value: Any) -> Any:
    """The reverse of ``answers.encoded``, for data that may be anything.

    Args:
        value: from JSON.

    Returns:
        An output in the form of ``runner.portable``.

    Raises:
        ValueError: this is no output.
    """
    if isinstance(value, list):
        return [decoded(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"plain"} and isinstance(value["plain"], dict):
        return value["plain"]
    try:
        kind, shape, text = value["tensor"]
        if kind not in _DTYPES:
            return _no_output()
        dtype, raw = getattr(torch, kind), bytearray(base64.b64decode(text, validate=True))
        shape = [int(length) for length in shape]
        if not raw:
            return torch.empty(shape, dtype=dtype) if 0 in shape else _no_output()
        return torch.frombuffer(raw, dtype=dtype).reshape(shape)
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError):
        return _no_output()


def _no_output() -> Any:
    raise ValueError("the answer's process sent something that is no output")


@dataclass(frozen=True)
class _Verdict:
    status: str
    message: str
    mistakes: tuple[str, ...] = ()


def _verdict(name: str, reply: dict[str, Any], seconds: float, memory: int) -> _Verdict:
    outcome = str(reply.get("outcome"))
    said = str(reply.get("data") or "")
    if outcome == "timeout":
        return _Verdict("timeout", f"no answer in {seconds:g} s: endless loop?")
    if outcome == "memory":
        return _Verdict("memory", f"more than {memory} MiB of memory")
    if outcome == "output":
        return _Verdict("memory", "the result is larger than a grader accepts")
    if outcome == "processes":
        return _Verdict("died", "ended: it started too many processes")
    if outcome != "done" or not said:
        code = outcome.removeprefix("died").removeprefix("done").strip() or "0"
        return _Verdict("died", f"the process ended before there was an answer ({_ended(code)})")
    try:
        data = json.loads(said)
        status, message = str(data["status"]), str(data.get("message", ""))
        if status in ("syntax error", "memory"):
            return _Verdict(status, message)
        outputs = decoded(data.get("outputs") or [])
        mutated = [changed is True for changed in data.get("mutated") or []]
        if status not in ("ran", "todo", "error", "timeout"):
            raise ValueError(f"unknown status {status!r}")
        found: Result = judge(name, outputs, mutated, status=status, message=message)
    except Exception as error:  # nothing that a learner sends may stop the grader
        return _Verdict("error", f"the result cannot be compared: {_short(error)}")
    return _Verdict(_STATUS.get(found.status, found.status), found.message, found.mistakes)


def _ended(code: str) -> str:
    if code.startswith("-") and code[1:].isdigit():
        return f"signal {code[1:]}"
    return f"exit code {code}" if code.isdigit() else "no trace"


def _one_verdict(copies: list[_Verdict]) -> _Verdict:
    """What several cells with the same answer are worth."""
    if len(copies) == 1:
        return copies[0]
    tried = [copy for copy in copies if copy.status != "not attempted"] or copies
    first, count = tried[0], f"{len(copies)} cells carry this answer"
    if all((other.status, other.mistakes) == (first.status, first.mistakes) for other in tried):
        agreed = "and they agree" if len(tried) > 1 else "and one of them is attempted"
        return replace(first, message=f"{first.message} ({count}, {agreed})")
    each = "; ".join(f"{other.status}: {other.message}" for other in tried)
    return _Verdict("duplicated", f"{count} and they disagree: {each}")


def _row(submission: Submission, entry: Exercise, verdict: _Verdict, seconds: float) -> Row:
    points = entry.points if verdict.status == "correct" else 0
    message = " ".join(_printable(verdict.message.replace("\n", " ")).split())
    return Row(
        student=submission.student,
        file=str(submission.path),
        exercise=entry.name,
        status=verdict.status,
        points=points,
        possible=entry.points,
        mistakes=" ".join(verdict.mistakes),
        message=message[:500],
        seconds=round(seconds, 2),
    )


# All of it


def grade(
    submissions: Sequence[Submission],
    *,
    chapters: Iterable[int] = (),
    seconds: float = SECONDS,
    memory: int = MEMORY,
    place: Sandbox | None = None,
    jobs: int = 1,
    fork: bool | None = None,
) -> Iterator[list[Row]]:
    """Grade submissions.

    Args:
        submissions: from :func:`read`.
        chapters: to be graded; without any, those that were handed in.
        seconds: for one answer, with the cells that it needs.
        memory: MiB for one answer.
        place: a sandbox; without one, the best that works here.
        jobs: how many answers run at a time.
        fork: see :class:`Worker`; by default, wherever the system can.

    Yields:
        The rows of one submission, as soon as they are known; at last those of the chapters that
        a student did not hand in.
    """
    place = sandbox(s.path for s in submissions) if place is None else place
    fork = hasattr(os, "fork") if fork is None else fork
    asked = set(chapters) or {chapter for s in submissions for chapter in s.chapters}
    idle: queue.LifoQueue[Worker] = queue.LifoQueue()
    workers = [Worker(place, seconds, memory, fork=fork) for _ in range(max(1, jobs))]
    for worker in workers[::-1]:
        idle.put(worker)

    def work(submission: Submission, entries: list[Exercise]) -> list[tuple]:
        worker = idle.get()
        try:
            return [_ask(worker, submission, entry) for entry in entries]
        finally:
            idle.put(worker)

    handed_in: set[tuple[str, int]] = set()
    try:
        with ThreadPoolExecutor(len(workers)) as pool:
            waiting = {}
            for submission in submissions:
                mine = (
                    submission.chapters or asked if submission.problem else submission.chapters
                ) & asked
                if not mine and len(asked) == 1:
                    mine = asked
                handed_in |= {(submission.student, chapter) for chapter in mine}
                entries = [entry for chapter in sorted(mine) for entry in exercises(chapter)]
                waiting[pool.submit(work, submission, entries)] = submission
            for done in as_completed(waiting):
                submission = waiting[done]
                rows = [
                    _row(
                        submission,
                        entry,
                        given
                        if isinstance(given, _Verdict)
                        else _one_verdict(
                            [_verdict(entry.name, r, seconds, memory) for r in given]
                        ),
                        took,
                    )
                    for entry, given, took in done.result()
                ]
                if not rows:
                    text = submission.problem or "the notebook has no answer to an exercise"
                    path = str(submission.path)
                    rows = [Row(submission.student, path, "", "unreadable", 0, 0, "", text, 0.0)]
                yield rows
    finally:
        for worker in workers:
            worker.close()
    for student in sorted({submission.student for submission in submissions}):
        for chapter in sorted(asked):
            if (student, chapter) not in handed_in:
                text = f"no notebook of chapter {chapter}"
                yield [
                    Row(student, "", entry.name, "missing", 0, entry.points, "", text, 0.0)
                    for entry in exercises(chapter)
                ]


def _ask(worker: Worker, submission: Submission, entry: Exercise) -> tuple:
    """``(exercise, replies or a verdict, seconds)``; judged in the main thread."""
    if submission.problem:
        return entry, _Verdict("unreadable", submission.problem), 0.0
    where = submission.answers.get(entry.name, ())
    if not where:
        return entry, _Verdict("missing", "the notebook has no cell for this answer"), 0.0
    worker.start()  # PyTorch's import is nobody's time
    begin, replies = time.monotonic(), []
    for index in where[:5]:
        skipped = {*submission.checks, *where}
        before = [s for i, s in enumerate(submission.sources[:index]) if i not in skipped]
        replies.append(worker.ask(entry.name, before, submission.sources[index]))
    return entry, replies, time.monotonic() - begin


def totals(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Points by student, over everything that was graded.

    Args:
        rows: of the table.

    Returns:
        ``student``, ``points``, ``possible``, ``percent``, sorted by student. If an exercise was
        handed in twice, the better one counts.
    """
    best: dict[str, dict[str, Row]] = {}
    for row in rows:
        mine = best.setdefault(row.student, {})
        if row.exercise and (row.exercise not in mine or row.points > mine[row.exercise].points):
            mine[row.exercise] = row
    possible = {row.exercise: row.possible for mine in best.values() for row in mine.values()}
    most = sum(possible.values())
    found = []
    for student, mine in sorted(best.items()):
        points = sum(row.points for row in mine.values())
        percent = round(100 * points / most, 1) if most else 0.0
        found.append({"student": student, "points": points, "possible": most, "percent": percent})
    return found


def write_csv(path: Path, names: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    """Write a table that a spreadsheet can open and will not calculate.

    Args:
        path: of the file.
        names: of the columns.
        rows: with these keys.
    """
    with path.open("w", newline="", encoding="utf-8", errors="replace") as handle:
        writer = csv.DictWriter(handle, names)
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _no_formula(row[name]) for name in names})


def _no_formula(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")):
        return "'" + value
    return value


# The command


class _Bar:
    """Says on standard error how far it is: one line, or a line for each without a terminal."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.begin = total, 0, time.monotonic()
        self.live = sys.stderr.isatty()
        self.show("")

    def step(self, what: str) -> None:
        self.done += 1
        self.show(what)

    def show(self, what: str) -> None:
        full = round(24 * self.done / max(1, self.total))
        bar = "#" * full + "." * (24 - full)
        seconds = time.monotonic() - self.begin
        line = f"[{bar}] {self.done}/{self.total} {seconds:5.0f} s  {what[:30]}"
        if self.live:
            print(f"\r{line:<76}", end="", file=sys.stderr, flush=True)
        elif self.done:
            print(line.rstrip(), file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.live:
            print(file=sys.stderr)


def parser() -> argparse.ArgumentParser:
    """The command line of ``python -m posenc_tutorial.exercises``."""
    top = argparse.ArgumentParser(
        prog="python -m posenc_tutorial.exercises", description="Exercises of the course."
    )
    commands = top.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "grade",
        help="grade notebooks that were handed in",
        description="Grade notebooks: one row for each student and exercise. Each answer runs in "
        "a process of its own, in a sandbox where bubblewrap is installed; it is compared outside.",
        epilog="Exit code 0: graded, whatever the marks. 2: nothing to grade, or a wrong option.",
    )
    command.add_argument(
        "submissions",
        nargs="+",
        type=Path,
        metavar="SUBMISSIONS",
        help="notebooks, and folders that are searched for them; a student's name is that of the "
        "folder (submitted/NAME/...) or of the file (NAME.ipynb)",
    )
    command.add_argument("--csv", type=Path, required=True, help="the table to write")
    command.add_argument("--totals", type=Path, help="a second table: points by student")
    command.add_argument(
        "--chapter",
        type=int,
        action="append",
        default=[],
        help="grade this chapter only; may be repeated",
    )
    command.add_argument(
        "--timeout",
        type=_positive,
        default=SECONDS,
        metavar="S",
        help="seconds for one answer, with the cells that it needs (default %(default)g)",
    )
    command.add_argument(
        "--memory",
        type=int,
        default=MEMORY,
        metavar="MiB",
        help="for one answer, on top of what PyTorch needs (default %(default)d)",
    )
    command.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="answers at a time (default %(default)d)"
    )
    command.add_argument(
        "--no-sandbox",
        action="store_true",
        help="do not use bubblewrap: what was handed in can then read and delete your files",
    )
    return top


def _count(things: Sequence[Any], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"must be a number in (0, 3600], got {text!r}")
    return value


def _no_table(table: Path, sums: Path | None, handed_in: set[Path]) -> str:
    """Why the tables cannot be written, or nothing."""
    if sums is not None and sums.resolve() == table.resolve():
        return f"--csv and --totals must be two files, got {table} for both"
    for option, path in (("--csv", table), ("--totals", sums)):
        if path is None:
            continue
        if path.resolve() in handed_in:
            return f"{option} {path} is a file that was handed in, and would be lost"
        if path.is_dir():
            return f"{option} must be a file, and {path} is a folder"
        if not path.parent.is_dir():
            return f"{option} {path}: there is no folder {path.parent}"
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            return f"{option} {path} cannot be written"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m posenc_tutorial.exercises``.

    Args:
        arguments: of the command line; without any, those of this process.

    Returns:
        The exit code.
    """
    top = parser()
    options = top.parse_args(arguments)
    known = {entry.chapter for entry in exercises()}
    if not set(options.chapter) <= known:
        top.error(f"--chapter must be one of {sorted(known)}, got {options.chapter}")
    if not 64 <= options.memory <= MOST_MEMORY or options.jobs < 1:
        top.error(
            f"--memory must be in [64, {MOST_MEMORY}] and --jobs at least 1, "
            f"got {options.memory} and {options.jobs}"
        )
    found = find(options.submissions)
    if not found:
        top.error("no notebook there: " + ", ".join(map(str, options.submissions)))
    problem = _no_table(options.csv, options.totals, {path for _, path in found})
    if problem:  # told now, and not after an hour of grading
        top.error(problem)
    submissions = [read(student, path) for student, path in found]
    place = Sandbox(problem="--no-sandbox was given")
    if not options.no_sandbox:
        place = sandbox(path for _, path in found)
    if place.problem:
        print(
            f"WARNING: no sandbox, because {place.problem}. What was handed in can read, change "
            "and delete what you can, and use the network. Grade in a container or on a machine "
            "without anything of value.",
            file=sys.stderr,
        )
    rows: list[Row] = []
    bar = _Bar(len(submissions))
    for graded in grade(
        submissions,
        chapters=options.chapter,
        seconds=options.timeout,
        memory=options.memory,
        place=place,
        jobs=options.jobs,
    ):
        rows += graded
        if graded and graded[0].file:
            bar.step(graded[0].student)
    bar.close()
    order = {entry.name: number for number, entry in enumerate(exercises())}
    rows.sort(key=lambda row: (row.student, order.get(row.exercise, -1), row.file))
    names = list(Row.__dataclass_fields__)
    write_csv(options.csv, names, map(asdict, rows))
    if options.totals:
        write_csv(options.totals, ["student", "points", "possible", "percent"], totals(rows))
    counted: dict[str, int] = {}
    for row in rows:
        counted[row.status] = counted.get(row.status, 0) + 1
    summary = ", ".join(f"{number} {status}" for status, number in sorted(counted.items()))
    print(f"{_count(submissions, 'file')}, {_count(rows, 'row')} in {options.csv}: {summary}")
    return 0
