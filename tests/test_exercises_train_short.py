"""Chapter 9's exercises, answered by other means than the references: loops, NumPy, statistics.

Wrong answers are written the way people write them, and must get the name of their mistake. The
right ones are unusual, and must be accepted.
"""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
import torch
from exercise_answers import Answers

from posenc_tutorial.exercises import evaluate, exercises
from posenc_tutorial.exercises.selftest import count

ANSWERS = Answers()
WRONG, RIGHT, wrong, right = ANSWERS.WRONG, ANSWERS.RIGHT, ANSWERS.wrong, ANSWERS.right


# Windows


def windows(data, starts, chunk, length, *, ahead=1, cut=None):
    """One window at a time."""
    inputs, targets = [], []
    for start in starts.tolist():
        for first in range(start, start + chunk, length)[:cut]:
            inputs.append(data[first : first + length])
            targets.append(data[first + ahead : first + ahead + length])
    return torch.stack([torch.stack(inputs), torch.stack(targets)])


def by_unfold(data, starts, chunk, length):
    rows = torch.stack([data[s : s + chunk + 1] for s in starts.tolist()])
    both = rows.unfold(1, length + 1, length)  # windows that share one byte
    return torch.stack([both[..., :-1].flatten(0, 1), both[..., 1:].flatten(0, 1)])


def rolled(data, starts, chunk, length):
    inputs = windows(data, starts, chunk, length)[0]
    return torch.stack([inputs, torch.cat([inputs[:, 1:], inputs[:, :1]], 1)])


def blocks(data, starts, chunk, length):
    found = []
    for start in starts.tolist():
        n = chunk // (length + 1)
        found += [data[start + i * (length + 1) :][: length + 1] for i in range(n)]
    block = torch.stack(found)
    return torch.stack([block[:, :-1], block[:, 1:]])


def every_nth(data, starts, chunk, length):
    step = chunk // length
    both = []
    for ahead in (0, 1):
        rows = [data[s + ahead : s + ahead + chunk] for s in starts.tolist()]
        both.append(torch.cat([torch.stack([r[i::step] for i in range(step)]) for r in rows]))
    return torch.stack(both)


def rolled_chunks(data, starts, chunk, length):
    rows = [data[s : s + chunk] for s in starts.tolist()]
    after = [torch.cat([row[1:], row[:1]]) for row in rows]
    return torch.stack([torch.cat(both).reshape(-1, length) for both in (rows, after)])


right("cut_windows", windows)
right("cut_windows", by_unfold)
right(
    "cut_windows",
    lambda data, starts, chunk, length: torch.from_numpy(
        np.stack(
            [
                np.concatenate(
                    [data.numpy()[s + a : s + a + chunk].reshape(-1, length) for s in starts]
                )
                for a in (0, 1)
            ]
        )
    ),
)
wrong("cut_windows", "current", lambda *a: windows(*a, ahead=0))
wrong("cut_windows", "twice", lambda *a: windows(*a, ahead=2))
wrong("cut_windows", "rolled", rolled)
wrong("cut_windows", "first_only", lambda *a: windows(*a, cut=1))
wrong("cut_windows", "current first_only", lambda *a: windows(*a, ahead=0, cut=1))
wrong("cut_windows", "strided", every_nth)
wrong("cut_windows", "shared_target_lost", blocks)
wrong("cut_windows", "exchanged", lambda *a: windows(*a).flip(0))
wrong("cut_windows", "shared_target_lost exchanged", lambda *a: torch.stack([*blocks(*a)][::-1]))
wrong("cut_windows", "rolled_chunk", rolled_chunks)


# Seeds


def by_statistics(losses, spread=statistics.stdev):
    return torch.tensor([[statistics.fmean(r), spread(r)] for r in losses.tolist()])


right("over_seeds", by_statistics)
right("over_seeds", lambda x: torch.stack([x.mean(1), x.std(1)], dim=1))
right("over_seeds", lambda x: torch.stack(torch.std_mean(x, dim=1)[::-1], dim=1))
right(
    "over_seeds",
    lambda x: torch.tensor(np.c_[x.numpy().mean(1), x.numpy().std(1, ddof=1)]),
)
wrong("over_seeds", "population", lambda x: by_statistics(x, statistics.pstdev))
wrong(
    "over_seeds",
    "population",
    lambda x: torch.tensor(np.c_[x.numpy().mean(1), np.std(x.numpy(), 1)]),
)
wrong("over_seeds", "squared", lambda x: by_statistics(x, statistics.variance))
wrong(
    "over_seeds",
    "of_the_mean",
    lambda x: by_statistics(x, lambda r: statistics.stdev(r) / len(r) ** 0.5),
)
wrong("over_seeds", "half_range", lambda x: by_statistics(x, lambda r: (max(r) - min(r)) / 2))
wrong("over_seeds", "population squared", lambda x: by_statistics(x, statistics.pvariance))
wrong(
    "over_seeds",
    "across",
    lambda x: torch.stack(
        [x.mean(1), ((x - x.mean()) ** 2).sum(1).div(x.shape[1] - 1).sqrt()], dim=1
    ),
)


wrong("over_seeds", "columns", lambda x: torch.stack([x.mean(1), x.std(1)]))
wrong("over_seeds", "columns", lambda x: by_statistics(x).T)


# Gains


def gains(short, long, *, pick=None, sign=1, add=False):
    n, found = len(short), []
    for r in range(n):
        places = long[r::n] if pick is None else pick(long, r, n)
        total = math.fsum(places.tolist()) / (1 if add else len(places))
        found.append(sign * (float(short[r]) - total))
    return torch.tensor(found, dtype=torch.float64)


right("gain_by_place", gains)
right("gain_by_place", lambda s, long: (s - long.view(-1, len(s))).mean(0))
right(
    "gain_by_place",
    lambda s, long: s - long.reshape(len(long) // len(s), len(s)).sum(0) * len(s) / len(long),
)
right(
    "gain_by_place",
    lambda s, long: torch.from_numpy(
        s.numpy() - np.stack(np.split(long.numpy(), len(long) // len(s))).mean(0)
    ),
)
wrong("gain_by_place", "reversed_sign", lambda s, long: gains(s, long, sign=-1))
wrong("gain_by_place", "beginning", lambda s, long: s - long[: len(s)])
wrong("gain_by_place", "end", lambda s, long: s - long[-len(s) :])
wrong(
    "gain_by_place",
    "interleaved",
    lambda s, long: gains(s, long, pick=lambda x, r, n: x[r * len(x) // n : (r + 1) * len(x) // n]),
)
wrong("gain_by_place", "summed", lambda s, long: gains(s, long, add=True))
wrong("gain_by_place", "overall", lambda s, long: s - long.mean())
wrong("gain_by_place", "start_left_out", lambda s, long: gains(s, long[len(s) :]))
wrong(
    "gain_by_place",
    "reversed_sign start_left_out",
    lambda s, long: long.view(-1, len(s))[1:].mean(0) - s,
)
wrong("gain_by_place", "reversed_sign overall", lambda s, long: long.mean() - s)


# Predictions


def bucket(distance, buckets, most):
    """T5's bucket of one direction, in plain Python."""
    exact = buckets // 2
    if distance < exact:
        return distance
    far = math.log(distance / exact) / math.log(most / exact) * (buckets - exact)
    return min(buckets - 1, exact + int(far))


def missed(buckets, most, trained=64):
    met = {bucket(d, buckets, most) for d in range(trained)}
    return len({bucket(d, buckets, most) for d in range(1024)} - met)


COUNTED = [missed(32, 128), missed(32, 64), missed(32, 1024), 2 * missed(16, 128)]
right("untaught_buckets", COUNTED)
right("untaught_buckets", tuple(COUNTED))
right("untaught_buckets", torch.tensor(COUNTED))
wrong("untaught_buckets", "nothing_new", [0, 0, 0, 0])
wrong("untaught_buckets", "one_far_bucket", [1, 0, 1, 1])
wrong(
    "untaught_buckets", "trained_twice_as_far", [missed(32, 128, 128), 0, missed(32, 1024, 128), 0]
)
wrong("untaught_buckets", "all_that_are_met", [32, 32, 32, 31])

right("may_be_moved", [True, False, False, True, True, True])
right("may_be_moved", (True, False, False, True, True, True))
wrong("may_be_moved", "computable_is_usable", [True, False, True, True, True, True])
wrong("may_be_moved", "rope_knows_places", [True, False, False, True, True, False])
wrong("may_be_moved", "bias_knows_places", [True, False, False, False, False, True])
wrong("may_be_moved", "nothing_may", [False] * 6)
wrong("may_be_moved", "nope_knows_places", [False, False, False, True, True, True])
wrong("may_be_moved", "untrained_rows_are_alike", [True, True, False, True, True, True])
wrong(
    "may_be_moved",
    "computable_is_usable untrained_rows_are_alike",
    [True, True, True, True, True, True],
)

right("what_lengths_show", "BD")
right("what_lengths_show", "db")
for letter in "ACEFGH":
    wrong("what_lengths_show", letter, "BD" + letter)


(
    test_mistakes_are_recognised_in_code_of_another_make,
    test_odd_right_answers_are_right,
) = ANSWERS.tests()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("cut_windows", lambda *a: windows(*a, ahead=3)),
        ("cut_windows", lambda *a: windows(*a).flip(1)),
        ("cut_windows", lambda *a: windows(*a)[0]),
        ("over_seeds", lambda x: by_statistics(x).flip(1)),
        ("over_seeds", lambda x: by_statistics(x)[:, 0]),
        ("over_seeds", lambda x: by_statistics(x) * 1.01),
        ("gain_by_place", lambda s, long: gains(s, long) * 2),
        ("gain_by_place", lambda s, long: torch.zeros_like(s)),
        ("untaught_buckets", [5, 0, 10, 2]),
        ("may_be_moved", [False, True, True, True, True, True]),
        ("may_be_moved", [True, False, False, False, True, True]),
    ],
)
def test_unknown_mistakes_get_no_name(name, answer):
    found = evaluate(name, answer)
    assert found.status == "wrong" and found.mistakes == (), str(found)


def test_there_are_enough_of_each_kind_in_the_order_of_difficulty():
    entries = exercises(9)
    kinds = [entry.kind for entry in entries]
    assert kinds.count("implement") >= 2 and {"predict", "explain"} <= set(kinds)
    assert [e.difficulty for e in entries] == sorted(e.difficulty for e in entries)
    assert count(entries)["mistakes"] >= 25
    assert len(RIGHT) >= 15 and len(WRONG) >= 30
