"""Rotation on a grid: scores depend on row and column differences, and on nothing else."""

from __future__ import annotations

import pytest
import torch

from posenc_tutorial import MultiHeadAttention, RotaryEmbedding, inverse_frequencies
from posenc_tutorial.multi_axis import GridRotaryEmbedding, axial_cos_sin

GENERATOR = torch.Generator().manual_seed(13)


def random(*shape, dtype=torch.float64):
    return torch.randn(*shape, generator=GENERATOR, dtype=dtype)


def score(encoding, q, k, at_query, at_key):
    places = [torch.tensor([row * encoding.columns + column]) for row, column in (at_query, at_key)]
    turned = encoding.rotate_query_key(q[None, None, None], k[None, None, None], *places)
    return float((turned[0] * turned[1]).sum())


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_a_score_depends_on_row_and_column_differences_only(layout):
    encoding = GridRotaryEmbedding(16, 100, layout=layout)
    q, k = random(16), random(16)
    first = score(encoding, q, k, (2, 3), (5, 1))
    for down, right in ((0, 40), (7, 0), (50, 60)):
        moved = score(encoding, q, k, (2 + down, 3 + right), (5 + down, 1 + right))
        assert moved == pytest.approx(first, abs=1e-12)
    assert abs(score(encoding, q, k, (2, 3), (5, 2)) - first) > 1e-3
    assert abs(score(encoding, q, k, (2, 3), (6, 1)) - first) > 1e-3


def test_a_score_does_not_depend_on_the_width_of_the_grid():
    q, k = random(16), random(16)
    narrow, wide = (
        score(GridRotaryEmbedding(16, columns), q, k, (4, 2), (3, 5)) for columns in (8, 31)
    )
    assert narrow == pytest.approx(wide, abs=1e-12)


def test_in_one_row_the_columns_turn_like_plain_rope_and_the_rows_stand_still():
    x = random(1, 1, 5, 8)
    place = torch.arange(5)
    turned, _ = GridRotaryEmbedding(8, 5, layout="interleaved").rotate_query_key(x, x, place, place)
    alone, _ = RotaryEmbedding(4, layout="interleaved")(x[..., 4:], x[..., 4:])
    assert torch.equal(turned[..., :4], x[..., :4])
    torch.testing.assert_close(turned[..., 4:], alone, rtol=0, atol=1e-15)


def test_in_one_column_it_is_the_other_way_round():
    x = random(1, 1, 5, 8)
    place = torch.arange(5)
    turned, _ = GridRotaryEmbedding(8, 1, layout="interleaved").rotate_query_key(x, x, place, place)
    alone, _ = RotaryEmbedding(4, layout="interleaved")(x[..., :4], x[..., :4])
    assert torch.equal(turned[..., 4:], x[..., 4:])
    torch.testing.assert_close(turned[..., :4], alone, rtol=0, atol=1e-15)


def test_by_hand():
    cos, sin = axial_cos_sin(torch.tensor([3]), torch.tensor([5]), inverse_frequencies(4, 100.0))
    expected = torch.tensor([[3.0, 0.3, 5.0, 0.5]])
    torch.testing.assert_close(torch.atan2(sin, cos), expected.sin().atan2(expected.cos()))


def test_lengths_are_kept_and_half_precision_is_cast_back():
    x = random(2, 3, 12, 8, dtype=torch.float32)
    place = torch.arange(12)
    encoding = GridRotaryEmbedding(8, 4)
    turned, _ = encoding.rotate_query_key(x, x, place, place)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    rough, _ = encoding.rotate_query_key(x.bfloat16(), x.bfloat16(), place, place)
    assert rough.dtype == torch.bfloat16


def test_inside_attention_with_a_row_of_positions_for_each_sequence():
    layer = MultiHeadAttention(16, 2, GridRotaryEmbedding(8, 4), causal=False)
    x = random(2, 6, 16, dtype=torch.float32)
    place = torch.stack([torch.arange(6), torch.arange(6) + 4])  # one row further down
    with torch.no_grad():
        moved = layer(x, positions=place)
        torch.testing.assert_close(moved, layer(x), rtol=0, atol=1e-5)
        across = layer(x, positions=torch.arange(6) + 1)  # a row is broken at another place
        assert float((across - layer(x)).abs().max()) > 1e-4


def test_coordinates():
    row, column = GridRotaryEmbedding(4, 5).coordinates(torch.tensor([[0, 4], [5, 14]]))
    assert row.tolist() == [[0, 0], [1, 2]] and column.tolist() == [[0, 4], [0, 4]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((6, 4), ValueError, "multiple of 4, got 6"),
        ((0, 4), ValueError, "multiple of 4, got 0"),
        ((8, 0), ValueError, "columns must be at least 1, got 0"),
        ((8.0, 4), TypeError, "head_dim must be an integer, got 8.0"),
        ((8, True), TypeError, "columns must be an integer, got True"),
    ],
)
def test_what_cannot_be_a_grid(arguments, error, message):
    with pytest.raises(error, match=message):
        GridRotaryEmbedding(*arguments)


def test_other_errors():
    with pytest.raises(ValueError, match="layout"):
        GridRotaryEmbedding(8, 4, layout="quarter")
    encoding = GridRotaryEmbedding(8, 4)
    with pytest.raises(TypeError, match="must be integers, got torch.float32"):
        encoding.coordinates(torch.tensor([0.5]))
    x, place = random(1, 1, 3, 8), torch.arange(3)
    with pytest.raises(ValueError, match=r"k must have shape \(batch, heads, n, 8\)"):
        encoding.rotate_query_key(x, x[..., :4], place, place)
    with pytest.raises(ValueError, match="one shape"):
        axial_cos_sin(place, torch.arange(4), encoding.inv_freq)
