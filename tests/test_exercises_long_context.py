"""Chapter 11's exercises, answered by other means than the references.

Wrong answers are written the way people write them, and must get the name of their mistake. The
right ones are unusual, and must be accepted.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from exercise_answers import Answers

from posenc_tutorial.context_parallel import merge_attention, shard, shard_positions
from posenc_tutorial.exercises import evaluate, exercises
from posenc_tutorial.exercises.selftest import count

ANSWERS = Answers()
WRONG, RIGHT, wrong, right = ANSWERS.WRONG, ANSWERS.RIGHT, ANSWERS.wrong, ANSWERS.right


# Three numbers for a longer text


def settings(factor, original, most):
    return torch.tensor([float(factor), float(original), float(most)])


right(
    "extension_settings",
    lambda trained, wanted: settings(max(1, wanted / trained), trained, max(trained, wanted)),
)


def if_needed(trained, wanted):
    if wanted <= trained:
        return torch.tensor([1.0, trained, trained], dtype=torch.float64)
    return torch.tensor([wanted / trained, trained, wanted], dtype=torch.float64)


right("extension_settings", if_needed)
right(
    "extension_settings",
    lambda trained, wanted: torch.from_numpy(
        np.maximum([wanted / trained, trained, wanted], [1, trained, trained])
    ),
)
right(
    "extension_settings",
    lambda trained, wanted: (
        (torch.tensor([wanted, trained, wanted]) / 1.0).clamp(min=trained)
        / torch.tensor([float(trained), 1.0, 1.0])
    ),
)
wrong(
    "extension_settings",
    "inverted",
    lambda t, w: settings(min(1, t / w), t, max(t, w)),
)
wrong("extension_settings", "whole_factor", lambda t, w: settings(max(1, w // t), t, max(t, w)))
wrong(
    "extension_settings",
    "multiplied_again",
    lambda t, w: settings(max(1, w / t), t, max(t, w) * max(1, w / t)),
)
wrong(
    "extension_settings",
    "extended_as_original",
    lambda t, w: settings(max(1, w / t), w, max(t, w)),
)
wrong("extension_settings", "maximum_as_before", lambda t, w: settings(max(1, w / t), t, t))
wrong("extension_settings", "below_one", lambda t, w: settings(w / t, t, max(t, w)))
wrong(
    "extension_settings",
    "longer_as_original",
    lambda t, w: settings(max(1, w / t), max(t, w), max(t, w)),
)
wrong("extension_settings", "maximum_lowered", lambda t, w: settings(max(1, w / t), t, w))
wrong("extension_settings", "shorter_not_asked", lambda t, w: settings(w / t, t, w))
wrong("extension_settings", "inverted shorter_not_asked", lambda t, w: settings(t / w, t, w))
wrong(
    "extension_settings",
    "inverted below_one",
    lambda t, w: settings(t / w, t, max(t, w)),
)
wrong(
    "extension_settings",
    "extended_as_original below_one",
    lambda t, w: settings(w / t, w, max(t, w)),
)


# Positions of a zig-zag shard


def by_condition(n, rank, world_size):
    piece = torch.arange(n) * 2 * world_size // n
    return torch.arange(n)[torch.minimum(piece, 2 * world_size - 1 - piece) == rank]


def by_numpy(n, rank, world_size):
    pieces = np.array_split(np.arange(n), 2 * world_size)
    return torch.from_numpy(np.concatenate([pieces[rank], pieces[-1 - rank]]))


def by_lists(n, rank, world_size):
    m = n // (2 * world_size)
    early = list(range(rank * m, (rank + 1) * m))
    return torch.tensor(early + [n - 1 - p for p in reversed(early)])


right("zigzag_positions", by_condition)
right("zigzag_positions", by_numpy)
right("zigzag_positions", by_lists)
right("zigzag_positions", lambda n, r, w: shard_positions(n, r, w, scheme="zigzag").int())
right(
    "zigzag_positions",
    lambda n, r, w: shard(torch.arange(n), r, w, dim=0, scheme="zigzag"),
)
wrong("zigzag_positions", "local", lambda n, r, w: torch.arange(n // w))
wrong("zigzag_positions", "contiguous", lambda n, r, w: torch.arange(n).chunk(w)[r])
wrong("zigzag_positions", "contiguous", lambda n, r, w: torch.arange(n // w) + r * (n // w))
wrong("zigzag_positions", "round_robin", lambda n, r, w: torch.arange(r, n, w))
wrong(
    "zigzag_positions",
    "not_mirrored",
    lambda n, r, w: torch.cat([torch.arange(n).chunk(2 * w)[i] for i in (r, w + r)]),
)
wrong(
    "zigzag_positions",
    "mirrored_too_far",
    lambda n, r, w: torch.cat([torch.arange(n).chunk(2 * w)[i % (2 * w)] for i in (r, -r)]),
)
wrong(
    "zigzag_positions",
    "mirrored_too_far",
    lambda n, r, w: torch.cat([torch.arange(n).view(2 * w, -1)[i] for i in (r, -r)]),
)


def two_ranges(n, rank, world_size):
    m = n // (2 * world_size)
    late = (2 * world_size - rank) * m
    return torch.tensor([*range(rank * m, rank * m + m), *range(late, late + m)])


wrong("zigzag_positions", "beyond_the_text", two_ranges)
wrong(
    "zigzag_positions",
    "late_first",
    lambda n, r, w: torch.cat([torch.arange(n).chunk(2 * w)[i] for i in (-1 - r, r)]),
)


# Two halves of a softmax


def with_the_larger_out(a, t, b, u):
    most = torch.maximum(t, u)
    x, y = (t - most).exp()[:, None], (u - most).exp()[:, None]
    return (x * a + y * b) / (x + y)


def by_softmax(a, t, b, u):
    return torch.einsum("pn,pnd->nd", torch.stack([t, u]).softmax(0), torch.stack([a, b]))


def by_the_new_total(a, t, b, u):
    total = torch.logaddexp(t, u)
    return a * (t - total).exp().unsqueeze(1) + b * (u - total).exp().unsqueeze(1)


right("merge_two", with_the_larger_out)
right("merge_two", by_softmax)
right("merge_two", by_the_new_total)
right("merge_two", lambda a, t, b, u: b + (a - b) / (1 + (u - t).exp())[:, None])
right(
    "merge_two",
    lambda a, t, b, u: merge_attention(
        [a[None, None], b[None, None]], [t[None, None], u[None, None]]
    )[0][0, 0],
)
right("merge_two", lambda a, t, b, u: a - torch.sigmoid(u - t)[:, None] * (a - b))
wrong("merge_two", "averaged", lambda a, t, b, u: (a + b) / 2)
wrong("merge_two", "summed", lambda a, t, b, u: a + b)
wrong(
    "merge_two",
    "logarithms",
    lambda a, t, b, u: (t[:, None] * a + u[:, None] * b) / (t + u)[:, None],
)


def with_powers_of_two(a, t, b, u):
    share = 1 / (1 + 2.0 ** (u - t))
    return share[:, None] * a + (1 - share)[:, None] * b


wrong("merge_two", "base_two", with_powers_of_two)
wrong("merge_two", "swapped", lambda a, t, b, u: by_softmax(b, t, a, u))


def without_care(a, t, b, u):
    x, y = t.exp()[:, None], u.exp()[:, None]
    return (x * a + y * b) / (x + y)


wrong("merge_two", "overflow", without_care)
wrong("merge_two", "base_two swapped", lambda a, t, b, u: with_powers_of_two(b, t, a, u))


# Verdicts


(
    test_mistakes_are_recognised_in_code_of_another_make,
    test_odd_right_answers_are_right,
) = ANSWERS.tests()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("extension_settings", lambda t, w: torch.zeros(3)),
        ("extension_settings", lambda t, w: settings(t, w, 1)),
        ("extension_settings", lambda t, w: settings(math.log(w / t), t, w)),
        ("zigzag_positions", lambda n, r, w: torch.zeros(n // w, dtype=torch.long)),
        ("zigzag_positions", lambda n, r, w: torch.arange(n // w) * w),
        ("merge_two", lambda a, t, b, u: a),
        ("merge_two", lambda a, t, b, u: torch.maximum(a, b)),
        ("merge_two", lambda a, t, b, u: by_softmax(a, t / 2, b, u / 2)),
        ("slowed_clocks", [64, 64]),
        ("slowed_clocks", [18, 14]),
    ],
)
def test_unknown_mistakes_get_no_name(name, answer):
    found = evaluate(name, answer)
    assert found.status == "wrong" and found.mistakes == (), str(found)


def test_there_are_enough_of_each_kind_in_the_order_of_difficulty():
    entries = exercises(11)
    kinds = [entry.kind for entry in entries]
    assert kinds.count("implement") >= 2
    assert kinds.count("predict") >= 1 and kinds.count("explain") >= 1
    assert [e.difficulty for e in entries] == sorted(e.difficulty for e in entries)
    assert count(entries)["mistakes"] >= 25
    assert len(RIGHT) >= 15


def test_the_numbers_of_llama_by_hand():
    """A pair is left alone up to a wavelength of 8192 / 4; from 8192 on it runs 32 times slower."""
    untouched = math.floor(32 * math.log(2048 / (2 * math.pi)) / math.log(5e5)) + 1
    resting = 0
    for pair in range(32):
        turns = 8192 / (2 * math.pi * 5e5 ** (pair / 32))
        kept = min(max((turns - 1) / 3, 0), 1)  # 1 from 4 turns on, 0 up to one turn
        resting += 16 * turns * (kept + (1 - kept) / 32) < 1
    assert evaluate("slowed_clocks", [32 - untouched, resting]).status == "correct"
