"""Chapter 10's verdicts: each is fed what the chapter measures, and a case that flips it."""

from __future__ import annotations

import math

import pytest
import torch

from posenc_tutorial import (
    RopeParameters,
    default_rope,
    dynamic_ntk,
    inverse_frequencies,
    ntk_aware,
    position_interpolation,
    yarn,
)
from posenc_tutorial.claims.ch10_extending_context import (
    claim_13,
    claim_14,
    claim_15,
    claim_16,
    claim_17,
    claim_29,
)

# Claim 13


def bare(dim, base, alpha):
    return default_rope(dim, base * alpha).inv_freq


def test_base_times_alpha_is_near_in_size_and_backwards():
    verdict = claim_13(bare)
    assert verdict.claim == 13
    assert verdict.verdict == (
        "does not hold as said: nearly right in size, wrong in the exponent, "
        "backwards about which pairs"
    )
    assert "3.668, 3.830, 3.914" in verdict.evidence


def test_the_right_exponent_is_still_backwards():
    verdict = claim_13(lambda dim, base, alpha: ntk_aware(dim, base, alpha).inv_freq)
    assert verdict.verdict == "does not hold as said: backwards about which pairs"


def test_a_rule_that_slows_fast_pairs_most_would_hold():
    def rule(dim, base, alpha):
        divisor = torch.linspace(2 * alpha, alpha, dim // 2, dtype=torch.float64)
        return inverse_frequencies(dim, base) / divisor

    assert claim_13(rule).verdict == "holds"


def test_a_rule_of_another_size_is_told_so():
    verdict = claim_13(lambda dim, base, alpha: default_rope(dim, base * alpha**2).inv_freq)
    assert "wrong in size" in verdict.verdict


# Claim 14


def dynamic(n, trained=16):
    return dynamic_ntk(32, 1e4, 2.0, trained, n)


def test_dynamic_scaling_does_nothing_in_training():
    verdict = claim_14(dynamic, trained=16, longest=64, stale_error=0.4)
    assert verdict.claim == 14
    assert verdict.verdict == (
        "does not hold: it acts at inference only, and clashes with a cache of rotated keys"
    )
    assert "of the lengths 1 to 16, 0 get other frequencies" in verdict.evidence
    assert "slows with every token" in verdict.evidence and "0.40" in verdict.evidence


def test_a_schedule_that_acts_within_the_trained_length_would_hold():
    verdict = claim_14(lambda n: dynamic(n, 8), trained=16, longest=64, stale_error=0.4)
    assert verdict.verdict == "holds"


def test_without_an_error_there_is_no_clash():
    verdict = claim_14(dynamic, trained=16, longest=64, stale_error=0.0)
    assert verdict.verdict.endswith("agrees with a cache") and "off by" not in verdict.evidence


def test_a_formula_that_moves_in_steps_is_described_as_such():
    verdict = claim_14(
        lambda n: dynamic_ntk(32, 1e4, 1.0, 16, n, variant="qwen"),
        trained=16, longest=64, stale_error=0.4,
    )  # fmt: skip
    assert "does not slow with every token" in verdict.evidence


# Claim 15


def test_interpolation_stays_in_range_and_costs_resolution():
    verdict = claim_15(lambda s: position_interpolation(32, 1e4, s), trained=64)
    assert verdict.claim == 15 and verdict.verdict == "holds"
    assert "0 pairs reach an angle" in verdict.evidence and "3.88 with 4" in verdict.evidence


@pytest.mark.parametrize("rule", [lambda s: default_rope(32, 1e4), lambda s: ntk_aware(32, 1e4, s)])
def test_a_method_that_leaves_the_range_does_not(rule):
    verdict = claim_15(rule, trained=64)
    assert verdict.verdict == "does not hold: some pairs leave the range"


def test_slowing_only_the_unfinished_pairs_keeps_resolution_up_to_a_little():
    def rule(s):
        speeds = inverse_frequencies(32)
        speeds[5:] /= s
        return RopeParameters(speeds)

    assert claim_15(rule, trained=64).verdict == "holds"  # a little is lost, and counted

    def no_loss(s):
        speeds = inverse_frequencies(32)
        speeds[5:] = 0.0
        return RopeParameters(speeds)

    verdict = claim_15(no_loss, trained=64)
    assert verdict.verdict == "holds for the range, and costs no resolution"


# Claim 16

LOSSES = {"plain": (1.61, 2.25), "YaRN": (1.76, 1.84), "NTK-aware": (1.64, 2.01)}


def published_yarn(factor, length):
    return yarn(128, 1e4, factor, length)


def test_the_formula_holds_and_best_depends():
    verdict = claim_16(published_yarn, LOSSES)
    assert verdict.claim == 16
    assert verdict.verdict == 'holds for the formula; "best" depends on the test'
    assert "beaten by NTK-aware, plain" in verdict.evidence and "1.2773" in verdict.evidence


def test_if_nothing_beats_it_the_claim_holds():
    verdict = claim_16(published_yarn, {**LOSSES, "YaRN": (1.6, 1.84)})
    assert verdict.verdict == "holds" and "beaten by no other method" in verdict.evidence


@pytest.mark.parametrize(
    "rule",
    [
        lambda factor, length: position_interpolation(128, 1e4, factor),
        lambda factor, length: yarn(128, 1e4, factor, length, attention_factor=1.0),
        lambda factor, length: yarn(128, 1e4, factor, int(length * factor)),
        lambda factor, length: yarn(128, 1e4, factor, length, beta_fast=64.0),
    ],
)
def test_another_formula_is_told_so(rule):
    assert claim_16(rule, LOSSES).verdict == "does not hold: another formula"


def test_claim_16_needs_something_to_compare_with():
    for losses in ({"plain": (1, 2), "NTK-aware": (1, 2)}, {"YaRN": (1, 2)}):
        with pytest.raises(ValueError, match="YaRN"):
            claim_16(published_yarn, losses)


# Claim 17

TURNS = {1e4: 11, 5e5: 13}


def bases(small, large, changed):
    return {"small": small, "large": large, "changed": changed}


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        (bases({64: 1.6, 256: 2.2}, {64: 1.6, 256: 2.3}, {64: 1.8, 256: 1.9}),
         "does not hold for a model trained on short texts; changed afterwards it helps, at a "
         "price"),
        (bases({64: 1.6, 256: 2.2}, {64: 1.6, 256: 2.2}, {64: 1.8, 256: 2.5}),
         "does not hold for a model trained on short texts"),
        (bases({64: 1.6, 256: 2.2}, {64: 1.6, 256: 1.9}, {64: 1.8, 256: 1.9}),
         "holds if the model is trained with it"),
        (bases({64: 1.6, 256: 2.2}, {64: 1.6, 256: 1.9}, {64: 1.6, 256: 1.9}), "holds"),
    ],
)  # fmt: skip
def test_a_larger_base(losses, expected):
    verdict = claim_17(TURNS, losses)
    assert verdict.claim == 17 and verdict.verdict == expected
    assert "11 with the small base, 13 with the large" in verdict.evidence


def test_claim_17_needs_three_models():
    with pytest.raises(ValueError, match="changed"):
        claim_17(TURNS, {"small": {64: 1.6}, "large": {64: 1.6}})


def test_differences_are_told_in_steps():
    losses = bases({64: 1.6, 256: 2.2}, {64: 1.61, 256: 2.27}, {64: 1.8, 256: 1.6})
    evidence = claim_17(TURNS, losses).evidence
    assert "higher by more than 0.05 if trained with it" in evidence
    assert "lower by more than 0.5 if changed afterwards" in evidence
    assert "equal within 0.02 and higher by more than 0.1" in evidence


# Claim 29


def valley(far_end=2.2, near_end=2.0, start=2.3):
    return {1: (1.6, start), 16: (1.7, 1.9), 512: (near_end, far_end)}


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        (valley(), "holds"),
        (valley(far_end=1.91), "holds; within the range tried, long texts do not get worse again"),
        (valley(near_end=1.6), "does not hold"),
        (valley(start=1.9), "does not hold"),
    ],
)
def test_too_small_and_too_large(losses, expected):
    verdict = claim_29(losses, factor=4)
    assert verdict.claim == 29 and verdict.verdict == expected
    assert "alpha from 1 to 512" in verdict.evidence


def test_claim_29_needs_three_values():
    with pytest.raises(ValueError, match="at least three"):
        claim_29({1: (1.0, 2.0), 4: (1.0, 2.0)}, factor=4)


def test_the_numbers_that_the_chapter_derives():
    """Once more by other means: the exponent, the critical pair, and the alpha that is needed."""
    for dim in (32, 64, 128):
        base, s = 1e4, 4.0
        exponent = math.log(1 / s) / -((dim - 2) / dim) / math.log(s)
        assert exponent == pytest.approx(dim / (dim - 2))
        assert ntk_aware(dim, base, s).inv_freq[-1] == pytest.approx(
            float((base * s**exponent) ** -((dim - 2) / dim))
        )
    for dim, base, length, pairs in ((32, 1e4, 64, 5), (128, 1e4, 4096, 46), (128, 5e5, 8192, 35)):
        turns = length * inverse_frequencies(dim, base) / (2 * math.pi)
        assert int((turns >= 1).sum()) == pairs
        assert math.ceil(dim / 2 * math.log(length / (2 * math.pi), base)) == pairs
        needed = 4 ** ((dim - 2) / (2 * pairs))
        divisor = inverse_frequencies(dim, base) / ntk_aware(dim, base, needed).inv_freq
        assert divisor[pairs] == pytest.approx(4.0) and divisor[pairs - 1] < 4
