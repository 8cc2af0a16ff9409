"""Chapter 7's verdicts: each function is fed what chapter 7 measures, and a case where it flips."""

from __future__ import annotations

import math

import pytest
import torch

from posenc_tutorial import inverse_frequencies, rope_cos_sin, rotate
from posenc_tutorial.claims.ch07_rope_in_practice import claim_21, claim_22


def turned(layout="interleaved", sign=1):
    def turn(x):
        positions = sign * torch.arange(x.shape[-2])
        return rotate(x, *rope_cos_sin(positions, inverse_frequencies(x.shape[-1])), layout=layout)

    return turn


def rope_encode(x, base=10000):
    """As the article prints it, with its indentation restored."""
    seq_len, dim = x.shape[-2], x.shape[-1]
    inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
    pos = torch.arange(seq_len).float()
    angles = torch.outer(pos, inv_freq)
    cos = torch.cos(angles).unsqueeze(0)
    sin = torch.sin(angles).unsqueeze(0)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)


# Claim 21


def test_the_wrong_pairs_break_the_model():
    verdict = claim_21(2.75, 2.75, 5.76, without=5.74)
    assert verdict.claim == 21 and verdict.verdict == "holds"
    assert "5.76 with the wrong pairs, 5.74 without any rotation" in verdict.evidence


def test_pairs_that_do_not_matter_flip_the_verdict():
    verdict = claim_21(2.75, 2.75, 3.2, without=5.74)
    assert verdict.verdict == "does not hold: the wrong pairs do little harm"


def test_a_conversion_that_loses_something_flips_the_verdict():
    verdict = claim_21(2.75, 2.9, 5.76, without=5.74)
    assert verdict.verdict == "does not hold: no conversion restores the model"


def test_positions_that_get_through_are_mentioned():
    """Scrambled "completely", says the article: then it is as bad as no rotation."""
    assert claim_21(2.75, 2.75, 4.0, without=5.74).verdict == (
        "holds, though some of the positions get through"
    )
    assert claim_21(2.75, 2.75, 6.5, without=5.74).verdict == "holds"


def test_claim_21_needs_finite_losses():
    with pytest.raises(ValueError, match="finite"):
        claim_21(2.75, 2.75, math.nan, without=5.74)


# Claim 22


def test_the_printed_function_keeps_scores_and_not_outputs():
    verdict = claim_22(rope_encode)
    assert verdict.claim == 22
    assert verdict.verdict.startswith("holds if queries and keys both pass through it, with inter")
    assert "outputs to those of none" in verdict.evidence
    assert "another function right for none; position 0 is not the identity" in verdict.evidence


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_rotation_in_either_layout_flips_the_verdict(layout):
    verdict = claim_22(turned(layout))
    assert verdict.verdict == "holds"
    assert f"outputs to those of {layout};" in verdict.evidence
    assert verdict.evidence.endswith("position 0 is the identity")


def test_scores_of_neither_layout_flip_the_verdict():
    for wrong in (turned(sign=-1), lambda x: x, lambda x: 2 * turned()(x)):
        assert claim_22(wrong).verdict.startswith("does not hold")


def test_a_function_that_is_right_only_for_whole_heads_is_noticed():
    def whole(x):
        return turned()(x) if x.shape[-1] == 16 else turned(sign=-1)(x)

    verdict = claim_22(lambda x: whole(x).roll(1, -1))
    assert verdict.verdict.startswith("does not hold")
    assert claim_22(lambda x: turned()(x).roll(1, -1)).verdict.startswith("holds if")
