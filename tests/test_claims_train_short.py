"""Chapter 9's verdicts: each is fed losses like those measured, and a case that flips it."""

from __future__ import annotations

import pytest

from posenc_tutorial.claims.ch09_train_short import claim_8, claim_20, claim_25, claim_28, claim_35

# Claim 8


def test_computable_and_degraded():
    verdict = claim_8({64: 1.8, 1024: 3.3}, trained=64, computable=True)
    assert verdict.claim == 8
    assert verdict.verdict == "holds if to extrapolate means to be computable"
    assert "can be computed" in verdict.evidence and "rises by more than 0.1" in verdict.evidence


@pytest.mark.parametrize(
    ("far", "computable", "start"), [(1.85, True, "holds"), (3.3, False, "does not hold")]
)
def test_a_sinusoid_that_is_kept_or_cannot_be_computed(far, computable, start):
    verdict = claim_8({64: 1.8, 1024: far}, trained=64, computable=computable).verdict
    assert verdict.startswith(start) and not verdict.startswith("holds if")


@pytest.mark.parametrize("losses", [{}, {64: 1.0}, {128: 1.0, 256: 1.0}])
def test_losses_inside_and_beyond_are_needed(losses):
    with pytest.raises(ValueError, match="need a loss at 64"):
        claim_8(losses, trained=64, computable=True)


# Claim 20

RELATIVE = {
    "nope": {64: 2.1, 1024: 2.4},
    "rope": {64: 1.6, 1024: 2.9},
    "t5": {64: 1.5, 1024: 1.75},
    "alibi": {64: 1.7, 1024: 1.7},
}


def test_some_relative_encodings_extrapolate():
    verdict = claim_20(RELATIVE, trained=64)
    assert verdict.claim == 20 and verdict.verdict == "does not hold for rope, t5"
    assert "not with alibi" in verdict.evidence
    assert verdict.evidence.endswith("has no positions: rope")


def test_if_all_keep_their_loss_it_holds():
    kept = {name: {64: loss[64], 1024: loss[64] + 0.05} for name, loss in RELATIVE.items()}
    assert claim_20(kept, trained=64).verdict == "holds"


def test_if_none_does_it_fails():
    lost = {name: {64: loss[64], 1024: loss[64] + 0.5} for name, loss in RELATIVE.items()}
    assert claim_20(lost, trained=64).verdict == "does not hold"


@pytest.mark.parametrize("names", [["rope"], ["nope"]])
def test_a_baseline_and_something_to_judge(names):
    with pytest.raises(ValueError, match="need 'nope' and a relative encoding"):
        claim_20({name: RELATIVE[name] for name in names}, trained=64)


# Claim 25


def sizes(scarce, plentiful):
    """Losses of learned minus sinusoidal at the two sizes."""
    return {
        65_536: {"sinusoidal": 2.5, "learned": 2.5 + scarce},
        8_000_000: {"sinusoidal": 1.8, "learned": 1.8 + plentiful},
    }


@pytest.mark.parametrize(
    ("scarce", "plentiful", "verdict"),
    [
        (0.2, -0.2, "holds"),
        (-0.2, -0.2, "holds if the data are plentiful"),
        (0.2, 0.2, "holds if the data are scarce"),
        (0.2, 0.0, "holds if the data are scarce"),
        (-0.2, 0.2, "does not hold"),
        (0.01, 0.01, "does not hold"),
    ],
)
def test_who_wins_where(scarce, plentiful, verdict):
    found = claim_25(sizes(scarce, plentiful))
    assert found.claim == 25 and found.verdict == verdict


def test_a_difference_within_the_spread_is_a_tie():
    assert claim_25(sizes(0.2, -0.2), spread=0.3).verdict == "does not hold"
    assert "neither with 65,536" in claim_25(sizes(0.2, -0.2), spread=0.3).evidence


def test_two_sizes_are_needed():
    with pytest.raises(ValueError, match="two sizes"):
        claim_25({1000: {"sinusoidal": 1.0, "learned": 1.0}})


# Claim 28


@pytest.mark.parametrize(
    ("alibi", "rope", "spread", "verdict"),
    [
        (1.71, 1.59, 0.0, "holds"),
        (1.74, 1.52, 0.02, 'holds, but for "slightly"'),
        (1.60, 1.59, 0.0, "does not hold: a tie"),
        (1.71, 1.59, 0.2, "does not hold: a tie"),
        (1.50, 1.59, 0.0, "does not hold: it is above"),
    ],
)
def test_the_ceiling(alibi, rope, spread, verdict):
    found = claim_28(alibi, rope, spread=spread)
    assert found.claim == 28 and found.verdict == verdict
    if alibi == 1.71:
        assert "0.1 nats per byte more" in found.evidence


# Claim 35

ENTROPY = {0: 2.0, 16: 2.05, 32: 2.02, 64: 2.4, 256: 2.5}
NEAR = {0: 0.5, 16: 0.48, 32: 0.49, 64: 0.3, 256: 0.3}


def test_attention_that_drifts():
    verdict = claim_35(ENTROPY, NEAR, window=32, trained=64)
    assert verdict.claim == 35 and verdict.verdict == "holds"
    assert "attention rises" in verdict.evidence and "tokens falls" in verdict.evidence


def test_attention_that_stays():
    still = dict.fromkeys(ENTROPY, 2.0)
    verdict = claim_35(still, dict.fromkeys(NEAR, 0.5), window=32, trained=64)
    assert verdict.verdict == "does not hold: no further than inside"
    assert verdict.evidence.count("stays") == 2


def test_a_change_as_large_as_those_inside_is_no_drift():
    restless = {0: 1.0, 16: 2.0, 32: 3.0, 64: 2.3, 256: 2.3}
    verdict = claim_35(restless, dict.fromkeys(NEAR, 0.5), window=32, trained=64)
    assert verdict.verdict.startswith("does not hold")


@pytest.mark.parametrize("offsets", [(0, 64), (0, 16), (64, 128)])
def test_offsets_inside_and_beyond_are_needed(offsets):
    some = dict.fromkeys(offsets, 1.0)
    with pytest.raises(ValueError, match="inside and beyond 64"):
        claim_35(some, some, window=32, trained=64)
