"""What a check does with an answer, whatever the answer does: the machinery, not the catalogue."""

from __future__ import annotations

import io
import json
import math
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

from posenc_tutorial import exercises as public
from posenc_tutorial.exercises import check, evaluate, hint, judge, notebook, progress
from posenc_tutorial.exercises.registry import exercise, exercises
from posenc_tutorial.exercises.runner import portable, run

TABLE, LOOK_UP, ATTENTION = "sinusoid_table", "look_up", "attention_by_hand"


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch):
    """Checks remember nothing from another test, and nobody asks for strictness."""
    monkeypatch.setattr(notebook, "_records", {})
    monkeypatch.setattr(notebook, "_loaded", set())
    monkeypatch.delenv(notebook.STRICT, raising=False)


def right(n, d):
    angle = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    table = torch.empty(n, d)
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
    return table


def verdict(answer, name=TABLE, **options):
    return evaluate(name, answer, **options)


# The line that is printed


def test_a_check_prints_one_line_and_returns_nothing(capsys):
    assert check(TABLE, right) is None
    assert capsys.readouterr().out == "[ok] sinusoid_table: correct on 3 inputs\n"


@pytest.mark.parametrize("answer", [..., None])
def test_what_is_not_written_yet_is_not_wrong(answer, capsys):
    check(TABLE, answer)
    assert capsys.readouterr().out == "[..] sinusoid_table: not attempted yet\n"


def test_a_stub_is_not_wrong():
    def sinusoid_table(n, d):
        raise NotImplementedError

    assert verdict(sinusoid_table).status == "todo"


def test_messages_fit_every_terminal():
    for entry in exercises():
        for mistake in entry.mistakes:
            assert f"[no] {entry.name}: {mistake.message}".isascii()


def test_an_unknown_name_is_told_what_is_close():
    with pytest.raises(ValueError, match="'sinusoid_tabel'.*sinusoid_table"):
        check("sinusoid_tabel", right)
    with pytest.raises(ValueError, match="no exercise is called 3"):
        hint(3)


# What can be wrong with an output


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n, d: None, "return statement"),
        (lambda n, d: ..., "not finished"),
        (lambda n, d: right(n, d).numpy(), "numpy.ndarray, expected a torch.Tensor"),
        (lambda n, d: right(n, d).tolist(), "returned a list, expected a torch.Tensor"),
        (lambda n, d: {"table": right(n, d)}, "returned dict"),
        (lambda n, d: 3.0, "returned a float"),
        (lambda n, d: right(n, d).T, "shape is (12, 7), expected (7, 12)"),
        (lambda n, d: right(n, d)[None], "shape is (1, 7, 12), expected (7, 12)"),
        (lambda n, d: right(n, d).half(), "dtype is float16, expected float32"),
        (lambda n, d: right(n, d).bfloat16(), "dtype is bfloat16"),
        (lambda n, d: right(n, d).to(torch.complex64), "dtype is complex64"),
        (lambda n, d: right(n, d) / 0, "nan or infinity"),
        (lambda n, d: right(n, d) * 1.01, "largest error 0.01"),
        (lambda n, d: right(n, d).to("meta"), "a tensor on meta, but the arguments are on the CPU"),
        (lambda n, d: right(n, d).to_sparse(), "not dense"),
        pytest.param(
            lambda n, d: torch.nested.nested_tensor([right(n, d)]),
            "not dense",
            marks=pytest.mark.filterwarnings("ignore:The PyTorch API of nested"),
        ),
        (lambda n, d: 10**400, "returned a whole number of 1329 bits, expected a torch.Tensor"),
        (lambda n, d: right(n, d).to(torch.float8_e5m2), "dtype is float8_e5m2, expected float32"),
    ],
)
def test_each_kind_of_wrong_output_has_its_message(answer, message):
    found = verdict(answer)
    assert found.status == "wrong" and not found.mistakes
    assert message in found.message


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("token_positions", torch.complex64),
        ("causal_weights", torch.float8_e5m2),
        ("step_bias", torch.uint16),
        ("attention_with_cache", torch.uint16),
        ("attention_with_cache", torch.bool),
    ],
)
def test_no_dtype_stops_a_check(name, dtype):
    def answer(*given):
        value = exercise(name).reference(*given)
        many = isinstance(value, (list, tuple))
        return [entry.to(dtype) for entry in value] if many else value.to(dtype)

    found = evaluate(name, answer)
    assert found.status == "wrong" and not found.mistakes


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def test_an_error_that_cannot_be_printed_is_told():
    def answer(n, d):
        raise Unprintable

    found = verdict(answer)
    assert found.status == "error" and found.message.startswith("raised Unprintable (line")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (10**400, "the answer should be a value, not a whole number of 1329 bits"),
        (math.nan, "nan is no number"),
        (torch.eye(2).to_sparse(), "not a tensor that is not dense"),
        (torch.ones(2, device="meta"), "not a tensor on meta"),
    ],
)
def test_a_value_that_is_no_number_is_told(answer, told):
    found = evaluate("old_place", answer)
    assert found.status in ("wrong", "error") and told in found.message


def test_the_limit_is_told_in_round_numbers():
    def answer(n, d):
        while True:
            pass

    assert "no answer in 0.3 s: endless" in verdict(answer, seconds=0.2973).message


def test_no_statement_is_no_true_statement():
    assert "no statement is chosen" in evaluate("what_attention_knows", "").message


def test_the_largest_error_says_where_and_on_which_input():
    def answer(n, d):
        table = right(n, d)
        if d == 16:
            table[4, 3] += 0.25
        return table

    found = verdict(answer).message
    assert "largest error 0.25 at (4, 3)" in found and "(input 2 of 3: n = 33, d = 16)" in found
    assert "none of the mistakes that this check knows" in found


def test_an_honest_table_is_right_far_out_and_a_wrong_one_is_not_near_the_start():
    """The tolerance grows with the position, so it may be tight where positions are small."""
    assert verdict(right).status == "correct"
    assert verdict(lambda n, d: right(n, d).double()).status == "correct"

    def slightly(n, d):
        table = right(n, d)
        table[1] += 3e-5
        return table

    assert verdict(slightly).status == "wrong"


def test_views_gradients_and_reused_buffers_are_fine():
    buffer = torch.empty(4000, 32)

    def reused(n, d):
        out = buffer[:n, :d]
        out.copy_(right(n, d))
        return out

    def with_gradient(n, d):
        return right(n, d).requires_grad_()

    def transposed_view(n, d):
        return right(n, d).T.contiguous().T

    for answer in (reused, with_gradient, transposed_view):
        assert verdict(answer).status == "correct"


def test_a_change_in_place_is_noticed_whether_or_not_the_rest_is_right():
    def in_place(Q, K, V):
        Q /= math.sqrt(Q.shape[1])
        return torch.softmax(Q @ K.T, 1) @ V

    def both(Q, K, V):
        Q *= 3
        return torch.softmax(Q @ K.T, 1) @ V

    found = verdict(in_place, ATTENTION)
    assert found.status == "wrong" and "in place" in found.message and "are right" in found.message
    assert "are wrong" in verdict(both, ATTENTION).message


def test_two_mistakes_at_once_are_both_named():
    found = verdict(lambda n, d: right(n + 1, d)[1:, torch.arange(d) ^ 1])
    assert found.mistakes == ("exchanged", "from_one")
    assert found.message.startswith("two mistakes at once: ") and "; and " in found.message


# Errors, exits, loops


def test_an_error_names_the_line_of_the_learner():
    def answer(n, d):
        table = torch.zeros(n, d)
        return table @ undefined_weights  # noqa: F821

    found = verdict(answer)
    assert found.status == "error"
    assert "raised NameError: name 'undefined_weights' is not defined (line " in found.message
    assert ": return table @ undefined_weights" in found.message


def test_an_error_inside_pytorch_still_names_the_line_of_the_learner():
    def answer(n, d):
        layer = torch.nn.Linear(3, 3)
        return layer(torch.zeros(n, d))

    assert "return layer(torch.zeros(n, d))" in verdict(answer).message


def test_long_and_empty_messages_stay_one_line():
    def long(n, d):
        raise RuntimeError("first\nsecond " + "x" * 500)

    def silent(n, d):
        raise KeyError

    assert "\n" not in verdict(long).message and len(verdict(long).message) < 300
    assert verdict(silent).message.startswith("raised KeyError (line ")


def test_exit_is_caught_and_an_interrupt_is_not():
    def leave(n, d):
        sys.exit(3)

    def interrupt(n, d):
        raise KeyboardInterrupt

    assert verdict(leave).status == "error" and "exit()" in verdict(leave).message
    with pytest.raises(KeyboardInterrupt):
        verdict(interrupt)


def test_wrong_numbers_of_arguments_and_results_of_calls_are_explained():
    assert "takes 1 positional argument" in verdict(lambda n: n).message
    found = verdict(right(3, 8))
    assert found.status == "error" and "give the function itself" in found.message


def endless(n, d):
    while True:
        try:
            n += 1
        except Exception:
            pass


def test_an_endless_loop_ends():
    start = time.perf_counter()
    found = verdict(endless, seconds=0.5)
    assert found.status == "timeout" and "endless loop?" in found.message
    assert "(line " in found.message
    assert time.perf_counter() - start < 30


def test_an_endless_loop_ends_in_another_thread_too(monkeypatch):
    """No alarm there, nor on Windows."""
    found = []
    worker = threading.Thread(target=lambda: found.append(verdict(endless, seconds=0.5)))
    worker.start()
    worker.join(60)
    assert found and found[0].status == "timeout"
    monkeypatch.delattr("signal.setitimer")
    assert verdict(endless, seconds=0.5).status == "timeout"
    assert verdict(right).status == "correct"
    assert verdict(lambda n, d: undefined).status == "error"  # noqa: F821


def test_a_thread_that_cannot_be_stopped_is_left_behind(monkeypatch):
    monkeypatch.delattr("signal.setitimer")
    released = threading.Event()
    found = verdict(lambda n, d: released.wait(60), seconds=0.2)
    assert found.status == "timeout"
    released.set()


def test_the_alarm_of_somebody_else_comes_back():
    signal = pytest.importorskip("signal")
    if not hasattr(signal, "setitimer"):
        pytest.skip("no alarms here")
    handler = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1000.0)
        verdict(right)
        assert signal.getsignal(signal.SIGALRM) == signal.SIG_IGN
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1000
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


# The learner's notebook stays as it is, and does not disturb


def test_other_defaults_neither_break_a_check_nor_change():
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    try:
        found = verdict(right)
        device, dtype = torch.get_default_device(), torch.get_default_dtype()
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert found.status == "correct"
    assert device == torch.device("meta") and dtype == torch.float64


def test_what_an_answer_sets_does_not_leak():
    def answer(n, d):
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.manual_seed(5), np.random.seed(5), random.seed(5)
        return right(n, d)

    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    drawn = torch.rand(1).item(), np.random.rand(), random.random()
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    assert verdict(answer).status == "wrong"  # the second call works on the meta device
    assert (torch.rand(1).item(), np.random.rand(), random.random()) == drawn
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()
    assert torch.zeros(1).device.type == "cpu"


def test_the_inputs_are_the_same_whatever_the_seed():
    for entry in exercises():
        torch.manual_seed(1)
        first = entry.inputs()
        torch.manual_seed(2)
        for one, other in zip(first, entry.inputs(), strict=True):
            for a, b in zip(one, other, strict=True):
                assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def test_a_replaced_allclose_does_not_help(monkeypatch):
    monkeypatch.setattr(torch, "allclose", lambda *_, **__: True)
    assert verdict(lambda n, d: torch.zeros(n, d)).status == "wrong"


# Exceptions that are asked for


def test_the_right_exception_is_right_and_another_one_is_not():
    def raises(kind):
        def look_up(table, positions):
            if (positions < 0).any() or (positions >= len(table)).any():
                raise kind("no such row")
            return table[positions]

        return look_up

    class Special(IndexError):
        pass

    assert verdict(raises(IndexError), LOOK_UP).status == "correct"
    assert verdict(raises(Special), LOOK_UP).status == "correct"
    found = verdict(raises(ValueError), LOOK_UP)
    assert found.status == "error" and "where IndexError is asked for" in found.message
    never = verdict(lambda table, positions: torch.zeros(*positions.shape, 4), LOOK_UP)
    assert never.status == "wrong"
    always = verdict(lambda table, positions: table[100], LOOK_UP)
    assert always.status == "wrong" and "where a value is asked for" in always.message


# Values: predictions and statements


@pytest.mark.parametrize("answer", [81, 81.0, np.int64(81), torch.tensor(81)])
def test_a_number_may_come_in_any_form(answer):
    assert str(verdict(answer, "turning_pairs")).endswith("correct, as measured")


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        (..., "todo", "not attempted"),
        (None, "todo", "not attempted"),
        (60, "wrong", "too small"),
        (300, "wrong", "too large"),
        (True, "wrong", "an int, not a bool"),
        ("81", "wrong", "an int, not a str"),
        ([81], "wrong", "an int, not a list"),
        (lambda: 81, "error", "call it"),
        (object(), "error", "a value, not object"),
        (162, "wrong", "a pair of them is one clock"),
    ],
)
def test_a_number_that_is_none_or_wrong(answer, status, message):
    found = verdict(answer, "turning_pairs")
    assert found.status == status and message in found.message


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        ([...] * 6, "todo", "not attempted"),
        ([True, ..., False, True, True, True], "todo", "not attempted"),
        ([], "todo", "not attempted"),
        ([True, False], "wrong", "a list of 6 entries"),
        ([1, 0, 1, 0, 1, 0], "wrong", "True or False"),
        ([True] * 6, "wrong", "entry 1 (first row) is not what is measured; 3 of 6"),
        ((False, True, True, False, False, True), "correct", "all 6 entries as measured"),
        (np.array([False, True, True, False, False, True]), "correct", ""),
    ],
)
def test_a_list_of_predictions(answer, status, message):
    found = verdict(answer, "same_or_not")
    assert found.status == status and message in found.message


@pytest.mark.parametrize("answer", ["BE", "be", "E, B", ["B", "E"], ("e", "b"), {"B", "E"}, "B E"])
def test_letters_may_come_in_any_form(answer):
    assert verdict(answer, "what_attention_knows").status == "correct"


@pytest.mark.parametrize(
    ("answer", "message", "mistakes"),
    [
        ("B", "1 more of the statements holds too", ()),
        ("ABE", "A is not true: its rows are reordered", ("A",)),
        ("A", "A is not true", ()),
        ("ACDFG", "A is not true", ()),
        ("BEX", "X: there is no such statement", ()),
        (7, "a text of letters", ()),
        ([True, False], "there is no such statement", ()),
    ],
)
def test_a_false_statement_is_named(answer, message, mistakes):
    found = verdict(answer, "what_attention_knows")
    assert found.status == "wrong" and found.mistakes == mistakes
    assert message in found.message


# Strictness, memory, hints


def test_strict_raises_after_printing(monkeypatch, capsys):
    monkeypatch.setenv(notebook.STRICT, "1")
    check(TABLE, right)
    with pytest.raises(AssertionError, match="sinusoid_table: not attempted yet"):
        check(TABLE, ...)
    with pytest.raises(AssertionError, match="sine and cosine"):
        check(TABLE, lambda n, d: right(n, d)[:, torch.arange(d) ^ 1])
    assert len(capsys.readouterr().out.splitlines()) == 3
    monkeypatch.setenv(notebook.STRICT, "0")
    check(TABLE, ...)


def test_hints_come_one_after_the_other(capsys):
    entry = exercise(LOOK_UP)
    starts = ("Hint 1 of 2: ", "Hint 2 of 2 (the last one): ", "Hint 2 of 2 (the last one): ")
    for start, text in zip(starts, (*entry.hints, entry.hints[-1]), strict=True):
        hint(LOOK_UP)
        out = capsys.readouterr().out
        assert all(len(line) <= 80 for line in out.splitlines())
        assert " ".join(out.split()) == start + text


def test_a_verdict_in_the_book_does_not_give_the_answer_away():
    for entry in exercises():
        if not hasattr(entry, "signature"):
            value = entry.expected()[0]
            line = str(evaluate(entry.name, value)).split(": ", 1)[1]
            assert line.startswith("correct") and str(value) not in line
            assert "True" not in line and "False" not in line


def test_progress_counts_and_keeps_what_was_solved(capsys):
    check(TABLE, ...)
    check(TABLE, lambda n, d: None)
    check(TABLE, right)
    check(TABLE, lambda n, d: None)  # an experiment after the fact
    hint(TABLE)
    capsys.readouterr()
    assert progress() is None
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if TABLE in line)
    assert row.split() == ["3", TABLE, "correct", "3", "1", "2/2"]
    assert out.splitlines()[-1].startswith(f"1 of {len(exercises())} exercises solved, 2 of ")
    assert len(out.splitlines()) == len(exercises()) + 2


def test_progress_goes_on_from_a_file(tmp_path, monkeypatch, capsys):
    path = tmp_path / "course" / "progress.json"
    check(TABLE, right)
    progress(path)
    progress(str(path))  # twice changes nothing
    monkeypatch.setattr(notebook, "_records", {})  # a new session
    monkeypatch.setattr(notebook, "_loaded", set())
    check(TABLE, lambda n, d: None)
    check(LOOK_UP, lambda table, positions: None)
    progress(path)
    stored = json.loads(path.read_text(encoding="utf-8"))["exercises"]
    assert stored[TABLE] == {"state": "correct", "tries": 2, "hints": 0}
    assert stored[LOOK_UP]["state"] == "wrong"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert "1 of" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    "content",
    [
        *("", "[1, 2", "[]", "{}", '{"format": 99, "exercises": {}}', '{"format": 1}'),
        '{"format": 1, "exercises": {"x": {"state": "todo", "tries": Infinity, "hints": 0}}}',
        '{"format": 1, "exercises": {"x": {"state": "solved", "tries": 1, "hints": 0}}}',
        "[" * 100_000,
    ],
)
def test_a_broken_file_is_left_alone(tmp_path, content, capsys):
    path = tmp_path / "progress.json"
    path.write_text(content, encoding="utf-8")
    progress(path)
    assert "progress.json is left alone" in capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == content


def test_a_disk_that_is_full_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "progress.json"
    progress(path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(notebook.json, "dump", full)
    with pytest.raises(OSError, match="No space"):
        progress(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["progress.json"]


def test_a_chapter_that_does_not_exist_is_told():
    with pytest.raises(ValueError, match=r"chapter must be one of \[1, 2, .*, 14\], got 99"):
        progress(chapter=99)


def test_a_file_with_unknown_exercises_keeps_them(tmp_path):
    path = tmp_path / "progress.json"
    old = {"format": 1, "exercises": {"gone": {"state": "correct", "tries": 4, "hints": 0}}}
    path.write_text(json.dumps(old), encoding="utf-8")
    progress(path)
    assert json.loads(path.read_text(encoding="utf-8"))["exercises"]["gone"]["tries"] == 4


# Judging elsewhere


def test_outputs_can_be_sent_home_and_judged_there():
    """What a grader does: run in one process, load plain data in another, judge there."""
    answers = {TABLE: lambda n, d: right(n + 1, d)[1:], LOOK_UP: lambda table, p: table[p]}
    for name, answer in answers.items():
        done = run(exercise(name), answer)
        parcel = io.BytesIO()
        torch.save([done.outputs, done.mutated, done.status, done.message], parcel)
        parcel.seek(0)
        outputs, mutated, status, message = torch.load(parcel, weights_only=True)
        there = judge(name, outputs, mutated, status=status, message=message)
        assert there == evaluate(name, answer) and there.mistakes


@pytest.mark.parametrize(
    "outputs",
    [
        [],
        [None] * 3,
        [{}] * 3,
        [{"raised": None}] * 3,
        [{"raised": ["IndexError"]}] * 3,
        [{"unusable": 7}] * 3,
        ["text"] * 3,
        [[1, [2]]] * 3,
        [torch.zeros(0)] * 3,
        [torch.zeros(7, 12)] * 2,
        [torch.tensor(True)] * 3,
        [float("nan")] * 3,
        range(3),
    ],
)
def test_a_judge_survives_anything(outputs):
    for name in (TABLE, LOOK_UP, "turning_pairs", "same_or_not", "what_attention_knows"):
        for number in {1, len(exercise(name).inputs()), len(list(outputs))}:
            many = (list(outputs) * 8)[:number]
            assert judge(name, many, [False] * number).status in ("wrong", "error")
    assert judge(TABLE, [], status="timeout", message="too long").status == "timeout"


def test_portable_values_are_plain():
    class Mine(torch.Tensor):
        pass

    assert type(portable(torch.zeros(2).as_subclass(Mine))) is torch.Tensor
    assert portable((1, "a", None, [2.5])) == [1, "a", None, [2.5]]
    assert portable({"a": 1}) == {"unusable": "dict"}
    assert portable(np.zeros(2)) == {"unusable": "numpy.ndarray"}
    tensor = torch.ones(3, requires_grad=True)
    assert not portable(tensor).requires_grad and portable(tensor) is not tensor


# The package


def test_the_package_does_not_import_the_exercises():
    code = "import posenc_tutorial, sys; sys.exit('posenc_tutorial.exercises' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_the_exercises_prints_nothing_and_runs_no_chapter():
    code = "import posenc_tutorial.exercises, sys; print([n for n in sys.modules if '.ch0' in n])"
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "[]\n" and done.stderr == ""


def test_what_is_public_is_documented():
    assert public.__all__ == sorted(public.__all__)
    for name in public.__all__:
        assert (getattr(public, name).__doc__ or "").strip(), name


def test_checks_work_where_the_default_device_cannot_be_asked_for(monkeypatch):
    """PyTorch 2.5 raises there once a default device has been set and reset."""

    def fails():
        raise AttributeError("'NoneType' object has no attribute 'device'")

    monkeypatch.setattr(torch, "get_default_device", fails)
    assert evaluate("turning_pairs", None).status == "todo"


def test_the_number_of_the_last_clock_is_not_the_number_of_clocks():
    assert evaluate("turning_pairs", 81).status == "correct"
    assert evaluate("turning_pairs", 80).mistakes == ("last_number",)
