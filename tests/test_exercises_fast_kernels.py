"""Chapter 12's exercises, answered by other means than the references: loops, NumPy, matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from exercise_answers import Answers

from posenc_tutorial.exercises import evaluate

ANSWERS = Answers()
WRONG, RIGHT, wrong = ANSWERS.WRONG, ANSWERS.RIGHT, ANSWERS.wrong


# One loop in place of five passes, and its backward: pair by pair, in plain Python


def by_pairs(turn, partner=None, rest="kept"):
    """``turn(a, b, c, s)`` gives the new pair; ``partner(i, pairs, width)`` the two channels."""
    partner = partner or (lambda i, pairs, width: (i, i + pairs))

    def answer(x, cos, sin):
        pairs, width = cos.shape[1], x.shape[1]
        y = x.clone() if rest != "zero" else torch.zeros_like(x)
        for t in range(x.shape[0]):
            for i in range(pairs):
                left, right = partner(i, pairs, width)
                a, b = float(x[t, left]), float(x[t, right])
                y[t, left], y[t, right] = turn(a, b, float(cos[t, i]), float(sin[t, i]))
        return y if rest != "lost" else y[:, : 2 * pairs]

    return answer


def onward(a, b, c, s):
    return a * c - b * s, a * s + b * c


def back(a, b, c, s):
    return a * c + b * s, b * c - a * s


def adjacent(i, pairs, width):
    return 2 * i, 2 * i + 1


def halfway(i, pairs, width):
    return i, i + width // 2


def first_one_overwritten(a, b, c, s):
    a = a * c - b * s
    return a, a * s + b * c


def second_one_overwritten(a, b, c, s):
    b = a * s + b * c
    return a * c - b * s, b


def by_complex_numbers(x, cos, sin):
    pairs = cos.shape[1]
    z = torch.complex(x[:, :pairs], x[:, pairs : 2 * pairs]) * torch.complex(cos, sin)
    return torch.cat([z.real, z.imag, x[:, 2 * pairs :]], dim=1)


def in_place_on_a_copy(x, cos, sin):
    x = x.clone()
    left, right = x[:, : cos.shape[1]], x[:, cos.shape[1] : 2 * cos.shape[1]]
    new = left * cos - right * sin
    right.mul_(cos).add_(left * sin)
    left.copy_(new)
    return x


def by_three_shears(x, cos, sin):
    """Not one number is kept aside: each step changes one half by the other."""
    y = x.clone()
    left, right = y[:, : cos.shape[1]], y[:, cos.shape[1] : 2 * cos.shape[1]]
    slope = (cos - 1) / sin
    left.add_(right * slope)
    right.add_(left * sin)
    left.add_(right * slope)
    return y


RIGHT += [
    ("turn_in_place", by_three_shears),
    ("turn_in_place", by_pairs(onward)),
    ("turn_in_place", by_complex_numbers),
    ("turn_in_place", in_place_on_a_copy),
]
wrong("turn_in_place", "overwritten", by_pairs(first_one_overwritten))
wrong("turn_in_place", "right_overwritten", by_pairs(second_one_overwritten))
wrong("turn_in_place", "other_way", by_pairs(back))
wrong("turn_in_place", "neighbours", by_pairs(onward, adjacent))
wrong("turn_in_place", "split_in_the_middle", by_pairs(onward, halfway))
wrong("turn_in_place", "rest_lost", by_pairs(onward, rest="lost"))
wrong("turn_in_place", "two_plus", by_pairs(lambda a, b, c, s: (a * c + b * s, a * s + b * c)))
wrong("turn_in_place", "other_way neighbours", by_pairs(back, adjacent))


def by_autograd(grad, cos, sin):
    x = torch.zeros_like(grad, requires_grad=True)
    with torch.enable_grad():
        by_complex_numbers(x, cos, sin).backward(grad)
    return x.grad


def by_transposed_matrices(grad, cos, sin):
    new = grad.clone()
    pairs = cos.shape[1]
    for t in range(len(grad)):
        for i in range(pairs):
            c, s = cos[t, i].item(), sin[t, i].item()
            pair = np.array([[c, -s], [s, c]]).T @ grad[t, [i, i + pairs]].numpy()
            new[t, [i, i + pairs]] = torch.tensor(pair, dtype=grad.dtype)
    return new


def divided(power):
    def turn(a, b, c, s):
        size = (c * c + s * s) ** power
        return back(a / size, b / size, c, s)

    return turn


RIGHT += [
    ("turn_backward", by_pairs(back)),
    ("turn_backward", by_autograd),
    ("turn_backward", by_transposed_matrices),
]
wrong("turn_backward", "same_angle", by_complex_numbers)
wrong("turn_backward", "inverse", by_pairs(divided(1)))
wrong("turn_backward", "factor_lost", by_pairs(divided(0.5)))
wrong("turn_backward", "cosine_too", by_pairs(lambda a, b, c, s: back(a, b, -c, s)))
wrong("turn_backward", "rest_blocked", by_pairs(back, rest="zero"))
wrong("turn_backward", "neighbours", by_pairs(back, adjacent))
wrong("turn_backward", "same_angle rest_blocked", by_pairs(onward, rest="zero"))


# Addresses: a dot product, or the places that PyTorch itself reports


def dotted(
    strides_of=lambda shape, strides: strides,
    second=lambda i, pairs, width: i + pairs,
    first=lambda i: i,
    unit=1,
):
    def answer(shape, strides, index, pairs):
        *place, i = index
        ways = strides_of(shape, strides)
        ends = [[*place, first(i)], [*place, second(i, pairs, shape[-1])]]
        return [unit * int(np.dot(end, ways)) for end in ends]

    return answer  # fmt: skip


def of_a_view(shape, strides, index, pairs):
    memory = torch.empty(1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)))
    x = memory.as_strided(shape, strides)
    b, h, t, i = index
    return (x[b, h, t, i].storage_offset(), x[b, h, t, i + pairs].storage_offset())


def dense(shape, strides):
    return torch.empty(shape).stride()


def in_numbers_of_numpy(shape, strides, index, pairs):
    first = np.dot(index, strides)
    return [first, first + pairs * strides[-1]]


RIGHT += [
    ("pair_addresses", dotted()),
    ("pair_addresses", of_a_view),
    ("pair_addresses", in_numbers_of_numpy),
]
wrong("pair_addresses", "packed", dotted(dense))
wrong("pair_addresses", "axes_exchanged", dotted(lambda n, s: (s[0], s[2], s[1], s[3])))
wrong("pair_addresses", "channels_adjacent", dotted(lambda n, s: (*s[:3], 1)))
wrong("pair_addresses", "split_in_the_middle", dotted(second=lambda i, _, width: i + width // 2))
wrong(
    "pair_addresses",
    "neighbours",
    dotted(first=lambda i: 2 * i, second=lambda i, pairs, width: 2 * i + 1),
)
wrong("pair_addresses", "in_bytes", dotted(unit=4))


# Bytes: as the page counts them, with tables, or by hand without

RIGHT += [("bytes_moved", [2, 2, 10.25, 26.5]), ("bytes_moved", (2.0, 2.0, 10.0, 26.0))]
RIGHT += [("honest_numbers", answer) for answer in ("DA", "a, d", {"D", "A"})]


(
    test_mistakes_are_recognised_in_code_of_another_make,
    test_odd_right_answers_are_right,
) = ANSWERS.tests()


@pytest.mark.parametrize(
    "answer",
    [
        lambda x, cos, sin: x.clone(),
        lambda x, cos, sin: 2 * by_complex_numbers(x, cos, sin),
        lambda x, cos, sin: by_complex_numbers(x, cos, sin).flip(0),
    ],
)
def test_unknown_errors_get_no_name(answer):
    found = evaluate("turn_in_place", answer)
    assert found.status == "wrong" and not found.mistakes
