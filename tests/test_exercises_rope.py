"""Chapter 6's exercises, answered by other means than the references: loops, matrices, NumPy.

Wrong answers are written the way people write them, and must get the name of their mistake. The
right ones are unusual, and must be accepted.
"""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
import torch
from exercise_answers import Answers

from posenc_tutorial import (
    RotaryEmbedding,
    half_to_interleaved,
    inverse_frequencies,
    proportional,
    rope_cos_sin,
    rotate,
    rotation_matrix,
)
from posenc_tutorial.exercises import evaluate, exercises
from posenc_tutorial.exercises.selftest import count

ANSWERS = Answers()
WRONG, RIGHT, wrong, right = ANSWERS.WRONG, ANSWERS.RIGHT, ANSWERS.wrong, ANSWERS.right


# How fast does each pair turn?


def width(head_dim, factor):
    return round(head_dim * factor)


right("rotary_speeds", lambda d, f, b: inverse_frequencies(int(d * f), b))
right("rotary_speeds", lambda d, f, b: b ** (-torch.arange(width(d, f) // 2) / (width(d, f) // 2)))
right(
    "rotary_speeds",
    lambda d, f, b: torch.exp(-math.log(b) * torch.arange(0, int(d * f), 2) / int(d * f)),
)
right(
    "rotary_speeds",
    lambda d, f, b: torch.from_numpy(1.0 / np.power(b, np.arange(0, int(d * f), 2) / int(d * f))),
)
right(
    "rotary_speeds",
    lambda d, f, b: torch.tensor([b ** (-2 * i / int(d * f)) for i in range(int(d * f) // 2)]),
)
right("rotary_speeds", lambda d, f, b: torch.logspace(0, -1, int(d * f) // 2 + 1, base=b)[:-1])

wrong("rotary_speeds", "whole_head", lambda d, f, b: inverse_frequencies(d, b))
wrong("rotary_speeds", "whole_head", lambda d, f, b: 1.0 / b ** (torch.arange(0, d, 2).float() / d))
wrong(
    "rotary_speeds",
    "head_exponent",
    lambda d, f, b: 1.0 / b ** (torch.arange(0, int(d * f), 2) / d),
)
wrong(
    "rotary_speeds",
    "head_exponent",
    lambda d, f, b: inverse_frequencies(d, b)[: int(d * f) // 2],
)
wrong("rotary_speeds", "twice", lambda d, f, b: inverse_frequencies(int(int(d * f) * f), b))
wrong("rotary_speeds", "proportional", lambda d, f, b: proportional(d, b, f).inv_freq)
wrong(
    "rotary_speeds",
    "doubled",
    lambda d, f, b: b ** (-2 * torch.arange(0, int(d * f), 2).float() / int(d * f)),
)
wrong("rotary_speeds", "doubled", lambda d, f, b: inverse_frequencies(int(d * f), b) ** 2)
wrong(
    "rotary_speeds",
    "halved",
    lambda d, f, b: b ** (-torch.arange(int(d * f) // 2).float() / int(d * f)),
)
wrong("rotary_speeds", "end_point", lambda d, f, b: torch.logspace(0, -1, int(d * f) // 2, base=b))
wrong("rotary_speeds", "base_dropped", lambda d, f, b: inverse_frequencies(int(d * f)))
wrong(
    "rotary_speeds",
    "upside_down",
    lambda d, f, b: b ** (torch.arange(0, int(d * f), 2).float() / int(d * f)),
)
wrong("rotary_speeds", "slowest_first", lambda d, f, b: inverse_frequencies(int(d * f), b).flip(0))
wrong("rotary_speeds", "whole_head base_dropped", lambda d, f, b: inverse_frequencies(d))


# The rotation, in both layouts


def by_package(x, angle, layout):
    return rotate(x, angle.cos(), angle.sin(), layout=layout)


def channels_of(x, angle, layout):
    """Pairs of channels, as two lists."""
    pairs = angle.shape[1]
    if layout == "interleaved":
        return list(range(0, 2 * pairs, 2)), list(range(1, 2 * pairs, 2))
    return list(range(pairs)), list(range(pairs, 2 * pairs))


def by_loops(x, angle, layout):
    out = x.clone()
    for i, (a, b) in enumerate(zip(*channels_of(x, angle, layout), strict=True)):
        for t in range(x.shape[1]):
            c, s = math.cos(angle[t, i]), math.sin(angle[t, i])
            out[:, t, a] = x[:, t, a] * c - x[:, t, b] * s
            out[:, t, b] = x[:, t, a] * s + x[:, t, b] * c
    return out


def by_complex_numbers(x, angle, layout):
    pairs = angle.shape[1]
    first, second = channels_of(x, angle, layout)
    z = torch.complex(x[..., first], x[..., second]) * torch.exp(1j * angle)
    both = torch.cat([z.real, z.imag], -1)
    if layout == "interleaved":
        both = half_to_interleaved(both)
    return torch.cat([both, x[..., 2 * pairs :]], -1)


def by_matrices(x, angle, layout):
    """A d x d matrix for each token."""
    n, pairs = angle.shape
    out = x.clone()
    for t in range(n):
        ratio = angle[t] / angle[t, 0]  # speeds, if the first pair turns by 1 radian a token
        matrix = rotation_matrix(float(angle[t, 0]), ratio, layout=layout)
        out[:, t, : 2 * pairs] = x[:, t, : 2 * pairs] @ matrix.T
    return out


def wide(x, angle, layout, mixed=False):
    """With tables as wide as the head, the way transformers writes it."""
    pairs = angle.shape[1]
    x, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    neighbours = layout == "interleaved"
    if neighbours:
        partner = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    else:
        partner = torch.cat([-x[..., pairs:], x[..., :pairs]], -1)
    each = neighbours != mixed
    table = angle.repeat_interleave(2, 1) if each else angle.repeat(1, 2)
    return torch.cat([x * table.cos() + partner * table.sin(), rest], -1)


def numpy_floats(x, angle, layout):
    out = by_package(x.float(), angle.float(), layout)
    return torch.from_numpy(out.numpy().astype(np.float32))


for answer in (by_package, by_loops, by_complex_numbers, by_matrices, wide, numpy_floats):
    right("rotate_by_layout", answer)


def other(layout):
    return "half" if layout == "interleaved" else "interleaved"


def same_signs(x, angle, layout):
    out = x.clone()
    a, b = channels_of(x, angle, layout)
    c, s = angle.cos(), angle.sin()
    out[..., a], out[..., b] = x[..., a] * c + x[..., b] * s, x[..., a] * s + x[..., b] * c
    return out


def printed_in_the_source(x, angle, layout):
    """Even and odd channels in, halves out: claim 22."""
    pairs = angle.shape[1]
    if layout == "half":
        return by_package(x, angle, layout)
    x1, x2 = x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
    c, s = torch.cos(angle)[None], torch.sin(angle)[None]
    return torch.cat([x1 * c - x2 * s, x1 * s + x2 * c, x[..., 2 * pairs :]], dim=-1)


def partners_in_the_whole_head(x, angle, layout):
    if layout == "interleaved":
        return by_package(x, angle, layout)
    half, pairs = x.shape[-1] // 2, angle.shape[1]
    still = torch.zeros(len(angle), half - pairs, dtype=angle.dtype)
    return by_package(x, torch.cat([angle, still], 1), layout)


def last_ones(x, angle, layout):
    still = x.shape[-1] - 2 * angle.shape[1]
    return torch.cat([x[..., :still], by_package(x[..., still:], angle, layout)], -1)


def turns_by_head(x, angle, layout):
    """The second axis from the left instead of from the right."""
    return by_package(x.transpose(0, 1), angle[: x.shape[0]], layout).transpose(0, 1)


def part_only(x, angle, layout):
    return by_package(x, angle, layout)[..., : 2 * angle.shape[1]]


def part_and_zeros(x, angle, layout):
    return torch.nn.functional.pad(
        part_only(x, angle, layout), (0, x.shape[-1] - 2 * angle.shape[1])
    )


for mistakes, answer in (
    ("backwards", lambda x, angle, layout: by_package(x, -angle, layout)),
    ("backwards", lambda x, angle, layout: rotate(x, angle.cos(), -angle.sin(), layout=layout)),
    ("one_sign", same_signs),
    ("exchanged", lambda x, angle, layout: by_package(x, angle, other(layout))),
    ("always_half", lambda x, angle, layout: by_package(x, angle, "half")),
    ("always_interleaved", lambda x, angle, layout: by_package(x, angle, "interleaved")),
    ("not_put_back", printed_in_the_source),
    ("mixed_table", lambda *a: wide(*a, mixed=True)),
    ("whole_head_pairs", partners_in_the_whole_head),
    ("last_channels", last_ones),
    ("rest_dropped", part_only),
    ("rest_zero", part_and_zeros),
    ("axes_exchanged", turns_by_head),
    ("backwards always_half", lambda x, angle, layout: by_package(x, -angle, "half")),
    ("backwards rest_dropped", lambda x, angle, layout: part_only(x, -angle, layout)),
):
    wrong("rotate_by_layout", mistakes, answer)


# Scores with RoPE


def scores(q, k, m, n, base=10000.0, layout="interleaved", root=None, q_sign=1, k_sign=1):
    omega = inverse_frequencies(q.shape[1], base)
    q = rotate(q, *rope_cos_sin(q_sign * m, omega, dtype=torch.float64), layout=layout)
    k = rotate(k, *rope_cos_sin(k_sign * n, omega, dtype=torch.float64), layout=layout)
    return torch.einsum("md,nd->mn", q, k) / (root or math.sqrt(q.shape[1]))


def by_differences(q, k, m, n):
    """One rotation for each pair of tokens, by the difference of their places."""
    omega = inverse_frequencies(q.shape[1])
    rows = [
        [q[i] @ rotation_matrix(int(n[j] - m[i]), omega, layout="interleaved") @ k[j]
         for j in range(len(k))]
        for i in range(len(q))
    ]  # fmt: skip
    return torch.tensor(rows) / math.sqrt(q.shape[1])


def by_waves(q, k, m, n):
    """The sum of cosines of the chapter."""
    d = q.shape[1]
    out = torch.zeros(len(q), len(k))
    for a in range(len(q)):
        for b in range(len(k)):
            for i in range(d // 2):
                z = complex(q[a, 2 * i], -q[a, 2 * i + 1]) * complex(k[b, 2 * i], k[b, 2 * i + 1])
                turn = float(n[b] - m[a]) * 10000 ** (-2 * i / d)
                out[a, b] += abs(z) * math.cos(turn + cmath.phase(z))
    return out / math.sqrt(d)


def by_module(q, k, m, n):
    rope = RotaryEmbedding(q.shape[1], layout="interleaved")
    q, k = rope.rotate_query_key(q[None, None], k[None, None], m, n)
    return (q @ k.mT)[0, 0] * q.shape[-1] ** -0.5


def moved_along(q, k, m, n):
    return scores(q, k, m + 1000, n + 1000)


def in_float32(q, k, m, n):
    omega = 10000.0 ** (-torch.arange(0, q.shape[1], 2).float() / q.shape[1])

    def turn(x, positions):
        angle = positions.float()[:, None] * omega
        return rotate(x.float(), angle.cos(), angle.sin(), layout="interleaved")

    return turn(q, m) @ turn(k, n).T / q.shape[1] ** 0.5


for answer in (scores, by_differences, by_waves, by_module, moved_along, in_float32):
    right("rope_scores", answer)


def turned_once(q, k, m, n, keys):
    omega = inverse_frequencies(q.shape[1])
    x, places = (k, n) if keys else (q, m)
    turned = rotate(x, *rope_cos_sin(places, omega, dtype=torch.float64), layout="interleaved")
    q, k = (q, turned) if keys else (turned, k)
    return q @ k.T / math.sqrt(q.shape[1])


def row(x):
    return torch.arange(len(x))


for mistakes, answer in (
    ("key_backwards", lambda *a: scores(*a, k_sign=-1)),
    ("key_backwards", lambda q, k, m, n: scores(q, k, m, -n)),
    ("both_backwards", lambda *a: scores(*a, q_sign=-1, k_sign=-1)),
    ("keys_still", lambda *a: turned_once(*a, keys=False)),
    ("keys_still", lambda q, k, m, n: scores(q, k, m, 0 * n)),
    ("queries_still", lambda *a: turned_once(*a, keys=True)),
    ("one_position", lambda q, k, m, n: scores(q, k, m, m)),
    ("row_numbers", lambda q, k, m, n: scores(q, k, row(q), row(k))),
    ("row_numbers", lambda q, k, m, n: scores(q, k, 7 + row(q), 7 + row(k))),
    ("no_scale", lambda *a: scores(*a, root=1.0)),
    ("nothing_turned", lambda q, k, m, n: q @ k.T / math.sqrt(q.shape[1])),
    ("over_width", lambda *a: scores(*a, root=a[0].shape[1])),
    ("half_layout", lambda *a: scores(*a, layout="half")),
    ("doubled", lambda *a: scores(*a, base=1e8)),
    ("halved", lambda *a: scores(*a, base=100.0)),
    ("keys_down", lambda q, k, m, n: scores(k, q, n, m)),
    ("key_backwards no_scale", lambda *a: scores(*a, k_sign=-1, root=1.0)),
    ("half_layout doubled", lambda *a: scores(*a, layout="half", base=1e8)),
):
    wrong("rope_scores", mistakes, answer)


(
    test_mistakes_are_recognised_in_code_of_another_make,
    test_odd_right_answers_are_right,
) = ANSWERS.tests()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("rotary_speeds", lambda d, f, b: torch.zeros(int(d * f) // 2)),
        ("rotary_speeds", lambda d, f, b: inverse_frequencies(int(d * f), b) * 1.001),
        ("rotary_speeds", lambda d, f, b: inverse_frequencies(int(d * f), b).repeat(2)),
        ("rotate_by_layout", lambda x, angle, layout: x),
        ("rotate_by_layout", lambda x, angle, layout: by_package(x, 2 * angle, layout)),
        ("rotate_by_layout", lambda x, angle, layout: by_package(x, angle.flip(1), layout)),
        ("rope_scores", lambda q, k, m, n: scores(q, k, m, n + 1)),
        ("rope_scores", lambda q, k, m, n: scores(q, k, m, n, base=9000.0)),
        ("rope_scores", lambda q, k, m, n: scores(q, k, m, n).softmax(1)),
        ("where_it_looks", [60, 60, 60, 83]),
        ("where_it_looks", [0, 0, 0, 0]),
    ],
)
def test_unknown_mistakes_get_no_name(name, answer):
    found = evaluate(name, answer)
    assert found.status == "wrong" and found.mistakes == (), str(found)


def test_there_are_enough_of_each_kind_in_the_order_of_difficulty():
    entries = exercises(6)
    kinds = [entry.kind for entry in entries]
    assert kinds.count("implement") >= 2 and {"predict", "explain"} <= set(kinds)
    assert [e.difficulty for e in entries] == sorted(e.difficulty for e in entries)
    assert count(entries)["mistakes"] >= 40


def test_an_answer_that_changes_its_argument_is_told_so():
    def in_place(x, angle, layout):
        x[:] = by_package(x, angle, layout)
        return x

    found = evaluate("rotate_by_layout", in_place)
    assert found.status == "wrong" and "changes its argument" in found.message
