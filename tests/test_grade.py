"""The grader: twelve submissions of a real chapter, and whatever else lies in a folder."""

from __future__ import annotations

import copy
import csv
import json
import os
import re
import subprocess
import sys

import pytest
import torch

from posenc_tutorial.exercises import answers, exercises, grade
from tools.notebooks import ROOT

CHAPTER = 3
NOTEBOOK = ROOT / "book" / "03-sinusoidal.ipynb"
BOOK = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
NAMES = [entry.name for entry in exercises(CHAPTER)]
POINTS = {entry.name: entry.points for entry in exercises()}
POSIX = hasattr(os, "fork")
PLACE = grade.sandbox()


def answer_cells(notebook):
    found = {}
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name in NAMES:
            found.setdefault(name, cell)
    return found


if set(answer_cells(BOOK)) != set(NAMES):
    pytest.skip("the chapter has no exercises yet", allow_module_level=True)


# Twelve submissions

TABLE, PAIRS, MOVE, STEPS, KNOW = NAMES

SWAPPED = """
def sinusoid_table(n, d):
    angle = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    return torch.stack([angle.cos(), angle.sin()], -1).flatten(1)
"""
BACKWARDS = """
def move_by(k, d):
    angle = k * 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    clocks = [(math.cos(x), math.sin(x)) for x in angle.tolist()]
    return torch.block_diag(*(torch.tensor([[c, -s], [s, c]]) for c, s in clocks))
"""
STUB = re.compile(r"( *)# BEGIN SOLUTION.*?# END SOLUTION", re.DOTALL)


def stub(source):
    source = "".join(source)
    body = r"\1raise NotImplementedError" if source.startswith("def ") else ""
    return STUB.sub(body, source)


def edit(name, source):
    def change(notebook):
        answer_cells(notebook)[name]["source"] = source

    return change


def empty(notebook):
    for cell in answer_cells(notebook).values():
        cell["source"] = stub(cell["source"])


def insert(name, source, *, after=False):
    def change(notebook):
        cells = notebook["cells"]
        where = cells.index(answer_cells(notebook)[name]) + after
        new = {"cell_type": "code", "id": "mine", "metadata": {}, "outputs": []}
        cells.insert(where, {**new, "source": source, "execution_count": None})

    return change


def tampered(notebook):
    edit(TABLE, SWAPPED)(notebook)
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == f"check_{TABLE}":
            cell["source"] = "print('[ok] sinusoid_table: correct on 3 inputs')"


def duplicated(notebook):
    cells, found = notebook["cells"], answer_cells(notebook)
    for name, source in ((TABLE, None), (MOVE, BACKWARDS)):
        twin = copy.deepcopy(found[name])
        twin["source"] = source or twin["source"]
        cells.insert(cells.index(found[name]) + 1, twin)


def without(*names):
    def change(notebook):
        gone = [answer_cells(notebook)[name] for name in names]
        notebook["cells"] = [cell for cell in notebook["cells"] if cell not in gone]

    return change


def both(*changes):
    def change(notebook):
        for each in changes:
            each(notebook)

    return change


def intrude(bait):
    """An answer that is right, after it tried to delete a file and to reach the network."""
    return f"""
import os, shutil, socket
def move_by(k, d):
    shutil.rmtree({str(bait.parent)!r}, ignore_errors=True)
    os.system("rm -rf {bait.parent}; touch {bait.parent.parent / "planted"}")
    try:
        socket.create_connection(("192.0.2.1", 80), timeout=0.2)
    except OSError:
        pass
    angle = k * 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    clocks = [(math.cos(x), math.sin(x)) for x in angle.tolist()]
    return torch.block_diag(*(torch.tensor([[c, s], [-s, c]]) for c, s in clocks))
"""


LOOP = (
    "def move_by(k, d):\n    while True:\n        try:\n            k += 1\n        except:\n"
    + ("            pass\n")
)
CHEAT_CHECK = "def check(name, answer):\n    print(f'[ok] {name}: correct')\n"
CHEAT_TORCH = (
    "import torch\ntorch.allclose = torch.equal = lambda *_, **__: True\n"
    "import posenc_tutorial.exercises as e\ne.judge = e.check = e.evaluate = lambda *_: None\n"
)

#: The change, and the statuses that differ from "correct"; a second word is the mistake's key.
TWELVE = {
    "01-right": (lambda notebook: None, {}),
    "02-one-wrong": (edit(MOVE, BACKWARDS), {MOVE: "wrong backwards"}),
    "03-empty": (empty, dict.fromkeys(NAMES, "not attempted")),
    "04-endless": (edit(MOVE, LOOP), {MOVE: "timeout"}),
    "05-syntax": (
        edit(STEPS, "def encode_steps(steps, d dtype:\n    pass"),
        {STEPS: "syntax error"},
    ),
    "06-tampered": (tampered, {TABLE: "wrong exchanged"}),
    "07-dead-kernel": (
        both(
            edit(PAIRS, "import os\nos._exit(0)"),
            insert(MOVE, "import os\nos.kill(os.getpid(), 9)"),
        ),
        {PAIRS: "died"},
    ),
    "08-intruder": (None, {}),
    "09-duplicated": (duplicated, {MOVE: "duplicated"}),
    "10-missing": (without(PAIRS, KNOW), {PAIRS: "missing", KNOW: "missing"}),
    "11-own-check": (
        both(
            edit(TABLE, SWAPPED), insert(TABLE, CHEAT_CHECK), insert(TABLE, CHEAT_CHECK, after=True)
        ),
        {TABLE: "wrong exchanged"},
    ),
    "12-patched": (
        both(
            edit(MOVE, CHEAT_TORCH + BACKWARDS),
            insert(MOVE, CHEAT_TORCH),
            edit(TABLE, CHEAT_TORCH + SWAPPED),
        ),
        {MOVE: "wrong backwards", TABLE: "wrong exchanged"},
    ),
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The twelve, graded once from the command line: rows by student, and the bait's folder."""
    folder = tmp_path_factory.mktemp("course")
    bait = folder / "bait" / "thesis.txt"
    bait.parent.mkdir()
    bait.write_text("years of work")
    for student, (change, _) in TWELVE.items():
        notebook = copy.deepcopy(BOOK)
        (change or edit(MOVE, intrude(bait)))(notebook)
        path = folder / "submitted" / student / "ps3" / NOTEBOOK.name
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(notebook))
    done = command(folder / "submitted", folder, "--timeout", "2")
    rows: dict[str, dict] = {}
    for row in table(folder / "marks.csv"):
        rows.setdefault(row["student"], {})[row["exercise"]] = row
    return rows, folder, done


def command(submissions, folder, *options):
    """The grader's command; without bubblewrap it warns, and the rest is the same."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "posenc_tutorial.exercises", "grade", str(submissions)),
            *("--csv", str(folder / "marks.csv"), "--totals", str(folder / "totals.csv")),
            *options,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def table(path):
    with path.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


@pytest.mark.parametrize("student", TWELVE)
def test_each_submission_is_graded_exercise_by_exercise(graded, student):
    rows, _, done = graded
    assert done.returncode == 0, done.stderr
    expected = {name: TWELVE[student][1].get(name, "correct") for name in NAMES}
    given = {
        name: f"{row['status']} {row['mistakes']}".strip() for name, row in rows[student].items()
    }
    assert given == expected
    for name, row in rows[student].items():
        right = row["status"] == "correct"
        assert int(row["points"]) == (POINTS[name] if right else 0)
        assert int(row["possible"]) == POINTS[name]


def test_nothing_outside_the_scratch_folder_is_touched(graded):
    _, folder, _ = graded
    if PLACE.problem:
        pytest.skip(f"no sandbox here: {PLACE.problem}")
    assert (folder / "bait" / "thesis.txt").read_text() == "years of work"
    assert not (folder / "planted").exists()


def test_without_a_sandbox_there_is_one_warning(graded):
    _, _, done = graded
    assert done.stderr.count("WARNING") == bool(PLACE.problem)


def test_the_command_shows_how_far_it_is(graded):
    _, _, done = graded
    assert "12/12" in done.stderr
    assert done.stdout.startswith("12 files, 60 rows in ")


def test_the_totals_can_be_imported(graded):
    rows, folder, _ = graded
    found = table(folder / "totals.csv")
    assert [row["student"] for row in found] == sorted(TWELVE)
    most = sum(POINTS[name] for name in NAMES)
    for row in found:
        points = sum(int(r["points"]) for r in rows[row["student"]].values())
        assert (int(row["points"]), int(row["possible"])) == (points, most)
        assert float(row["percent"]) == pytest.approx(100 * points / most, abs=0.05)


def test_a_message_is_what_the_learner_reads(graded):
    rows, _, _ = graded
    entry = next(entry for entry in exercises(CHAPTER) if entry.name == MOVE)
    assert rows["02-one-wrong"][MOVE]["message"] == entry.mistake("backwards").message
    assert "2 cells carry this answer" in rows["09-duplicated"][TABLE]["message"]
    assert "disagree" in rows["09-duplicated"][MOVE]["message"]


# Files that are no notebooks


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[1, 2]",
        b"null",
        b'{"cells": 3}',
        b'{"cells": [{"cell_type": "code"}]}',
        b'{"cells": [{"cell_type": "code", "source": [1]}]}',
        b"[" * 100_000,
        b"%PDF-1.7",
    ],
    ids=range(10),
)
def test_what_is_no_notebook_is_unreadable(tmp_path, content):
    submission = grade.read("alice", write(tmp_path, NOTEBOOK.name, content))
    assert submission.problem
    rows = list(grade.grade([submission], place=PLACE))[0]
    assert [(row.exercise, row.status, row.points) for row in rows] == [
        (name, "unreadable", 0) for name in NAMES
    ]


def test_a_folder_and_a_file_that_is_not_there_are_unreadable(tmp_path):
    assert grade.read("a", tmp_path).problem == "the folder holds no notebook"
    assert grade.read("a", tmp_path / "none.ipynb").problem == "this is no regular file"


def test_a_notebook_of_something_else_is_one_row(tmp_path):
    path = write(tmp_path, "essay.ipynb", json.dumps({"cells": []}))
    rows = list(grade.grade([grade.read("alice", path)], place=PLACE))
    assert [[(row.exercise, row.status) for row in found] for found in rows] == [
        [("", "unreadable")]
    ]


def test_strange_metadata_is_ignored():
    cell = {"cell_type": "code", "source": "x = 1", "metadata": {"nbgrader": 3, "tags": 4}, "id": 5}
    assert grade._identifiers(cell) == set() and not grade._is_check(cell, "x = 1")


def test_cells_without_metadata_are_found_by_what_they_define(tmp_path):
    notebook = copy.deepcopy(BOOK)
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    submission = grade.read("a", write(tmp_path, "a.ipynb", json.dumps(notebook)))
    named = grade.read("a", NOTEBOOK)
    assert submission.answers == named.answers and set(named.answers) == set(NAMES)
    assert submission.checks == named.checks


def test_cells_are_not_found_by_position(tmp_path):
    notebook = copy.deepcopy(BOOK)
    notebook["cells"].insert(0, {"cell_type": "code", "metadata": {}, "source": "pass"})
    submission = grade.read("a", write(tmp_path, "a.ipynb", json.dumps(notebook)))
    named = grade.read("a", NOTEBOOK).answers
    assert submission.answers == {name: (i[0] + 1,) for name, i in named.items()}


# Who handed it in


@pytest.mark.parametrize(
    "path, student",
    [
        ("submitted/alice/ps1/03-sinusoidal.ipynb", "alice"),
        ("alice/03-sinusoidal.ipynb", "alice"),
        ("alice/ps1/work.ipynb", "alice"),
        ("alice.ipynb", "alice"),
        ("alice_03-sinusoidal.ipynb", "alice"),
        ("Ann Lee_12_file_/03-sinusoidal.ipynb", "Ann Lee_12_file_"),
    ],
)
def test_the_student_is_named_by_the_path(tmp_path, path, student):
    write(tmp_path, path, "{}")
    assert [name for name, _ in grade.find([tmp_path])] == [student]
    if "ps1" not in path:
        assert [name for name, _ in grade.find([tmp_path / path])] == [student]


def test_a_folder_without_a_notebook_is_a_row_and_checkpoints_are_not(tmp_path):
    write(tmp_path, "bob/notes.txt", "")
    write(tmp_path, "alice/a.ipynb", "{}")
    write(tmp_path, "alice/.ipynb_checkpoints/a.ipynb", "{}")
    found = grade.find([tmp_path])
    assert [(student, path.name) for student, path in found] == [
        ("alice", "a.ipynb"),
        ("bob", "bob"),
    ]


def row(student, name, points, status="wrong"):
    return grade.Row(student, "f", name, status, points, 2, "", "", 0.0)


def test_totals_count_the_better_of_two_and_what_is_missing():
    rows = [row("a", "x", 0), row("a", "x", 2), row("a", "y", 2), row("b", "x", 2)]
    assert grade.totals(rows) == [
        {"student": "a", "points": 4, "possible": 4, "percent": 100.0},
        {"student": "b", "points": 2, "possible": 4, "percent": 50.0},
    ]


def test_a_spreadsheet_calculates_nothing(tmp_path):
    grade.write_csv(tmp_path / "t.csv", ["student"], [{"student": "=1+1"}, {"student": "a\nb"}])
    assert [r["student"] for r in table(tmp_path / "t.csv")] == ["'=1+1", "a\nb"]


# What comes back from an answer's process


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6).reshape(2, 3),
        torch.tensor(1.5),
        torch.empty(0, 4),
        torch.tensor([True, False]),
        torch.randn(3, dtype=torch.bfloat16),
        torch.randn(2, 2, dtype=torch.complex64),
        torch.arange(12.0).reshape(3, 4).T,
        torch.tensor([1, 65535]).to(torch.uint16),
        torch.tensor([1.0, -2.0]).to(torch.float8_e5m2),
    ],
    ids=range(9),
)
def test_tensors_survive_the_way_home(tensor):
    back = grade.decoded(json.loads(json.dumps(answers.encoded([tensor, "x"]))))[0]
    assert back.dtype == tensor.dtype and back.tolist() == tensor.tolist()


@pytest.mark.parametrize(
    "value",
    [
        {"tensor": ["float32", [2], "AAAA"]},
        {"tensor": ["float32", [-1, -1], "AAAAAAAAAAA="]},
        {"tensor": ["Tensor", [1], "AAAAAA=="]},
        {"tensor": ["float32", [10**20, 0], ""]},
        {"tensor": ["float32", [10**6], ""]},
        {"tensor": 3},
        {"other": 3},
        {},
    ],
    ids=range(8),
)
def test_forged_tensors_are_refused(value):
    with pytest.raises(ValueError, match="no output"):
        grade.decoded(value)


@pytest.mark.parametrize(
    "reply",
    [
        {"outcome": "done", "data": "[" * 100_000},
        {"outcome": "done", "data": "7"},
        {"outcome": "done", "data": '{"status": "correct"}'},
        {"outcome": "done", "data": '{"status": "ran", "outputs": 3}'},
        {"outcome": "done", "data": '{"status": "ran", "outputs": [{"plain": {"raised": 3}}]}'},
        {"outcome": "died -11", "data": ""},
        {"outcome": "done", "data": ""},
        {},
    ],
    ids=range(8),
)
def test_no_reply_stops_the_grader(reply):
    assert grade._verdict(PAIRS, reply, 1, 1).status in ("wrong", "error", "died")


# Which cells run


def test_only_the_cells_that_an_answer_needs_are_run():
    before = ["import torch", "x = 1", "torch.manual_seed(0)", "def f():\n    return x", "y = f("]
    before += ["x += 1", "data = []", "data.append(3)", "unused = data"]
    assert answers.needed(before, "def g():\n    return f() + torch.ones(1)") == [0, 1, 3, 5]
    assert answers.needed(before, "z = data") == [6, 7]
    assert answers.needed(["from math import *", "a = 1"], "b = pi") == [0]
    assert answers.needed(["def f():\n    global k\n    k = 1", "f()"], "b = k") == [0]


def test_cell_magics_and_shell_commands_do_nothing():
    assert answers.plain_python("%matplotlib inline\nif x:\n    !ls\n") == "pass\nif x:\n    pass\n"
    assert answers.plain_python("%%time\nx = 1") == "x = 1"
    assert answers.plain_python("%%bash\nrm -rf /") == ""


def test_no_answer_of_the_book_waits_for_a_training():
    """Otherwise a class would take hours: nothing that is needed trains a model."""
    for path in sorted((ROOT / "book").glob("0*.ipynb")):
        submission = grade.read("a", path)
        for name, where in submission.answers.items():
            skipped = {*submission.checks, *where}
            before = [s for i, s in enumerate(submission.sources[: where[0]]) if i not in skipped]
            chosen = [before[i] for i in answers.needed(before, submission.sources[where[0]])]
            assert not [s for s in chosen if "train(" in s], name


# An answer and its process


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory):
    return write(tmp_path_factory.mktemp("others"), "other.ipynb", "somebody else's answer")


@pytest.fixture(scope="module")
def worker(handed_in):
    found = grade.Worker(grade.sandbox([handed_in, NOTEBOOK]), 4.0, 512, fork=POSIX)
    yield found
    found.close()


def ask(worker, source, before=()):
    return grade._verdict(PAIRS, worker.ask(PAIRS, before, source), worker.seconds, worker.memory)


@pytest.mark.skipif(not POSIX, reason="limits need a system that can fork")
@pytest.mark.parametrize(
    "source, status",
    [
        ("x = []\nwhile True:\n    x.append(bytearray(10**7))", "memory"),
        ("import torch\nturning_pairs = torch.zeros(10**11)", "memory"),
        ("def f(n):\n    return f(n + 1)\nturning_pairs = f(0)", "error"),
        ("raise SystemExit", "error"),
        ("turning_pairs = input()", "error"),
        ("raise KeyboardInterrupt", "error"),
        ("turning_pairs = 10**100000", "error"),
        ("turning_pairs = 'x' * 10**8", "memory"),
        ("a = []\nfor _ in range(10**5):\n    a = [a]\nturning_pairs = a", "error"),
        ("turning_pairs = " + "(" * 10**5, "syntax error"),
        ("import os\nos.kill(os.getpid(), 11)", "died"),
        ("other = 81", "error"),
        ("%time turning_pairs = 3\nturning_pairs = 81", "correct"),
        ("display(3)\nprint('x' * 10**7)\nturning_pairs = 81", "correct"),
    ],
)
def test_an_answer_can_do_no_harm(worker, source, status):
    assert ask(worker, source).status == status


@pytest.mark.skipif(sys.platform != "linux", reason="processes are counted on Linux")
def test_a_fork_bomb_and_what_is_left_behind_are_ended(worker):
    bomb = "import os\nwhile True:\n    os.fork()"
    assert ask(worker, bomb).message == "ended: it started too many processes"
    left = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)\n"
    assert ask(worker, left + "turning_pairs = 81").status == "correct"
    source = "import os\nturning_pairs = 81 if {} < 3 else 0"
    counted = "len(os.listdir(f'/proc/{os.getppid()}/task')) + len(open("
    counted += "f'/proc/{os.getppid()}/task/{os.getppid()}/children').read().split())"
    assert ask(worker, source.format(counted)).status == "correct"


@pytest.mark.skipif(not POSIX, reason="needs fork")
def test_a_worker_that_was_ended_starts_again(worker):
    worker._process.kill()
    worker._process.wait()
    assert ask(worker, "turning_pairs = 81").status == "correct"


@pytest.mark.skipif(not POSIX, reason="needs fork")
def test_files_of_one_answer_are_gone_for_the_next(worker):
    assert ask(worker, "open('note', 'w').write('81')\nturning_pairs = 81").status == "correct"
    assert "FileNotFoundError" in ask(worker, "turning_pairs = open('note').read()").message


def test_an_earlier_cell_that_fails_is_named(worker):
    verdict = ask(worker, "turning_pairs = helper()", ["1 / 0", "helper = 1 / 0"])
    assert verdict.status == "error"
    assert "before that, code cell 2 raised ZeroDivisionError" in verdict.message


@pytest.mark.skipif(bool(PLACE.problem), reason=f"no sandbox here: {PLACE.problem}")
def test_inside_the_sandbox_there_is_little_to_see(worker, handed_in):
    source = """
import os, socket
turning_pairs = []
for path in {paths!r}:
    try:
        turning_pairs.append(len(open(path).read()))
    except OSError:
        turning_pairs.append(0)
try:
    open({new!r}, "w")
except OSError:
    turning_pairs.append(0)
try:
    socket.create_connection(("127.0.0.1", 9), timeout=0.2)
except OSError as error:
    turning_pairs.append(0)
"""
    new = handed_in.parent / "new"
    source = source.format(paths=[str(handed_in), str(NOTEBOOK)], new=str(new))
    reply = worker.ask(PAIRS, [], source)
    assert json.loads(reply["data"])["outputs"] == [[0, 0, 0, 0]]
    assert os.listdir(new.parent) == [handed_in.name]


def test_without_fork_an_answer_gets_an_interpreter_of_its_own():
    worker = grade.Worker(PLACE, 4.0, 512, fork=False)
    try:
        assert ask(worker, "import os\nturning_pairs = 81").status == "correct"
        assert worker._process is None
    finally:
        worker.close()


# The command line


def test_nothing_to_grade_and_wrong_options_are_refused(tmp_path, capsys):
    out = ["--csv", str(tmp_path / "o.csv")]
    for arguments in (
        ["grade", str(tmp_path), *out],
        ["grade", str(NOTEBOOK), *out, "--timeout", "0"],
        ["grade", str(NOTEBOOK), *out, "--chapter", "77"],
        ["grade", str(NOTEBOOK), *out, "--memory", "1"],
        ["grade", str(NOTEBOOK), *out, "--memory", str(10**15)],
        ["grade", str(NOTEBOOK), *out, "--timeout", "soon"],
        ["grade", str(NOTEBOOK)],
    ):
        with pytest.raises(SystemExit) as stopped:
            grade.main(arguments)
        assert stopped.value.code == 2
    assert "no notebook there" in capsys.readouterr().err
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        (["--csv", "no/such/folder/o.csv"], "there is no folder"),
        (["--csv", "."], "is a folder"),
        (["--csv", "o.csv", "--totals", "./o.csv"], "must be two files"),
        (["--csv", "o.csv", "--totals", "none/t.csv"], "--totals none/t.csv: there is no folder"),
        (["--csv", "handed in.ipynb"], "would be lost"),
    ],
)
def test_tables_that_cannot_be_written_are_told_before_grading(
    tmp_path, monkeypatch, capsys, tables, told
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(grade, "grade", None)  # any use would fail
    path = tmp_path / "handed in.ipynb"
    path.write_bytes(NOTEBOOK.read_bytes())
    with pytest.raises(SystemExit) as stopped:
        grade.main(["grade", str(path), *tables])
    assert stopped.value.code == 2 and told in capsys.readouterr().err
    assert path.read_bytes() == NOTEBOOK.read_bytes()


def test_help_explains_the_options(capsys):
    with pytest.raises(SystemExit):
        grade.main(["grade", "--help"])
    shown = capsys.readouterr().out
    for option in ("--csv", "--totals", "--timeout", "--memory", "--no-sandbox", "Exit code 0"):
        assert option in shown


# The instructor's page


def test_the_instructors_page_agrees_with_the_registry():
    page = (ROOT / "book" / "instructors.md").read_text(encoding="utf-8")
    row = re.compile(
        r"^(?:\*\*Chapter (\d+)\*\*.*|\| `(\w+)` \| (\w+), (\d+), (\d+) \| .+ \|)$", re.M
    )
    listed, at = [], ""
    for chapter, *facts in row.findall(page):
        at = chapter or at
        listed += [] if chapter else [(at, *facts)]
    known = exercises()
    assert listed == [
        (str(e.chapter), e.name, e.kind, str(e.points), str(e.minutes)) for e in known
    ]
    chapters = sorted({entry.chapter for entry in known})
    points = [sum(e.points for e in exercises(chapter)) for chapter in chapters]
    minutes = [sum(e.minutes for e in exercises(chapter)) for chapter in chapters]

    def listed_in_words(numbers):
        *first, last = map(str, numbers)
        return f"{', '.join(first)} and {last}"

    text = "The chapters have {} points; their exercises take {} minutes."
    assert text.format(listed_in_words(points), listed_in_words(minutes)) in page
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", page)) - {"code_stub", "grade_id", "check_"}
    assert named - {"generate_assignment"} == {entry.name for entry in known}
    assert f"with {len(known)} exercises, {sum(points)} points" in page


def test_the_instructors_page_knows_every_status_and_the_defaults():
    page = (ROOT / "book" / "instructors.md").read_text(encoding="utf-8")
    for status in re.findall(r"``([a-z ]+)``", grade.Row.__doc__):
        assert re.search(rf"^\|[^|]*\b{status}\b[^|]*\|", page, re.MULTILINE), status
    assert f"`--timeout` seconds ({grade.SECONDS:g})" in page
    assert f"`--memory` MiB ({grade.MEMORY})" in page
