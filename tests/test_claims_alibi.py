"""Chapter 8's verdicts: each function is fed what chapter 8 measures, and a case where it flips."""

from __future__ import annotations

import pytest
import torch

from posenc_tutorial import alibi_slopes
from posenc_tutorial.claims.ch08_alibi import claim_18, claim_19, slope_pattern


def halving(heads):
    return 0.5 ** torch.arange(1, heads + 1)


def one_series(heads):
    return 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)


# Claim 18


@pytest.mark.parametrize(
    ("slopes", "pattern"),
    [
        (halving(8), "halving"),
        (halving(3).double(), "halving"),
        (alibi_slopes(4), "geometric"),
        (alibi_slopes(16), "geometric"),
        (one_series(12), "geometric"),
        (torch.tensor([0.5, 0.25, 0.2]), "sorted"),
        (2 * halving(4), "sorted"),  # 1, 1/2, 1/4: does not start with its ratio
        (alibi_slopes(12), "unsorted"),
        (alibi_slopes(12).sort(descending=True).values, "sorted"),
    ],
)
def test_patterns_of_slopes(slopes, pattern):
    assert slope_pattern(slopes) == pattern


def test_the_published_list_is_that_of_eight_heads():
    verdict = claim_18(alibi_slopes)
    assert verdict.claim == 18
    assert verdict.verdict == "holds if there are 8 heads"
    assert "starts with its own ratio with 2, 4, 16, 32, 64" in verdict.evidence
    assert "for 57 numbers of heads, none of them sorted" in verdict.evidence


def test_the_same_list_for_every_number_of_heads_flips_the_verdict():
    assert claim_18(halving).verdict == "holds"


def test_a_list_that_never_halves_flips_it_the_other_way():
    verdict = claim_18(lambda heads: 0.3 ** torch.arange(1, heads + 1))
    assert verdict.verdict == "does not hold"
    assert "with none" in verdict.evidence


def test_sorted_slopes_are_no_series_but_sorted():
    verdict = claim_18(lambda heads: alibi_slopes(heads).sort(descending=True).values)
    assert verdict.verdict == "holds if there are 8 heads"
    assert "for 57 numbers of heads, 57 of them sorted" in verdict.evidence


# Claim 19

MEASURED = {
    "ALiBi": {64: 2.28, 256: 2.28, 1024: 2.28},
    "RoPE": {64: 2.19, 256: 2.45, 1024: 3.05},
    "both": {64: 2.13, 256: 2.14, 1024: 2.17},
}


def judge(losses=MEASURED, windowed=2.27):
    return claim_19(losses, windowed, trained=64, window=64)


def test_the_loss_holds_and_distance_is_not_the_reason():
    verdict = judge()
    assert verdict.claim == 19
    assert verdict.verdict == (
        "holds for the loss; RoPE depends on relative position alone too, which is not enough; far "
        "tokens hardly count"
    )
    assert "with ALiBi, by more than that with RoPE" in verdict.evidence


def test_if_far_tokens_count_the_verdict_says_so():
    assert judge(windowed=2.6).verdict.endswith("far tokens count")


def test_if_every_encoding_of_distance_holds_the_claim_does():
    both = {name: MEASURED[name] for name in ("ALiBi", "both")}
    assert judge(both).verdict == "holds"


def test_a_loss_that_rises_flips_the_verdict():
    worse = {**MEASURED, "ALiBi": {64: 2.28, 1024: 2.9}}
    assert judge(worse).verdict == "does not hold"


def test_two_that_fail_are_both_named():
    worse = {**MEASURED, "both": {64: 2.13, 1024: 2.9}}
    assert "RoPE and both depend on relative position alone" in judge(worse).verdict


@pytest.mark.parametrize(
    "losses",
    [
        {"ALiBi": MEASURED["ALiBi"]},
        {"RoPE": MEASURED["RoPE"], "both": MEASURED["both"]},
        {**MEASURED, "ALiBi": {32: 2.3, 64: 2.28}},
        {**MEASURED, "ALiBi": {128: 2.28, 1024: 2.28}},
    ],
)
def test_claim_19_needs_something_to_compare(losses):
    with pytest.raises(ValueError, match="need"):
        judge(losses)
