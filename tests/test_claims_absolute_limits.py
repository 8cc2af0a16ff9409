"""Chapter 4's verdicts: each function is fed what chapter 4 measures, and a case where it flips."""

from __future__ import annotations

import pytest
import torch

from posenc_tutorial import (
    ALiBi,
    LearnedEncoding,
    MultiHeadAttention,
    NoPE,
    RotaryEmbedding,
    ShawRelative,
    SinusoidalEncoding,
    T5Bias,
    sinusoidal_table,
)
from posenc_tutorial.claims.ch04_absolute_limits import (
    claim_8,
    claim_10,
    claim_34,
    claim_35,
    value_change,
)

DIM, HEADS = 16, 2


@pytest.fixture
def encodings():
    torch.manual_seed(0)
    t5 = T5Bias(HEADS, bidirectional=True)
    torch.nn.init.normal_(t5.weight)
    return {
        "learned": LearnedEncoding(64, DIM),
        "sinusoidal": SinusoidalEncoding(DIM),
        "NoPE": NoPE(),
        "Shaw": ShawRelative(DIM // HEADS, 4),
        "T5": t5,
        "ALiBi": ALiBi(HEADS),
        "RoPE": RotaryEmbedding(DIM // HEADS),
    }


# Claim 10


def test_only_what_is_added_reaches_the_values(encodings):
    verdict = claim_10(encodings, dim=DIM, num_heads=HEADS)
    assert verdict.claim == 10 and verdict.verdict == "holds"
    assert "moves for learned, sinusoidal, and not" in verdict.evidence
    assert "for NoPE, Shaw, T5, ALiBi, RoPE" in verdict.evidence


def test_a_rope_that_adds_flips_the_verdict(encodings):
    class Adding(RotaryEmbedding):
        def add_to_input(self, x, positions):
            return x + sinusoidal_table(positions, x.shape[-1])

    encodings["RoPE"] = Adding(DIM // HEADS)
    verdict = claim_10(encodings, dim=DIM, num_heads=HEADS)
    assert verdict.verdict == "does not hold: RoPE turns keys and moves values"


def test_values_that_cannot_read_the_positions_flip_the_verdict(encodings):
    """Positions in half of the channels, and a W_V that does not read those."""

    class Half(SinusoidalEncoding):
        def add_to_input(self, x, positions):
            half = x.shape[-1] // 2
            return torch.cat([x[..., :half], x[..., half:] + positions[:, None] / 10], -1)

    layer = MultiHeadAttention(DIM, HEADS, NoPE(), causal=True)
    layer.value.weight.data[:, DIM // 2 :] = 0
    some = {"half": Half(DIM), "RoPE": encodings["RoPE"]}
    verdict = claim_10(some, dim=DIM, num_heads=HEADS, layer=layer)
    assert verdict.verdict == "does not hold: half adds and the values stay"
    assert claim_10(some, dim=DIM, num_heads=HEADS).verdict == "holds"


def test_claim_10_needs_one_that_adds_and_one_that_turns(encodings):
    for kept in (["learned", "ALiBi"], ["RoPE", "T5"]):
        with pytest.raises(ValueError, match="add and that turn"):
            claim_10({name: encodings[name] for name in kept}, dim=DIM, num_heads=HEADS)


def test_value_change_is_relative_to_the_value(encodings):
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(DIM, HEADS, NoPE(), causal=True), torch.randn(DIM)
    change = value_change(encodings["learned"], x, torch.arange(5), layer)
    rows = encodings["learned"].weight[:5]
    by_hand = layer.value(rows - rows[0]).norm(dim=1) / layer.value(x).norm()
    torch.testing.assert_close(change, by_hand.detach(), rtol=1e-4, atol=1e-6)


# Claim 8


def rows(positions):
    return sinusoidal_table(positions, DIM)


def test_computable_is_not_usable():
    verdict = claim_8(rows, {64: 2.25, 128: 2.47, 256: 2.51}, trained=64)
    assert verdict.verdict == "holds if to extrapolate means to be computable"
    assert "at length 128, 256" in verdict.evidence


def test_a_model_that_extrapolates_flips_the_verdict():
    assert claim_8(rows, {64: 2.25, 128: 2.22, 256: 2.26}, trained=64).verdict == "holds"


def test_a_table_does_not_even_compute():
    table = LearnedEncoding(64, DIM)

    def look_up(positions):
        return table.add_to_input(torch.zeros(1, len(positions), DIM), positions)[0]

    verdict = claim_8(look_up, {64: 2.2, 128: 2.2}, trained=64)
    assert verdict.verdict == "does not hold: there is no encoding beyond"


@pytest.mark.parametrize("losses", [{128: 2.0, 256: 2.0}, {32: 2.0, 64: 2.0}])
def test_claim_8_needs_losses_on_both_sides(losses):
    with pytest.raises(ValueError, match="need a loss at 64"):
        claim_8(rows, losses, trained=64)


# Claim 34

MEASURED = {
    "random": (2.22, 2.62, 2.38),
    "plain": (2.25, 2.47, 2.35),
    "linear": (2.22, 2.27, 2.24),
}


def test_interpolation_extends():
    verdict = claim_34(MEASURED)
    assert verdict.verdict == (
        "does not hold for linear; without further training it holds for the rest"
    )
    assert "with linear; more with random, plain" in verdict.evidence


def test_without_interpolation_the_claim_holds():
    assert (
        claim_34({name: MEASURED[name] for name in ("random", "plain")}).verdict == "holds if "
        "nothing is trained further"
    )
    assert claim_34({"random": MEASURED["random"]}).verdict == "holds"


def test_claim_34_when_everything_extends():
    assert claim_34({"linear": MEASURED["linear"]}).verdict == "does not hold for linear"
    with pytest.raises(ValueError, match="at least one"):
        claim_34({})


# Claim 35

DRIFT = {0: 0.0, 8: 0.004, 32: 0.012, 48: 0.5, 64: 0.038, 1024: 0.03}
NEAR = {0: 0.39, 8: 0.39, 32: 0.37, 48: 0.1, 64: 0.32, 1024: 0.36}


def test_attention_drifts_beyond_the_trained_length():
    """Offset 48 is neither inside nor beyond, and counts for neither."""
    verdict = claim_35(DRIFT, NEAR, window=32, trained=64)
    assert verdict.verdict == "holds"
    assert "more than 2 times as far" in verdict.evidence and "falls" in verdict.evidence


def test_attention_that_stays_flips_the_verdict():
    still = {offset: min(value, 0.012) for offset, value in DRIFT.items()}
    verdict = claim_35(still, {offset: 0.4 for offset in NEAR}, window=32, trained=64)
    assert verdict.verdict == "does not hold: no further than inside"
    assert "does not fall" in verdict.evidence


@pytest.mark.parametrize("offsets", [(0, 64), (0, 8, 48)])
def test_claim_35_needs_offsets_inside_and_beyond(offsets):
    some = {offset: DRIFT[offset] for offset in offsets}
    with pytest.raises(ValueError, match="inside and beyond 64"):
        claim_35(some, some, window=32, trained=64)
