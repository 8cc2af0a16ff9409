"""Claims 5, 6, 7 and 26: the verdict of the book, and a counter-example on which it flips."""

from __future__ import annotations

import math

import pytest
import torch

from posenc_tutorial.claims.ch03_sinusoidal import claim_5, claim_6, claim_7, claim_26
from posenc_tutorial.frequencies import inverse_frequencies
from posenc_tutorial.sinusoidal import shift_matrix, sinusoidal_table


def encode_with(exponent):
    """A row of sine and cosine pairs; the exponent is a function of the pair and the width."""

    def encode(position, dim):
        turn = [position / 10000 ** exponent(i, dim) for i in range(dim // 2)]
        return [f(angle) for angle in turn for f in (math.sin, math.cos)]

    return encode


# Claim 5


def test_a_doubled_exponent_is_named():
    """The slip of SamLynnEvans/Transformer issue 25."""
    verdict = claim_5(encode_with(lambda i, d: 2 * (2 * i) / d), 64)
    assert verdict.verdict == "does not hold: the exponent is doubled"
    assert "353,329,475" in verdict.evidence and "13 of 32" in verdict.evidence


def test_the_papers_exponent_holds():
    assert claim_5(encode_with(lambda i, d: 2 * i / d), 64).verdict == "holds"
    package = claim_5(
        lambda p, d: sinusoidal_table(torch.tensor([p]), d, dtype=torch.float64)[0], 128
    )
    assert package.verdict == "holds"


def test_another_multiple_is_named_with_its_size():
    """i/d, the proposed change in rasbt/LLMs-from-scratch issue 410."""
    verdict = claim_5(encode_with(lambda i, d: i / d), 64)
    assert verdict.verdict == "does not hold: the exponent is multiplied by 0.500"


def test_speeds_that_are_no_powers_are_told_apart():
    verdict = claim_5(encode_with(lambda i, d: math.log10(1 + i)), 64)
    assert "not a geometric row" in verdict.verdict


# Claim 6


def rows_of(positions):
    return sinusoidal_table(positions, 16, dtype=torch.float64)


POSITIONS, OFFSETS = torch.arange(100), range(-100, 101)


def test_the_shift_matrix_serves_every_position():
    verdict = claim_6(rows_of, lambda k: shift_matrix(k, 16), POSITIONS, OFFSETS)
    assert verdict.verdict == "holds exactly"
    assert verdict.evidence == "largest error below 1e-12 over 100 positions and 201 offsets"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda k: shift_matrix(-k, 16),  # the block of the other convention walks back
        lambda k: shift_matrix(k, 16, base=9999.0),
        lambda k: torch.eye(16, dtype=torch.float64),
    ],
)
def test_another_matrix_does_not(wrong):
    verdict = claim_6(rows_of, wrong, POSITIONS, OFFSETS)
    assert verdict.verdict.startswith("does not hold")


def test_a_random_table_has_no_such_matrix():
    table = torch.randn(300, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    best = torch.linalg.lstsq(table[100:200], table[101:201]).solution.T
    verdict = claim_6(lambda p: table[p + 100], lambda k: best, POSITIONS, [1])
    assert verdict.verdict.startswith("does not hold")


# Claim 7


def test_wavelengths_grow_between_the_two_ends():
    verdict = claim_7(inverse_frequencies(128), 10000.0, 512)
    assert verdict.verdict == "holds"
    assert "31 of 64 pairs" in verdict.evidence and "54,410" in verdict.evidence


def test_slow_to_fast_does_not_hold():
    verdict = claim_7(inverse_frequencies(128).flip(0), 10000.0, 512)
    assert "do not grow" in verdict.verdict


def test_a_row_that_ends_elsewhere_does_not_hold():
    """The end point of the authors' code, exponent i / (d/2 - 1), is not the formula's."""
    pair = torch.arange(64, dtype=torch.float64)
    verdict = claim_7(10000.0 ** (-pair / 63), 10000.0, 512)
    assert "end elsewhere" in verdict.verdict


def test_a_text_beyond_all_scales_is_a_condition():
    for length in (5, 10**6):
        verdict = claim_7(inverse_frequencies(128), 10000.0, length)
        assert verdict.verdict.startswith("holds if")


# Claim 26


def computed(position):
    return torch.tensor([math.sin(position)])


def stored(position):
    return torch.zeros(512)[[position]]


def told_apart(distance):
    return torch.tensor([-0.5 * distance])


def merged(distance):
    return torch.tensor([min(distance, 128)])


def test_a_computed_absolute_encoding_refutes_it():
    verdict = claim_26({"sine": computed, "table": stored}, {"linear": told_apart}, 10**6)
    assert verdict.verdict.startswith("does not hold: tables have a limit")
    assert "computed by sine, refused by table" in verdict.evidence
    assert verdict.evidence.endswith("look the same to none")


def test_a_relative_encoding_that_merges_refutes_it_too():
    verdict = claim_26({"table": stored}, {"linear": told_apart, "buckets": merged}, 10**6)
    assert verdict.verdict == "does not hold: a relative encoding has a limit as well"


def test_it_would_hold_if_there_were_only_tables_and_linear_biases():
    assert claim_26({"table": stored}, {"linear": told_apart}, 10**6).verdict == "holds"


def test_a_row_that_is_not_finite_is_not_computed():
    verdict = claim_26({"overflow": lambda p: torch.tensor([math.inf])}, {"a": told_apart}, 10)
    assert verdict.verdict == "holds"
