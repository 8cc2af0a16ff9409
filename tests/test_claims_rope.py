"""Chapter 6's verdicts: each function is fed what chapter 6 measures, and a case where it flips."""

from __future__ import annotations

import pytest
import torch

from posenc_tutorial import (
    ALiBi,
    LearnedEncoding,
    NoPE,
    RotaryEmbedding,
    ShawRelative,
    SinusoidalEncoding,
    T5Bias,
    inverse_frequencies,
    rope_cos_sin,
    rotate,
)
from posenc_tutorial.claims.ch06_rope import (
    claim_11,
    claim_12,
    claim_23,
    claim_33,
    moved_output,
    offset_spread,
)


def turning(dim, layout="half", sign=1):
    speeds = inverse_frequencies(dim)

    def turn(x, positions):
        tables = rope_cos_sin(sign * positions, speeds, dtype=torch.float64)
        return rotate(x, *tables, layout=layout)

    return turn


def with_angles(theta):
    def turn(x, positions):
        angle = theta(positions, inverse_frequencies(64).float())
        return rotate(x.float(), angle.cos(), angle.sin())

    return turn


def stays(x, positions):
    return x


# Claim 11

EXACT = {layout: turning(64, layout) for layout in ("half", "interleaved")}
ROUNDED = {
    "angles in bfloat16": with_angles(lambda p, w: (p[:, None] * w).bfloat16().float()),
    "positions in bfloat16": with_angles(lambda p, w: p.bfloat16().float()[:, None] * w),
    "angles in float32": with_angles(lambda p, w: p.float()[:, None] * w),
}


def test_scores_of_one_offset_are_equal_in_both_layouts():
    verdict = claim_11(EXACT, length=300)
    assert verdict.claim == 11 and verdict.verdict == "holds exactly"
    assert "599 offsets among 300 positions" in verdict.evidence
    assert "less than 1e-12 (half, interleaved)" in verdict.evidence


def test_it_is_said_which_roundings_break_it():
    verdict = claim_11(EXACT, ROUNDED, length=400)
    assert verdict.verdict == (
        "holds exactly, and breaks with angles in bfloat16, positions in bfloat16"
    )
    assert "at most 0.1 with angles in float32" in verdict.evidence


def test_positions_up_to_256_survive_bfloat16():
    some = {"positions in bfloat16": ROUNDED["positions in bfloat16"]}
    assert claim_11(EXACT, some, length=256).verdict == "holds exactly"


def added_places(x, positions):
    return x + positions[:, None].sin()


def stretched(x, positions):
    return turning(64)(x, positions) * (1 + 1e-6 * positions[:, None])


@pytest.mark.parametrize("wrong", [added_places, stretched])
def test_something_that_is_no_rotation_flips_the_verdict(wrong):
    verdict = claim_11({"half": EXACT["half"], "wrong": wrong}, length=64)
    assert verdict.verdict == "does not hold for wrong"


def test_offset_spread_is_the_largest_difference_on_a_diagonal():
    def by_position(x, positions):
        return x * positions[:, None]

    q, k = torch.randn(2, 1, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    base = float(q[0] @ k[0]) / 8**0.5
    n = 6
    products = torch.arange(n)[:, None] * torch.arange(n)[None] * base
    worst = max(float(products.diagonal(o).max() - products.diagonal(o).min()) for o in range(n))
    assert offset_spread(by_position, dim=8, length=n) == pytest.approx(worst)
    assert offset_spread(turning(8), dim=8, length=40, start=100000) < 1e-10


def test_claim_11_needs_a_rotation():
    with pytest.raises(ValueError, match="at least one"):
        claim_11({}, ROUNDED)


# Claim 12


def test_only_the_average_over_equal_vectors_falls():
    verdict = claim_12(turning(64))
    assert verdict.claim == 12
    assert verdict.verdict == "does not hold in general: only the average over q = k falls"
    assert "largest at 10, 100, 1000" in verdict.evidence


def damped(sign, rate=0.02):
    """The product of the two carries a factor that falls with the distance, as in xPos."""

    def turn(x, positions):
        return turning(64)(x, positions) * torch.exp(sign * rate * positions.double())[:, None]

    return turn


def test_a_damped_rotation_flips_the_verdict():
    verdict = claim_12(damped(-1), damped(1), built=(10, 100))
    assert verdict.verdict == "holds"
    assert "falls to less than half and the spread over random q and k falls" in verdict.evidence
    mild = claim_12(damped(-1, 0.0004), damped(1, 0.0004))
    assert mild.verdict == "does not hold in general"  # falls, and can look anywhere all the same


def test_no_rotation_has_no_falling_average():
    assert claim_12(stays).verdict == "does not hold: not even the average falls"


def test_one_fast_pair_alone_does_not_fall():
    def turn(x, positions):
        tables = rope_cos_sin(positions, torch.tensor([1e-6] * 32), dtype=torch.float64)
        return rotate(x, *tables)

    assert claim_12(turn, built=(3, 5)).verdict == "does not hold: not even the average falls"


def test_claim_12_needs_two_distances():
    with pytest.raises(ValueError, match="far must be larger than near, got 5 and 5"):
        claim_12(turning(64), near=5, far=5)


# Claim 23


def test_values_stay_still_or_are_turned_back():
    verdict = claim_23(turning(16))
    assert verdict.claim == 23
    assert verdict.verdict == "holds; turned values must be turned back"
    assert "102 % with values turned," in verdict.evidence


def test_if_nothing_turns_values_may_be_turned_too():
    assert claim_23(stays).verdict == "does not hold: values may be turned as well"


def test_an_encoding_that_adds_flips_the_verdict():
    def adds(x, positions):
        return x + positions[:, None].double().sin()

    assert claim_23(adds).verdict == "does not hold: the output moves although values are still"


def test_moved_output_knows_three_ways():
    with pytest.raises(ValueError, match="'twice'"):
        moved_output(stays, values="twice", shift=0)
    still = moved_output(turning(16), values="still", shift=0)
    assert still.shape == (12, 16) and still.dtype == torch.float64
    first = moved_output(turning(16), values="turned", shift=0)[0]
    torch.testing.assert_close(first, still[0])  # the first token sees itself, at position 0


# Claim 33


@pytest.fixture
def encodings():
    torch.manual_seed(0)
    return {
        "learned": LearnedEncoding(64, 32),
        "sinusoidal": SinusoidalEncoding(32),
        "NoPE": NoPE(),
        "Shaw": ShawRelative(8, 8),
        "T5": T5Bias(4, bidirectional=True),
        "ALiBi": ALiBi(4),
        "RoPE": RotaryEmbedding(8),
    }


class Recurrent(NoPE):
    """Position information that is handed on from token to token."""

    def add_to_input(self, x, positions):
        return x + x.cumsum(1)


class RelativeToTheFirstKey(RotaryEmbedding):
    """Positions are counted from the text's mean position: no token knows its own alone."""

    def rotate_query_key(self, q, k, q_positions, k_positions):
        middle = k_positions.sum() // 2
        return super().rotate_query_key(q, k, q_positions - middle, k_positions - middle)


class RankBias(ALiBi):
    """A bias by the number of tokens in between rather than by positions."""

    def score_bias(self, q_positions, k_positions, *, q=None):
        q_positions = torch.arange(len(q_positions))
        return super().score_bias(q_positions, torch.arange(len(k_positions)))


def test_all_encodings_of_the_course_are_parallel(encodings):
    verdict = claim_33(encodings, "RoPE", dim=32, num_heads=4)
    assert verdict.claim == 33 and verdict.verdict == "holds, but sets nothing apart"
    assert verdict.evidence.endswith("learned, sinusoidal, NoPE, Shaw, T5, ALiBi, RoPE")


def test_an_encoding_that_waits_is_found(encodings):
    others = {"recurrent": Recurrent(), "by rank": RankBias(4), "RoPE": encodings["RoPE"]}
    verdict = claim_33(others, "RoPE", dim=32, num_heads=4)
    assert verdict.verdict == "holds, and sets RoPE apart"
    assert verdict.evidence.endswith("not so: recurrent, by rank")


def test_a_rope_that_waits_flips_the_verdict(encodings):
    encodings["RoPE"] = RelativeToTheFirstKey(8)
    verdict = claim_33(encodings, "RoPE", dim=32, num_heads=4)
    assert verdict.verdict == "does not hold: tokens wait for each other"


def test_claim_33_is_about_one_of_them(encodings):
    with pytest.raises(ValueError, match="'rope' is not one of learned"):
        claim_33(encodings, "rope", dim=32, num_heads=4)
