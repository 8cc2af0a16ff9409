"""Chapter 13's exercises, answered by other means than the references: loops, complex numbers.

Wrong answers are written the way people write them, and must get the name of their mistake. The
right ones are unusual, and must be accepted.
"""

from __future__ import annotations

import cmath

import numpy as np
import pytest
import torch
from exercise_answers import Answers

from posenc_tutorial import inverse_frequencies, ntk_aware, rope_cos_sin, rotate
from posenc_tutorial.exercises import evaluate, exercises
from posenc_tutorial.exercises.ch13_choosing import PATIENTS, patients
from posenc_tutorial.exercises.selftest import count
from posenc_tutorial.multi_axis import axial_cos_sin

ANSWERS = Answers()
WRONG, RIGHT, wrong, right = ANSWERS.WRONG, ANSWERS.RIGHT, ANSWERS.wrong, ANSWERS.right


# One target, two spellings


def by_speeds(trained, wanted, base, width):
    """The base read off the slowest pair of the package's rule."""
    factor = wanted / trained if wanted > trained else 1.0
    slowest = float(ntk_aware(width, base, factor).inv_freq[-1])
    new_base = slowest ** (-width / (width - 2))
    return torch.tensor([factor, trained / max(trained, wanted), new_base, trained])


def numbers(trained, wanted, base, width, *, exponent=None, clamp=True):
    s = wanted / trained
    s = 1.0 if clamp and s < 1 else s
    power = width / (width - 2) if exponent is None else exponent(width)
    return [s, 1 / s, base * s**power, trained]


right("program_numbers", by_speeds)
right("program_numbers", lambda *a: torch.tensor(numbers(*a)))
right("program_numbers", lambda *a: torch.from_numpy(np.array(numbers(*a), dtype=np.float64)))

wrong(
    "program_numbers",
    "factor_turned",
    lambda t, w, b, d: torch.tensor([min(t / w, 1.0), *numbers(t, w, b, d)[1:]]),
)
wrong(
    "program_numbers",
    "scale_is_factor",
    lambda *a: torch.tensor([numbers(*a)[0], numbers(*a)[0], *numbers(*a)[2:]]),
)
wrong(
    "program_numbers",
    "factor_turned scale_is_factor",
    lambda *a: torch.tensor([numbers(*a)[1], numbers(*a)[0], *numbers(*a)[2:]]),
)
wrong("program_numbers", "bare_base", lambda *a: torch.tensor(numbers(*a, exponent=lambda d: 1)))
wrong(
    "program_numbers",
    "short_exponent",
    lambda *a: torch.tensor(numbers(*a, exponent=lambda d: 1 - 2 / d)),
)
wrong("program_numbers", "base_kept", lambda *a: torch.tensor(numbers(*a, exponent=lambda d: 0)))
wrong(
    "program_numbers",
    "longest_as_original",
    lambda t, w, b, d: torch.tensor([*numbers(t, w, b, d)[:3], w]),
)
wrong("program_numbers", "squeezed_short", lambda *a: torch.tensor(numbers(*a, clamp=False)))
wrong(
    "program_numbers",
    "bare_base squeezed_short",
    lambda *a: torch.tensor(numbers(*a, clamp=False, exponent=lambda d: 1)),
)

wrong(
    "program_numbers",
    "whole_factor",
    lambda t, w, b, d: torch.tensor([*numbers(t, max(w // t, 1) * t, b, d)]),
)
wrong(
    "program_numbers",
    "half_width",
    lambda *a: torch.tensor(numbers(*a, exponent=lambda d: d / (d - 4))),
)
wrong(
    "program_numbers",
    "base_divided",
    lambda *a: torch.tensor(numbers(*a, exponent=lambda d: d / (2 - d))),
)

# A rotation with two axes


def complex_loop(x, rows, columns, base, angle=None, sign=1, far=False):
    """One token and one pair at a time, as a product of complex numbers."""
    n, d = x.shape
    out = x.clone()
    half = d // 4  # pairs of an axis

    def usual(r, c, i):
        return (r if i < half else c) * base ** (-(i % half) / half)

    for t in range(n):
        for i in range(d // 2):
            at = (i, i + d // 2) if far else (2 * i, 2 * i + 1)
            turned = (angle or usual)(int(rows[t]), int(columns[t]), i)
            z = complex(float(x[t, at[0]]), float(x[t, at[1]])) * cmath.exp(1j * sign * turned)
            out[t, at[0]], out[t, at[1]] = z.real, z.imag
    return out


def with_angle(make):
    def answer(x, rows, columns, base):
        d = x.shape[1]
        return complex_loop(x, rows, columns, base, angle=make(d, base))

    return answer


def with_package(x, rows, columns, base):
    speeds = inverse_frequencies(x.shape[1] // 2, base)
    return rotate(x, *axial_cos_sin(rows, columns, speeds, dtype=x.dtype), layout="interleaved")


def two_heads(x, rows, columns, base):
    """Each half of the channels is a head of its own with plain RoPE."""
    speeds = inverse_frequencies(x.shape[1] // 2, base)
    parts = [
        rotate(part, *rope_cos_sin(place, speeds, dtype=x.dtype), layout="interleaved")
        for part, place in zip(x.chunk(2, 1), (rows, columns), strict=True)
    ]
    return torch.cat(parts, 1)


right("rotate_on_grid", complex_loop)
right("rotate_on_grid", with_package)
right("rotate_on_grid", two_heads)

wrong("rotate_on_grid", "swapped", lambda x, rows, columns, base: two_heads(x, columns, rows, base))
wrong("rotate_on_grid", "one_axis", lambda x, rows, columns, base: two_heads(x, rows, rows, base))
wrong(
    "rotate_on_grid",
    "swapped one_axis",
    lambda x, rows, columns, base: two_heads(x, columns, columns, base),
)
wrong(
    "rotate_on_grid",
    "summed",
    lambda x, rows, columns, base: two_heads(x, rows + columns, rows + columns, base),
)
wrong(
    "rotate_on_grid",
    "one_ladder",
    with_angle(lambda d, base: lambda r, c, i: (r if i < d // 4 else c) * base ** (-2 * i / d)),
)
wrong(
    "rotate_on_grid",
    "whole_width",
    with_angle(
        lambda d, base: lambda r, c, i: (r if i < d // 4 else c) / base ** (2 * (i % (d // 4)) / d)
    ),
)
wrong("rotate_on_grid", "far_pairs", lambda *a: complex_loop(*a, far=True))
wrong(
    "rotate_on_grid",
    "far_pairs",
    lambda x, rows, columns, base: rotate(
        x, *axial_cos_sin(rows, columns, inverse_frequencies(x.shape[1] // 2, base), dtype=x.dtype)
    ),
)
wrong(
    "rotate_on_grid",
    "taking_turns",
    with_angle(lambda d, base: lambda r, c, i: (c if i % 2 else r) * base ** (-(i // 2) / (d / 4))),
)
wrong("rotate_on_grid", "backwards", lambda *a: complex_loop(*a, sign=-1))
wrong(
    "rotate_on_grid",
    "joined",
    lambda x, *a: torch.cat([complex_loop(x, *a)[:, 0::2], complex_loop(x, *a)[:, 1::2]], 1),
)


def halves_of_an_axis(x, rows, columns, base):
    speeds = inverse_frequencies(x.shape[1] // 2, base)
    parts = zip(x.chunk(2, 1), (rows, columns), strict=True)
    turned = [rotate(p, *rope_cos_sin(at, speeds, dtype=x.dtype), layout="half") for p, at in parts]
    return torch.cat(turned, 1)


wrong("rotate_on_grid", "halves_within", halves_of_an_axis)
wrong(
    "rotate_on_grid",
    "doubled",
    with_angle(
        lambda d, base: (
            lambda r, c, i: (r if i < d // 4 else c) / base ** (2 * (i % (d // 4)) / (d / 4))
        )
    ),
)
wrong(
    "rotate_on_grid",
    "backwards",
    lambda x, rows, columns, base: two_heads(x, -rows, -columns, base),
)

# Values

KEPT = [True, False, True, False, False, True, False, True, False]
wrong("after_the_change", "rows_disturb", [False, *KEPT[1:]])
wrong("after_the_change", "values_follow", [*KEPT[:3], True, *KEPT[4:]])
wrong("after_the_change", "base_is_for_long static_waits", [*KEPT[:4], True, True, True, *KEPT[7:]])
wrong("six_patients", "cliff_and_slope", [4, 6, 2, 5, 1, 3])
wrong("six_patients", "level_is_fine", [4, 6, 1, 3, 2, 5])
wrong("six_patients", "late_is_never", [4, 2, 1, 5, 6, 3])
wrong("six_patients", "blind_is_squeezed", [3, 6, 1, 5, 2, 4])
wrong("six_patients", "blind_is_near", [5, 6, 1, 4, 2, 3])
wrong("six_patients", "cliff_and_slope blind_is_squeezed", [3, 6, 2, 5, 1, 4])
wrong("what_to_choose", "A", "ABDH")
wrong("what_to_choose", "E I", "BDEHI")


(
    test_mistakes_are_recognised_in_code_of_another_make,
    test_odd_right_answers_are_right,
) = ANSWERS.tests()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("program_numbers", lambda t, w, b, d: torch.zeros(4, dtype=torch.float64)),
        ("program_numbers", lambda t, w, b, d: torch.tensor(numbers(t, w, 2 * b, d))),
        ("program_numbers", lambda *a: torch.tensor(numbers(*a)[::-1])),
        ("rotate_on_grid", lambda x, rows, columns, base: x),
        ("rotate_on_grid", lambda x, rows, columns, base: two_heads(x, rows + 1, columns, base)),
        ("rotate_on_grid", lambda x, rows, columns, base: two_heads(x, rows, columns, 2 * base)),
        ("six_patients", [1, 2, 3, 4, 5, 6]),
        ("after_the_change", [True] * 9),
    ],
)
def test_unknown_mistakes_get_no_name(name, answer):
    found = evaluate(name, answer)
    assert found.status == "wrong" and found.mistakes == (), str(found)


def test_there_are_enough_of_each_kind_in_the_order_of_difficulty():
    entries = exercises(13)
    kinds = [entry.kind for entry in entries]
    assert kinds.count("implement") == 2 and kinds.count("predict") == 2
    assert "explain" in kinds
    assert [e.difficulty for e in entries] == sorted(e.difficulty for e in entries)
    assert count(entries)["mistakes"] >= 30


def test_the_patients_can_be_told_apart_by_their_losses():
    """The rules that the hints give, applied to the numbers, lead to the right letters."""
    found = patients()
    assert list(found) == list("ABCDEF") and len(set(PATIENTS)) == 6
    bad_at_home = sorted(found, key=lambda letter: -found[letter][64])[:2]
    assert {PATIENTS["ABCDEF".index(letter)] for letter in bad_at_home} == {"interpolation", "NoPE"}
    jump = {letter: loss[128] - loss[64] for letter, loss in found.items()}
    assert PATIENTS["ABCDEF".index(max(jump, key=jump.get))] == "learned"
    spread = {letter: max(loss.values()) - min(loss.values()) for letter, loss in found.items()}
    assert PATIENTS["ABCDEF".index(min(spread, key=spread.get))] == "ALiBi"
    late = [x for x in found if jump[x] < 0.01 and found[x][512] > found[x][64] + 0.5]
    assert [PATIENTS["ABCDEF".index(x)] for x in late] == ["NTK-aware"]
