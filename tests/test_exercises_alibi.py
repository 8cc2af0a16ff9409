"""Chapter 8's exercises, answered by other means than the references: loops, tables, NumPy.

Wrong answers are written the way people write them, and must get the name of their mistake. The
right ones are unusual, and must be accepted.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from exercise_answers import Answers
from torch.nn.functional import scaled_dot_product_attention

from posenc_tutorial import alibi_bias, alibi_slopes
from posenc_tutorial.exercises import evaluate, exercises
from posenc_tutorial.exercises.selftest import count

ANSWERS = Answers()
WRONG, RIGHT, wrong, right = ANSWERS.WRONG, ANSWERS.RIGHT, ANSWERS.wrong, ANSWERS.right


# Slopes for any number of heads


def authors(n, first=1, every=0):
    """The recursion of the authors' code, with the exponents written out."""

    def power_of_two(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start ** (i + first - 1) for i in range(n)]

    if math.log2(n).is_integer():
        return power_of_two(n)
    closest = 2 ** math.floor(math.log2(n))
    return power_of_two(closest) + authors(2 * closest, first)[every::2][: n - closest]


def even_then_odd(n):
    ladder = 2 ** (
        -8 * np.arange(1, 2 ** math.ceil(math.log2(n)) + 1) / 2 ** math.ceil(math.log2(n))
    )
    return ladder if len(ladder) == n else np.concatenate([ladder[1::2], ladder[::2]])[:n]


def by_exponents(n):
    """Exponents in whole numbers: -8 h / P, then the odd ones of -4 j / P."""
    p = 1
    while 2 * p <= n:
        p *= 2
    exponents = [8 * h / p for h in range(1, p + 1)] + [4 * j / p for j in range(1, 2 * p, 2)]
    return torch.exp(-math.log(2) * torch.tensor(exponents[:n]))


right("head_slopes", lambda n: torch.tensor(authors(n)))
right("head_slopes", lambda n: torch.from_numpy(even_then_odd(n)))
right("head_slopes", lambda n: torch.tensor(even_then_odd(n), dtype=torch.float32))
right("head_slopes", by_exponents)
right("head_slopes", alibi_slopes)
right("head_slopes", lambda n: alibi_bias(n, torch.tensor([1]), torch.tensor([0]))[:, 0, 0].neg())

wrong(
    "head_slopes", "one_series", lambda n: torch.tensor([2 ** (-8 * (i + 1) / n) for i in range(n)])
)
wrong("head_slopes", "one_series", lambda n: torch.pow(256 ** (1 / n), -torch.arange(1, n + 1)))
wrong("head_slopes", "from_one", lambda n: torch.tensor(authors(n, first=0)))
wrong("head_slopes", "in_order", lambda n: torch.tensor(sorted(authors(n), reverse=True)))
wrong("head_slopes", "in_order", lambda n: alibi_slopes(n).sort(descending=True)[0])
wrong(
    "head_slopes", "next_power", lambda n: torch.tensor(authors(2 ** math.ceil(math.log2(n)))[:n])
)
wrong("head_slopes", "seen_before", lambda n: torch.tensor(authors(n, every=1)))
wrong("head_slopes", "seen_before", lambda n: alibi_slopes(1 << (n.bit_length() - 1)).repeat(2)[:n])
wrong("head_slopes", "halving", lambda n: torch.logspace(-1, -n, n, base=2))
wrong("head_slopes", "halving", lambda n: torch.tensor([1 / 2**h for h in range(1, n + 1)]))
wrong(
    "head_slopes",
    "one_series from_one",
    lambda n: torch.tensor([2 ** (-8 * i / n) for i in range(n)]),
)
wrong("head_slopes", "from_one halving", lambda n: 0.5 ** torch.arange(n))


def with_new(n, pick, behind=True):
    power = 1 << (n.bit_length() - 1)
    ladder = authors(2 * power)
    old, new = authors(power), pick(ladder, n - power) if n > power else []
    return torch.tensor(old + new if behind else new + old)


wrong("head_slopes", "no_skip", lambda n: with_new(n, lambda ladder, left: ladder[:left]))
wrong("head_slopes", "gentlest", lambda n: with_new(n, lambda ladder, left: ladder[::2][-left:]))
wrong(
    "head_slopes",
    "new_first",
    lambda n: with_new(n, lambda ladder, left: ladder[::2][:left], behind=False),
)

# The bias


def bias_loop(slopes, q, k, price=lambda m, n: -abs(m - n)):
    table = [
        [[float(s) * price(m, n) for n in k.tolist()] for m in q.tolist()] for s in slopes.tolist()
    ]
    return torch.tensor(table)


right("distance_bias", bias_loop)
right(
    "distance_bias", lambda s, q, k: -torch.einsum("h,qk->hqk", s, (q[:, None] - k).abs().float())
)
right(
    "distance_bias",
    lambda s, q, k: s.view(-1, 1, 1) * torch.minimum(k - q[:, None], q[:, None] - k),
)
right(
    "distance_bias",
    lambda s, q, k: torch.stack(
        [-m * torch.cdist(*((p - k.min()).double()[:, None] for p in (q, k)), p=1) for m in s]
    ),
)
right(
    "distance_bias",
    lambda s, q, k: torch.from_numpy(
        -s.numpy()[:, None, None] * np.abs(np.subtract.outer(q.numpy(), k.numpy()))
    ),
)
right("distance_bias", lambda s, q, k: s[:, None, None].double() * -(q.double()[:, None] - k).abs())

wrong("distance_bias", "reward", lambda s, q, k: s[:, None, None] * (q[:, None] - k).abs())
wrong("distance_bias", "reward", lambda s, q, k: bias_loop(s, q, k, lambda m, n: abs(n - m)))
wrong("distance_bias", "signed", lambda s, q, k: s[:, None, None] * (k - q[:, None]))
wrong("distance_bias", "signed", lambda s, q, k: bias_loop(s, q, k, lambda m, n: n - m))
wrong("distance_bias", "reward signed", lambda s, q, k: s[:, None, None] * (q[:, None] - k))
wrong("distance_bias", "key_index", lambda s, q, k: (s[:, None, None] * k).repeat(1, len(q), 1))
wrong("distance_bias", "key_index", lambda s, q, k: bias_loop(s, q, k, lambda m, n: n))
wrong(
    "distance_bias",
    "by_index",
    lambda s, q, k: (
        -s[:, None, None] * (torch.arange(len(q))[:, None] - torch.arange(len(k))).abs()
    ),
)
wrong(
    "distance_bias",
    "by_index",
    lambda s, q, k: alibi_bias(len(s), torch.arange(len(q)), torch.arange(len(k))),
)
wrong(
    "distance_bias",
    "at_the_end",
    lambda s, q, k: alibi_bias(len(s), torch.arange(len(k))[-len(q) :], torch.arange(len(k))),
)
wrong(
    "distance_bias", "rounded", lambda s, q, k: -s[:, None, None] * (q.float()[:, None] - k).abs()
)
wrong(
    "distance_bias",
    "rounded",
    lambda s, q, k: -s[:, None, None] * torch.cdist(q.float()[:, None], k.float()[:, None], p=1),
)
wrong("distance_bias", "one_slope", lambda s, q, k: bias_loop(s[:1].repeat(len(s)), q, k))

# From scores to weights


def weights_loop(Q, K, slopes, keep, score, causal=True, pads=False):
    batch, heads, n, d = Q.shape
    out = torch.zeros(batch, heads, n, n, dtype=Q.dtype)
    for b in range(batch):
        for h in range(heads):
            for m in range(n):
                seen = [
                    j for j in range(n) if (not causal or j <= m) and (pads or bool(keep[b, j]))
                ]
                if not seen:
                    continue
                s = [score(float(Q[b, h, m] @ K[b, h, j]), float(slopes[h]), m, j, d) for j in seen]
                e = np.exp(np.array(s) - max(s))
                for j, value in zip(seen, e / e.sum(), strict=True):
                    out[b, h, m, j] = value
    return out


def plain(product, slope, m, j, d):
    return product / math.sqrt(d) - slope * abs(m - j)


def loop(score=plain, **options):
    return lambda Q, K, slopes, keep: weights_loop(Q, K, slopes, keep, score, **options)


def shortcut(Q, K, slopes, keep):
    """The key's number in place of the distance: the same weights under a causal mask."""
    n = Q.shape[2]
    scores = Q @ K.mT * Q.shape[3] ** -0.5 + slopes[:, None, None] * torch.arange(n)
    seen = torch.ones(n, n).tril().bool() & keep[:, None, None]
    return scores.masked_fill(~seen, -1e9).softmax(-1)


def from_first_word(Q, K, slopes, keep):
    """Positions from the first word on, and weights read off with an identity for values."""
    place = (keep.cumsum(1) - 1).clamp(min=0)
    bias = -slopes[:, None, None] * (place[:, None, :, None] - place[:, None, None]).abs()
    hidden = torch.zeros_like(bias).masked_fill(~keep[:, None, None], -math.inf)
    hidden = hidden + torch.full(bias.shape[-2:], -math.inf).triu(1)
    hidden[..., 0] = torch.where(keep[:, None, :, None].squeeze(-1), hidden[..., 0], 0.0)
    eye = torch.eye(Q.shape[2], dtype=Q.dtype).expand(*Q.shape[:3], -1)
    return scaled_dot_product_attention(Q, K, eye, attn_mask=(bias + hidden).to(Q.dtype))


def concatenated(Q, K, slopes, keep):
    """Two more channels turn the bias into part of the dot product."""
    n, d = Q.shape[2:]
    place = torch.arange(n, dtype=Q.dtype).expand(*Q.shape[:2], n)[..., None]
    more = slopes[:, None, None] * torch.ones_like(place)
    scores = torch.cat([Q / d**0.5, more], -1) @ torch.cat([K, place], -1).mT
    seen = torch.ones(n, n, dtype=torch.bool).tril() & keep[:, None, None]
    e = (scores - scores.amax(-1, keepdim=True)).exp() * seen
    return e / (
        e.sum(-1, keepdim=True) + 1e-300
        if Q.dtype == torch.float64
        else e.sum(-1, keepdim=True).clamp(min=1e-30)
    )


right("biased_weights", loop())
right("biased_weights", shortcut)
right("biased_weights", from_first_word)
right("biased_weights", concatenated)
right("biased_weights", lambda Q, K, slopes, keep: shortcut(Q.double(), K.double(), slopes, keep))

wrong("biased_weights", "bias_scaled", loop(lambda p, s, m, j, d: (p - s * abs(m - j)) / d**0.5))
wrong(
    "biased_weights",
    "bias_scaled",
    lambda Q, K, slopes, keep: shortcut(Q, K, slopes / Q.shape[3] ** 0.5, keep),
)
wrong("biased_weights", "no_scale", loop(lambda p, s, m, j, d: p - s * (m - j)))
wrong(
    "biased_weights", "no_scale", lambda Q, K, s, keep: shortcut(Q * Q.shape[3] ** 0.5, K, s, keep)
)
wrong("biased_weights", "reward", lambda Q, K, slopes, keep: shortcut(Q, K, -slopes, keep))
wrong("biased_weights", "reward", loop(lambda p, s, m, j, d: p / d**0.5 + s * abs(m - j)))
wrong("biased_weights", "times", loop(lambda p, s, m, j, d: p / d**0.5 * (-s * abs(m - j))))
wrong("biased_weights", "no_bias", lambda Q, K, slopes, keep: shortcut(Q, K, 0 * slopes, keep))
wrong("biased_weights", "no_bias", loop(lambda p, s, m, j, d: p / d**0.5))
wrong("biased_weights", "pads_seen", lambda Q, K, s, keep: shortcut(Q, K, s, torch.ones_like(keep)))
wrong("biased_weights", "pads_seen", loop(pads=True))
wrong("biased_weights", "ahead_seen", loop(causal=False))
wrong("biased_weights", "pads_seen ahead_seen", loop(causal=False, pads=True))


def hidden_with(value, late=False):
    def answer(Q, K, slopes, keep):
        n = Q.shape[2]
        back = torch.arange(n)[:, None] - torch.arange(n)
        scores = torch.einsum("bhqd,bhkd->bhqk", Q, K) / Q.shape[3] ** 0.5
        scores = scores - slopes.view(-1, 1, 1) * back.abs()
        seen = ((back >= 0) & keep[:, None, None]).expand_as(scores)
        if late:
            return scores.softmax(-1) * seen
        return torch.where(seen, scores, torch.full_like(scores, value)).softmax(-1)

    return answer


right("biased_weights", hidden_with(-1e9))
wrong("biased_weights", "zero_scores", hidden_with(0.0))
wrong("biased_weights", "zero_weights", hidden_with(0.0, late=True))
wrong("tokens_that_matter", "not_whole", [math.log(100) * m for m in (2, 16, 256)])
wrong("tokens_that_matter", "one_short", [9, 73, 1178])


(
    test_mistakes_are_recognised_in_code_of_another_make,
    test_odd_right_answers_are_right,
) = ANSWERS.tests()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("head_slopes", lambda n: torch.zeros(n)),
        ("head_slopes", lambda n: alibi_slopes(n).flip(0)),
        ("head_slopes", lambda n: alibi_slopes(n) * 1.001),
        ("head_slopes", lambda n: -alibi_slopes(n)),
        ("distance_bias", lambda s, q, k: torch.zeros(len(s), len(q), len(k))),
        ("distance_bias", lambda s, q, k: bias_loop(s, q, k).mT),
        ("distance_bias", lambda s, q, k: bias_loop(s, q, k, lambda m, n: -((m - n) ** 2))),
        ("distance_bias", lambda s, q, k: bias_loop(s.flip(0), q, k)),
        ("biased_weights", lambda Q, K, slopes, keep: torch.zeros(*Q.shape[:3], Q.shape[2])),
        ("biased_weights", lambda Q, K, slopes, keep: shortcut(K, Q, slopes, keep)),
        ("biased_weights", lambda Q, K, slopes, keep: shortcut(Q, K, 2 * slopes, keep)),
        ("biased_weights", lambda Q, K, slopes, keep: shortcut(Q, K, slopes, keep).log()),
        ("biased_weights", loop(causal=False, score=lambda p, s, m, j, d: p / d**0.5 + s * j)),
        ("tokens_that_matter", [9, 70, 1100]),
        ("tokens_that_matter", [10, 74]),
    ],
)
def test_unknown_mistakes_get_no_name(name, answer):
    found = evaluate(name, answer)
    assert found.status == "wrong" and found.mistakes == (), str(found)


def test_there_are_enough_of_each_kind_in_the_order_of_difficulty():
    entries = exercises(8)
    kinds = [entry.kind for entry in entries]
    assert kinds.count("implement") >= 2 and {"predict", "explain"} <= set(kinds)
    assert [e.difficulty for e in entries] == sorted(e.difficulty for e in entries)
    assert count(entries)["mistakes"] >= 35
    assert len(RIGHT) >= 15 and len(WRONG) >= 30


def test_an_answer_that_changes_its_argument_is_told_so():
    def in_place(Q, K, slopes, keep):
        Q.div_(Q.shape[3] ** 0.5)
        return shortcut(Q * Q.shape[3] ** 0.5, K, slopes, keep)

    found = evaluate("biased_weights", in_place)
    assert found.status == "wrong" and "changes its argument" in found.message
