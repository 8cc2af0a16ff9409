"""The verdicts of chapter 02 follow what was measured: each has a counter-example."""

from __future__ import annotations

import pytest
import torch

from posenc_tutorial import LearnedEncoding, SinusoidalEncoding
from posenc_tutorial.claims.ch02_learned import claim_9, claim_36


def runner(encoding, dim=4):
    """Door 1 alone: enough to find out how many positions there are."""
    return lambda n: encoding.add_to_input(torch.zeros(1, n, dim), torch.arange(n))


CURES = {"inside": 0.81, "untrained": 0.65, "interpolated": 0.72}


def test_a_table_ends_and_interpolation_helps_in_part():
    verdict = claim_9(runner(LearnedEncoding(7, 4)), rows=7, **CURES)
    assert verdict.claim == 9
    assert verdict.verdict == "holds, and interpolating the table is a partial cure by itself"
    assert "7 tokens run, 8 raise" in verdict.evidence
    assert "quality inside 0.81" in verdict.evidence and "0.72" in verdict.evidence


def test_an_encoding_without_an_end_is_a_counter_example():
    verdict = claim_9(runner(SinusoidalEncoding(4)), rows=7, **CURES)
    assert verdict.verdict.startswith("does not hold")


def test_a_longer_table_than_said_is_a_counter_example():
    assert claim_9(runner(LearnedEncoding(8, 4)), rows=7, **CURES).verdict.startswith("does not")


@pytest.mark.parametrize(
    ("interpolated", "words"),
    [(0.67, "does not help"), (0.40, "does not help"), (0.72, "partial cure"), (0.80, "is a cure")],
)
def test_the_worth_of_interpolation_is_measured(interpolated, words):
    cures = {**CURES, "interpolated": interpolated}
    assert words in claim_9(runner(LearnedEncoding(7, 4)), rows=7, **cures).verdict


def test_a_shorter_table_than_said_decides_nothing():
    with pytest.raises(ValueError, match="7 tokens"):
        claim_9(runner(LearnedEncoding(6, 4)), rows=7, **CURES)


def test_nothing_to_win_back_decides_nothing():
    with pytest.raises(ValueError, match="lose nothing"):
        claim_9(runner(LearnedEncoding(7, 4)), rows=7, **{**CURES, "untrained": 0.81})


def test_other_errors_are_not_taken_for_the_end():
    def broken(n):
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="memory"):
        claim_9(broken, rows=7, **CURES)


MISSED = {"learned": 0.0, "sinusoidal": 0.8}


def test_a_table_that_holds_all_and_loses_least():
    verdict = claim_36(MISSED, {"learned": 2.2, "sinusoidal": 2.3, "no encoding": 2.4})
    assert verdict.claim == 36 and verdict.kind == "holds"
    assert verdict.verdict == "holds, compared with sinusoidal and no encoding only"
    assert "neither sinusoidal nor no encoding has a clearly lower loss" in verdict.evidence


def test_a_tie_is_enough():
    verdict = claim_36(MISSED, {"learned": 2.31, "sinusoidal": 2.3})
    assert verdict.verdict == "holds, compared with sinusoidal only"


def test_a_pattern_missed_is_a_counter_example():
    missed = {"learned": 0.1, "sinusoidal": 0.8}
    verdict = claim_36(missed, {"learned": 2.2, "sinusoidal": 2.3})
    assert verdict.verdict.startswith("does not hold")


def test_a_better_encoding_at_the_trained_length_is_a_counter_example():
    verdict = claim_36(MISSED, {"learned": 2.4, "sinusoidal": 2.3, "no encoding": 2.5})
    assert verdict.verdict.startswith("holds if only expressing is meant")
    assert "sinusoidal has the lower loss" in verdict.evidence


@pytest.mark.parametrize("numbers", [{"learned": 1.0}, {"sinusoidal": 1.0, "none": 1.0}])
def test_nothing_to_compare_is_an_error(numbers):
    with pytest.raises(ValueError, match="losses"):
        claim_36(MISSED, numbers)
    with pytest.raises(ValueError, match="leftover"):
        claim_36(numbers, {"learned": 2.2, "sinusoidal": 2.3})


def test_the_evidence_does_not_depend_on_the_last_digits_of_training():
    """The losses differ between machines; the printed line must not."""
    one = claim_36(MISSED, {"learned": 2.2, "sinusoidal": 2.3})
    two = claim_36(MISSED, {"learned": 2.2004, "sinusoidal": 2.2996})
    assert repr(one) == repr(two)
