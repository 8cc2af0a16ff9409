"""Chapter 5's exercises, answered by other means than the references: loops, einsum, NumPy.

Wrong answers are written the way people write them, and must get the name of their mistake. The
right ones are unusual, and must be accepted.
"""

from __future__ import annotations

import bisect
import math

import numpy as np
import pytest
import torch

from posenc_tutorial import ShawRelative, T5Bias, relative_positions, t5_bucket
from posenc_tutorial.exercises import evaluate, exercise, exercises
from posenc_tutorial.exercises.ch05_relative_bias import EXERCISES
from posenc_tutorial.exercises.selftest import count

WRONG = []  # exercise, mistake, answer
RIGHT = []  # exercise, answer


def wrong(name, mistake):
    def keep(answer):
        WRONG.append((name, mistake, answer))
        return answer

    return keep


def right(name):
    def keep(answer):
        RIGHT.append((name, answer))
        return answer

    return keep


# distance_table


right("distance_table")(lambda q, k: relative_positions(q, k))
right("distance_table")(lambda q, k: (k.float() - q.float().unsqueeze(1)).long())
right("distance_table")(
    lambda q, k: torch.tensor([[int(n) - int(m) for n in k] for m in q], dtype=torch.int32)
)
right("distance_table")(lambda q, k: torch.from_numpy(np.subtract.outer(-q.numpy(), -k.numpy())))
right("distance_table")(lambda q, k: k.expand(len(q), -1).sub(q[:, None]))

wrong("distance_table", "reversed")(lambda q, k: q[:, None] - k)
wrong("distance_table", "reversed")(
    lambda q, k: torch.from_numpy(np.subtract.outer(q.numpy(), k.numpy()))
)
wrong("distance_table", "transposed")(lambda q, k: k[:, None] - q)
wrong("distance_table", "by_index")(
    lambda q, k: torch.arange(k.numel()) - torch.arange(q.numel()).unsqueeze(-1)
)
wrong("distance_table", "unsigned")(
    lambda q, k: torch.cdist(q[:, None].double(), k[:, None].double(), p=1).round().long()
)


# bias_numbers

right("bias_numbers")(512)
right("bias_numbers")(512.0)
wrong("bias_numbers", "per_layer")(12 * 32 * 8)
wrong("bias_numbers", "cross_too")(3 * 32 * 8)
wrong("bias_numbers", "one_for_both")(32 * 8)
wrong("bias_numbers", "heads_share")(2 * 32)


# shaw_term


def pair_by_pair(Q, A, row, scale=None, query=lambda i, j: i):
    n, d = Q.shape
    out = torch.zeros(n, n, dtype=Q.dtype)
    for i in range(n):
        for j in range(n):
            out[i, j] = (Q[query(i, j)] * A[row(i, j)]).sum()
    return out / (math.sqrt(d) if scale is None else scale)


def clip(value, most):
    return max(-most, min(most, value))


@right("shaw_term")
def _(Q, A):
    most = (len(A) - 1) // 2
    return pair_by_pair(Q, A, lambda i, j: clip(j - i, most) + most)


@right("shaw_term")
def _(Q, A):
    n, most = len(Q), len(A) // 2
    index = (torch.arange(n) - torch.arange(n)[:, None]).clamp(-most, most) + most
    return torch.einsum("id,ijd->ij", Q, A[index]) * Q.shape[1] ** -0.5


@right("shaw_term")
def _(Q, A):
    shaw = ShawRelative(Q.shape[1], len(A) // 2).to(Q.dtype)
    shaw.weight = torch.nn.Parameter(A.clone())
    places = torch.arange(len(Q))
    return shaw.score_bias(places, places, q=Q[None, None])[0, 0].detach()


@right("shaw_term")
def _(Q, A):
    # pad the table so that no clipping is needed, then take a sliding window
    n, most = len(Q), len(A) // 2
    padded = torch.cat([A[:1].expand(n, -1), A, A[-1:].expand(n, -1)])
    middle = n + most
    rows = [(Q[i] @ padded[middle - i : middle - i + n].T) for i in range(n)]
    return torch.stack(rows) / Q.shape[1] ** 0.5


@wrong("shaw_term", "no_scale")
def _(Q, A):
    most = len(A) // 2
    return pair_by_pair(Q, A, lambda i, j: clip(j - i, most) + most, scale=1.0)


@wrong("shaw_term", "reversed")
def _(Q, A):
    most = len(A) // 2
    return pair_by_pair(Q, A, lambda i, j: clip(i - j, most) + most)


@wrong("shaw_term", "unsigned")
def _(Q, A):
    most = len(A) // 2
    return pair_by_pair(Q, A, lambda i, j: min(abs(i - j), most) + most)


@wrong("shaw_term", "negative_rows")
def _(Q, A):
    most = len(A) // 2
    return pair_by_pair(Q, A, lambda i, j: clip(j - i, most))


@wrong("shaw_term", "far_is_zero")
def _(Q, A):
    n, most = len(Q), len(A) // 2
    out = torch.zeros(n, n, dtype=Q.dtype)
    for r in range(-min(most, n - 1), min(most, n - 1) + 1):
        queries = range(max(0, -r), min(n, n - r))
        for i in queries:
            out[i, i + r] = Q[i] @ A[most + r]
    return out / math.sqrt(Q.shape[1])


@wrong("shaw_term", "of_the_key")
def _(Q, A):
    most = len(A) // 2
    return pair_by_pair(Q, A, lambda i, j: clip(j - i, most) + most, query=lambda i, j: j)


# bucket_of


@right("bucket_of")
def _(r, bidirectional, num_buckets, max_distance):
    kinds = {"num_buckets": num_buckets, "max_distance": max_distance}
    return t5_bucket(r, bidirectional=bidirectional, **kinds)


def one_by_one(bucket):
    """A function of r, for all entries."""

    def answer(r, *settings):
        flat = [bucket(int(value), *settings) for value in r.flatten()]
        return torch.tensor(flat).view(r.shape)

    return answer


def by_edges(x, buckets, most):
    exact = buckets // 2
    ratio = (most / exact) ** (1 / (buckets - exact))
    edges = [*range(exact), *(exact * ratio**j for j in range(buckets - exact))]
    return bisect.bisect_right(edges, x) - 1


@right("bucket_of")
@one_by_one
def _(r, bidirectional, num_buckets, most):
    if not bidirectional:
        return by_edges(max(-r, 0), num_buckets, most)
    half = num_buckets // 2
    return by_edges(abs(r), half, most) + half * (r > 0)


@right("bucket_of")
def _(r, bidirectional, num_buckets, max_distance):
    # base 2, and the sign through numpy
    values = r.numpy()
    side = num_buckets // 2 if bidirectional else num_buckets
    x = np.abs(values) if bidirectional else np.maximum(-values, 0)
    E = side // 2
    with np.errstate(divide="ignore"):
        j = np.log2(x / E) * ((side - E) / np.log2(max_distance / E))
    far = np.minimum(E + np.floor(np.maximum(j, 0)), side - 1)
    out = np.where(x < E, x, far) + (side * (values > 0) if bidirectional else 0)
    return torch.from_numpy(out.astype(np.int64))


@right("bucket_of")
def _(r, bidirectional, num_buckets, max_distance):
    # the order of operations of the original
    ret = 0
    n = -r
    if bidirectional:
        num_buckets //= 2
        ret += (n < 0).to(torch.long) * num_buckets
        n = torch.abs(n)
    else:
        n = torch.max(n, torch.zeros_like(n))
    exact = num_buckets // 2
    large = exact + (
        torch.log(n.float() / exact) / math.log(max_distance / exact) * (num_buckets - exact)
    ).to(torch.long)
    large = torch.min(large, torch.full_like(large, num_buckets - 1))
    ret += torch.where(n < exact, n, large)
    return ret


def variant(r, both, total, most, **changes):
    side = total // 2 if both and not changes.get("whole") else total
    x = abs(r) if both or changes.get("ahead") else max(-r, 0)
    E = side // 2
    if changes.get("exact"):
        found = min(x, side - 1)
    elif x < E:
        found = x
    else:
        divisor = math.log(most) if changes.get("log") else math.log(most / E)
        quotient = math.log(x / E) / divisor * (side if changes.get("all") else side - E)
        whole = {"round": round, "up": math.ceil}.get(changes.get("to"), math.floor)
        found = E + whole(quotient)
        if not changes.get("endless"):
            found = min(found, side if changes.get("more") else side - 1)
    upper = r < 0 if changes.get("halves") else (r >= 0 if changes.get("zero") else r > 0)
    return found + (side if both and upper else 0)


for _name, _changes in {
    "halves": {"halves": True},
    "not_halved": {"whole": True},
    "all_exact": {"exact": True},
    "rounded": {"to": "round"},
    "ceiling": {"to": "up"},
    "all_far": {"all": True},
    "one_too_many": {"more": True},
    "short_log": {"log": True},
    "no_last": {"endless": True},
    "zero_ahead": {"zero": True},
    "ahead_counts": {"ahead": True},
}.items():
    wrong("bucket_of", _name)(one_by_one(lambda *a, _c=_changes: variant(*a, **_c)))
wrong("bucket_of", "negated")(one_by_one(lambda r, *rest: variant(-r, *rest)))


# step_bias


def cell_by_cell(b, past, n, distance, columns=None):
    heads, size = b.shape
    columns = past + n if columns is None else columns
    out = torch.zeros(heads, n, columns, dtype=b.dtype)
    for i in range(n):
        for j in range(columns):
            out[:, i, j] = b[:, max(0, min(distance(i, j), size - 1))]
    return out


right("step_bias")(lambda b, past, n: cell_by_cell(b, past, n, lambda i, j: past + i - j))


@right("step_bias")
def _(b, past, n):
    # the last rows of the whole table, with the mask already in it
    total = past + n
    back = torch.arange(total)[:, None] - torch.arange(total)
    full = b[:, back.clamp(0, b.shape[1] - 1)].masked_fill(back < 0, -math.inf)
    return full[:, past:]


@right("step_bias")
def _(b, past, n):
    longer = torch.cat([b, b[:, -1:].expand(-1, past + n)], 1)
    rows = []
    for i in range(n):
        seen = longer[:, : past + i + 1].flip(1)
        rows.append(torch.cat([seen, torch.zeros(len(b), n - i - 1)], 1))
    return torch.stack(rows, 1)


@right("step_bias")
def _(b, past, n):
    # negative distances count from the end, which the mask hides
    q, k = np.arange(past, past + n), np.arange(past + n)
    return torch.from_numpy(b.numpy()[:, np.minimum(q[:, None] - k, b.shape[1] - 1)])


wrong("step_bias", "from_zero")(lambda b, past, n: cell_by_cell(b, past, n, lambda i, j: i - j))
wrong("step_bias", "new_keys_only")(
    lambda b, past, n: cell_by_cell(b, past, n, lambda i, j: i - j, columns=n)
)
wrong("step_bias", "by_key")(lambda b, past, n: cell_by_cell(b, past, n, lambda i, j: j))
wrong("step_bias", "one_row")(
    lambda b, past, n: cell_by_cell(b, past, n, lambda i, j: past + n - 1 - j)
)
wrong("step_bias", "heads_last")(
    lambda b, past, n: cell_by_cell(b, past, n, lambda i, j: past + i - j).permute(1, 2, 0)
)
wrong("step_bias", "one_off")(
    lambda b, past, n: cell_by_cell(b, past, n, lambda i, j: past + i + 1 - j)
)

wrong("step_bias", "one_early")(
    lambda b, past, n: cell_by_cell(b, past, n, lambda i, j: past - 1 + i - j)
)


@wrong("step_bias", "far_is_zero")
def _(b, past, n):
    padded = torch.nn.functional.pad(b, (0, past + n))
    back = (past + torch.arange(n))[:, None] - torch.arange(past + n)
    return padded[:, back.clamp(min=0)]


# The tests


@pytest.mark.parametrize(("name", "mistake", "answer"), WRONG)
def test_a_mistake_gets_its_name(name, mistake, answer):
    result = evaluate(name, answer)
    assert result.status == "wrong" and result.mistakes == (mistake,), str(result)


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_a_right_answer_is_accepted(name, answer):
    assert evaluate(name, answer).status == "correct", str(evaluate(name, answer))


def test_every_mistake_was_made_here():
    made = {(name, mistake) for name, mistake, _ in WRONG}
    known = {(e.name, m.key) for e in EXERCISES if e.kind != "explain" for m in e.mistakes}
    assert made == known


@pytest.mark.parametrize("name", [e.name for e in EXERCISES if e.kind == "implement"])
def test_other_dtypes_are_accepted_or_named(name):
    entry = exercise(name)
    whole = not entry.expected()[0].is_floating_point()

    def cast(*arguments):
        found = entry.reference(*arguments)
        return found.int() if whole else found.double()

    assert evaluate(name, cast).status == "correct"


def test_nothing_is_done_in_place_to_the_arguments():
    def greedy(r, bidirectional, num_buckets, max_distance):
        kinds = {"num_buckets": num_buckets, "max_distance": max_distance}
        found = t5_bucket(r, bidirectional=bidirectional, **kinds)
        r.abs_()
        return found

    assert "in place" in evaluate("bucket_of", greedy).message


def test_no_edge_in_the_inputs_depends_on_the_last_bit():
    for r, both, total, most in exercise("bucket_of").inputs():
        side = total // 2 if both else total
        exact = side // 2
        x = (r.abs() if both else (-r).clamp(min=0)).flatten().double()
        j = (x[x > exact] / exact).log() / math.log(most / exact) * (side - exact)
        assert float((j - j.round()).abs().min()) > 1e-4


def test_the_chapter_has_enough_of_everything():
    assert EXERCISES == tuple(exercises(5))
    kinds = [entry.kind for entry in EXERCISES]
    assert kinds.count("implement") == 4 and kinds.count("predict") == kinds.count("explain") == 1
    assert [e.difficulty for e in EXERCISES] == sorted(e.difficulty for e in EXERCISES)
    assert count(list(EXERCISES))["mistakes"] >= 30


def test_the_predicted_number_is_that_of_the_package():
    two = [T5Bias(8, bidirectional=kind) for kind in (True, False)]
    assert exercise("bias_numbers").expected() == [sum(t.weight.numel() for t in two)]
