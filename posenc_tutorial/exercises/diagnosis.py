"""Compares outputs with the reference and names the mistake. No learner's code runs here.

Everything takes outputs in the form of :func:`~posenc_tutorial.exercises.runner.portable`, so a
grader can run the answers elsewhere and judge them here, with the same words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch

from .isolation import usual_defaults
from .registry import Exercise, Implement, Predict, Repair, exercise

#: A diagnosis names so many mistakes at once, at most; of planted bugs it names all.
MOST_MISTAKES = 2
_SIGN = {"correct": "[ok]", "todo": "[..]"}
#: PyTorch computes with these on every device; with float8 or uint16 hardly at all.
_ORDINARY = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)


@dataclass(frozen=True)
class Result:
    """What a check found. ``str()`` of it is the one line that a learner sees.

    Attributes:
        name: of the exercise.
        status: ``"correct"``, ``"todo"``, ``"wrong"``, ``"error"`` or ``"timeout"``.
        message: in words.
        mistakes: keys of the mistakes that were recognised, for statistics.
    """

    name: str
    status: str
    message: str
    mistakes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{_SIGN.get(self.status, '[no]')} {self.name}: {self.message}"


def judge(
    name: str,
    outputs: Sequence[Any],
    mutated: Sequence[bool] = (),
    *,
    status: str = "ran",
    message: str = "",
) -> Result:
    """Judge outputs that were computed elsewhere, with the same registry and the same words.

    Args:
        name: of the exercise.
        outputs: one for every input, in the form of ``runner.portable``; what comes from another
            process may be anything at all.
        mutated: for every input, whether an argument was changed in place.
        status: ``Run.status``; anything but ``"ran"`` is passed on with its message.
        message: ``Run.message``.

    Returns:
        The verdict.

    Raises:
        ValueError: an unknown exercise.
    """
    entry = exercise(name)
    if status != "ran":
        return Result(name, status, message)
    with usual_defaults(), torch.no_grad():
        return _judge(entry, list(outputs), list(mutated))


def recognised(entry: Exercise, outputs: Sequence[Any]) -> tuple[str, ...]:
    """The fewest mistakes that explain these outputs; empty if none of the known ones do."""
    return next(all_explanations(entry, outputs), ())


def all_explanations(entry: Exercise, outputs: Sequence[Any]) -> Iterator[tuple[str, ...]]:
    """Every set of one or two mistakes that explains these outputs, single ones first.

    Of planted bugs there is one set at most: those whose test fails.
    """
    if isinstance(entry, Repair):
        left = _bugs_left(entry, outputs)
        yield from [left] if left else []
        return
    for keys in mistake_sets(entry):
        if _explains(entry, keys, outputs):
            yield keys


def mistake_sets(entry: Exercise) -> Iterator[tuple[str, ...]]:
    """All sets of mistakes that are looked for: one, then two that do not exclude each other.

    Of planted bugs, all sets.
    """
    most = len(entry.mistakes) if isinstance(entry, Repair) else MOST_MISTAKES
    for size in range(1, most + 1):
        for chosen in combinations(entry.mistakes, size):
            excluded = {key for mistake in chosen for key in mistake.excludes}
            if not excluded & {mistake.key for mistake in chosen}:
                yield tuple(mistake.key for mistake in chosen)


def agrees(entry: Exercise, want: Sequence[Any], got: Sequence[Any]) -> bool:
    """Whether two lists of outcomes are the same within the tolerance, dtypes aside."""
    if len(want) != len(got):
        return False
    return all(_close(entry, *case) for case in zip(entry.inputs(), want, got, strict=True))


def _judge(entry: Exercise, outputs: list[Any], mutated: list[bool]) -> Result:
    inputs, want = entry.inputs(), entry.expected()
    if len(outputs) != len(inputs):
        counted = f"{len(outputs)} results for {len(inputs)} inputs"
        return Result(entry.name, "error", f"the answers are incomplete: {counted}")
    cases = list(zip(want, outputs, strict=True))
    for number, case in enumerate(cases, start=1):
        found = _unusable(*case) or _unusual_dtype(entry, *case)
        if found:
            status = "error" if isinstance(case[1], dict) and "raised" in case[1] else "wrong"
            return Result(entry.name, status, found + _input(entry, inputs, number))
    right = agrees(entry, want, outputs)
    if right or not isinstance(entry, Implement):
        dtypes = "" if not isinstance(entry, Implement) else _wrong_dtypes(entry, cases)
        if right and dtypes:
            return Result(entry.name, "wrong", f"the numbers are right, but {dtypes}")
        if right and any(mutated):
            return Result(entry.name, "wrong", _IN_PLACE.format("right"))
        if right:
            return Result(entry.name, "correct", _praise(entry, want))
    found = ""
    if isinstance(entry, Implement):
        found = _wrong_dtypes(entry, cases, half_only=True)
    if found:
        return Result(entry.name, "wrong", found)
    keys = recognised(entry, outputs)
    if keys:
        texts = [entry.mistake(key).message for key in keys]
        if isinstance(entry, Repair):
            fail = f"{len(keys)} of {len(entry.mistakes)} tests fail: "
            return Result(entry.name, "wrong", fail + "; ".join(texts), keys)
        both = "two mistakes at once: " if len(keys) > 1 else ""
        return Result(entry.name, "wrong", both + "; and ".join(texts), keys)
    if any(mutated):
        return Result(entry.name, "wrong", _IN_PLACE.format("wrong"))
    return Result(entry.name, "wrong", _unknown(entry, inputs, want, outputs))


_IN_PLACE = "the numbers are {}, and the function changes its argument in place: work on a copy"


def _praise(entry: Exercise, want: list[Any]) -> str:
    """Without the answer: the line is printed in the book, for everybody to see."""
    if isinstance(entry, Implement):
        return f"correct on {len(want)} inputs"
    if isinstance(entry, Predict):
        several = f"all {len(want[0])} entries " if isinstance(want[0], list) else ""
        return f"correct, {several}as measured"
    return "correct, these and no others"


def _input(entry: Exercise, inputs: list[tuple], number: int) -> str:
    """Which input it was, as ``(input 2 of 3: n = 33, d = 16)``."""
    if not isinstance(entry, Implement):
        return ""
    names = entry.signature[entry.signature.index("(") + 1 : entry.signature.index(")")].split(", ")
    shown = []
    for name, value in zip(names, inputs[number - 1], strict=True):
        if not isinstance(value, torch.Tensor):
            shown.append(f"{name} = {value}")
        elif value.numel() <= 6 and not value.is_floating_point():
            shown.append(f"{name} = {value.tolist()}")
        else:
            shown.append(f"{name} of shape {tuple(value.shape)}")
    return f" (input {number} of {len(inputs)}: {', '.join(shown)})"


def _unusable(want: Any, got: Any) -> str:
    """A complaint about what cannot be compared at all."""
    if isinstance(got, dict) and "raised" in got:
        names, text = got.get("raised"), str(got.get("text", "raised an error"))
        if "IndexError" in (names if isinstance(names, list) else []):
            return ""  # asked for on some inputs: on the wrong ones it may be a known mistake
        if not isinstance(want, BaseException):
            return text
        return f"{text}, where {type(want).__name__} is asked for"
    if got is None:
        return "returned None: is the return statement missing?"
    if isinstance(got, dict):
        what = str(got.get("unusable", "something unknown"))
        if what == "...":
            return "returned ...: the code is not finished"
        if what.startswith("a tensor on"):
            return f"the result is {what}, but the arguments are on the CPU"
        return f"returned {what}, expected {_kind(want)}"
    if isinstance(want, BaseException):
        return ""
    if isinstance(want, torch.Tensor) != isinstance(got, torch.Tensor):
        if not isinstance(want, (list, torch.Tensor)) and got.numel() == 1:
            return ""
        return f"returned {_kind(got)}, expected {_kind(want)}"
    return ""


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "a torch.Tensor"
    if isinstance(value, list) and len(value) > 1 and isinstance(value[0], torch.Tensor):
        return f"{len(value)} tensors"
    if isinstance(value, BaseException):
        return f"an {type(value).__name__}"
    return f"{'an' if type(value).__name__[0] in 'aeiou' else 'a'} {type(value).__name__}"


def _close(entry: Exercise, arguments: tuple, want: Any, got: Any) -> bool:
    if isinstance(want, BaseException) or (isinstance(got, dict) and "raised" in got):
        names = got.get("raised") if isinstance(got, dict) else None
        return isinstance(want, BaseException) and (
            isinstance(got, BaseException) or (bool(names) and type(want).__name__ in names)
        )
    if isinstance(got, BaseException):
        return False
    if not isinstance(entry, Implement):
        return _same_value(want, got, getattr(entry, "tolerance", 0.0))
    if isinstance(got, torch.Tensor) and isinstance(want, torch.Tensor):
        if got.shape != want.shape:
            return False
        tolerance = torch.as_tensor(entry.tolerance_for(arguments), dtype=torch.float64)
        if entry.canonical is not None:
            want, got = entry.canonical(arguments, want), entry.canonical(arguments, got)
        return bool((_error(want, got) <= tolerance).all())
    return _same_value(want, got, float(entry.tolerance_for(arguments)))


def _error(want: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """Absolute difference; 0 where both are nan or the same infinity, infinite where one is."""
    if want.is_complex() or got.is_complex():
        want, got = want.to(torch.complex128), got.to(torch.complex128)
    else:
        want, got = want.double(), got.double()
    same = (want == got) | (want.isnan() & got.isnan())
    return (want - got).abs().nan_to_num(nan=math.inf, posinf=math.inf).masked_fill(same, 0.0)


def _same_value(want: Any, got: Any, tolerance: float) -> bool:
    if isinstance(want, list):
        same_length = isinstance(got, list) and len(got) == len(want)
        return same_length and all(
            _same_value(*pair, tolerance) for pair in zip(want, got, strict=True)
        )
    if isinstance(want, str):
        return isinstance(got, str | list) and _letters(got) == _letters(want)
    if isinstance(want, torch.Tensor):
        same_form = isinstance(got, torch.Tensor) and got.shape == want.shape
        return same_form and bool((_error(want, got) <= tolerance).all())
    if isinstance(got, torch.Tensor) and got.numel() == 1:
        got = got.item()
    if isinstance(want, bool):
        return isinstance(got, bool) and got == want
    if isinstance(got, bool) or not isinstance(got, int | float):
        return False
    return abs(want - got) <= tolerance


def _letters(value: Any) -> str:
    """``"c, A"`` and ``["A", "C"]`` are both ``"AC"``."""
    text = "".join(map(str, value)) if isinstance(value, list) else value
    return "".join(sorted({letter.upper() for letter in text if letter.isalnum()}))


def _explains(entry: Exercise, keys: tuple[str, ...], outputs: Sequence[Any]) -> bool:
    symptoms = [entry.mistake(key).symptom for key in keys if entry.mistake(key).symptom]
    if not symptoms:
        return agrees(entry, entry.expected(keys), outputs)
    exact = [key for key in keys if entry.mistake(key).symptom is None]
    want = entry.expected(exact)
    cases = list(zip(entry.inputs(), want, outputs, strict=True))
    if any(getattr(w, "shape", 0) != getattr(g, "shape", 1) for _, w, g in cases):
        return False
    return all(symptom(cases) for symptom in symptoms)


def _bugs_left(entry: Repair, outputs: Sequence[Any]) -> tuple[str, ...]:
    """The bugs whose test fails; none where the outputs do not even have the right form."""
    cases = list(zip(entry.inputs(), entry.expected(), outputs, strict=True))
    if not all(_same_form(want, got) for _, want, got in cases):
        return ()
    return tuple(mistake.key for mistake in entry.mistakes if mistake.symptom(cases))


def _same_form(want: Any, got: Any) -> bool:
    if isinstance(want, list):
        same_length = isinstance(got, list) and len(got) == len(want)
        return same_length and all(_same_form(*pair) for pair in zip(want, got, strict=True))
    if isinstance(want, torch.Tensor):
        same_kind = isinstance(got, torch.Tensor) and (
            got.is_floating_point() == want.is_floating_point()
        )
        return same_kind and got.shape == want.shape
    return type(want) is type(got)


def _wrong_dtypes(entry: Implement, cases: list[tuple], *, half_only: bool = False) -> str:
    for want, got in cases:
        if not (isinstance(want, torch.Tensor) and isinstance(got, torch.Tensor)):
            continue
        if half_only and got.dtype not in (torch.float16, torch.bfloat16):
            continue
        if not _dtype_fits(want.dtype, got.dtype, entry.any_float):
            return _dtype_message(entry, want, got)
    return ""


def _unusual_dtype(entry: Exercise, want: Any, got: Any) -> str:
    """A complaint about a dtype with which the comparison itself could not compute."""
    if isinstance(want, list) and isinstance(got, list):
        found = (_unusual_dtype(entry, *pair) for pair in zip(want, got, strict=False))
        return next(filter(None, found), "")
    if not (isinstance(want, torch.Tensor) and isinstance(got, torch.Tensor)):
        return ""
    if got.dtype in (*_ORDINARY, want.dtype):
        return ""
    return _dtype_message(entry, want, got)


def _dtype_message(entry: Implement, want: torch.Tensor, got: torch.Tensor) -> str:
    expected = str(want.dtype).removeprefix("torch.")
    if want.dtype == torch.int64:
        expected = "whole numbers (int64)"
    elif entry.any_float and want.is_floating_point():
        expected = "float32"
    return f"the dtype is {str(got.dtype).removeprefix('torch.')}, expected {expected}"


def _dtype_fits(want: torch.dtype, got: torch.dtype, any_float: bool) -> bool:
    if want == got:
        return True
    if want.is_floating_point:
        return any_float and got in (torch.float32, torch.float64)
    return want == torch.int64 and got in (torch.int32, torch.int16, torch.uint8, torch.int8)


def _unknown(entry: Exercise, inputs: list[tuple], want: list[Any], outputs: list[Any]) -> str:
    if not isinstance(entry, Implement):
        return _unknown_value(entry, want[0], outputs[0])
    for number, (arguments, right, got) in enumerate(
        zip(inputs, want, outputs, strict=True), start=1
    ):
        if _close(entry, arguments, right, got):
            continue
        where = _input(entry, inputs, number)
        if isinstance(got, dict):
            return f"{got.get('text', 'raised an error')}, where a value is asked for{where}"
        if isinstance(right, BaseException):
            return f"returned a value where {type(right).__name__} is asked for{where}"
        if not (isinstance(right, torch.Tensor) and isinstance(got, torch.Tensor)):
            return f"not the right value{where}; none of the mistakes that this check knows"
        if got.shape != right.shape:
            return f"the shape is {tuple(got.shape)}, expected {tuple(right.shape)}{where}"
        if (~got.isfinite() & right.isfinite()).any():
            return f"the result holds nan or infinity{where}"
        error = _error(right, got)
        place = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape))
        at = f" at {place if len(place) != 1 else place[0]}" if place else ""
        largest = f"wrong, largest error {float(error.max()):.3g}{at}{where}"
        return f"{largest}; none of the mistakes that this check knows"
    return "wrong, in a way that this check cannot describe"


def _unknown_value(entry: Exercise, want: Any, got: Any) -> str:
    if isinstance(want, str):
        if not isinstance(got, str | list):
            return f'the answer is a text of letters, such as "AC", not {_kind(got)}'
        right, chosen = set(want), set(_letters(got))
        known = {*right, *(mistake.key for mistake in entry.mistakes)}
        if not chosen <= known:
            return f"{', '.join(sorted(chosen - known))}: there is no such statement"
        wrong = sorted(chosen - right)
        if wrong:  # more than two false ones; the first is enough for now
            return entry.mistake(wrong[0]).message
        if not chosen:
            return "no statement is chosen"
        missing = len(right - chosen)
        return f"what you chose is true, but {missing} more of the statements {_hold(missing)}"
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"the answer is a list of {len(want)} entries"
        tolerance = getattr(entry, "tolerance", 0.0)
        pairs = enumerate(zip(want, got, strict=True), start=1)
        wrong = [number for number, pair in pairs if not _same_value(*pair, tolerance)]
        if isinstance(want[0], bool) and any(not isinstance(value, bool) for value in got):
            return "the entries are True or False"
        parts = getattr(entry, "parts", ())
        name = f" ({parts[wrong[0] - 1]})" if parts else ""
        many = f"; {len(wrong)} of {len(want)} entries differ" if len(wrong) > 1 else ""
        return f"entry {wrong[0]}{name} is not what is measured{many}"
    if isinstance(got, bool) or not isinstance(got, int | float):
        return f"the answer is {_kind(want)}, not {_kind(got)}"
    if math.isnan(got):
        return "not what is measured: nan is no number"
    return f"not what is measured, too {'large' if got > want else 'small'}"


def _hold(number: int) -> str:
    return "holds too" if number == 1 else "hold too"
