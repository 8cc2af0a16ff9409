"""Chapter 1's verdicts: each one, and a counter-example on which it flips."""

import pytest
import torch
from torch import nn

from posenc_tutorial import (
    ALiBi,
    LearnedEncoding,
    NoPE,
    RotaryEmbedding,
    ShawRelative,
    SinusoidalEncoding,
    T5Bias,
)
from posenc_tutorial.claims import ch01_why_positions as claims


def words(n=4, dim=8):
    return torch.randn(n, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


ATTENTION = claims.attention_layer(NoPE(), 8, 2)
CAUSAL = claims.attention_layer(NoPE(), 8, 2, causal=True)
ROPE = claims.attention_layer(RotaryEmbedding(4), 8, 2)


def average(x):
    """Invariant: every row is the mean of all rows."""
    return x.mean(dim=0, keepdim=True).expand_as(x)


def each_alone(x):
    """Equivariant without any interaction: a true bag of words."""
    return x.tanh()


def running_sum(x):
    return x.cumsum(dim=0)


def test_orders_leave_out_the_given_one_and_end_with_the_reversal():
    orders = claims.orders_of(3)
    assert len(orders) == 5 and [0, 1, 2] not in orders and orders[-1] == [2, 1, 0]
    many = claims.orders_of(12)
    assert len(many) == 120 and all(sorted(order) == list(range(12)) for order in many)
    assert list(range(12)) not in many and many[0] == list(range(11, -1, -1))


def test_gaps_are_zero_exactly_where_they_should_be():
    x = words()
    assert claims.equivariance_gap(each_alone, x) == 0
    assert claims.equivariance_gap(running_sum, x) > 0.1
    assert claims.invariance_gap(lambda x: x.max(dim=0).values, x) == 0
    assert claims.invariance_gap(each_alone, x) > 0.1
    assert claims.interaction_gap(each_alone, x, words(1)[0] + 1) == 0
    assert claims.interaction_gap(average, x, words(1)[0] + 1) > 0.1


def test_a_gap_is_found_even_when_only_the_last_two_words_are_told_apart():
    def last_is_special(x):
        return torch.cat([x[:-1], -x[-1:]])

    assert claims.equivariance_gap(last_is_special, words(10)) > 0.1


def test_attention_layer_leaves_encoding_and_random_state_alone():
    encoding = LearnedEncoding(8, 8)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    layer = claims.attention_layer(encoding, 8, 2)
    assert torch.equal(torch.rand(1), expected)
    assert encoding.weight.dtype == torch.float32
    assert layer(words()).dtype == torch.float64


DOORS = {
    "none": (NoPE(), ()),
    "learned": (LearnedEncoding(8, 8), (1,)),
    "sinusoidal": (SinusoidalEncoding(8), (1,)),
    "Shaw": (ShawRelative(4, 3), (2,)),
    "ALiBi": (ALiBi(2), (2,)),
    "RoPE": (RotaryEmbedding(4), (3,)),
}


@pytest.mark.parametrize("name", DOORS)
def test_open_doors(name):
    encoding, doors = DOORS[name]
    assert claims.open_doors(encoding, dim=8, num_heads=2) == doors


def test_a_table_of_zeros_opens_nothing():
    t5 = T5Bias(2, bidirectional=True)
    nn.init.zeros_(t5.weight)
    assert claims.open_doors(t5, dim=8, num_heads=2) == ()
    nn.init.normal_(t5.weight)
    assert claims.open_doors(t5, dim=8, num_heads=2) == (2,)


def test_more_than_one_door():
    class Both(RotaryEmbedding):
        def add_to_input(self, x, positions):
            return x + 1

    assert claims.open_doors(Both(4), dim=8, num_heads=2) == (1, 3)


@pytest.mark.parametrize(
    "layer, begins",
    [
        (ATTENTION, "does not hold as said: attention is equivariant"),
        (average, "holds"),
        (CAUSAL, "does not hold: neither"),
        (ROPE, "does not hold: neither"),
    ],
    ids=["attention", "average", "causal", "rope"],
)
def test_claim_1(layer, begins):
    verdict = claims.claim_1(layer, words())
    assert verdict.claim == 1 and verdict.verdict.startswith(begins)


@pytest.mark.parametrize(
    "layer, masked, expected",
    [
        (ATTENTION, CAUSAL, "holds if each word's vector, or a pooled vector, is meant, and no"),
        (ATTENTION, ATTENTION, "holds if each word's vector, or a pooled vector, is meant"),
        (average, CAUSAL, "holds"),
        (ROPE, CAUSAL, "does not hold"),
    ],
    ids=["attention", "mask without effect", "average", "rope"],
)
def test_claim_2(layer, masked, expected):
    verdict = claims.claim_2(layer, masked, words(3), [2, 1, 0]).verdict
    assert verdict.startswith(expected)
    assert ("nothing is masked" in verdict) == ("and no" in expected)
    assert (verdict == "holds") == (expected == "holds")


@pytest.mark.parametrize(
    "order, count, causal, expected",
    [
        (
            {"none": 0.5, "RoPE": 1.0, "ALiBi": 0.5},
            1.0,
            1.0,
            "holds if the model is bidirectional; not every encoding is a cure",
        ),
        ({"none": 0.5, "RoPE": 1.0}, 1.0, 1.0, "holds if the model is bidirectional"),
        ({"none": 0.5, "RoPE": 1.0, "ALiBi": 0.5}, 1.0, 0.5, "holds; not every encoding is a cure"),
        ({"none": 0.5, "RoPE": 1.0}, 1.0, 0.5, "holds"),
        ({"none": 0.99, "RoPE": 1.0}, 1.0, 0.5, "does not hold"),  # solved without positions
        ({"none": 0.5, "RoPE": 1.0}, 0.5, 0.5, "does not hold"),  # does not train at all
        ({"none": 0.5, "RoPE": 0.5}, 1.0, 0.5, "does not hold"),  # the task is too hard for all
    ],
)
def test_claim_3(order, count, causal, expected):
    assert claims.claim_3(order, count, causal).verdict == expected


def test_claim_3_needs_something_to_compare():
    with pytest.raises(ValueError, match="'none' and at least one encoding"):
        claims.claim_3({"none": 0.5}, 1.0, 1.0)
    with pytest.raises(ValueError, match="RoPE"):
        claims.claim_3({"RoPE": 1.0, "ALiBi": 0.5}, 1.0, 1.0)


def convolution(padding_mode):
    torch.manual_seed(0)
    conv = nn.Conv1d(8, 8, 3, padding=1, padding_mode=padding_mode).double()
    conv.requires_grad_(False)
    return lambda x: conv(x.T[None])[0].T


def test_claim_4():
    layers = {"ring": convolution("circular"), "zeros": convolution("zeros"), "sum": running_sum}
    verdict = claims.claim_4(layers, words(8))
    assert verdict.verdict == "holds"
    assert verdict.evidence.endswith("told apart by zeros, sum")
    flipped = claims.claim_4({**layers, "attention": ATTENTION}, words(8))
    assert flipped.verdict == "does not hold for attention"
    assert claims.claim_4({"ring": layers["ring"]}, words(8)).evidence.endswith("none of them")


ENCODINGS = {name: encoding for name, (encoding, _) in DOORS.items()}
DOOR_1 = {name: ENCODINGS[name] for name in ("learned", "sinusoidal")}


@pytest.mark.parametrize(
    "encodings, expected",
    [
        (ENCODINGS, "holds for door 1 only"),
        (DOOR_1, "holds"),
        ({"RoPE": ENCODINGS["RoPE"]}, "does not hold"),
    ],
    ids=["all", "door 1", "door 3"],
)
def test_claim_27(encodings, expected):
    verdict = claims.claim_27(encodings, dim=8, num_heads=2)
    assert verdict.verdict == expected
    assert "none (" not in verdict.evidence  # no encoding is not "not added"


@pytest.mark.parametrize(
    "layer, begins",
    [
        (ATTENTION, "holds if it means that order is lost"),
        (each_alone, "holds"),
        (CAUSAL, "does not hold"),
        (running_sum, "does not hold"),
    ],
    ids=["attention", "each alone", "causal", "sum"],
)
def test_claim_31(layer, begins):
    verdict = claims.claim_31(layer, words(), torch.ones(8, dtype=torch.float64)).verdict
    assert verdict.startswith(begins)
    assert (verdict == "holds") == (begins == "holds")


@pytest.mark.parametrize(
    "encodings, begins",
    [
        (ENCODINGS, "does not hold: doors 2 and 3"),
        ({"ALiBi": ALiBi(2)}, "does not hold: doors 2 and 3"),
        (DOOR_1, "holds"),
        ({"none": NoPE()}, "does not hold: no order"),
    ],
    ids=["all", "door 2", "door 1", "none"],
)
def test_claim_32(encodings, begins):
    assert claims.claim_32(encodings, words(), num_heads=2).verdict.startswith(begins)
