"""Answers to the exercises, written from the task texts alone.

The answers were written without knowledge of the mistakes that the checks recognise and of the
book's solutions; what a check should say about them was added afterwards. Each mistake stands here
in three forms that look unlike each other, and all three must get its name, or none. Next to them
stand right answers in unusual shapes, which must be accepted.
"""

from __future__ import annotations

import cmath
import math
import re
from functools import reduce

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from posenc_tutorial.exercises import evaluate

WRONG = []  # exercise, mistake, function
RIGHT = []  # exercise, function


def wrong(exercise, mistake):
    def keep(function):
        WRONG.append((exercise, mistake, function))
        return function

    return keep


def right(exercise):
    def keep(function):
        RIGHT.append((exercise, function))
        return function

    return keep


# 1.1  reorder_weights --------------------------------------------------------------------------


def permutation(order):
    return torch.eye(len(order))[order]


wrong("reorder_weights", "rows only")(lambda A, order: A[order])
wrong("reorder_weights", "rows only")(lambda A, order: permutation(order).to(A.dtype) @ A)


@wrong("reorder_weights", "rows only")
def _(A, order):
    n = len(order)
    return torch.tensor([[float(A[order[i], j]) for j in range(n)] for i in range(n)])


wrong("reorder_weights", "columns only")(lambda A, order: A[:, order])
wrong("reorder_weights", "columns only")(lambda A, order: A.index_select(1, order))
wrong("reorder_weights", "columns only")(
    lambda A, order: torch.einsum("ij,kj->ik", A, permutation(order).to(A.dtype))
)


@wrong("reorder_weights", "inverse order")
def _(A, order):
    out = torch.zeros_like(A)
    for i, a in enumerate(order.tolist()):
        for j, b in enumerate(order.tolist()):
            out[a, b] = A[i, j]
    return out


@wrong("reorder_weights", "inverse order")
def _(A, order):
    p = permutation(order).to(A.dtype)
    return p.T @ A @ p


@wrong("reorder_weights", "inverse order")
def _(A, order):
    back = np.argsort(order.numpy())
    return torch.from_numpy(A.numpy()[np.ix_(back, back)].copy())


wrong("reorder_weights", "transposed")(lambda A, order: A[order][:, order].T)
wrong("reorder_weights", "transposed")(lambda A, order: A[order[None, :], order[:, None]])
wrong("reorder_weights", "transposed")(lambda A, order: A.T[order].T[order].T)

right("reorder_weights")(lambda A, order: A[order[:, None], order[None, :]])
right("reorder_weights")(lambda A, order: A[:, order][order])
right("reorder_weights")(lambda A, order: A.T[order].T[order])
right("reorder_weights")(
    lambda A, order: A.index_select(-1, order.long()).index_select(-2, order.long())
)


@right("reorder_weights")
def _(A, order):
    p = permutation(order).to(torch.float64)
    return (p @ A.double() @ p.T).to(A.dtype)


@right("reorder_weights")
def _(A, order):
    words = order.tolist()
    return torch.tensor([[A[a, b].item() for b in words] for a in words], dtype=A.dtype)


@right("reorder_weights")
def _(A, order):
    return torch.from_numpy(A.numpy()[np.ix_(order.numpy(), order.numpy())])


@right("reorder_weights")
def _(A, order):
    n = len(order)
    flat = (order[:, None] * n + order).flatten()
    return torch.gather(A.flatten(), 0, flat).view(n, n)


# 1.2  mean_over_words --------------------------------------------------------------------------

wrong("mean_over_words", "padding averaged in")(lambda Y, keep: Y.mean(1))
wrong("mean_over_words", "padding averaged in")(
    lambda Y, keep: torch.from_numpy(np.average(Y.numpy(), axis=1))
)
wrong("mean_over_words", "padding averaged in")(
    lambda Y, keep: torch.stack([sum(rows) / len(rows) for rows in Y])
)

wrong("mean_over_words", "divided by n")(lambda Y, keep: (Y * keep.unsqueeze(-1)).mean(1))
wrong("mean_over_words", "divided by n")(
    lambda Y, keep: torch.einsum("bnd,bn->bd", Y, keep.to(Y.dtype)) / keep.shape[1]
)


@wrong("mean_over_words", "divided by n")
def _(Y, keep):
    out = torch.zeros(Y.shape[0], Y.shape[2], dtype=Y.dtype)
    for b in range(Y.shape[0]):
        for t in range(Y.shape[1]):
            if keep[b, t]:
                out[b] += Y[b, t] / Y.shape[1]
    return out


wrong("mean_over_words", "sum, not mean")(lambda Y, keep: (Y * keep[..., None]).sum(1))
wrong("mean_over_words", "sum, not mean")(
    lambda Y, keep: torch.bmm(keep[:, None].to(Y.dtype), Y)[:, 0]
)
wrong("mean_over_words", "sum, not mean")(
    lambda Y, keep: torch.stack([y[k].sum(0) for y, k in zip(Y, keep, strict=True)])
)

wrong("mean_over_words", "mask inverted")(
    lambda Y, keep: Y.masked_fill(keep[..., None], 0).sum(1) / (~keep).sum(1, keepdim=True)
)
wrong("mean_over_words", "mask inverted")(
    lambda Y, keep: torch.stack([y[~k].mean(0) for y, k in zip(Y, keep, strict=True)])
)


@wrong("mean_over_words", "mask inverted")
def _(Y, keep):
    w = 1.0 - keep.to(Y.dtype)
    return torch.einsum("bn,bnd->bd", w / w.sum(1, keepdim=True).clamp(min=1), Y)


right("mean_over_words")(
    lambda Y, keep: torch.stack([y[k].mean(0) for y, k in zip(Y, keep, strict=True)])
)
right("mean_over_words")(lambda Y, keep: torch.where(keep[..., None], Y, torch.nan).nanmean(dim=1))
right("mean_over_words")(
    lambda Y, keep: (
        torch.zeros(keep.shape, dtype=Y.dtype).masked_fill(~keep, -math.inf).softmax(1)[:, None] @ Y
    ).squeeze(1)
)


@right("mean_over_words")
def _(Y, keep):
    result = []
    for sentence, words in zip(Y.tolist(), keep.tolist(), strict=True):
        rows = [row for row, word in zip(sentence, words, strict=True) if word]
        result.append([math.fsum(column) / len(rows) for column in zip(*rows, strict=True)])
    return torch.tensor(result, dtype=Y.dtype)


@right("mean_over_words")
def _(Y, keep):
    masked = np.ma.array(Y.numpy(), mask=np.broadcast_to(~keep.numpy()[..., None], Y.shape))
    return torch.from_numpy(masked.mean(axis=1).data)


@right("mean_over_words")
def _(Y, keep):
    Y = Y.clone().double()
    Y[~keep] = 0
    return (Y.sum(1) / keep.sum(1)[:, None]).float()


# 1.3  attention_by_hand ------------------------------------------------------------------------


def scalar_softmax(row):
    top = max(row)
    e = [math.exp(x - top) for x in row]
    return [x / sum(e) for x in e]


def scalar_attention(Q, K, V, scale):
    q, k, v = Q.tolist(), K.tolist(), V.tolist()
    out = []
    for a in q:
        w = scalar_softmax([scale * sum(x * y for x, y in zip(a, b, strict=True)) for b in k])
        out.append([sum(x * row[c] for x, row in zip(w, v, strict=True)) for c in range(len(v[0]))])
    return torch.tensor(out, dtype=V.dtype)


wrong("attention_by_hand", "no scale")(lambda Q, K, V: torch.softmax(Q @ K.T, -1) @ V)
wrong("attention_by_hand", "no scale")(lambda Q, K, V: scalar_attention(Q, K, V, 1.0))
wrong("attention_by_hand", "no scale")(
    lambda Q, K, V: F.scaled_dot_product_attention(Q[None], K[None], V[None], scale=1.0)[0]
)

wrong("attention_by_hand", "divided by d_k")(
    lambda Q, K, V: torch.softmax(Q @ K.T / Q.shape[-1], -1) @ V
)
wrong("attention_by_hand", "divided by d_k")(
    lambda Q, K, V: scalar_attention(Q, K, V, 1 / K.shape[1])
)


@wrong("attention_by_hand", "divided by d_k")
def _(Q, K, V):
    e = np.exp(np.einsum("ic,jc->ij", Q, K) * Q.shape[1] ** -1.0)
    return torch.from_numpy(np.einsum("ij,jc,i->ic", e, V, 1 / e.sum(1)))


wrong("attention_by_hand", "softmax down the queries")(
    lambda Q, K, V: torch.softmax(Q @ K.T / math.sqrt(Q.shape[-1]), dim=0) @ V
)


@wrong("attention_by_hand", "softmax down the queries")
def _(Q, K, V):
    e = torch.exp(torch.einsum("ic,jc->ij", Q, K) / Q.shape[1] ** 0.5)
    return (e / e.sum(0)) @ V


@wrong("attention_by_hand", "softmax down the queries")
def _(Q, K, V):
    s = (Q.numpy() @ K.numpy().T) * Q.shape[1] ** -0.5
    columns = [scalar_softmax(list(column)) for column in s.T]
    return torch.tensor(columns, dtype=V.dtype).T @ V


wrong("attention_by_hand", "scale from the values")(
    lambda Q, K, V: torch.softmax(Q @ K.T / math.sqrt(V.shape[-1]), -1) @ V
)
wrong("attention_by_hand", "scale from the values")(
    lambda Q, K, V: scalar_attention(Q, K, V, V.shape[1] ** -0.5)
)
wrong("attention_by_hand", "scale from the values")(
    lambda Q, K, V: F.scaled_dot_product_attention(
        Q[None], K[None], V[None], scale=V.size(1) ** -0.5
    )[0]
)

wrong("attention_by_hand", "scale after the softmax")(
    lambda Q, K, V: torch.softmax(Q @ K.T, -1) / math.sqrt(Q.shape[-1]) @ V
)
wrong("attention_by_hand", "scale after the softmax")(
    lambda Q, K, V: scalar_attention(Q, K, V, 1.0) / K.shape[1] ** 0.5
)


@wrong("attention_by_hand", "scale after the softmax")
def _(Q, K, V):
    e = np.exp((Q @ K.mT).numpy())
    return torch.from_numpy((e / e.sum(1, keepdims=True)) @ V.numpy() / np.sqrt(K.shape[1]))


@wrong("attention_by_hand", "arguments changed")
def _(Q, K, V):
    Q /= math.sqrt(Q.shape[-1])
    return torch.softmax(Q @ K.T, -1) @ V


@wrong("attention_by_hand", "arguments changed")
def _(Q, K, V):
    K.mul_(K.shape[1] ** -0.5)
    return torch.softmax(Q @ K.T, -1) @ V


@wrong("attention_by_hand", "arguments changed")
def _(Q, K, V):
    queries = Q.numpy()
    queries *= 1 / np.sqrt(Q.shape[1])
    return torch.softmax(torch.from_numpy(queries) @ K.T, -1) @ V


right("attention_by_hand")(lambda Q, K, V: scalar_attention(Q, K, V, Q.shape[1] ** -0.5))
right("attention_by_hand")(
    lambda Q, K, V: F.scaled_dot_product_attention(Q[None, None], K[None, None], V[None, None])[
        0, 0
    ]
)
right("attention_by_hand")(
    lambda Q, K, V: (V.T @ torch.softmax(K @ Q.T / Q.shape[1] ** 0.5, dim=0)).T
)


@right("attention_by_hand")
def _(Q, K, V):
    s = torch.einsum("ic,jc->ij", Q.double(), K.double()) / math.sqrt(K.size(1))
    return torch.einsum("ij,jc->ic", (s - s.logsumexp(1, keepdim=True)).exp(), V.double()).float()


@right("attention_by_hand")
def _(Q, K, V):
    fourth = Q.shape[1] ** -0.25
    e = ((Q * fourth) @ (K * fourth).mT).exp()
    return (e @ V) / (e @ torch.ones(len(V), 1, dtype=V.dtype))


# 1.4  causal_weights ---------------------------------------------------------------------------

wrong("causal_weights", "no mask")(lambda S: S.softmax(-1))
wrong("causal_weights", "no mask")(lambda S: torch.tensor([scalar_softmax(r) for r in S.tolist()]))
wrong("causal_weights", "no mask")(lambda S: S.exp() / S.exp().sum(1, keepdim=True))

wrong("causal_weights", "mask inverted")(
    lambda S: S.masked_fill(torch.ones_like(S).tril(-1).bool(), -math.inf).softmax(-1)
)


@wrong("causal_weights", "mask inverted")
def _(S):
    e = np.triu(np.exp(S.numpy()))
    return torch.from_numpy(e / e.sum(axis=1, keepdims=True))


@wrong("causal_weights", "mask inverted")
def _(S):
    rows = S.tolist()
    return torch.tensor([[0.0] * i + scalar_softmax(row[i:]) for i, row in enumerate(rows)])


wrong("causal_weights", "not itself")(
    lambda S: S.masked_fill(torch.ones_like(S).triu().bool(), -math.inf).softmax(-1)
)
wrong("causal_weights", "not itself")(
    lambda S: S.masked_fill(torch.ones_like(S).triu().bool(), -math.inf).softmax(-1).nan_to_num()
)


@wrong("causal_weights", "not itself")
def _(S):
    n = len(S)
    rows = [scalar_softmax(r[:i]) + [0.0] * (n - i) for i, r in enumerate(S.tolist()) if i]
    return torch.tensor([[0.0] * n, *rows])


wrong("causal_weights", "one word ahead")(
    lambda S: S.masked_fill(torch.ones_like(S).triu(2).bool(), -math.inf).softmax(-1)
)


@wrong("causal_weights", "one word ahead")
def _(S):
    e = np.tril(np.exp(S.numpy()), 1)
    return torch.from_numpy(e / e.sum(axis=1, keepdims=True))


@wrong("causal_weights", "one word ahead")
def _(S):
    out, n = torch.zeros_like(S), len(S)
    for i in range(n):
        out[i, : i + 2] = torch.softmax(S[i, : i + 2], 0)
    return out


wrong("causal_weights", "zeroed after the softmax")(lambda S: S.softmax(-1).tril())
wrong("causal_weights", "zeroed after the softmax")(
    lambda S: S.softmax(-1) * (torch.arange(len(S))[:, None] >= torch.arange(len(S)))
)


@wrong("causal_weights", "zeroed after the softmax")
def _(S):
    rows = [scalar_softmax(row) for row in S.tolist()]
    return torch.tensor(
        [[x if j <= i else 0.0 for j, x in enumerate(r)] for i, r in enumerate(rows)]
    )


wrong("causal_weights", "zero for minus infinity")(lambda S: S.tril().softmax(-1))
wrong("causal_weights", "zero for minus infinity")(
    lambda S: torch.softmax(S * torch.ones_like(S).tril(), 1)
)


@wrong("causal_weights", "zero for minus infinity")
def _(S):
    e = np.exp(np.tril(S.numpy()))
    return torch.from_numpy(e / e.sum(1)[:, None])


wrong("causal_weights", "softmax down the queries")(
    lambda S: S.masked_fill(torch.ones_like(S).triu(1).bool(), -math.inf).softmax(0)
)


@wrong("causal_weights", "softmax down the queries")
def _(S):
    e = np.tril(np.exp(S.numpy()))
    return torch.from_numpy(e / e.sum(axis=0))


@wrong("causal_weights", "softmax down the queries")
def _(S):
    columns, n = S.T.tolist(), len(S)
    padded = [[0.0] * j + scalar_softmax(columns[j][j:]) for j in range(n)]
    return torch.tensor(padded).T


right("causal_weights")(lambda S: (S + torch.full_like(S, -math.inf).triu(1)).softmax(-1))
right("causal_weights")(
    lambda S: torch.where(torch.ones_like(S).tril() > 0, S, torch.finfo(S.dtype).min).softmax(1)
)


@right("causal_weights")
def _(S):
    n = len(S)
    rows = [scalar_softmax(r[: i + 1]) + [0.0] * (n - 1 - i) for i, r in enumerate(S.tolist())]
    return torch.tensor(rows, dtype=S.dtype)


@right("causal_weights")
def _(S):
    full = S.double().softmax(-1).tril()
    return (full / full.sum(-1, keepdim=True)).to(S.dtype)


@right("causal_weights")
def _(S):
    S = S.clone()
    i, j = torch.triu_indices(len(S), len(S), 1)
    S[i, j] = -1e9
    return S.softmax(-1)


@right("causal_weights")
def _(S):
    e = np.tril(np.exp(S.numpy() - S.numpy().max(1, keepdims=True)))
    return torch.from_numpy(e / e.sum(1, keepdims=True))


@right("causal_weights")
def _(S):
    rows = [F.pad(S[i, : i + 1].softmax(0), (0, len(S) - i - 1)) for i in range(len(S))]
    return torch.stack(rows)


# 2.2  look_up ----------------------------------------------------------------------------------

wrong("look_up", "negative wraps")(lambda table, positions: table[positions])


@wrong("look_up", "negative wraps")
def _(table, positions):
    if (positions >= len(table)).any():
        raise IndexError("past the end")
    return torch.from_numpy(table.numpy()[positions.numpy()])


@wrong("look_up", "negative wraps")
def _(table, positions):
    rows = [table[p] for p in positions.flatten().tolist()]
    return torch.stack(rows).reshape(*positions.shape, -1)


wrong("look_up", "clamped")(lambda table, positions: table[positions.clamp(0, len(table) - 1)])
wrong("look_up", "clamped")(
    lambda table, positions: torch.from_numpy(
        np.take(table.numpy(), positions.numpy(), axis=0, mode="clip")
    )
)


@wrong("look_up", "clamped")
def _(table, positions):
    last = len(table) - 1
    rows = [table[min(max(p, 0), last)] for p in positions.flatten().tolist()]
    return torch.stack(rows).view(*positions.shape, table.shape[1])


wrong("look_up", "modulo")(lambda table, positions: table[positions % len(table)])
wrong("look_up", "modulo")(
    lambda table, positions: torch.from_numpy(
        np.take(table.numpy(), positions.numpy(), axis=0, mode="wrap")
    )
)
wrong("look_up", "modulo")(
    lambda table, positions: (
        F.one_hot(positions.remainder(len(table)), len(table)).to(table.dtype) @ table
    )
)


@wrong("look_up", "last row refused")
def _(table, positions):
    if positions.min() < 0 or positions.max() >= len(table) - 1:
        raise IndexError("no such row")
    return table[positions]


@wrong("look_up", "last row refused")
def _(table, positions):
    known = set(range(len(table) - 1))
    if not set(positions.flatten().tolist()) <= known:
        raise IndexError("no such row")
    return table[positions]


@wrong("look_up", "last row refused")
def _(table, positions):
    return F.embedding(torch.where(positions == len(table) - 1, len(table), positions), table)


@wrong("look_up", "another exception")
def _(table, positions):
    if ((positions < 0) | (positions >= len(table))).any():
        raise ValueError("no row for this position")
    return table[positions]


@wrong("look_up", "another exception")
def _(table, positions):
    assert positions.min() >= 0 and positions.max() < len(table)
    return table[positions]


@wrong("look_up", "another exception")
def _(table, positions):
    rows = dict(enumerate(table))
    found = [rows[p] for p in positions.flatten().tolist()]  # a KeyError
    return torch.stack(found).view(*positions.shape, -1)


right("look_up")(lambda table, positions: F.embedding(positions, table))


@right("look_up")
def _(table, positions):
    if bool((positions < 0).any()) or bool((positions > len(table) - 1).any()):
        raise IndexError
    flat = torch.index_select(table, 0, positions.flatten())
    return flat.unflatten(0, positions.shape)


@right("look_up")
def _(table, positions):
    known = dict(enumerate(table.tolist()))

    def rows(p):
        if isinstance(p, list):
            return [rows(q) for q in p]
        if p not in known:
            raise IndexError(p)
        return known[p]

    return torch.tensor(rows(positions.tolist()), dtype=table.dtype)


@right("look_up")
def _(table, positions):
    outside_at_the_end = np.where(positions < 0, len(table), positions)
    return torch.from_numpy(np.take(table.numpy(), outside_at_the_end, 0))


@right("look_up")
def _(table, positions):
    same = positions[..., None] == torch.arange(len(table))
    if not same.any(-1).all():
        raise IndexError("not in the table")
    return same.to(table.dtype) @ table


# 2.3  table_gradient ---------------------------------------------------------------------------


@wrong("table_gradient", "last token wins")
def _(G, positions, rows):
    out = torch.zeros(rows, G.shape[1], dtype=G.dtype)
    for t, p in enumerate(positions.tolist()):
        out[p] = G[t]
    return out


@wrong("table_gradient", "last token wins")
def _(G, positions, rows):
    out = G.new_zeros(rows, G.size(1))
    out[positions] += G
    return out


@wrong("table_gradient", "last token wins")
def _(G, positions, rows):
    latest = dict(zip(positions.tolist(), G.tolist(), strict=True))
    zero = [0.0] * G.shape[1]
    return torch.tensor([latest.get(i, zero) for i in range(rows)], dtype=G.dtype)


@wrong("table_gradient", "mean, not sum")
def _(G, positions, rows):
    E = F.one_hot(positions, rows).to(G.dtype)
    return (E.T @ G) / E.sum(0)[:, None].clamp(min=1)


@wrong("table_gradient", "mean, not sum")
def _(G, positions, rows):
    out = torch.zeros(rows, G.shape[1], dtype=G.dtype)
    for p in set(positions.tolist()):
        out[p] = G[positions == p].mean(0)
    return out


@wrong("table_gradient", "mean, not sum")
def _(G, positions, rows):
    index = positions[:, None].expand_as(G)
    zeros = G.new_zeros(rows, G.shape[1])
    return zeros.scatter_reduce(0, index, G, "mean", include_self=False)


wrong("table_gradient", "token for position")(
    lambda G, positions, rows: F.pad(G, (0, 0, 0, rows))[:rows]
)


@wrong("table_gradient", "token for position")
def _(G, positions, rows):
    out = torch.zeros(rows, G.shape[1], dtype=G.dtype)
    for t in range(min(rows, len(G))):
        out[t] += G[t]
    return out


@wrong("table_gradient", "token for position")
def _(G, positions, rows):
    return torch.eye(rows, len(G), dtype=G.dtype) @ G


wrong("table_gradient", "only as many rows as were used")(
    lambda G, positions, rows: F.one_hot(positions).to(G.dtype).T @ G
)


@wrong("table_gradient", "only as many rows as were used")
def _(G, positions, rows):
    used = sorted(set(positions.tolist()))
    return torch.stack([G[positions == p].sum(0) for p in used])


@wrong("table_gradient", "only as many rows as were used")
def _(G, positions, rows):
    out = np.zeros((int(positions.max()) + 1, G.shape[1]), dtype=np.float32)
    np.add.at(out, positions.numpy(), G.numpy())
    return torch.from_numpy(out)


right("table_gradient")(
    lambda G, positions, rows: torch.einsum("tr,td->rd", F.one_hot(positions, rows).to(G.dtype), G)
)
right("table_gradient")(
    lambda G, positions, rows: G.new_zeros(rows, G.shape[1]).index_put(
        (positions,), G, accumulate=True
    )
)
right("table_gradient")(
    lambda G, positions, rows: torch.stack([G[positions == r].sum(0) for r in range(rows)])
)


@right("table_gradient")
def _(G, positions, rows):
    out = np.zeros((rows, G.shape[1]))
    np.add.at(out, positions.numpy(), G.double().numpy())
    return torch.from_numpy(out).to(G.dtype)


@right("table_gradient")
def _(G, positions, rows):
    out = [[0.0] * G.shape[1] for _ in range(rows)]
    for p, g in zip(positions.tolist(), G.tolist(), strict=True):
        out[p] = [a + b for a, b in zip(out[p], g, strict=True)]
    return torch.tensor(out)


@right("table_gradient")
def _(G, positions, rows):
    index = positions.unsqueeze(1).expand(-1, G.shape[1])
    return torch.zeros(rows, G.shape[1], dtype=G.dtype).scatter_add_(0, index, G)


@right("table_gradient")
def _(G, positions, rows):
    columns = [np.bincount(positions.numpy(), g, rows) for g in G.T.double().numpy()]
    return torch.from_numpy(np.stack(columns, axis=-1)).to(G.dtype)


# 2.5  resize_table -----------------------------------------------------------------------------


def read_at(table, places):
    """Rows of the table between its rows, by hand."""
    last, out = len(table) - 1, []
    for x in places:
        x = min(max(x, 0.0), float(last))
        low = min(int(math.floor(x)), last - 1)
        out.append(table[low] * (1 - (x - low)) + table[low + 1] * (x - low))
    return torch.stack(out).to(table.dtype)


def interpolated(table, rows, **how):
    return F.interpolate(table.T[None], size=rows, **how)[0].T


wrong("resize_table", "corners not aligned")(
    lambda table, rows: interpolated(table, rows, mode="linear")
)
wrong("resize_table", "corners not aligned")(
    lambda table, rows: read_at(table, [(i + 0.5) * len(table) / rows - 0.5 for i in range(rows)])
)


@wrong("resize_table", "corners not aligned")
def _(table, rows):
    n = len(table)
    x = np.clip((np.arange(rows) + 0.5) * n / rows - 0.5, 0, n - 1)
    columns = [np.interp(x, np.arange(n), column) for column in table.T.numpy()]
    return torch.tensor(np.stack(columns, 1), dtype=table.dtype)


wrong("resize_table", "L / rows for the step")(
    lambda table, rows: read_at(table, [i * len(table) / rows for i in range(rows)])
)


@wrong("resize_table", "L / rows for the step")
def _(table, rows):
    x = torch.arange(rows) * (len(table) / rows)
    low = x.floor().long().clamp(max=len(table) - 1)
    high = (low + 1).clamp(max=len(table) - 1)
    return torch.lerp(table[low], table[high], (x - low).to(table.dtype)[:, None])


@wrong("resize_table", "L / rows for the step")
def _(table, rows):
    x = np.linspace(0, len(table), rows, endpoint=False)
    columns = [np.interp(x, range(len(table)), column) for column in table.T.numpy()]
    return torch.tensor(np.array(columns).T, dtype=table.dtype)


wrong("resize_table", "nearest row")(lambda table, rows: interpolated(table, rows, mode="nearest"))
wrong("resize_table", "nearest row")(
    lambda table, rows: table[[i * len(table) // rows for i in range(rows)]]
)
wrong("resize_table", "nearest row")(
    lambda table, rows: table[torch.linspace(0, len(table) - 1, rows).round().long()]
)

wrong("resize_table", "tiled")(lambda table, rows: table[torch.arange(rows) % len(table)])
wrong("resize_table", "tiled")(
    lambda table, rows: table.repeat(math.ceil(rows / len(table)), 1)[:rows]
)
wrong("resize_table", "tiled")(
    lambda table, rows: torch.from_numpy(np.resize(table.numpy(), (rows, table.shape[1])))
)

wrong("resize_table", "always float32")(
    lambda table, rows: interpolated(table.float(), rows, mode="linear", align_corners=True)
)


@wrong("resize_table", "always float32")
def _(table, rows):
    out, steps = torch.zeros(rows, table.shape[1]), len(table) - 1
    for i in range(rows):
        out[i] = read_at(table, [i * steps / (rows - 1)])[0]
    return out


@wrong("resize_table", "always float32")
def _(table, rows):
    x = np.linspace(0, len(table) - 1, rows)
    columns = [np.interp(x, range(len(table)), c).tolist() for c in table.T.numpy()]
    return torch.tensor(columns).T


right("resize_table")(
    lambda table, rows: interpolated(table, rows, mode="linear", align_corners=True)
)
right("resize_table")(
    lambda table, rows: read_at(table, [i * (len(table) - 1) / (rows - 1) for i in range(rows)])
)
right("resize_table")(
    lambda table, rows: F.interpolate(
        table.double()[None, None], (rows, table.shape[1]), mode="bilinear", align_corners=True
    )[0, 0].to(table.dtype)
)


@right("resize_table")
def _(table, rows):
    x = np.linspace(0, len(table) - 1, rows)
    columns = [np.interp(x, range(len(table)), c) for c in table.T.double().numpy()]
    return torch.tensor(np.array(columns).T, dtype=table.dtype)


@right("resize_table")
def _(table, rows):
    x = torch.linspace(0, len(table) - 1, rows, dtype=torch.float64)
    hats = (1 - (x[:, None] - torch.arange(len(table))).abs()).clamp(min=0)
    return (hats @ table.double()).to(table.dtype)


@right("resize_table")
def _(table, rows):
    out = []
    for i in range(rows):
        low, part = divmod(i * (len(table) - 1), rows - 1)
        a = table[low].double()
        out.append(a if not part else a + part / (rows - 1) * (table[low + 1].double() - a))
    return torch.stack(out).to(table.dtype)


# 3.1  sinusoid_table ---------------------------------------------------------------------------


def side_by_side(angles, first=np.sin, second=np.cos):
    """(n, d/2) angles in NumPy to a float32 table."""
    pairs = np.stack([first(angles), second(angles)], axis=-1)
    return torch.tensor(pairs.reshape(len(angles), -1), dtype=torch.float32)


def by_entry(n, d, entry):
    return torch.tensor([[entry(p, c) for c in range(d)] for p in range(n)])


wrong("sinusoid_table", "exponent doubled")(
    lambda n, d: by_entry(
        n, d, lambda p, c: (math.cos if c % 2 else math.sin)(p / 1e4 ** (2 * (c - c % 2) / d))
    )
)
wrong("sinusoid_table", "exponent doubled")(
    lambda n, d: side_by_side(
        np.arange(n)[:, None] * np.power(1e4, -2.0 * np.arange(0, d, 2) / d)[None]
    )
)


@wrong("sinusoid_table", "exponent doubled")
def _(n, d):
    w = torch.exp(torch.arange(0, d, 2) * -(2 * math.log(10000.0) / d)).double()
    z = torch.polar(torch.ones(n, d // 2).double(), torch.outer(torch.arange(n).double(), w))
    return torch.view_as_real(z).flip(-1).flatten(1).float()


wrong("sinusoid_table", "cosine with an exponent of its own")(
    lambda n, d: by_entry(n, d, lambda p, c: (math.cos if c % 2 else math.sin)(p / 1e4 ** (c / d)))
)


@wrong("sinusoid_table", "cosine with an exponent of its own")
def _(n, d):
    angles = np.arange(n)[:, None] / 1e4 ** (np.arange(d) / d)
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return torch.from_numpy(angles).float()


@wrong("sinusoid_table", "cosine with an exponent of its own")
def _(n, d):
    def entry(p, c):
        turn = cmath.exp(1j * p * 10000 ** (-c / d))
        return turn.real if c % 2 else turn.imag

    return by_entry(n, d, entry)


wrong("sinusoid_table", "sine and cosine swapped")(
    lambda n, d: by_entry(
        n, d, lambda p, c: (math.sin if c % 2 else math.cos)(p / 1e4 ** ((c - c % 2) / d))
    )
)
wrong("sinusoid_table", "sine and cosine swapped")(
    lambda n, d: side_by_side(
        np.outer(np.arange(n), 1e4 ** (-np.arange(0, d, 2) / d)), np.cos, np.sin
    )
)


@wrong("sinusoid_table", "sine and cosine swapped")
def _(n, d):
    w = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    z = torch.exp(1j * torch.arange(n)[:, None] * w)
    return torch.view_as_real(z).flatten(1).float()


@wrong("sinusoid_table", "halves")
def _(n, d):
    w = 10000.0 ** (-torch.arange(0, d, 2).double() / d)
    a = torch.arange(n)[:, None] * w
    return torch.cat([a.sin(), a.cos()], dim=-1).float()


wrong("sinusoid_table", "halves")(
    lambda n, d: by_entry(
        n,
        d,
        lambda p, c: (math.cos if c >= d // 2 else math.sin)(p * 1e4 ** (-2 * (c % (d // 2)) / d)),
    )
)


@wrong("sinusoid_table", "halves")
def _(n, d):
    z = np.exp(1j * np.outer(np.arange(n), 1e4 ** -(np.arange(d // 2) / (d // 2))))
    return torch.from_numpy(np.hstack([z.imag, z.real])).float()


wrong("sinusoid_table", "d for d/2")(
    lambda n, d: by_entry(
        n, d, lambda p, c: (math.cos if c % 2 else math.sin)(p / 1e4 ** ((c // 2) / d))
    )
)
wrong("sinusoid_table", "d for d/2")(
    lambda n, d: side_by_side(np.outer(np.arange(n), 1e4 ** (-np.arange(d // 2) / d)))
)


@wrong("sinusoid_table", "d for d/2")
def _(n, d):
    out = torch.zeros(n, d)
    w = torch.exp(-math.log(10000) * torch.arange(d // 2, dtype=torch.float64) / d)
    out[:, ::2] = torch.sin(torch.arange(n)[:, None] * w)
    out[:, 1::2] = torch.cos(torch.arange(n)[:, None] * w)
    return out


# `-log(b) / d // 2` is taken from the left, and rounded down
wrong("sinusoid_table", "precedence")(
    lambda n, d: by_entry(
        n,
        d,
        lambda p, c: (math.cos if c % 2 else math.sin)(
            p * math.exp((c - c % 2) * (-math.log(10000.0) / d // 2))
        ),
    )
)
wrong("sinusoid_table", "precedence")(
    lambda n, d: side_by_side(
        np.arange(n)[:, None] * np.exp(np.arange(0, d, 2) * (-np.log(1e4) / d // 2))
    )
)


@wrong("sinusoid_table", "precedence")
def _(n, d):
    w = torch.exp(torch.arange(0, d, 2).double() * (-math.log(10000.0) / d // 2))
    a = torch.einsum("i,j->ij", torch.arange(n).double(), w)
    return torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()


wrong("sinusoid_table", "base 1000")(
    lambda n, d: by_entry(
        n, d, lambda p, c: (math.cos if c % 2 else math.sin)(p / 1000 ** ((c - c % 2) / d))
    )
)
wrong("sinusoid_table", "base 1000")(
    lambda n, d: side_by_side(np.outer(np.arange(n), 1e3 ** (-np.arange(0, d, 2) / d)))
)


@wrong("sinusoid_table", "base 1000")
def _(n, d):
    w = torch.exp(torch.arange(0, d, 2).double() * -(math.log(1000.0) / d))
    a = torch.arange(n).double().unsqueeze(1) * w
    return torch.stack((a.sin(), a.cos()), -1).view(n, d).float()


wrong("sinusoid_table", "positions from 1")(
    lambda n, d: by_entry(
        n, d, lambda p, c: (math.cos if c % 2 else math.sin)((p + 1) / 1e4 ** ((c - c % 2) / d))
    )
)
wrong("sinusoid_table", "positions from 1")(
    lambda n, d: side_by_side(np.outer(np.arange(1, n + 1), 1e4 ** (-np.arange(0, d, 2) / d)))
)


@wrong("sinusoid_table", "positions from 1")
def _(n, d):
    w = torch.logspace(0, -4 * (d - 2) / d, d // 2, dtype=torch.float64)
    a = torch.cumsum(w.expand(n, -1), 0)
    return torch.stack((a.sin(), a.cos()), -1).flatten(1).float()


@wrong("sinusoid_table", "half precision")
def _(n, d):
    w = (10000 ** (-torch.arange(0, d, 2) / d)).half()
    a = torch.arange(n).half()[:, None] * w
    return torch.stack((a.sin(), a.cos()), -1).flatten(1).float()


wrong("sinusoid_table", "half precision")(
    lambda n, d: side_by_side(
        np.outer(np.arange(n), 1e4 ** (-np.arange(0, d, 2) / d)).astype(np.float16)
    ).float()
)


@wrong("sinusoid_table", "half precision")
def _(n, d):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        w = 10000 ** (-torch.arange(0, d, 2) / d)
        a = torch.arange(n).float()[:, None] @ w[None]
    return torch.stack((a.float().sin(), a.float().cos()), -1).flatten(1)


@right("sinusoid_table")
def _(n, d):  # a step is one rotation, repeated
    w = np.exp(1j * 1e4 ** (-np.arange(0, d, 2) / d))
    rows = [np.ones(d // 2, dtype=complex)]
    for _ in range(n - 1):
        rows.append(rows[-1] * w)
    z = np.array(rows)
    return torch.tensor(np.stack([z.imag, z.real], -1).reshape(n, d), dtype=torch.float32)


@right("sinusoid_table")
def _(n, d):  # angle addition, by doubling
    w = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    sin, cos = torch.zeros(1, d // 2).double(), torch.ones(1, d // 2).double()
    while len(sin) < n:
        s, c = torch.sin(len(sin) * w), torch.cos(len(sin) * w)
        sin, cos = torch.cat([sin, sin * c + cos * s]), torch.cat([cos, cos * c - sin * s])
    return torch.stack([sin[:n], cos[:n]], -1).flatten(1).float()


@right("sinusoid_table")
def _(n, d):
    w = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    z = torch.polar(torch.ones(n, d // 2).double(), torch.arange(n)[:, None] * w)
    return torch.view_as_real(z).flip(-1).reshape(n, d).float()


right("sinusoid_table")(
    lambda n, d: by_entry(
        n, d, lambda p, c: math.sin(p / 1e4 ** ((c - c % 2) / d) + c % 2 * math.pi / 2)
    )
)


@right("sinusoid_table")
def _(n, d):
    angles = torch.arange(n).double()[:, None] / 1e4 ** (torch.arange(d).div(2).floor() * 2 / d)
    return torch.where(torch.arange(d) % 2 == 0, angles.sin(), angles.cos()).float()


@right("sinusoid_table")
def _(n, d):
    out = np.empty((d, n), dtype=np.float32)
    for i in range(d // 2):
        out[2 * i] = np.sin(np.arange(n) / 10000 ** (2 * i / d))
        out[2 * i + 1] = np.cos(np.arange(n) / 10000 ** (2 * i / d))
    return torch.from_numpy(out).T


@right("sinusoid_table")
def _(n, d):  # all in float32, as most code has it
    w = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
    pe = torch.zeros(n, d)
    pe[:, 0::2] = torch.sin(torch.arange(n).unsqueeze(1) * w)
    pe[:, 1::2] = torch.cos(torch.arange(n).unsqueeze(1) * w)
    return pe


# 3.3  move_by ----------------------------------------------------------------------------------


def blocks(k, d, frequencies, sign=1.0):
    out = torch.zeros(d, d, dtype=torch.float64)
    for i, w in enumerate(frequencies):
        c, s = math.cos(k * w), math.sin(k * w) * sign
        out[2 * i, 2 * i], out[2 * i, 2 * i + 1] = c, s
        out[2 * i + 1, 2 * i], out[2 * i + 1, 2 * i + 1] = -s, c
    return out


def usual(d):
    return [1e4 ** (-2 * i / d) for i in range(d // 2)]


wrong("move_by", "transposed")(lambda k, d: blocks(k, d, usual(d), sign=-1.0))


@wrong("move_by", "transposed")
def _(k, d):
    a = k * 10000.0 ** (-torch.arange(0, d, 2).double() / d)
    R = torch.stack([torch.stack([a.cos(), -a.sin()], -1), torch.stack([a.sin(), a.cos()], -1)], 1)
    return torch.block_diag(*R)


@wrong("move_by", "transposed")
def _(k, d):
    skew = np.zeros((d, d))
    for i, w in enumerate(usual(d)):
        skew[2 * i, 2 * i + 1], skew[2 * i + 1, 2 * i] = -w, w
    return torch.matrix_exp(torch.from_numpy(skew) * k)


wrong("move_by", "exponent doubled")(
    lambda k, d: blocks(k, d, [10000 ** (-2 * i / d) for i in range(0, d, 2)])
)


@wrong("move_by", "exponent doubled")
def _(k, d):
    turn = np.exp(1j * k * 1e4 ** (-4 * np.arange(d // 2) / d))
    return torch.block_diag(
        *[torch.tensor([[z.real, z.imag], [-z.imag, z.real]]) for z in turn.tolist()]
    )


@wrong("move_by", "exponent doubled")
def _(k, d):
    a = torch.arange(0, d, 2).double().mul(-2 * math.log(1e4) / d).exp() * k
    M = torch.diag(a.cos().repeat_interleave(2))
    even = torch.arange(0, d, 2)
    M[even, even + 1], M[even + 1, even] = a.sin(), -a.sin()
    return M


@wrong("move_by", "halves")
def _(k, d):
    a = k * 10000.0 ** (-torch.arange(0, d, 2).double() / d)
    C, S = torch.diag(a.cos()), torch.diag(a.sin())
    return torch.cat([torch.cat([C, S], 1), torch.cat([-S, C], 1)])


@wrong("move_by", "halves")
def _(k, d):
    h, M = d // 2, np.zeros((d, d))
    for i, w in enumerate(usual(d)):
        z = cmath.exp(1j * k * w)
        M[i, i] = M[h + i, h + i] = z.real
        M[i, h + i], M[h + i, i] = z.imag, -z.imag
    return torch.from_numpy(M)


@wrong("move_by", "halves")
def _(k, d):
    a = torch.tensor(usual(d), dtype=torch.float64) * k
    J = torch.tensor([[0.0, 1.0], [-1.0, 0.0]]).double()
    return torch.kron(torch.eye(2).double(), a.cos().diag()) + torch.kron(J, a.sin().diag())


wrong("move_by", "d for d/2")(lambda k, d: blocks(k, d, [1e4 ** (-i / d) for i in range(d // 2)]))


@wrong("move_by", "d for d/2")
def _(k, d):
    turn = np.exp(1j * k * np.power(1e4, -np.arange(d // 2) / d))
    return torch.block_diag(
        *[torch.tensor([[z.real, z.imag], [-z.imag, z.real]]) for z in turn.tolist()]
    )


@wrong("move_by", "d for d/2")
def _(k, d):
    a = torch.exp(-torch.arange(d // 2).double() * math.log(1e4) / d) * k
    M = torch.diag(a.cos().repeat_interleave(2))
    even = torch.arange(0, d, 2)
    M[even, even + 1], M[even + 1, even] = a.sin(), -a.sin()
    return M


right("move_by")(lambda k, d: blocks(k, d, usual(d)))
right("move_by")(lambda k, d: blocks(-k, d, usual(d)).T)
right("move_by")(lambda k, d: torch.linalg.matrix_power(blocks(1, d, usual(d)), k))


@right("move_by")
def _(k, d):
    skew = torch.zeros(d, d, dtype=torch.float64)
    for i, w in enumerate(usual(d)):
        skew[2 * i, 2 * i + 1], skew[2 * i + 1, 2 * i] = w, -w
    return torch.matrix_exp(k * skew)


@right("move_by")
def _(k, d):
    one = blocks(1 if k > 0 else -1, d, usual(d))
    return reduce(torch.matmul, [one] * abs(k), torch.eye(d, dtype=torch.float64))


@right("move_by")
def _(k, d):
    turns = [cmath.rect(1, k * w) for w in usual(d)]
    parts = [torch.tensor([[z.real, z.imag], [-z.imag, z.real]]) for z in turns]
    return torch.block_diag(*parts).float()


@right("move_by")
def _(k, d):  # solved from positions that are known
    p = torch.arange(0, 3 * d).double()
    w = torch.tensor(usual(d)).double()
    M = torch.zeros(d, d).double()
    for i in range(d // 2):
        old = torch.stack([(p * w[i]).sin(), (p * w[i]).cos()], 1)
        new = torch.stack([((p + k) * w[i]).sin(), ((p + k) * w[i]).cos()], 1)
        M[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.linalg.lstsq(old, new).solution.T
    return M.float()


# 3.4  encode_steps -----------------------------------------------------------------------------


def pairs_of(angles, dtype):
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).to(dtype)


@wrong("encode_steps", "all in the small dtype")
def _(steps, d, dtype):
    w = (10000 ** (-torch.arange(0, d, 2) / d)).to(dtype)
    return pairs_of(steps.to(dtype)[:, None] * w, dtype)


@wrong("encode_steps", "all in the small dtype")
def _(steps, d, dtype):
    steps = steps.to(dtype)
    out = torch.empty(len(steps), d, dtype=dtype)
    for i in range(d // 2):
        angle = steps * torch.tensor(1e4 ** (-2 * i / d), dtype=dtype)
        out[:, 2 * i], out[:, 2 * i + 1] = angle.sin(), angle.cos()
    return out


@wrong("encode_steps", "all in the small dtype")
def _(steps, d, dtype):
    w = torch.exp(torch.arange(0, d, 2) * (-math.log(1e4) / d))
    return pairs_of(torch.einsum("i,j->ij", steps.to(dtype), w.to(dtype)), dtype)


wrong("encode_steps", "steps rounded first")(
    lambda steps, d, dtype: pairs_of(
        steps.to(dtype).float()[:, None] * 10000 ** (-torch.arange(0, d, 2) / d), dtype
    )
)


@wrong("encode_steps", "steps rounded first")
def _(steps, d, dtype):
    rows = [
        [f(t / 1e4 ** (2 * i / d)) for i in range(d // 2) for f in (math.sin, math.cos)]
        for t in steps.to(dtype).tolist()
    ]
    return torch.tensor(rows).to(dtype)


@wrong("encode_steps", "steps rounded first")
def _(steps, d, dtype):
    a = np.outer(steps.to(dtype).double().numpy(), 1e4 ** (-np.arange(0, d, 2) / d))
    return side_by_side(a).to(dtype)


wrong("encode_steps", "angles rounded")(
    lambda steps, d, dtype: pairs_of(
        (steps[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)).to(dtype), dtype
    )
)


@wrong("encode_steps", "angles rounded")
def _(steps, d, dtype):
    a = torch.outer(steps.double(), torch.tensor(usual(d)).double()).to(dtype).double()
    return torch.view_as_real(torch.polar(torch.ones_like(a), a)).flip(-1).flatten(1).to(dtype)


@wrong("encode_steps", "angles rounded")
def _(steps, d, dtype):
    def rounded(x):
        return torch.tensor(x).to(dtype).item()

    rows = [
        [f(rounded(t * w)) for w in usual(d) for f in (math.sin, math.cos)] for t in steps.tolist()
    ]
    return torch.tensor(rows).to(dtype)


wrong("encode_steps", "frequencies rounded")(
    lambda steps, d, dtype: pairs_of(
        steps[:, None] * (10000 ** (-torch.arange(0, d, 2) / d)).to(dtype).float(), dtype
    )
)


@wrong("encode_steps", "frequencies rounded")
def _(steps, d, dtype):
    w = torch.tensor(usual(d), dtype=dtype).double().numpy()
    return side_by_side(np.outer(steps.double().numpy(), w)).to(dtype)


@wrong("encode_steps", "frequencies rounded")
def _(steps, d, dtype):
    ws = [torch.tensor(w).to(dtype).item() for w in usual(d)]
    rows = [[f(t * w) for w in ws for f in (math.sin, math.cos)] for t in steps.tolist()]
    return torch.tensor(rows).to(dtype)


wrong("encode_steps", "whole steps only")(
    lambda steps, d, dtype: pairs_of(
        steps.long()[:, None] * 10000 ** (-torch.arange(0, d, 2) / d), dtype
    )
)
wrong("encode_steps", "whole steps only")(
    lambda steps, d, dtype: side_by_side(
        np.outer([int(t) for t in steps], 1e4 ** (-np.arange(0, d, 2) / d))
    ).to(dtype)
)


@wrong("encode_steps", "whole steps only")
def _(steps, d, dtype):
    last = int(steps.max()) + 1
    table = pairs_of(torch.arange(last)[:, None] * torch.tensor(usual(d)), dtype)
    return table[steps.int()]


right("encode_steps")(
    lambda steps, d, dtype: pairs_of(
        steps.double()[:, None] * 10000.0 ** (-torch.arange(0, d, 2).double() / d), dtype
    )
)
right("encode_steps")(
    lambda steps, d, dtype: pairs_of(
        steps[:, None] * torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d)), dtype
    )
)


@right("encode_steps")
def _(steps, d, dtype):
    rows = [
        [f(t / 1e4 ** (2 * i / d)) for i in range(d // 2) for f in (math.sin, math.cos)]
        for t in steps.tolist()
    ]
    return torch.tensor(rows, dtype=torch.float64).to(dtype)


@right("encode_steps")
def _(steps, d, dtype):
    a = torch.outer(steps.double(), torch.tensor(usual(d), dtype=torch.float64))
    return torch.view_as_real(torch.exp(1j * a)).flip(-1).flatten(1).to(dtype)


@right("encode_steps")
def _(steps, d, dtype):
    out = torch.empty(len(steps), d, dtype=dtype)
    for i, w in enumerate(usual(d)):
        out[:, 2 * i] = (steps.double() * w).sin()
        out[:, 2 * i + 1] = (steps.double() * w).cos()
    return out


# 4.1  token_positions --------------------------------------------------------------------------

wrong("token_positions", "padding counted")(
    lambda mask: torch.arange(mask.shape[1]).expand(mask.shape)
)
wrong("token_positions", "padding counted")(
    lambda mask: torch.tensor([[t for t, _ in enumerate(row)] for row in mask.tolist()])
)
wrong("token_positions", "padding counted")(lambda mask: torch.ones_like(mask).cumsum(1) - 1)

wrong("token_positions", "from 1")(lambda mask: mask.cumsum(1))
wrong("token_positions", "from 1")(lambda mask: mask.cumsum(1) * mask)


@wrong("token_positions", "from 1")
def _(mask):
    out = torch.zeros_like(mask)
    for b, row in enumerate(mask.tolist()):
        count = 0
        for t, real in enumerate(row):
            count += real
            out[b, t] = count if real else 0
    return out


wrong("token_positions", "padding at -1")(lambda mask: mask.cumsum(-1) - 1)
wrong("token_positions", "padding at -1")(
    lambda mask: torch.from_numpy(np.cumsum(mask.numpy(), axis=1) - 1)
)
wrong("token_positions", "padding at -1")(
    lambda mask: (mask.cumsum(-1) - 1).masked_fill(mask == 0, -1)
)

wrong("token_positions", "from the end")(
    lambda mask: (mask.flip(1).cumsum(1).flip(1) - 1).clamp(min=0)
)


@wrong("token_positions", "from the end")
def _(mask):
    out = torch.zeros_like(mask)
    for b, row in enumerate(mask.tolist()):
        for t in range(len(row)):
            out[b, t] = sum(row[t + 1 :]) if row[t] else 0
    return out


wrong("token_positions", "from the end")(
    lambda mask: (mask.sum(1, keepdim=True) - mask.cumsum(1)) * mask
)

right("token_positions")(lambda mask: (mask.cumsum(-1) - 1).clamp(min=0))
right("token_positions")(lambda mask: (mask.cumsum(-1) - 1) * mask)
right("token_positions")(lambda mask: mask.cumsum(1) - mask.cumsum(1).clamp(max=1))
right("token_positions")(
    lambda mask: (mask @ torch.ones(mask.shape[1], mask.shape[1], dtype=mask.dtype).triu(1)) * mask
)
right("token_positions")(
    lambda mask: torch.from_numpy(np.maximum(np.cumsum(mask.numpy(), 1) - 1, 0)).int()
)


@right("token_positions")
def _(mask):
    def count(row, seen=0):
        if not row:
            return []
        return [seen if row[0] else 0] + count(row[1:], seen + row[0])

    return torch.tensor([count(row) for row in mask.tolist()])


@right("token_positions")
def _(mask):
    out = torch.zeros_like(mask)
    for row, real in zip(out, mask.bool(), strict=True):
        row[real] = torch.arange(int(real.sum()), dtype=row.dtype)
    return out


# 4.2  four_terms -------------------------------------------------------------------------------


def four(X, P, W_Q, W_K, scale):
    pairs = ((X, X), (X, P), (P, X), (P, P))
    return torch.stack([(a @ W_Q) @ (b @ W_K).T * scale for a, b in pairs])


def entry_by_entry(X, P, W_Q, W_K, scale, mixed=(0, 1)):
    W = (W_Q @ W_K.T).double().numpy()
    parts = [X.double().numpy(), P.double().numpy()]
    out = np.zeros((4, len(X), len(X)))
    for a in (0, 1):
        for b in (0, 1):
            for i in range(len(X)):
                for j in range(len(X)):
                    where = 2 * a + b if a == b else 1 + mixed[a]
                    out[where, i, j] = parts[a][i] @ W @ parts[b][j] * scale
    return torch.from_numpy(out).to(X.dtype)


wrong("four_terms", "no scale")(lambda X, P, W_Q, W_K: four(X, P, W_Q, W_K, 1.0))
wrong("four_terms", "no scale")(lambda X, P, W_Q, W_K: entry_by_entry(X, P, W_Q, W_K, 1.0))


@wrong("four_terms", "no scale")
def _(X, P, W_Q, W_K):
    both = torch.stack([X, P])
    s = torch.einsum("aid,dk,ek,bje->abij", both, W_Q, W_K, both)
    return s.flatten(0, 1)


wrong("four_terms", "scaled with d")(
    lambda X, P, W_Q, W_K: four(X, P, W_Q, W_K, X.shape[1] ** -0.5)
)
wrong("four_terms", "scaled with d")(
    lambda X, P, W_Q, W_K: entry_by_entry(X, P, W_Q, W_K, 1 / math.sqrt(P.shape[-1]))
)


@wrong("four_terms", "scaled with d")
def _(X, P, W_Q, W_K):
    both = torch.stack([X, P]) / X.shape[1] ** 0.25
    return torch.einsum("aid,dk,ek,bje->abij", both, W_Q, W_K, both).flatten(0, 1)


wrong("four_terms", "scaled with d_k, no root")(
    lambda X, P, W_Q, W_K: four(X, P, W_Q, W_K, 1 / W_K.shape[1])
)
wrong("four_terms", "scaled with d_k, no root")(
    lambda X, P, W_Q, W_K: entry_by_entry(X, P, W_Q, W_K, W_Q.shape[1] ** -1.0)
)


@wrong("four_terms", "scaled with d_k, no root")
def _(X, P, W_Q, W_K):
    both = torch.stack([X, P])
    s = torch.einsum("aid,dk,ek,bje->abij", both, W_Q, W_K, both)
    return s.flatten(0, 1) / W_Q.size(1)


@wrong("four_terms", "mixed terms swapped")
def _(X, P, W_Q, W_K):
    return four(X, P, W_Q, W_K, W_Q.shape[1] ** -0.5)[[0, 2, 1, 3]]


wrong("four_terms", "mixed terms swapped")(
    lambda X, P, W_Q, W_K: entry_by_entry(X, P, W_Q, W_K, W_Q.shape[1] ** -0.5, mixed=(1, 0))
)


@wrong("four_terms", "mixed terms swapped")
def _(X, P, W_Q, W_K):
    both = torch.stack([X, P])
    s = torch.einsum("aid,dk,ek,bje->baij", both, W_Q, W_K, both)
    return s.flatten(0, 1) / W_Q.size(1) ** 0.5


@wrong("four_terms", "keys down")
def _(X, P, W_Q, W_K):
    return four(X, P, W_Q, W_K, W_Q.shape[1] ** -0.5).mT


@wrong("four_terms", "keys down")
def _(X, P, W_Q, W_K):
    both = torch.stack([X, P])
    s = torch.einsum("aid,dk,ek,bje->abji", both, W_Q, W_K, both)
    return s.flatten(0, 1) / W_Q.size(1) ** 0.5


@wrong("four_terms", "keys down")
def _(X, P, W_Q, W_K):
    terms = entry_by_entry(X, P, W_Q, W_K, W_Q.shape[1] ** -0.5)
    return torch.tensor([[list(row) for row in zip(*t, strict=True)] for t in terms.tolist()])


right("four_terms")(
    lambda X, P, W_Q, W_K: entry_by_entry(X, P, W_Q, W_K, 1 / math.sqrt(W_K.shape[1]))
)


@right("four_terms")
def _(X, P, W_Q, W_K):
    both = torch.stack([X, P])
    s = torch.einsum("aid,dk,ek,bje->abij", both, W_Q, W_K, both)
    return s.reshape(4, len(X), len(X)) / W_Q.size(1) ** 0.5


@right("four_terms")
def _(X, P, W_Q, W_K):  # differences of whole scores
    def score(a, b):
        return (a @ W_Q).double() @ (b @ W_K).double().T / math.sqrt(W_Q.shape[-1])

    cc, pp = score(X, X), score(P, P)
    cp, pc = score(X, X + P) - cc, score(X + P, X) - cc
    return torch.stack([cc, cp, pc, pp]).float()


@right("four_terms")
def _(X, P, W_Q, W_K):  # one large product, cut into blocks
    n = len(X)
    Z = torch.cat([X, P])
    big = (Z @ W_Q) @ (Z @ W_K).T * W_K.shape[1] ** -0.5
    return big.view(2, n, 2, n).transpose(1, 2).reshape(4, n, n)


@right("four_terms")
def _(X, P, W_Q, W_K):
    M = W_Q.double() @ W_K.double().mT / W_Q.shape[1] ** 0.5
    X, P = X.double(), P.double()
    out = torch.empty(4, len(X), len(X))
    for slot, (a, b) in zip(out, [(X, X), (X, P), (P, X), (P, P)], strict=True):
        slot.copy_(a @ M @ b.T)
    return out


# 4.3  weight_by_distance -----------------------------------------------------------------------

wrong("weight_by_distance", "divided by n")(
    lambda A: torch.stack([A.diagonal(-k).sum() / len(A) for k in range(len(A))])
)


@wrong("weight_by_distance", "divided by n")
def _(A):
    out, n = [0.0] * len(A), len(A)
    for i in range(n):
        for j in range(i + 1):
            out[i - j] += A[i, j].item() / n
    return torch.tensor(out)


@wrong("weight_by_distance", "divided by n")
def _(A):
    n = len(A)
    padded = F.pad(A.flip(1), (0, 1)).flatten()
    rows = [padded[i * (n + 1) : i * (n + 1) + n].roll(i + 1 - n) for i in range(n)]
    return torch.stack(rows).mean(0)


wrong("weight_by_distance", "sum, not mean")(
    lambda A: torch.tensor([float(np.trace(A.numpy(), -k)) for k in range(len(A))])
)


@wrong("weight_by_distance", "sum, not mean")
def _(A):
    i, j = torch.tril_indices(len(A), len(A))
    return torch.zeros(len(A), dtype=A.dtype).index_add(0, i - j, A[i, j])


@wrong("weight_by_distance", "sum, not mean")
def _(A):
    return torch.stack(
        [sum((A[q, q - k] for q in range(k, len(A))), A.new_zeros(())) for k in range(len(A))]
    )


wrong("weight_by_distance", "forward for back")(
    lambda A: torch.stack([A.diagonal(k).mean() for k in range(len(A))])
)


@wrong("weight_by_distance", "forward for back")
def _(A):
    n = len(A)
    return torch.tensor([sum(A[i, i + k].item() for i in range(n - k)) / (n - k) for k in range(n)])


wrong("weight_by_distance", "forward for back")(
    lambda A: torch.from_numpy(
        np.array([np.diagonal(A.numpy().T, -k).mean() for k in range(len(A))])
    )
)

wrong("weight_by_distance", "by key, not distance")(lambda A: A.mean(0))


@wrong("weight_by_distance", "by key, not distance")
def _(A):
    return torch.einsum("ij->j", A) / A.shape[0]


@wrong("weight_by_distance", "by key, not distance")
def _(A):
    return torch.tensor([sum(column) / len(column) for column in zip(*A.tolist(), strict=True)])


wrong("weight_by_distance", "weights of 0 left out")(
    lambda A: torch.stack([d[d > 0].mean() for d in (A.diagonal(-k) for k in range(len(A)))])
)


@wrong("weight_by_distance", "weights of 0 left out")
def _(A):
    A = A.numpy()
    means = []
    for k in range(len(A)):
        line = np.diagonal(A, -k)
        means.append(line.sum() / max(np.count_nonzero(line), 1))
    return torch.tensor(means)


@wrong("weight_by_distance", "weights of 0 left out")
def _(A):
    found = {k: [] for k in range(len(A))}
    for i, j in A.nonzero().tolist():
        found[i - j].append(A[i, j].item())
    return torch.tensor([sum(w) / len(w) if w else 0.0 for w in found.values()])


right("weight_by_distance")(lambda A: torch.stack([A.diagonal(-k).mean() for k in range(len(A))]))
right("weight_by_distance")(
    lambda A: torch.tensor([np.diagonal(A.numpy(), -k).mean().item() for k in range(len(A))])
)


@right("weight_by_distance")
def _(A):
    n = len(A)
    i, j = torch.tril_indices(n, n)
    sums = torch.zeros(n, dtype=torch.float64).index_add(0, i - j, A[i, j].double())
    return (sums / torch.arange(n, 0, -1)).to(A.dtype)


@right("weight_by_distance")
def _(A):
    n = len(A)
    i, j = np.tril_indices(n)
    sums = np.bincount(i - j, weights=A.numpy()[i, j], minlength=n)
    return torch.from_numpy(sums / np.bincount(i - j, minlength=n)).float()


@right("weight_by_distance")
def _(A):
    n = len(A)
    distance = torch.arange(n)[:, None] - torch.arange(n)
    which = (distance[None] == torch.arange(n)[:, None, None]).to(A.dtype)
    return torch.einsum("kij,ij->k", which, A) / which.sum((1, 2))


@right("weight_by_distance")
def _(A):
    n = len(A)
    rows = [[A[q, q - k].item() for q in range(k, n)] for k in range(n)]
    return torch.tensor([math.fsum(r) / len(r) for r in rows], dtype=A.dtype)


# What the check has to say ---------------------------------------------------------------------

UNKNOWN = "none of the mistakes that this check knows"

SAYS = {  # a word or two that only the right name of the mistake would use
    ("reorder_weights", "rows only"): "only the rows",
    ("reorder_weights", "columns only"): "only the columns",
    ("reorder_weights", "inverse order"): "backwards",
    ("reorder_weights", "transposed"): UNKNOWN,
    ("mean_over_words", "padding averaged in"): "padding is in the mean",
    ("mean_over_words", "divided by n"): "counted in the divisor",
    ("mean_over_words", "sum, not mean"): UNKNOWN,
    ("mean_over_words", "mask inverted"): "wrong way round",
    ("attention_by_hand", "no scale"): "not divided",
    ("attention_by_hand", "divided by d_k"): "by the width itself",
    ("attention_by_hand", "softmax down the queries"): "wrong axis",
    ("attention_by_hand", "scale from the values"): "taken from the values",
    ("attention_by_hand", "scale after the softmax"): "divided after the softmax",
    ("attention_by_hand", "arguments changed"): "numbers are right.*in place",
    ("causal_weights", "no mask"): "no effect",
    ("causal_weights", "mask inverted"): "triangle is the wrong one",
    ("causal_weights", "not itself"): "may not look at itself",
    ("causal_weights", "one word ahead"): "still sees the next",
    ("causal_weights", "zeroed after the softmax"): "0 after the softmax",
    ("causal_weights", "zero for minus infinity"): "a score of 0 still gets a weight",
    ("causal_weights", "softmax down the queries"): "wrong axis",
    ("look_up", "negative wraps"): "negative position.*from the end",
    ("look_up", "clamped"): "share the last row",
    ("look_up", "modulo"): "start again",
    ("look_up", "last row refused"): r"raised IndexError.*positions = \[8, 4\]",
    ("look_up", "another exception"): "where IndexError is asked for",
    ("table_gradient", "last token wins"): "only the last token",
    ("table_gradient", "mean, not sum"): "averaged",
    ("table_gradient", "token for position"): UNKNOWN,
    ("table_gradient", "only as many rows as were used"): "the shape is",
    ("resize_table", "corners not aligned"): "ends are not kept",
    ("resize_table", "L / rows for the step"): "the last row is not",
    ("resize_table", "nearest row"): "copied, not blended",
    ("resize_table", "tiled"): "starts again",
    ("resize_table", "always float32"): "dtype is float32",
    ("sinusoid_table", "exponent doubled"): "exponent is doubled",
    ("sinusoid_table", "cosine with an exponent of its own"): "speed of its own",
    ("sinusoid_table", "sine and cosine swapped"): "changed places",
    ("sinusoid_table", "halves"): "all sines come first",
    ("sinusoid_table", "d for d/2"): "exponent is half",
    ("sinusoid_table", "precedence"): "binds otherwise",
    ("sinusoid_table", "base 1000"): "base is 1,000",
    ("sinusoid_table", "positions from 1"): "counted from 1",
    ("sinusoid_table", "half precision"): "16 bits",
    ("move_by", "transposed"): "walks back",
    ("move_by", "exponent doubled"): "exponent is doubled",
    ("move_by", "halves"): r"channel i \+ d/2",
    ("move_by", "d for d/2"): "exponent is half",
    ("encode_steps", "all in the small dtype"): "all rounded",
    ("encode_steps", "steps rounded first"): "steps are rounded",
    ("encode_steps", "angles rounded"): "angles are rounded",
    ("encode_steps", "frequencies rounded"): "frequencies are rounded",
    ("encode_steps", "whole steps only"): "whole numbers",
    ("token_positions", "padding counted"): "padding is counted",
    ("token_positions", "from 1"): "position 1, not 0",
    ("token_positions", "padding at -1"): "position -1",
    ("token_positions", "from the end"): UNKNOWN,
    ("four_terms", "no scale"): "not divided",
    ("four_terms", "scaled with d"): "width of the model",
    ("four_terms", "scaled with d_k, no root"): "by the width itself",
    ("four_terms", "mixed terms swapped"): "mixed terms have changed places",
    ("four_terms", "keys down"): "transposed",
    ("weight_by_distance", "divided by n"): "too small",
    ("weight_by_distance", "sum, not mean"): "added up, not averaged",
    ("weight_by_distance", "forward for back"): "forwards",
    ("weight_by_distance", "by key, not distance"): UNKNOWN,
    ("weight_by_distance", "weights of 0 left out"): UNKNOWN,
}


def numbered(entries):
    """An identifier for each entry, with a number that tells its forms apart."""
    seen = {}
    for entry in entries:
        label = " ".join(entry[:-1])
        seen[label] = seen.get(label, 0) + 1
        yield pytest.param(*entry, id=f"{label} {seen[label]}")


@pytest.mark.parametrize(("exercise", "mistake", "function"), list(numbered(WRONG)))
def test_a_mistake_gets_its_own_name(exercise, mistake, function):
    found = evaluate(exercise, function)
    assert found.status == ("error" if mistake == "another exception" else "wrong"), str(found)
    assert re.search(SAYS[exercise, mistake], found.message), str(found)
    assert "two mistakes" not in found.message


@pytest.mark.parametrize(("exercise", "function"), list(numbered(RIGHT)))
def test_an_odd_but_right_answer_is_accepted(exercise, function):
    found = evaluate(exercise, function)
    assert found.status == "correct", str(found)


def test_every_mistake_was_made_in_three_ways_and_every_exercise_solved_in_five():
    made = [entry[:2] for entry in WRONG]
    assert set(made) == set(SAYS)
    assert {made.count(mistake) for mistake in SAYS} == {3}
    solved = [exercise for exercise, _ in RIGHT]
    assert min(solved.count(exercise) for exercise in solved) >= 5
    assert set(solved) == {exercise for exercise, _ in SAYS}
