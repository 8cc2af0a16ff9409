"""Calls a learner's answer on the inputs of an exercise, and survives whatever it does.

The result holds nothing but plain values and CPU tensors, so a grader can run this in a process of
its own, send the result home with ``torch.save`` and ``torch.load(weights_only=True)``, and have it
judged there.
"""

from __future__ import annotations

import copy
import ctypes
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .isolation import usual_defaults
from .registry import Exercise, Implement

#: Seconds for all inputs together. The slowest honest solution takes well under one.
SECONDS = 10.0


@dataclass(frozen=True)
class Run:
    """What an answer did.

    Attributes:
        outputs: one for every input that was reached, in the form of :func:`portable`.
        mutated: for each of them, whether an argument was changed in place.
        status: ``"ran"``, or why it did not get through: ``"todo"``, ``"error"``, ``"timeout"``.
        message: for all but ``"ran"``, what to tell the learner.
    """

    outputs: list[Any]
    mutated: list[bool]
    status: str = "ran"
    message: str = ""


class _TimeUp(BaseException):
    """Not an Exception: a learner's ``except Exception`` must not catch it."""


def portable(value: Any) -> Any:
    """A value as plain data: CPU tensors, numbers, texts, None, and lists of these.

    Args:
        value: whatever a learner's function returned.

    Returns:
        The same, or ``{"unusable": description}`` for what no exercise expects: other types,
        tensors that are not on the CPU, and whole numbers beyond every float.
    """
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            return {"unusable": f"a tensor on {value.device}"}
        if value.layout != torch.strided or value.is_quantized or value.is_nested:
            return {"unusable": "a tensor that is not dense"}
        return value.detach().resolve_conj().resolve_neg().clone().as_subclass(torch.Tensor)
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        value = value.item()  # a number of NumPy's, such as np.dot of two lists of integers
    if isinstance(value, int) and value.bit_length() > 1023:
        return {"unusable": f"a whole number of {value.bit_length()} bits"}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [portable(entry) for entry in value]
    if value is ...:
        return {"unusable": "..."}
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return {"unusable": f"{module}{kind.__qualname__}"}


def run(exercise: Exercise, answer: Any, *, seconds: float = SECONDS) -> Run:
    """Call an answer on every input; or, for an exercise that asks for a value, look at it.

    Args:
        exercise: its entry in the registry.
        answer: the learner's function or value.
        seconds: the limit for everything together. In the main thread of a POSIX system an alarm
            ends an endless loop; elsewhere (Windows, another thread) the answer runs in a thread
            that is told to stop. Neither can end a call of C code, or a loop that catches
            everything: the first is left behind in its thread, and a grader needs a process.

    Returns:
        What happened. Only a ``KeyboardInterrupt`` leaves this function as an exception.
    """
    if not isinstance(exercise, Implement):
        return _look_at(answer)
    if answer is None or answer is ...:
        return Run([], [], "todo", "not attempted yet")
    if not callable(answer):
        given = portable(answer)
        kind = given["unusable"] if isinstance(given, dict) else type(answer).__name__
        advice = f"give the function itself: check({exercise.name!r}, {exercise.name})"
        return Run([], [], "error", f"this is no function but {kind}; {advice}")
    outputs: list[Any] = []
    mutated: list[bool] = []
    try:
        _limited(lambda: _call(exercise, answer, outputs, mutated), seconds)
    except NotImplementedError:
        return Run(outputs, mutated, "todo", "not attempted yet")
    except _TimeUp as error:
        where = _where(error)
        limit = f"{round(seconds, 1):g}"  # a grader has taken off what the cells before it took
        return Run(outputs, mutated, "timeout", f"no answer in {limit} s: endless loop?{where}")
    except SystemExit as error:
        return Run(outputs, mutated, "error", f"called exit(){_where(error)}")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Run(outputs, mutated, "error", describe(error))
    return Run(outputs, mutated)


def _call(exercise: Implement, answer: Callable, outputs: list, mutated: list) -> None:
    with usual_defaults():
        torch.manual_seed(0)
        for given in exercise.inputs():
            arguments = copy.deepcopy(given)  # the learner never sees our copy
            try:
                output = portable(answer(*arguments))
            except NotImplementedError:
                raise
            except Exception as error:
                if not exercise.raises:
                    raise
                names = [kind.__name__ for kind in type(error).__mro__]
                output = {"raised": names, "text": describe(error)}
            outputs.append(output)
            mutated.append(any(_changed(*pair) for pair in zip(given, arguments, strict=True)))


def _changed(before: Any, after: Any) -> bool:
    if not isinstance(before, torch.Tensor):
        return before != after
    same = before.shape == after.shape and before.dtype == after.dtype
    return not (same and before.device == after.device and torch.equal(before, after))


def _look_at(answer: Any) -> Run:
    with suppress(Exception):  # what has no such method, or no numbers in memory, stays as it is
        answer = answer.tolist()  # NumPy's and PyTorch's numbers and arrays
    if isinstance(answer, (set, frozenset)):
        answer = sorted(answer, key=str)
    value = portable(answer)
    entries = value if isinstance(value, list) else [value]
    if value == [] or any(entry is None or entry == {"unusable": "..."} for entry in entries):
        return Run([], [], "todo", "not attempted yet")
    for entry in entries:
        if isinstance(entry, dict):
            kind = entry["unusable"]
            hint = ": call it" if callable(answer) else ""
            return Run([], [], "error", f"the answer should be a value, not {kind}{hint}")
    return Run([value], [False])


def describe(error: BaseException) -> str:
    """One line about an exception: its type, its message and the learner's line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # an exception of the learner's own that cannot be printed
        text = ""
    if len(text) > 160:
        text = text[:157] + "..."
    return f"raised {type(error).__name__}{': ' if text else ''}{text}{_where(error)}"


def _where(error: BaseException) -> str:
    """The learner's last line in a traceback, as ``(line 3: ...)``."""
    # Not the learner's: this package, PyTorch, NumPy, and Python's own frozen modules.
    modules = (Path(module.__file__ or "").parent for module in (torch, np))
    others = tuple(map(str, [Path(__file__).parents[1], *modules, "<frozen"]))
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(others)]
    if not own:
        return ""
    line = (own[-1].line or "").strip()
    return f" (line {own[-1].lineno}{f': {line}' if line else ''})"


def _limited(function: Callable[[], None], seconds: float) -> None:
    main = threading.current_thread() is threading.main_thread()
    if main and hasattr(signal, "setitimer"):
        _limited_by_alarm(function, seconds)
    else:
        _limited_by_thread(function, seconds)


def _limited_by_alarm(function: Callable[[], None], seconds: float) -> None:
    armed = True

    def ring(*_: Any) -> None:
        if armed:
            raise _TimeUp

    handler = signal.signal(signal.SIGALRM, ring)
    # Again and again: the first may be swallowed by a bare "except".
    earlier = signal.setitimer(signal.ITIMER_REAL, seconds, 0.2)
    try:
        function()
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, *earlier)
        signal.signal(signal.SIGALRM, handler)


def _limited_by_thread(function: Callable[[], None], seconds: float) -> None:
    caught: list[BaseException] = []

    def work() -> None:
        try:
            function()
        except BaseException as error:  # handed over to the thread that waits
            caught.append(error)

    worker = threading.Thread(target=work, daemon=True, name="exercise")
    worker.start()
    try:
        worker.join(seconds)
    finally:  # also when somebody interrupts the wait
        _stop(worker)
    if worker.is_alive():
        raise _TimeUp
    if caught:
        raise caught[0]


def _stop(worker: threading.Thread) -> None:
    for _ in range(10):
        if not worker.is_alive():
            return
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(worker.ident or 0), ctypes.py_object(_TimeUp)
        )
        worker.join(0.2)
