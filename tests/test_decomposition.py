"""Taking scores apart: the sum is the score, and the shares are what their definitions say."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc_tutorial import (
    LearnedEncoding,
    MultiHeadAttention,
    NoPE,
    SinusoidalEncoding,
    attention_scores,
    shift_matrix,
    sinusoidal_table,
)
from posenc_tutorial.decomposition import (
    TERMS,
    distance_share,
    first_layer_rows,
    head_weights,
    jensen_shannon,
    mass_by_distance,
    score_terms,
    slope_share,
)
from posenc_tutorial.lm import LanguageModel, attention_maps


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


BACK = torch.arange(24)[:, None] - torch.arange(24)

# The four terms


@given(st.integers(1, 9), st.integers(1, 8), st.integers(1, 6), st.integers(0, 99))
def test_the_terms_add_up_to_the_score(n, dim, head_dim, seed):
    content, position = draw(2, n, dim, seed=seed)
    w_q, w_k = draw(2, dim, head_dim, seed=seed + 1)
    q, k = (content + position) @ w_q, (content + position) @ w_k
    score = attention_scores(q[None, None], k[None, None])[0, 0]
    terms = score_terms(content, position, w_q, w_k)
    assert terms.shape == (4, n, n)
    torch.testing.assert_close(terms.sum(0), score, rtol=0, atol=1e-12)


def test_each_term_is_the_product_that_its_name_says():
    content, position = draw(2, 5, 4)
    w_q, w_k = draw(2, 4, 3, seed=1)
    parts = {"content": content, "position": position}
    for name, term in zip(TERMS, score_terms(content, position, w_q, w_k, scale=0.5), strict=True):
        of_query, of_key = (parts[part] for part in name.split("-"))
        for m in range(5):
            for n in range(5):
                by_hand = 0.5 * float(of_query[m] @ w_q @ w_k.T @ of_key[n])
                assert float(term[m, n]) == pytest.approx(by_hand, abs=1e-12)


def test_moving_a_text_leaves_only_content_content_alone():
    content, weights = draw(6, 8), draw(2, 8, 4, seed=1)
    here, there = (sinusoidal_table(torch.arange(6) + s, 8, dtype=torch.float64) for s in (0, 9))
    gaps = (score_terms(content, here, *weights) - score_terms(content, there, *weights)).abs()
    assert [bool(gap.max() > 1e-6) for gap in gaps] == [False, True, True, True]


@pytest.mark.parametrize(
    ("position", "key_weight", "message"),
    [
        (draw(5, 4), draw(4, 3), r"\(6, 4\) and \(5, 4\)"),
        (draw(6, 4), draw(5, 3), r"\(4, head_dim\).*\(4, 3\) and \(5, 3\)"),
        (draw(6, 4), draw(4, 2), r"\(4, 3\) and \(4, 2\)"),
    ],
)
def test_shapes_that_do_not_fit(position, key_weight, message):
    with pytest.raises(ValueError, match=message):
        score_terms(draw(6, 4), position, draw(4, 3), key_weight)


def test_head_weights_are_those_of_the_head():
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 3, NoPE(), causal=False).double()
    x = draw(7, 12)
    q = layer.query(x).view(7, 3, 4)
    for head in range(3):
        w_q, w_k = head_weights(layer, head)
        assert w_q.shape == w_k.shape == (12, 4)
        torch.testing.assert_close(x @ w_q, q[:, head].detach(), rtol=0, atol=1e-12)
        torch.testing.assert_close(x @ w_k, layer.key(x).view(7, 3, 4)[:, head].detach())
    with pytest.raises(IndexError, match="0 … 2, got 3"):
        head_weights(layer, 3)


@pytest.mark.parametrize("encoding", [LearnedEncoding(40, 16), SinusoidalEncoding(16, scale=0.03)])
def test_the_terms_rebuild_the_attention_of_a_language_model(encoding):
    """With a gain that is not 1, at an offset, in float64: exact although a norm is not linear."""
    torch.manual_seed(0)
    model = LanguageModel(encoding, dim=16, num_layers=2, num_heads=2).double()
    norm = model.blocks[0].attention_norm
    norm.weight.data = 1 + 0.3 * draw(16)
    tokens = torch.randint(256, (2, 9), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(9) + 20
    content, position = first_layer_rows(model, tokens, positions=positions)
    with torch.no_grad():
        maps = attention_maps(model, tokens, positions=positions)[0]  # (batch, heads, n, n)
        read = norm(model.encoding.add_to_input(model.embedding(tokens), positions))
    torch.testing.assert_close(content + position, read, rtol=0, atol=1e-12)
    future = torch.ones(9, 9, dtype=torch.bool).triu(1)
    for row in range(2):
        for head in range(2):
            weights = head_weights(model.blocks[0].attention, head)
            score = score_terms(content[row], position[row], *weights).sum(0)
            rebuilt = score.masked_fill(future, -math.inf).softmax(-1)
            torch.testing.assert_close(rebuilt, maps[row, head], rtol=0, atol=1e-10)


def test_without_an_encoding_there_is_no_position_part():
    model = LanguageModel(NoPE(), dim=8, num_layers=1, num_heads=2)
    content, position = first_layer_rows(model, torch.arange(5)[None])
    assert not position.any() and content.any()


# Shares


@pytest.mark.parametrize("causal", [True, False])
def test_a_function_of_distance_has_share_one_whatever_the_query_adds(causal):
    of_distance = torch.sin(BACK / 3.0) + (BACK > 5)
    assert distance_share(of_distance, causal=causal) == pytest.approx(1)
    added = of_distance + 7 * draw(24, 1) ** 2
    assert distance_share(added, causal=causal) == pytest.approx(1)
    assert distance_share(added, causal=causal, beyond_slope=True) == pytest.approx(1)


def test_a_function_of_the_key_has_a_small_share_unless_it_is_a_slope():
    n = torch.arange(24.0)
    assert distance_share(torch.sin(n).expand(24, 24)) < 0.3
    assert distance_share((3 - 2 * n).expand(24, 24)) == pytest.approx(1)
    assert slope_share((3 - 2 * n).expand(24, 24)) == pytest.approx(1)
    assert slope_share(torch.sin(n).expand(24, 24)) < 0.3
    with pytest.raises(ValueError, match="only a slope"):
        distance_share((3 - 2 * n).expand(24, 24), beyond_slope=True)


def test_a_mask_hides_what_it_hides():
    visible = torch.sin(BACK / 3.0)
    noise = torch.where(BACK < 0, draw(24, 24).float(), visible)
    assert distance_share(noise) == pytest.approx(1)
    assert distance_share(noise, causal=False) < 0.9


def test_noise_has_about_the_share_of_its_parameters():
    """24 distances less one for the mean, out of 300 entries less 24 row means."""
    shares = [distance_share(draw(24, 24, seed=seed)) for seed in range(40)]
    assert sum(shares) / 40 == pytest.approx(23 / 276, abs=0.02)


def test_share_against_a_fit_written_differently():
    """One regression on rows, and one on rows and distances, with dummy variables."""
    scores = draw(10, 10)
    query, key = torch.ones(10, 10).tril().nonzero().T
    y = scores[query, key][:, None]
    rows = torch.eye(10, dtype=torch.float64)[query]
    distances = torch.eye(10, dtype=torch.float64)[query - key]

    def rest(design):
        fit = torch.linalg.lstsq(design, y, driver="gelsd").solution
        return float((y - design @ fit).square().sum())

    expected = 1 - rest(torch.cat([rows, distances], 1)) / rest(rows)
    assert distance_share(scores) == pytest.approx(expected, abs=1e-10)
    slope = torch.cat([rows, key[:, None].double()], 1)
    assert slope_share(scores) == pytest.approx(1 - rest(slope) / rest(rows), abs=1e-10)
    both = 1 - rest(torch.cat([slope, distances], 1)) / rest(slope)
    assert distance_share(scores, beyond_slope=True) == pytest.approx(both, abs=1e-10)


def test_the_shift_matrix_looks_back_from_everywhere():
    rows = sinusoidal_table(torch.arange(24) + 5000, 16, dtype=torch.float64)
    scores = rows @ shift_matrix(3, 16) @ rows.T
    assert distance_share(scores, beyond_slope=True) == pytest.approx(1)
    assert (scores[3:].argmax(1) == torch.arange(21)).all()


@pytest.mark.parametrize("scores", [torch.zeros(5, 4), torch.zeros(3, 3), torch.zeros(2, 5, 5)])
def test_shares_need_a_square_matrix(scores):
    with pytest.raises(ValueError, match="must have shape"):
        distance_share(scores)


def test_rows_that_do_not_vary_have_no_share():
    with pytest.raises(ValueError, match="nothing varies"):
        distance_share(torch.arange(6.0)[:, None].expand(6, 6))


# Attention compared


def test_jensen_shannon_at_its_ends_and_between():
    a, b = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0]]), torch.tensor([[0.0, 0, 1], [0.5, 0.5, 0]])
    torch.testing.assert_close(jensen_shannon(a, b), torch.tensor([math.log(2), 0.0]))
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0])
    by_hand = 0.5 * (0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)) + 0.5 * math.log(
        1 / 0.75
    )
    assert float(jensen_shannon(p, q)) == pytest.approx(by_hand)
    assert float(jensen_shannon(q, p)) == pytest.approx(by_hand)


def test_mass_by_distance():
    weights = torch.tensor([[1.0, 0, 0], [0.25, 0.75, 0], [0.5, 0.2, 0.3]])
    expected = torch.tensor([(1 + 0.75 + 0.3) / 3, (0.25 + 0.2) / 2, 0.5])
    torch.testing.assert_close(mass_by_distance(weights), expected)
    torch.testing.assert_close(mass_by_distance(weights.expand(2, 3, 3, 3)), expected)
    late = torch.tensor([(0.75 + 0.3) / 2, (0.25 + 0.2) / 2, 0.5])
    torch.testing.assert_close(mass_by_distance(weights[1:]), late)
    with pytest.raises(ValueError, match="got 3 and 2"):
        mass_by_distance(weights[:, :2])
