"""ALiBi: slopes, signs, alignment, exactness far out, padding."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_tutorial.alibi import ALiBi, alibi_bias, alibi_slopes
from posenc_tutorial.attention import MultiHeadAttention, attention
from posenc_tutorial.encoding import PositionalEncoding

searched = settings(deadline=None, derandomize=True, max_examples=60)


def randn(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


# --- slopes -------------------------------------------------------------------------------------

EIGHT = [2.0**-i for i in range(1, 9)]
PUBLISHED = {
    1: [2**-8],
    2: [2**-4, 2**-8],
    3: [2**-4, 2**-8, 2**-2],
    4: [2**-2, 2**-4, 2**-6, 2**-8],
    6: [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8],
    8: EIGHT,
    12: [*EIGHT, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
    16: [2 ** (-i / 2) for i in range(1, 17)],
    40: [2 ** (-i / 4) for i in range(1, 33)] + [2 ** (-i / 8) for i in range(1, 17, 2)],
}


@pytest.mark.parametrize("heads", PUBLISHED)
def test_published_slopes(heads):
    # Press et al. 2022, section 3 and the authors' get_slopes; ml-explore/mlx issue 343
    slopes = alibi_slopes(heads)
    assert slopes.shape == (heads,)
    assert slopes.tolist() == pytest.approx(PUBLISHED[heads], rel=1e-7)


def test_printed_slopes_of_twelve_heads():
    expected = [0.70710678, 0.35355339, 0.17677670, 0.08838835]
    assert alibi_slopes(12)[8:].tolist() == pytest.approx(expected, abs=5e-9)


@pytest.mark.parametrize("heads", [3, 6, 12, 40])
def test_slopes_are_not_sorted_and_no_single_power_series(heads):
    slopes = alibi_slopes(heads).tolist()
    assert slopes != sorted(slopes, reverse=True)
    assert slopes[0] != pytest.approx(2 ** (-8 / heads), rel=1e-3)


@searched
@given(log_heads=st.integers(0, 8))
def test_powers_of_two_are_one_geometric_series(log_heads):
    heads = 2**log_heads
    slopes = alibi_slopes(heads).double()
    assert float(slopes[0]) == pytest.approx(2 ** (-8 / heads), rel=1e-7)
    assert float(slopes[-1]) == pytest.approx(2**-8, rel=1e-7)
    ratios = slopes[1:] / slopes[:-1]
    assert torch.allclose(ratios, torch.full_like(ratios, 2 ** (-8 / heads)), rtol=1e-6)


@searched
@given(heads=st.integers(1, 200))
def test_any_number_of_heads_has_distinct_slopes_between_zero_and_one(heads):
    slopes = alibi_slopes(heads).tolist()
    assert len(set(slopes)) == heads
    assert all(0 < slope < 1 for slope in slopes)
    power = 2 ** int(math.log2(heads))
    assert slopes[:power] == alibi_slopes(power).tolist()
    assert slopes[power:] == alibi_slopes(2 * power).tolist()[0::2][: heads - power]


@pytest.mark.parametrize("heads", [0, -1])
def test_there_must_be_a_head(heads):
    for make in (alibi_slopes, ALiBi):
        with pytest.raises(ValueError, match=str(heads)):
            make(heads)
    with pytest.raises(ValueError, match=str(heads)):
        alibi_bias(heads, torch.arange(3), torch.arange(3))


@pytest.mark.parametrize("heads", [2.0, True, None, "8"])
def test_the_number_of_heads_is_an_integer(heads):
    for make in (alibi_slopes, ALiBi):
        with pytest.raises(TypeError):
            make(heads)


# --- the bias -----------------------------------------------------------------------------------


def test_the_bias_is_minus_slope_times_distance():
    q, k = torch.tensor([3, 0, 10]), torch.tensor([0, 1, 12, 3])
    bias = alibi_bias(8, q, k)
    assert bias.shape == (8, 3, 4)
    assert bias.dtype == torch.float32
    for head, slope in enumerate(EIGHT):
        for i, p in enumerate(q.tolist()):
            for j, r in enumerate(k.tolist()):
                assert bias[head, i, j] == -slope * abs(p - r)


@searched
@given(
    heads=st.integers(1, 12),
    q=st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=5),
    k=st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=5),
    shift=st.integers(-(2**30), 2**30),
)
def test_the_bias_depends_on_the_distance_alone(heads, q, k, shift):
    q, k = torch.tensor(q), torch.tensor(k)
    bias = alibi_bias(heads, q, k)
    assert torch.equal(alibi_bias(heads, q + shift, k + shift), bias)
    assert torch.equal(alibi_bias(heads, k, q), bias.mT)
    assert torch.equal(alibi_bias(heads, -q, -k), bias)
    distance = (q[:, None] - k).abs().double()
    exact = -alibi_slopes(heads).double()[:, None, None] * distance
    assert torch.allclose(bias.double(), exact, rtol=2e-7, atol=0)


def test_positions_far_out_are_subtracted_before_they_are_rounded():
    # float32 cannot tell 2**24 from 2**24 + 1
    far = 2**30 + torch.tensor([0, 1, 2, 3])
    near = alibi_bias(8, torch.arange(4), torch.arange(4))
    assert torch.equal(alibi_bias(8, far, far), near)
    assert near[0, 3].tolist() == [-1.5, -1.0, -0.5, 0.0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_narrow_and_unsigned_positions_do_not_wrap(dtype):
    info = torch.iinfo(dtype)
    q = torch.tensor([0, 3, info.max, max(info.min, -100)])
    k = torch.tensor([5, info.max, info.min, 0])
    expected = alibi_bias(8, q, k)
    assert torch.equal(alibi_bias(8, q.to(dtype), k.to(dtype)), expected)
    assert expected[0, 0, 0] == -2.5
    assert expected[0, 2, 2] == -0.5 * (info.max - info.min)


def test_wide_unsigned_positions_do_not_wrap():
    for dtype in (torch.uint16, torch.uint32):
        q, k = torch.tensor([0, 3]), torch.tensor([5, 40000])
        assert torch.equal(alibi_bias(2, q.to(dtype), k.to(dtype)), alibi_bias(2, q, k))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_positions_are_refused(dtype):
    with pytest.raises(TypeError, match=str(dtype).removeprefix("torch.")):
        alibi_bias(8, torch.arange(3).to(dtype), torch.arange(3))
    with pytest.raises(TypeError, match=str(dtype).removeprefix("torch.")):
        alibi_bias(8, torch.arange(3), torch.arange(3).to(dtype))


def test_batched_positions_give_a_batched_bias():
    q = torch.tensor([[0, 1, 2], [7, 9, 4]])
    k = torch.tensor([[0, 1, 2, 3], [1, 0, 9, 5]])
    bias = alibi_bias(6, q, k)
    assert bias.shape == (2, 6, 3, 4)
    for row in range(2):
        assert torch.equal(bias[row], alibi_bias(6, q[row], k[row]))
    mixed = alibi_bias(6, q, k[0])
    assert mixed.shape == (2, 6, 3, 4)
    assert torch.equal(mixed[1], alibi_bias(6, q[1], k[0]))


def test_positions_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match="position"):
        alibi_bias(2, torch.tensor(3), torch.arange(3))
    with pytest.raises(ValueError, match="position"):
        alibi_bias(2, torch.zeros(2, 3, 4, dtype=torch.long), torch.arange(3))
    with pytest.raises(ValueError, match=r"(?s)(?=.*2)(?=.*3)"):
        alibi_bias(2, torch.zeros(2, 4, dtype=torch.long), torch.zeros(3, 4, dtype=torch.long))


def test_the_rows_of_four_queries_and_six_keys():
    # Dao-AILab/flash-attention issue 907. Which query stands where is said, not guessed.
    k = torch.arange(6)
    bias = alibi_bias(1, torch.arange(2, 6), k) * 256
    assert bias[0].tolist() == [
        [-2, -1, 0, -1, -2, -3],
        [-3, -2, -1, 0, -1, -2],
        [-4, -3, -2, -1, 0, -1],
        [-5, -4, -3, -2, -1, 0],
    ]
    lone = alibi_bias(1, torch.tensor([5]), k) * 256
    assert lone[0].tolist() == [[-5, -4, -3, -2, -1, 0]]


# --- what it does to attention ------------------------------------------------------------------


def test_the_nearest_key_weighs_most():
    # meta-pytorch/attention-gym pull 86: uniform logits, slope 1/2, the last of four rows
    bias = alibi_bias(8, torch.arange(4), torch.arange(4))[0]
    weights = torch.softmax(bias.double(), -1)[3]
    expected = [0.10154, 0.16741, 0.27600, 0.45505]
    assert weights.tolist() == pytest.approx(expected, abs=5e-6)


def test_a_steeper_slope_attends_nearer():
    n = 64
    logits = randn(8, n, n)
    bias = alibi_bias(8, torch.arange(n), torch.arange(n)).double()
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    weights = torch.softmax((logits + bias).masked_fill(~causal, -math.inf), -1)
    distance = (torch.arange(n)[:, None] - torch.arange(n)).abs().double()
    mean = (weights * distance).sum(-1).mean(-1)
    assert (mean[:-1] < mean[1:]).all()
    flat = torch.softmax(logits.masked_fill(~causal, -math.inf), -1)
    assert ((flat * distance).sum(-1).mean(-1) > mean).all()


def test_the_key_index_form_is_equal_under_a_causal_mask_alone():
    # ofirpress/attention_with_linear_biases issue 9. Rows differ by a constant on the causal side.
    n, slope = 5, 0.5
    relative = alibi_bias(8, torch.arange(n), torch.arange(n))[0].double()
    key_index = (slope * torch.arange(n)).double().expand(n, n)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    for logits in (torch.zeros(n, n).double(), randn(n, n)):
        a, b = (
            torch.softmax((logits + bias).masked_fill(~causal, -math.inf), -1)
            for bias in (relative, key_index)
        )
        assert (a - b).abs().max() < 1e-15
    # Without the mask, uniform logits: the first row turns round. Its ends are 0.4287 and 0.0580.
    off = torch.softmax(relative, -1) - torch.softmax(key_index, -1)
    assert off.abs().max() == pytest.approx(0.37064, abs=5e-6)


def test_padded_keys_weigh_nothing_and_real_tokens_do_not_notice():
    # meta-pytorch/attention-gym issue 74: left padding, mask 0 0 1 1 1
    encoding = ALiBi(4)
    layer = MultiHeadAttention(16, 4, encoding, causal=True).double()
    x = randn(1, 3, 16)
    alone = layer(x)
    padded = torch.cat([randn(1, 2, 16, seed=7), x], dim=1)
    positions = torch.tensor([[0, 0, 0, 1, 2]])
    may_see = torch.tensor([[False, False, True, True, True]])[:, None, None]
    out = layer(padded, positions=positions, mask=may_see)
    assert (out[:, 2:] - alone).abs().max() < 1e-14
    q = randn(1, 4, 5, 4)
    _, weights = attention(
        q,
        q,
        q,
        bias=encoding.score_bias(positions, positions),
        mask=may_see,
        causal=True,
        q_positions=positions,
        k_positions=positions,
        return_weights=True,
    )
    assert torch.equal(weights[..., :2], torch.zeros_like(weights[..., :2]))


def test_a_common_shift_of_all_positions_changes_no_output():
    layer = MultiHeadAttention(16, 4, ALiBi(4), causal=True).double()
    x = randn(2, 6, 16)
    near = layer(x)
    assert torch.equal(layer(x, positions=torch.arange(6) + 2**20), near)
    rows = torch.stack([torch.arange(6) - 4, torch.arange(6) + 100])
    assert (layer(x, positions=rows) - near).abs().max() < 1e-14
    assert (layer(x, positions=2 * torch.arange(6)) - near).abs().max() > 1e-4


# --- the module ---------------------------------------------------------------------------------


def test_the_module_is_the_function():
    encoding = ALiBi(6)
    assert isinstance(encoding, PositionalEncoding)
    assert not encoding.length_dependent
    q, k = torch.arange(2, 5), torch.arange(7)
    assert torch.equal(encoding.score_bias(q, k), alibi_bias(6, q, k))
    assert torch.equal(encoding.score_bias(q, k, q=randn(1, 6, 3, 4)), alibi_bias(6, q, k))
    x = randn(1, 3, 6)
    assert torch.equal(encoding.add_to_input(x, q), x)
    assert encoding.rotate_query_key(x, x, q, q) == (x, x)


def test_nothing_is_trained_nothing_is_saved_and_no_cast_changes_a_slope():
    encoding = ALiBi(6)
    assert list(encoding.parameters()) == []
    assert encoding.state_dict() == {}
    far = torch.arange(0, 100000, 9999)
    expected = encoding.score_bias(far, far)
    for cast in ("bfloat16", "half", "double"):
        assert torch.equal(getattr(ALiBi(6), cast)().score_bias(far, far), expected), cast
    with torch.device("meta"):
        meta = ALiBi(6)
    assert torch.equal(meta.to_empty(device="cpu").score_bias(far, far), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(encoding.score_bias(far, far), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_cuda_the_bias_is_the_same():
    positions = torch.arange(100) + 2**24
    bias = ALiBi(12).cuda().score_bias(positions.cuda(), positions.cuda())
    assert bias.device.type == "cuda"
    assert torch.equal(bias.cpu(), alibi_bias(12, positions, positions))
