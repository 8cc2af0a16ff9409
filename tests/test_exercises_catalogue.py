"""The catalogue of mistakes: it tests itself, and it recognises code that it has never seen.

The wrong answers below are written the way people write them, with other means than the references
in the package: loops, einsum, NumPy. The odd ones are right and must not be given a name.
"""

from __future__ import annotations

import cmath
import dataclasses
import math
from importlib import import_module

import numpy as np
import pytest
import torch
from torch.nn.functional import embedding, interpolate, pad, scaled_dot_product_attention

from posenc_tutorial import shift_matrix, sinusoidal_table
from posenc_tutorial.exercises import evaluate, exercise, exercises
from posenc_tutorial.exercises.diagnosis import mistake_sets
from posenc_tutorial.exercises.registry import Explain, Implement, Mistake, Predict
from posenc_tutorial.exercises.selftest import count, problems

CHAPTERS = sorted({entry.chapter for entry in exercises()})
# Wrong answers to the later chapters' exercises stand in files of their own.
LATER = (
    "relative_bias rope rope_in_practice alibi train_short extending_context long_context "
    "fast_kernels choosing review"
).split()


def names(entries):
    return [entry.name for entry in entries]


# The catalogue itself


@pytest.mark.parametrize("name", names(exercises()))
def test_every_set_of_mistakes_shows_and_is_recognised_as_itself(name):
    assert problems(exercise(name)) == []


def test_there_are_enough_exercises_of_each_kind_in_the_order_of_difficulty():
    for chapter in CHAPTERS:
        entries = exercises(chapter)
        assert len(entries) >= 4
        kinds = [entry.kind for entry in entries]
        assert kinds.count("implement") >= 2 and kinds.count("predict") >= 1
        assert kinds.count("explain") >= 1
        assert [e.difficulty for e in entries] == sorted(e.difficulty for e in entries)
        assert all(entry.name.isidentifier() for entry in entries)
    found = count(exercises())
    assert found["mistakes"] >= 40 and found["sets"] > found["mistakes"]


def test_sources_are_threads_or_claims_of_the_course():
    claims = {
        int(mistake.source.split()[1])
        for entry in exercises()
        for mistake in entry.mistakes
        if mistake.source.startswith("claim ")
    }
    assert claims <= set(range(1, 37))


def test_a_catalogue_with_a_hole_is_noticed():
    entry = exercise("move_by")

    def blind(k, d, *, new=False, **known):
        return entry.reference(k, d, **known)

    invisible = Mistake("new", "makes no difference", "claim 6")
    worse = dataclasses.replace(
        entry, reference=blind, mistakes=(*entry.mistakes, invisible), points=99, hints=()
    )
    found = "\n".join(problems(worse))
    assert "('new',) gives the right answer" in found
    assert "points must be in" in found and "there is no hint" in found
    twice = Mistake("new", entry.mistakes[0].message, "somebody said so", excludes=("nothing",))
    found = "\n".join(problems(dataclasses.replace(worse, mistakes=(*entry.mistakes, twice))))
    assert "two mistakes have one message" in found and "no thread and no claim" in found
    assert "excludes an unknown mistake" in found


def test_two_mistakes_that_give_the_same_are_noticed():
    entry = exercise("move_by")

    def reference(k, d, *, other=False, **known):
        return entry.reference(k, d, **{**known, "backwards": known.get("backwards") or other})

    same = Mistake("other", "also backwards", "claim 6", excludes=("backwards", "one_sign"))
    found = problems(
        dataclasses.replace(entry, reference=reference, mistakes=(*entry.mistakes, same))
    )
    assert any("give the same" in line for line in found)


@pytest.mark.parametrize(
    "name", names(entry for entry in exercises() if isinstance(entry, Predict | Explain))
)
def test_a_value_that_a_misconception_gives_gets_its_name(name):
    entry = exercise(name)
    for keys in mistake_sets(entry):
        assert evaluate(name, entry.expected(keys)[0]).mistakes == keys
    assert evaluate(name, entry.expected()[0]).status == "correct"


# Wrong answers, written by other means


def angles(n, d, b=10000.0):
    return torch.outer(torch.arange(n), b ** (-torch.arange(0, d, 2) / d))


def interleave(sine, cosine):
    out = torch.empty(*sine.shape[:-1], 2 * sine.shape[-1], dtype=sine.dtype)
    out[..., ::2], out[..., 1::2] = sine, cosine
    return out


def table_from(angle):
    return interleave(angle.sin(), angle.cos())


def doubled_loop(n, d):
    rows = []
    for pos in range(n):
        row = []
        for i in range(0, d, 2):
            row += [math.sin(pos / 10000 ** (2 * i / d)), math.cos(pos / 10000 ** (2 * i / d))]
        rows.append(row)
    return torch.tensor(rows)


def doubled_exp(n, d):
    i = torch.arange(0, d, 2).float()
    speed = torch.exp(-2 * i * math.log(10000.0) / d)
    return table_from(torch.arange(n).float()[:, None] * speed)


def doubled_numpy(n, d):
    rates = 1 / np.power(10000, 2 * (2 * np.arange(d // 2)) / d)
    a = np.arange(n)[:, None] * rates
    return torch.from_numpy(np.stack([np.sin(a), np.cos(a)], -1).reshape(n, d)).float()


def halved_table(n, d):
    speed = 10000.0 ** (-torch.arange(d // 2) / d)
    return table_from(torch.outer(torch.arange(n).float(), speed))


def precedence_table(n, d):
    div_term = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d // 2))
    return table_from(torch.arange(n).float()[:, None] * div_term)


def integer_table(n, d):
    exponent = (torch.arange(0, d, 2) * int(-math.log(10000) / d)).float()
    return table_from(torch.arange(n).float()[:, None] * exponent.exp())


def own_cosine_table(n, d):
    angle = np.array([[p / 10000 ** (j / d) for j in range(d)] for p in range(n)])
    angle[:, 0::2], angle[:, 1::2] = np.sin(angle[:, 0::2]), np.cos(angle[:, 1::2])
    return torch.tensor(angle, dtype=torch.float32)


def complex_halves(n, d):
    turned = torch.polar(torch.ones(n, d // 2), angles(n, d))
    return torch.cat([turned.imag, turned.real], dim=-1)


def half_positions(n, d):
    return table_from((torch.arange(n).half()[:, None] * (10000.0 ** (-torch.arange(0, d, 2) / d)))
                      .half().float())  # fmt: skip


def bfloat16_positions(n, d):
    return table_from(torch.arange(n, dtype=torch.bfloat16).float()[:, None] * angles(2, d)[1])


def bfloat16_everything(n, d):
    p = torch.arange(n).bfloat16()[:, None]
    return table_from(p * (10000.0 ** (-torch.arange(0, d, 2) / d)).bfloat16()).float()


def block_loop(k, d, sign=1.0, same=False, shift=0):
    M = torch.zeros(d, d)
    for i in range(d // 2):
        a = k / 10000 ** (2 * (i - shift) / d)
        M[2 * i, 2 * i] = M[2 * i + 1, 2 * i + 1] = math.cos(a)
        M[2 * i, 2 * i + 1] = sign * math.sin(a)
        M[2 * i + 1, 2 * i] = (sign if same else -sign) * math.sin(a)
    return M


def half_blocks(k, d):
    a = torch.tensor([k / 10000 ** (2 * i / d) for i in range(d // 2)])
    c, s = torch.diag(a.cos()), torch.diag(a.sin())
    return torch.cat([torch.cat([c, s], 1), torch.cat([-s, c], 1)], 0)


def least_squares_shift(k, d):
    """Right for one clock speed only: the same block everywhere."""
    block = torch.tensor([[math.cos(k), math.sin(k)], [-math.sin(k), math.cos(k)]])
    return torch.kron(torch.eye(d // 2), block)


def sdpa(q, k, v, **options):
    return scaled_dot_product_attention(q[None], k[None], v[None], **options)[0]


def masked(S, hidden, fill=-1e9):
    return torch.softmax(S.masked_fill(hidden, fill), -1)


def tri(S, diagonal):
    return torch.triu(torch.ones_like(S), diagonal).bool()


def wrap_all(table, positions):
    return embedding(positions.remainder(len(table)), table)


def guarded(read):
    """A lookup with a proper guard around something else."""

    def look_up(table, positions):
        if ((positions < 0) | (positions >= len(table))).any():
            raise IndexError("outside")
        return read(table, positions)

    return look_up


def off_one(table, positions):
    index = positions - 1
    if bool((index < 0).any()) or bool((index >= len(table)).any()):
        raise IndexError("outside")
    return table[index]


def off_two(table, positions):
    index = positions + 2
    if bool((index < 0).any()) or bool((index >= len(table)).any()):
        raise IndexError("outside")
    return table[index]


def loop_gradient(G, positions, rows, mean=False, shift=0):
    out = [torch.zeros(G.shape[1], dtype=G.dtype) for _ in range(rows)]
    seen = [0] * rows
    for t in range(len(G)):
        row = int(positions[t]) + shift
        if row < rows:
            out[row] = out[row] + G[t]
            seen[row] += 1
    if mean:
        out = [row / max(number, 1) for row, number in zip(out, seen, strict=True)]
    return torch.stack(out)


def assigned_gradient(G, positions, rows):
    out = torch.zeros(rows, G.shape[1], dtype=G.dtype)
    for t, p in enumerate(positions):
        out[p] = G[t]
    return out


def plus_equals_gradient(G, positions, rows):
    out = torch.zeros(rows, G.shape[1], dtype=G.dtype)
    out[positions.flip(0).unique()] = 0
    last = {int(p): t for t, p in enumerate(positions)}
    for p, t in last.items():
        out[p] += G[t]
    return out


def torch_resize(align, mode="linear"):
    def resize_table(table, rows):
        options = {"align_corners": align} if mode == "linear" else {}
        return interpolate(table.T[None], size=rows, mode=mode, **options)[0].T

    return resize_table


def left_aligned(table, rows):
    x = np.arange(rows) * len(table) / rows
    columns = [np.interp(x, np.arange(len(table)), column) for column in table.T.numpy()]
    return torch.from_numpy(np.stack(columns, 1)).to(table.dtype)


def nearest_rows(table, rows):
    return table[[round(i * (len(table) - 1) / (rows - 1)) for i in range(rows)]]


def repeated(table, rows):
    return torch.cat([table] * (rows // len(table) + 1))[:rows]


def zero_rows(table, rows):
    return pad(table[:rows], (0, 0, 0, max(rows - len(table), 0)))


def steps_in(dtype_first):
    def encode_steps(steps, d, dtype):
        p = steps.to(dtype).float() if dtype_first else steps
        return sinusoidal_table(p, d, dtype=dtype)

    return encode_steps


def angles_in_dtype(steps, d, dtype):
    a = torch.outer(steps.double(), 10000.0 ** (-torch.arange(0, d, 2).double() / d))
    return table_from(a.to(dtype).float()).to(dtype)


def terms_loop(X, P, W_Q, W_K, order=("XX", "XP", "PX", "PP"), root=None, transposed=False):
    rows = {"X": X, "P": P}
    out = torch.zeros(4, len(X), len(X), dtype=X.dtype)
    for number, (q, k) in enumerate(order):
        score = torch.einsum("md,de,nf,fe->mn", rows[q], W_Q, rows[k], W_K)
        out[number] = (score.T if transposed else score) / (root or math.sqrt(W_K.shape[1]))
    return out


def mirrored_terms(X, P, W_Q, W_K):
    cc, cp, _, pp = terms_loop(X, P, W_Q, W_K)
    return torch.stack([cc, cp, cp.T, pp])


def distance_loop(A, start=0, ahead=False, divisor=None):
    n = len(A)
    sums, counts = [0.0] * n, [0] * n
    for m in range(n):
        for j in range(n):
            k = (j - m if ahead else m - j) - start
            if 0 <= k < n:
                sums[k] += float(A[m, j])
                counts[k] += 1
    divide = {"n": [n] * n, "one": [1] * n}.get(divisor, [max(number, 1) for number in counts])
    return torch.tensor([total / number for total, number in zip(sums, divide, strict=True)])


def mean_loop(Y, keep, choose=bool, divisor=None):
    rows = []
    for sentence, flags in zip(Y, keep, strict=True):
        kept = [row for row, flag in zip(sentence, flags, strict=True) if choose(bool(flag))]
        rows.append(torch.stack(kept).sum(0) / (divisor(keep) if divisor else len(kept)))
    return torch.stack(rows)


def cumulative(mask, axis=-1, start=-1, fill=0):
    return (mask.cumsum(axis) + start).masked_fill(mask == 0, fill)


def positions_loop(mask, first=0, real=1):
    out = []
    for row in mask.tolist():
        number, line = first, []
        for entry in row:
            line.append(number if entry == real else 0)
            number += entry == real
        out.append(line)
    return torch.tensor(out)


WRONG = {
    "reorder_weights": [
        ("rows_only", lambda A, order: torch.stack([A[i] for i in order])),
        ("rows_only", lambda A, order: torch.eye(len(A))[order] @ A),
        ("columns_only", lambda A, order: A.index_select(1, order)),
        ("columns_only", lambda A, order: A @ torch.eye(len(A))[order].T),
        ("inverse", lambda A, order: torch.eye(len(A))[order].T @ A @ torch.eye(len(A))[order]),
        ("inverse", lambda A, order: torch.zeros_like(A).index_put(
            (order[:, None], order[None]), A)),
        ("diagonal", lambda A, order: A[[order, order]] if False else A[order, order]),
        ("diagonal", lambda A, order: A[order].gather(1, order[:, None])[:, 0]),
    ],
    "mean_over_words": [
        ("all_rows", lambda Y, keep: torch.einsum("bnd->bd", Y) / Y.shape[1]),
        ("all_rows", lambda Y, keep: torch.stack([sentence.mean(0) for sentence in Y])),
        ("total_length", lambda Y, keep: (Y * keep.unsqueeze(-1)).mean(dim=1)),
        ("total_length", lambda Y, keep: Y.masked_fill(~keep[..., None], 0).mean(1)),
        ("inverted", lambda Y, keep: mean_loop(Y, keep, choose=lambda flag: not flag)),
        ("whole_batch", lambda Y, keep: mean_loop(Y, keep, divisor=lambda keep: int(keep.sum()))),
    ],
    "attention_by_hand": [
        ("no_scale", lambda Q, K, V: sdpa(Q, K, V, scale=1.0)),
        ("no_scale", lambda Q, K, V: torch.einsum("mn,nd->md", (Q @ K.T).softmax(1), V)),
        ("no_scale", lambda Q, K, V: (lambda E: E / E.sum(1, keepdim=True) @ V if False else
                                      (E / E.sum(1, keepdim=True)) @ V)((Q @ K.T).exp())),
        ("no_root", lambda Q, K, V: sdpa(Q, K, V, scale=1 / Q.shape[1])),
        ("value_width", lambda Q, K, V: sdpa(Q, K, V, scale=V.shape[1] ** -0.5)),
        ("scale_after", lambda Q, K, V: sdpa(Q, K, V, scale=1.0) / Q.shape[1] ** 0.5),
        ("wrong_axis", lambda Q, K, V: torch.softmax(Q @ K.T / Q.shape[1] ** 0.5, 0) @ V),
        ("wrong_axis", lambda Q, K, V: sdpa(K, Q, torch.eye(len(V), dtype=V.dtype)).T @ V),
        ("wrong_axis", lambda Q, K, V: (lambda E: (E / E.sum(0)) @ V)(
            (Q @ K.T / Q.shape[1] ** 0.5).exp())),
        ("exchanged", lambda Q, K, V: sdpa(K, Q, V)),
        ("no_scale exchanged", lambda Q, K, V: sdpa(K, Q, V, scale=1.0)),
    ],
    "causal_weights": [
        ("no_mask", lambda S: S.softmax(-1)),
        ("own_place", lambda S: masked(S, tri(S, 0), -math.inf)),
        ("own_place", lambda S: masked(S, tri(S, 0))),
        ("own_place", lambda S: (S + torch.where(tri(S, 0), -1e30, 0.0)).softmax(1)),
        ("one_ahead", lambda S: masked(S, tri(S, 2), -math.inf)),
        ("flipped", lambda S: masked(S, tri(S, 1).T, -math.inf)),
        ("flipped", lambda S: masked(S, torch.ones_like(S).tril(-1) == 1)),
        ("flipped", lambda S: masked(S, torch.arange(len(S))[:, None] > torch.arange(len(S)))),
        ("inverted", lambda S: masked(S, ~tri(S, 1), -math.inf)),
        ("inverted", lambda S: masked(S, torch.tril(torch.ones_like(S)).bool())),
        ("after_softmax", lambda S: torch.tril(S.softmax(1))),
        ("after_softmax", lambda S: S.softmax(1) * (1 - torch.triu(torch.ones_like(S), 1))),
        ("zero_score", lambda S: torch.tril(S).softmax(1)),
        ("zero_score", lambda S: masked(S, tri(S, 1), 1e-9)),
        ("wrong_axis", lambda S: torch.softmax(S.masked_fill(tri(S, 1), -math.inf), 0)),
    ],
    "look_up": [
        ("wraps", lambda table, positions: table[positions]),
        ("wraps", lambda table, positions: torch.stack(
            [table[p] for p in positions.flatten().tolist()]).view(*positions.shape, -1)),
        ("modulo", wrap_all),
        ("clamps", lambda table, positions: table[positions.clamp(0, len(table) - 1)]),
        ("from_one", off_one),
        ("from_two", off_two),
        ("wraps from_one", lambda table, positions: table[positions - 1]),
    ],
    "table_gradient": [
        ("last_wins", assigned_gradient),
        ("last_wins", plus_equals_gradient),
        ("averaged", lambda G, positions, rows: loop_gradient(G, positions, rows, mean=True)),
        ("shifted", lambda G, positions, rows: loop_gradient(G, positions, rows, shift=1)),
    ],
    "resize_table": [
        ("half_pixel", torch_resize(False)),
        ("left_aligned", left_aligned),
        ("nearest", nearest_rows),
        ("tiled", repeated),
        ("untrained", zero_rows),
    ],
    "sinusoid_table": [
        ("doubled", doubled_loop),
        ("doubled", doubled_exp),
        ("doubled", doubled_numpy),
        ("halved", halved_table),
        ("end_point", lambda n, d: table_from(torch.outer(
            torch.arange(n).float(), torch.logspace(0, -4, d // 2)))),
        ("base_1000", lambda n, d: table_from(angles(n, d, 1000.0))),
        ("base_1000", lambda n, d: sinusoidal_table(n, d, base=1e3)),
        ("precedence", precedence_table),
        ("integers", integer_table),
        ("own_cosine", own_cosine_table),
        ("exchanged", lambda n, d: interleave(angles(n, d).cos(), angles(n, d).sin())),
        ("exchanged", lambda n, d: sinusoidal_table(n, d).view(n, -1, 2).flip(2).flatten(1)),
        ("exchanged", lambda n, d: table_from(math.pi / 2 - angles(n, d).double())),
        ("halves", complex_halves),
        ("halves", lambda n, d: sinusoidal_table(n, d, layout="concatenated")),
        ("halves", lambda n, d: torch.cat([angles(n, d).sin(), angles(n, d).cos()], 1)),
        ("from_one", lambda n, d: sinusoidal_table(torch.arange(1, n + 1), d)),
        ("from_one", lambda n, d: table_from(angles(n + 1, d))[1:]),
        ("half_precision", half_positions),
        ("half_precision", bfloat16_positions),
        ("half_precision", bfloat16_everything),
        ("exchanged halves", lambda n, d: torch.cat([angles(n, d).cos(), angles(n, d).sin()], 1)),
        ("exchanged half_precision", lambda n, d: half_positions(n, d).view(n, -1, 2).flip(2)
            .flatten(1)),
        ("doubled from_one", lambda n, d: doubled_exp(n + 1, d)[1:]),
    ],
    "move_by": [
        ("backwards", lambda k, d: block_loop(k, d, sign=-1.0)),
        ("backwards", lambda k, d: shift_matrix(k, d).T),
        ("backwards", lambda k, d: shift_matrix(-k, d)),
        ("one_sign", lambda k, d: block_loop(k, d, same=True)),
        ("halves", half_blocks),
        ("doubled", lambda k, d: shift_matrix(k, d, base=1e8)),
        ("halved", lambda k, d: shift_matrix(k, d, base=100.0)),
        ("one_clock", least_squares_shift),
        ("early", lambda k, d: block_loop(k, d, shift=1)),
        ("backwards halves", lambda k, d: half_blocks(-k, d)),
    ],
    "encode_steps": [
        ("cast_first", steps_in(True)),
        ("whole_steps", lambda steps, d, dtype: sinusoidal_table(steps.long(), d, dtype=dtype)),
        ("row_numbers", lambda steps, d, dtype: sinusoidal_table(len(steps), d, dtype=dtype)),
        ("cast_angles", angles_in_dtype),
        ("cast_speeds", lambda steps, d, dtype: table_from(
            steps[:, None] * angles(2, d)[1].to(dtype)).to(dtype)),
        ("cast_all", lambda steps, d, dtype: table_from(
            steps.to(dtype)[:, None] * angles(2, d)[1].to(dtype)).to(dtype)),
    ],
    "token_positions": [
        ("shared", lambda mask: torch.arange(mask.shape[1]).repeat(len(mask), 1)),
        ("shared", lambda mask: torch.ones_like(mask).cumsum(1) - 1),
        ("shared", lambda mask: torch.stack([torch.arange(len(row)) for row in mask])),
        ("from_one", lambda mask: mask.cumsum(1)),
        ("from_one", lambda mask: positions_loop(mask, first=1)),
        ("pads_counted", lambda mask: mask.cumsum(1) - 1),
        ("pads_counted", lambda mask: cumulative(mask, fill=-1)),
        ("down_the_batch", lambda mask: cumulative(mask, axis=0)),
        ("inverted", lambda mask: ((mask == 0).cumsum(1) - 1).clamp(min=0)),
    ],
    "four_terms": [
        ("no_scale", lambda X, P, W_Q, W_K: terms_loop(X, P, W_Q, W_K, root=1.0)),
        ("no_root", lambda *a: terms_loop(*a, root=a[2].shape[1])),
        ("model_width", lambda *a: terms_loop(*a, root=math.sqrt(a[0].shape[1]))),
        ("exchanged", lambda *a: terms_loop(*a, order=("XX", "PX", "XP", "PP"))),
        ("mirrored", mirrored_terms),
        ("keys_down", lambda *a: terms_loop(*a, transposed=True)),
        ("one_matrix", lambda X, P, W_Q, W_K: terms_loop(X, P, W_Q, W_Q)),
    ],
    "weight_by_distance": [
        ("divided_by_n", lambda A: distance_loop(A, divisor="n")),
        ("summed", lambda A: distance_loop(A, divisor="one")),
        ("ahead", lambda A: distance_loop(A, ahead=True)),
        ("from_one", lambda A: distance_loop(A, start=1)),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "keys", "answer"),
    [(name, keys, answer) for name, entries in WRONG.items() for keys, answer in entries],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_recognised_in_code_of_another_make(name, keys, answer):
    found = evaluate(name, answer)
    assert found.mistakes == tuple(keys.split()), str(found)
    assert found.status == "wrong"


def test_every_mistake_in_a_function_was_made_by_other_means():
    answers = [(name, keys.split()) for name, entries in WRONG.items() for keys, _ in entries]
    for file in LATER:
        for name, keys, _ in import_module(f"test_exercises_{file}").WRONG:
            answers.append((name, keys.split() if isinstance(keys, str) else keys))
    for entry in exercises():
        if isinstance(entry, Implement):
            made = {key for name, keys in answers if name == entry.name for key in keys}
            assert made == {mistake.key for mistake in entry.mistakes}, entry.name
    thrice = [
        (name, key)
        for name, entries in WRONG.items()
        for key in {keys for keys, _ in entries}
        if sum(keys == key for keys, _ in entries) >= 3
    ]
    assert len(thrice) >= 10, thrice


# Right answers, oddly written


def by_complex_powers(n, d):
    out = torch.zeros(n, d)
    for i in range(d // 2):
        step = cmath.exp(1j * 10000 ** (-2 * i / d))
        z = np.power(np.full(n, step), np.arange(n))
        out[:, 2 * i], out[:, 2 * i + 1] = torch.from_numpy(z.imag), torch.from_numpy(z.real)
    return out


def by_walking(n, d):
    """Each row is the matrix of one step times the row before, in float64."""
    step = shift_matrix(1, d)
    row = torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(d // 2)
    rows = []
    for _ in range(n):
        rows.append(row)
        row = step @ row
    return torch.stack(rows).float()


def by_phase(n, d):
    """A cosine is a sine a quarter of a turn ahead."""
    channel = torch.arange(d)
    angle = torch.arange(n)[:, None].double() / 10000 ** ((channel - channel % 2) / d)
    return torch.sin(angle + (channel % 2) * math.pi / 2).float()


def tiny_epsilon(Y, keep):
    weights = keep.float()
    total = torch.einsum("bnd,bn->bd", Y, weights)
    return total / (weights.sum(1, keepdim=True) + 1e-9)


def shift_by_solving(k, d):
    rows = sinusoidal_table(torch.arange(4000), d, dtype=torch.float64)
    ahead = sinusoidal_table(torch.arange(4000) + k, d, dtype=torch.float64)
    return torch.linalg.lstsq(rows, ahead, driver="gelsd").solution.T


def resize_by_matrix(table, rows):
    places = np.linspace(0, len(table) - 1, rows)
    hat = np.maximum(0, 1 - np.abs(places[:, None] - np.arange(len(table))))
    return (torch.from_numpy(hat) @ table.double()).to(table.dtype)


def autograd_gradient(G, positions, rows):
    table = torch.zeros(rows, G.shape[1], dtype=G.dtype, requires_grad=True)
    (table[positions] * G).sum().backward()
    return table.grad


def attention_in_loops(Q, K, V):
    out = []
    for q in Q:
        weights = [math.exp(float(q @ k) / math.sqrt(len(q))) for k in K]
        out.append(sum(w * v for w, v in zip(weights, V, strict=True)) / sum(weights))
    return torch.stack(out)


def causal_by_rows(S):
    rows = [
        torch.cat([S[i, : i + 1].softmax(0), S.new_zeros(len(S) - i - 1)]) for i in range(len(S))
    ]
    return torch.stack(rows)


def causal_renormalised(S):
    """Masked after the softmax, and then made to add up again: the same thing."""
    kept = torch.tril(S.softmax(1))
    return kept / kept.sum(1, keepdim=True)


class LookUp:
    """An object that can be called."""

    def __call__(self, table, positions):
        for position in positions.flatten().tolist():
            if position not in range(len(table)):
                raise IndexError(position)
        return embedding(positions, table)


ODD = {
    "reorder_weights": [
        lambda A, order: torch.eye(len(A))[order] @ A @ torch.eye(len(A))[order].T,
        lambda A, order: A.index_select(0, order).index_select(1, order),
        lambda A, order: A[order[:, None], order],
        lambda A, order: torch.tensor([[A[i, j] for j in order] for i in order]),
        lambda A, order: torch.from_numpy(A.numpy()[np.ix_(order.numpy(), order.numpy())]),
    ],
    "mean_over_words": [
        tiny_epsilon,
        mean_loop,
        lambda Y, keep: torch.where(keep[..., None], Y, torch.nan).nanmean(1),
        lambda Y, keep: (keep[:, None].float() @ Y)[:, 0] / keep.sum(1).view(-1, 1),
        lambda Y, keep: torch.stack([y[k].mean(0) for y, k in zip(Y, keep, strict=True)]),
    ],
    "attention_by_hand": [
        sdpa,
        attention_in_loops,
        lambda Q, K, V: torch.softmax((Q * Q.shape[1] ** -0.25) @ (K * Q.shape[1] ** -0.25).T, 1)
        @ V,
        lambda Q, K, V: (V.T @ torch.softmax(K @ Q.T / math.sqrt(K.shape[-1]), 0)).T,
        lambda Q, K, V: torch.log_softmax(Q @ K.T / math.sqrt(Q.shape[1]), -1).exp() @ V,
    ],
    "causal_weights": [
        causal_by_rows,
        causal_renormalised,
        lambda S: masked(S, tri(S, 1)),
        lambda S: (S + torch.full_like(S, -math.inf).triu(1)).softmax(-1),
        lambda S: sdpa(torch.eye(len(S)).to(S), S.T, torch.eye(len(S)).to(S), is_causal=True,
                       scale=1.0),
        lambda S: masked(S, torch.arange(len(S)) > torch.arange(len(S))[:, None], -1e4),
    ],
    "look_up": [
        LookUp(),
        guarded(lambda table, positions: torch.nn.functional.one_hot(positions, len(table)).to(
            table) @ table),
        guarded(lambda table, positions: table.index_select(0, positions.flatten()).view(
            *positions.shape, -1)),
        guarded(lambda table, positions: table.expand(1, -1, -1)[0, positions]),
    ],
    "table_gradient": [
        loop_gradient,
        autograd_gradient,
        lambda G, positions, rows: torch.zeros(rows, G.shape[1]).to(G).index_put(
            (positions,), G, accumulate=True),
        lambda G, positions, rows: torch.stack([G[positions == row].sum(0) for row in range(rows)]),
    ],
    "resize_table": [
        torch_resize(True),
        resize_by_matrix,
        lambda table, rows: torch.from_numpy(np.stack([np.interp(
            np.linspace(0, len(table) - 1, rows), np.arange(len(table)), column)
            for column in table.T.numpy()], 1)).to(table.dtype),
    ],
    "sinusoid_table": [
        by_complex_powers,
        by_walking,
        by_phase,
        lambda n, d: table_from(angles(n, d)),
        lambda n, d: sinusoidal_table(n, d, dtype=torch.float64),
        lambda n, d: table_from(torch.outer(torch.arange(n).float(), torch.exp(
            torch.arange(0, d, 2) * (-math.log(10000.0) / d)))),
        lambda n, d: table_from(torch.arange(n)[:, None] / 10000 ** (torch.arange(d // 2) /
                                                                    (d // 2))),
        lambda n, d: torch.tensor([[f(p / 1e4 ** (2 * i / d)) for i in range(d // 2)
                                    for f in (math.sin, math.cos)] for p in range(n)]),
        lambda n, d: table_from(torch.remainder(angles(n, d).double(), 2 * math.pi)),
    ],
    "move_by": [
        shift_matrix,
        block_loop,
        shift_by_solving,
        lambda k, d: torch.linalg.matrix_power(shift_matrix(1, d), k),
        lambda k, d: shift_matrix(-k, d).inverse(),
        lambda k, d: shift_matrix(k, d).float(),
    ],
    "encode_steps": [
        steps_in(False),
        lambda steps, d, dtype: table_from(torch.outer(steps, 10000.0 ** (
            -torch.arange(0, d, 2) / d))).to(dtype),
        lambda steps, d, dtype: sinusoidal_table(steps.double(), d, dtype=torch.float64).to(dtype),
    ],
    "token_positions": [
        cumulative,
        positions_loop,
        lambda mask: cumulative(mask, fill=1),
        lambda mask: cumulative(mask, fill=mask.shape[1] - 1).int(),
        lambda mask: (mask.cumsum(1) - mask) * mask,
        lambda mask: torch.arange(mask.shape[1]).sub(mask.argmax(1, keepdim=True)).clamp(min=0),
    ],
    "four_terms": [
        terms_loop,
        lambda X, P, W_Q, W_K: torch.stack([
            (a @ W_Q / math.sqrt(W_Q.shape[1])) @ (b @ W_K).T
            for a, b in ((X, X), (X, P), (P, X), (P, P))]),
        lambda X, P, W_Q, W_K: (torch.stack([X, P])[:, None] @ (W_Q @ W_K.T / W_Q.shape[1] ** 0.5)
                                @ torch.stack([X, P]).mT).flatten(0, 1),
    ],
    "weight_by_distance": [
        distance_loop,
        lambda A: torch.stack([A.flip(1).diagonal(0).new_tensor(
            [A[m, m - k] for m in range(k, len(A))]).mean() for k in range(len(A))]),
        lambda A: torch.tensor([np.mean(np.diag(A.numpy(), -k)) for k in range(len(A))]),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "answer"), [(name, answer) for name, answers in ODD.items() for answer in answers]
)
def test_odd_right_answers_are_right(name, answer):
    found = evaluate(name, answer)
    assert found.status == "correct", str(found)


def test_there_are_fifty_odd_right_answers():
    assert sum(len(answers) for answers in ODD.values()) >= 50
    assert set(ODD) == set(WRONG)


# Wrong answers that nobody is known to give


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("sinusoid_table", lambda n, d: table_from(angles(n, d, 9000.0))),
        ("sinusoid_table", lambda n, d: table_from(angles(n, d, 1e5))),
        ("sinusoid_table", lambda n, d: torch.zeros(n, d)),
        ("sinusoid_table", lambda n, d: torch.ones(n, d)),
        ("sinusoid_table", lambda n, d: sinusoidal_table(n, d) * 2),
        ("sinusoid_table", lambda n, d: sinusoidal_table(torch.arange(2, n + 2), d)),
        ("sinusoid_table", lambda n, d: sinusoidal_table(-torch.arange(n), d)),
        ("sinusoid_table", lambda n, d: sinusoidal_table(n, d).roll(1, 1)),
        ("sinusoid_table", lambda n, d: table_from(angles(n, d) * 2 * math.pi)),
        ("sinusoid_table", lambda n, d: table_from(angles(n, d) * 1.001)),
        ("move_by", lambda k, d: torch.eye(d)),
        ("move_by", lambda k, d: shift_matrix(k + 1, d)),
        ("attention_by_hand", lambda Q, K, V: V),
        ("attention_by_hand", lambda Q, K, V: V.mean(0).expand_as(V)),
        ("causal_weights", lambda S: torch.eye(len(S))),
        ("causal_weights", lambda S: masked(S, tri(S, 1)).T),
        ("causal_weights", lambda S: torch.tril(torch.ones_like(S)) / (
            torch.arange(len(S)) + 1)[:, None]),
        ("reorder_weights", lambda A, order: A),
        ("reorder_weights", lambda A, order: A.T),
        ("mean_over_words", lambda Y, keep: Y.sum(1)),
        ("mean_over_words", lambda Y, keep: Y.amax(1)),
        ("table_gradient", lambda G, positions, rows: torch.zeros(rows, G.shape[1])),
        ("resize_table", lambda table, rows: torch.zeros(rows, table.shape[1])),
        ("encode_steps", lambda steps, d, dtype: torch.zeros(len(steps), d, dtype=dtype)),
        ("token_positions", lambda mask: torch.zeros_like(mask)),
        ("token_positions", lambda mask: mask),
        ("four_terms", lambda X, P, W_Q, W_K: torch.zeros(4, len(X), len(X))),
        ("weight_by_distance", lambda A: A[-1].flip(0)),
        ("turning_pairs", 1),
        ("old_place", 300.4),
        ("longest_text", [1, 2, 3]),
    ],
)  # fmt: skip
def test_unknown_mistakes_get_no_name(name, answer):
    found = evaluate(name, answer)
    assert found.status == "wrong" and found.mistakes == (), str(found)
