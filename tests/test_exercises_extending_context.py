"""Chapter 10's exercises, answered by other means than the references: loops, NumPy, logarithms.

Wrong answers are written the way people write them, and must get the name of their mistake. The
right ones are unusual, and must be accepted.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from exercise_answers import Answers

from posenc_tutorial import dynamic_ntk, inverse_frequencies, llama3, ntk_aware, yarn
from posenc_tutorial.exercises import evaluate, exercises
from posenc_tutorial.exercises.selftest import count

ANSWERS = Answers()
WRONG, RIGHT, wrong, right = ANSWERS.WRONG, ANSWERS.RIGHT, ANSWERS.wrong, ANSWERS.right


def base_of(parameters, dim):
    """The base that plain RoPE would need for the same slowest pair."""
    return float(parameters.inv_freq[-1]) ** (-dim / (dim - 2))


# The new base

right("ntk_base", lambda h, r, b, s: b * s ** (r / (r - 2)))
right("ntk_base", lambda h, r, b, s: torch.tensor(b * s ** (1 + 2 / (r - 2))))
right("ntk_base", lambda h, r, b, s: math.exp(math.log(b) + r / (r - 2) * math.log(s)))
right("ntk_base", lambda h, r, b, s: np.float64(b) * np.power(s, (r // 2) / (r // 2 - 1)))
right("ntk_base", lambda h, r, b, s: torch.tensor([b * s ** (r / (r - 2))])[0])
right("ntk_base", lambda h, r, b, s: base_of(ntk_aware(r, b, s), r))
right("ntk_base", lambda h, r, b, s: (b ** -((r - 2) / r) / s) ** (-r / (r - 2)))

for mistakes, answer in (
    ("bare", lambda h, r, b, s: b * s),
    ("bare", lambda h, r, b, s: torch.tensor(b) * s),
    ("whole_head", lambda h, r, b, s: b * s ** (h / (h - 2))),
    ("whole_head", lambda h, r, b, s: base_of(ntk_aware(h, b, s), h)),
    ("pairs", lambda h, r, b, s: b * s ** ((r // 2) / (r // 2 - 2))),
    ("upside_down", lambda h, r, b, s: b * s ** ((r - 2) / r)),
    ("one_less", lambda h, r, b, s: b * s ** (r / (r - 1))),
    ("divided", lambda h, r, b, s: b / s ** (r / (r - 2))),
    ("divided", lambda h, r, b, s: b * (1 / s) ** (r / (r - 2))),
    ("times_exponent", lambda h, r, b, s: b * s * (r / (r - 2))),
    ("bare divided", lambda h, r, b, s: b / s),
    ("whole_head upside_down", lambda h, r, b, s: b * s ** ((h - 2) / h)),
):
    wrong("ntk_base", mistakes, answer)


# NTK by parts, as published


def parts(dim, b, s, length, slow, fast, *, keep=None, ramp=None, turn=2 * math.pi, by=None):
    """One pair at a time; what is left out of the ordinary comes in as an argument."""
    speeds = []
    for i in range(dim // 2):
        plain = b ** (-2 * i / dim)
        r = length * plain / turn
        g = ramp(r, slow, fast) if ramp else min(1.0, max(0.0, (r - slow) / (fast - slow)))
        kept = keep(i) if keep else plain
        speeds.append(g * kept + (1 - g) * (plain / s if by is None else by(plain, s)))
    return torch.tensor(speeds, dtype=torch.float64)


def by_numpy(dim, b, s, length, slow, fast):
    speeds = np.power(b, -np.arange(0, dim, 2) / dim)
    share = np.clip(np.interp(length * speeds / (2 * np.pi), [slow, fast], [0, 1]), 0, 1)
    return torch.from_numpy(speeds * (share + (1 - share) / s)).float()


def by_waves(dim, b, s, length, slow, fast):
    """As Llama's reference code: compare wavelengths with two bounds."""
    out = []
    for f in inverse_frequencies(dim, b).tolist():
        wave = 2 * math.pi / f
        if wave < length / fast:
            out.append(f)
        elif wave > length / slow:
            out.append(f / s)
        else:
            g = (length / wave - slow) / (fast - slow)
            out.append((1 - g) * f / s + g * f)
    return torch.tensor(out)


for answer in (
    parts,
    by_numpy,
    by_waves,
    lambda dim, b, s, length, slow, fast: (
        llama3(dim, b, s, length, low_freq_factor=slow, high_freq_factor=fast).inv_freq
    ),
):
    right("by_parts", answer)


def harmonic(dim, b, s, length, slow, fast):
    plain = inverse_frequencies(dim, b)
    g = ((length * plain / (2 * math.pi) - slow) / (fast - slow)).clamp(0, 1)
    wave = 2 * math.pi / plain
    return 2 * math.pi / (g * wave + (1 - g) * s * wave)


def code_ramp(dim, b, s, length, slow, fast):
    """YaRN's ramp without its rounding: not quite the package's, which keeps to the head."""

    def at(turns):
        return dim * math.log(length / (2 * math.pi * turns)) / (2 * math.log(b))

    low, high = at(fast), at(slow)
    i = torch.arange(dim // 2)
    g = 1 - ((i - low) / (high - low)).clamp(0, 1)
    plain = inverse_frequencies(dim, b)
    return g * plain + (1 - g) * plain / s


def kept_ntk(dim, b, s, length, slow, fast):
    speeds = ntk_aware(dim, b, s).inv_freq.tolist()
    return parts(dim, b, s, length, slow, fast, keep=lambda i: speeds[i])


for mistakes, answer in (
    ("upside_down", lambda *a: parts(
        *a, ramp=lambda r, slow, fast: min(1.0, max(0.0, (fast - r) / (fast - slow))))),
    ("extended", lambda dim, b, s, length, *a: by_numpy(dim, b, s, int(s * length), *a)),
    ("extended", lambda dim, b, s, length, slow, fast: llama3(
        dim, b, s, int(s * length), low_freq_factor=slow, high_freq_factor=fast).inv_freq),
    ("multiplied", lambda *a: parts(*a, by=lambda plain, s: plain * s)),
    ("by_index", code_ramp),
    ("wavelengths_blended", harmonic),
    ("unclamped", lambda *a: parts(*a, ramp=lambda r, slow, fast: (r - slow) / (fast - slow))),
    ("radians", lambda *a: parts(*a, turn=1.0)),
    ("new_base", kept_ntk),
    ("step", lambda *a: parts(*a, ramp=lambda r, slow, fast: float(r >= slow))),
):  # fmt: skip
    wrong("by_parts", mistakes, answer)


# The ends of YaRN's ramp


def ends(dim, b, length, slow, fast, truncate, *, turn=2 * math.pi, of=2, up=math.ceil,
         down=math.floor, order=1):  # fmt: skip
    found = [dim / of * (math.log(length) - math.log(turn * r)) / math.log(b) for r in (fast, slow)]
    if truncate:
        found = [down(found[0]), up(found[1])]
    return found[::order]


def searched(dim, b, length, slow, fast, truncate):
    """Bisection: at which fractional index does a pair make so many turns?"""
    out = []
    for turns in (fast, slow):
        low, high = -10.0, float(dim)
        for _ in range(80):
            middle = (low + high) / 2
            more = length * b ** (-2 * middle / dim) / (2 * math.pi) > turns
            low, high = (middle, high) if more else (low, middle)
        out.append(low)
    if truncate:
        out = [math.floor(out[0]), math.ceil(out[1])]
    return tuple(out)


right("ramp_ends", ends)
right("ramp_ends", searched)
right("ramp_ends", lambda *a: [torch.tensor(float(end)) for end in ends(*a)])
right("ramp_ends", lambda *a: tuple(np.float64(end) for end in ends(*a)))


def cut(*a, last):
    """The code of YaRN: `last` is the number of channels or of pairs, less one."""
    low, high = searched(*a)
    return max(low, 0), min(high, last(a[0]))


def exchanged(dim, b, length, slow, fast, truncate):
    return searched(dim, b, length, fast, slow, truncate)


for mistakes, answer in (
    ("always_rounded", lambda *a: ends(*a[:-1], True)),
    ("never_rounded", lambda *a: ends(*a[:-1], False)),
    ("nearest", lambda *a: ends(*a, up=round, down=round)),
    ("inwards", lambda *a: ends(*a, up=math.floor, down=math.ceil)),
    ("channels", lambda *a: ends(*a, of=1)),
    ("no_turn", lambda *a: ends(*a, turn=1.0)),
    ("swapped", lambda *a: ends(*a, order=-1)),
    ("always_rounded channels", lambda *a: ends(*a[:-1], True, of=1)),
    ("floored", lambda *a: ends(*a, up=math.floor)),
    ("floored", lambda *a: [end // 1 if a[-1] else end for end in searched(*a[:-1], False)]),
    ("ceiled", lambda *a: ends(*a, down=math.ceil)),
    ("towards_zero", lambda *a: ends(*a, down=int, up=lambda end: int(end) + 1)),
    ("inverted", lambda *a: searched(*a[:-1], not a[-1])),
    ("clamped", lambda *a: cut(*a, last=lambda dim: dim - 1)),
    ("clamped", lambda *a: cut(*a, last=lambda dim: dim // 2 - 1)),
    ("clamped", lambda *a: np.clip(ends(*a), 0, a[0] // 2 - 1).tolist()),
    ("swapped_first", exchanged),
):
    wrong("ramp_ends", mistakes, answer)


# The base of the moment


def moment(dim, b, s, trained, n, *, inside=True, scale=None, exponent=True):
    if inside and n <= trained:
        return torch.tensor(b, dtype=torch.float64)
    value = scale(s, n / trained) if scale else s * (n / trained) - s + 1
    power = dim / (dim - 2) if exponent else 1.0
    return torch.tensor(b * abs(value) ** power * (1 if value > 0 else -1), dtype=torch.float64)


right("dynamic_base", moment)
right("dynamic_base", lambda d, b, s, L, n: moment(d, b, s, L, n).float())
right("dynamic_base", lambda d, b, s, L, n: b * (1 + s * max(0.0, n / L - 1)) ** (d / (d - 2)))
right("dynamic_base", lambda d, b, s, L, n: base_of(dynamic_ntk(d, b, s, L, n), d))

for mistakes, answer in (
    ("below", lambda *a: moment(*a, inside=False)),
    ("ratio", lambda *a: moment(*a, scale=lambda s, x: x)),
    ("ratio", lambda d, b, s, L, n: base_of(dynamic_ntk(d, b, s, L, n, variant="ratio"), d)),
    ("from_the_maximum", lambda d, b, s, L, n: moment(d, b, s, L, int(s * L))),
    ("no_offset", lambda *a: moment(*a, scale=lambda s, x: s * x)),
    ("bare", lambda *a: moment(*a, exponent=False)),
    ("times_factor", lambda d, b, s, L, n: base_of(ntk_aware(d, b, s), d)),
    ("whole_lengths", lambda *a: moment(*a, scale=lambda s, x: s * math.ceil(x) - s + 1)),
    ("ratio bare", lambda *a: moment(*a, exponent=False, scale=lambda s, x: x)),
    ("qwen", lambda *a: moment(*a, scale=lambda s, x: 2 ** (math.floor(-math.log2(1 / x)) + 2) - 1
                               if math.log2(x) % 1 else 2 * x - 1)),
    ("qwen", lambda d, b, s, L, n: base_of(dynamic_ntk(d, b, s, L, n, variant="qwen"), d)),
    ("jump", lambda d, b, s, L, n: base_of(ntk_aware(d, b, s), d) if n > L else b),
    ("upside_down", lambda d, b, s, L, n: b * max(1.0, s * n / L - s + 1) ** (1 - 2 / d)),
    ("upside_down qwen", lambda d, b, s, L, n: b * (
        1.0 if n <= L else next(2**k for k in range(1, 9) if n <= 2 ** (k - 1) * L) - 1
    ) ** (1 - 2 / d)),
):  # fmt: skip
    wrong("dynamic_base", mistakes, answer)


# Values, with what would give them

g, g7 = 0.1 * math.log(40) + 1, 0.0707 * math.log(40) + 1
right("score_factors", [g**2, g**2, g7**2, g7**2])
wrong("score_factors", "once", [g, g, g7, g7])
wrong("score_factors", "fourth", [g**4, g**2, g7**2, g7**2])
wrong("score_factors", "cancelled", [1.0, g**2, g7**2, g7**2])
wrong("score_factors", "second_half_forgotten", [g**2, 1, 1, 1])
wrong("same_as_fresh", "raw_two_right", [False, True, True, True, True, True])
wrong("same_as_fresh", "stale_harmless", [True, True, True, False, True, True])
wrong("what_extending_does", "B", "ABDG")
wrong("what_extending_does", "E I", "ADEGI")


(
    test_mistakes_are_recognised_in_code_of_another_make,
    test_odd_right_answers_are_right,
) = ANSWERS.tests()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("ntk_base", lambda h, r, b, s: b),
        ("ntk_base", lambda h, r, b, s: b * s**2),
        ("by_parts", lambda dim, b, s, *a: inverse_frequencies(dim, b)),
        ("by_parts", lambda dim, b, s, *a: inverse_frequencies(dim, b) / s),
        ("by_parts", lambda dim, b, s, *a: ntk_aware(dim, b, s).inv_freq),
        ("by_parts", lambda dim, b, s, length, slow, fast: yarn(dim, b, s, length).inv_freq),
        ("ramp_ends", lambda *a: (0, 0)),
        ("ramp_ends", lambda *a: [end + 1 for end in ends(*a)]),
        ("ramp_ends", lambda *a: [abs(end) for end in ends(*a)]),
        ("dynamic_base", lambda d, b, s, L, n: b),
        ("dynamic_base", lambda d, b, s, L, n: b * n / 1000),
        ("score_factors", [1.2, 1.2, 1.2, 1.2]),
        ("same_as_fresh", [False] * 6),
    ],
)
def test_unknown_mistakes_get_no_name(name, answer):
    found = evaluate(name, answer)
    assert found.status == "wrong" and found.mistakes == (), str(found)


def test_there_are_enough_of_each_kind_in_the_order_of_difficulty():
    entries = exercises(10)
    kinds = [entry.kind for entry in entries]
    assert kinds.count("implement") >= 2 and {"predict", "explain"} <= set(kinds)
    assert [e.difficulty for e in entries] == sorted(e.difficulty for e in entries)
    assert count(entries)["mistakes"] >= 40


def test_the_measured_answer_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    evaluate("same_as_fresh", [False, True, True, False, True, True])
    assert torch.equal(torch.rand(1), expected)
