"""Attention written out: against PyTorch's own, its masks, its caches and its errors."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from posenc_tutorial import (
    ALiBi,
    NoPE,
    RotaryEmbedding,
    ShawRelative,
    SinusoidalEncoding,
    T5Bias,
)
from posenc_tutorial.attention import (
    KeyValueCache,
    MultiHeadAttention,
    attention,
    attention_scores,
)

BATCH, HEADS, N, HEAD_DIM = 2, 3, 5, 4


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def qkv(n_q=N, n_k=N, seed=0, dtype=torch.float64):
    return (
        random(BATCH, HEADS, n_q, HEAD_DIM, seed=seed, dtype=dtype),
        random(BATCH, HEADS, n_k, HEAD_DIM, seed=seed + 1, dtype=dtype),
        random(BATCH, HEADS, n_k, HEAD_DIM, seed=seed + 2, dtype=dtype),
    )


def random_mask(*shape, seed=3):
    """About half of the keys, and always the first, so that every query sees something."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask[..., 0] = True
    return mask


# Scores


@pytest.mark.parametrize("scale", [None, 1.0, 0.3])
def test_scores_are_scaled_dot_products(scale):
    q, k, _ = qkv(4, 6)
    scores = attention_scores(q, k, scale=scale)
    assert scores.shape == (BATCH, HEADS, 4, 6)
    factor = 1 / math.sqrt(HEAD_DIM) if scale is None else scale
    for i in range(4):
        for j in range(6):
            expected = (q[:, :, i] * k[:, :, j]).sum(-1) * factor
            torch.testing.assert_close(scores[:, :, i, j], expected)


def test_the_bias_is_added_after_scaling():
    q, k, _ = qkv(4, 6)
    for bias in (random(HEADS, 4, 6), random(BATCH, HEADS, 4, 6)):
        with_bias = attention_scores(q, k, scale=0.5, bias=bias)
        torch.testing.assert_close(
            with_bias - attention_scores(q, k, scale=0.5), bias.expand(BATCH, HEADS, 4, 6)
        )


# Parity with PyTorch


MASKS = {
    "none": lambda n_q, n_k: None,
    "queries and keys": lambda n_q, n_k: random_mask(n_q, n_k),
    "one for each row": lambda n_q, n_k: random_mask(BATCH, n_q, n_k),
    "one for each head": lambda n_q, n_k: random_mask(BATCH, HEADS, n_q, n_k),
    "heads broadcast": lambda n_q, n_k: random_mask(BATCH, 1, n_q, n_k),
    "batch broadcast": lambda n_q, n_k: random_mask(1, HEADS, n_q, n_k),
    "keys only": lambda n_q, n_k: random_mask(BATCH, 1, 1, n_k),
}
BIASES = {
    "none": lambda n_q, n_k: None,
    "heads": lambda n_q, n_k: random(HEADS, n_q, n_k, seed=9),
    "batch and heads": lambda n_q, n_k: random(BATCH, HEADS, n_q, n_k, seed=9),
}


def torch_attention(q, k, v, *, bias=None, mask=None, scale=None):
    joint = torch.zeros(BATCH, HEADS, q.shape[2], k.shape[2], dtype=q.dtype)
    if bias is not None:
        joint = joint + bias
    if mask is not None:
        mask = mask[:, None] if mask.dim() == 3 else mask
        joint = joint.masked_fill(~mask, -math.inf)
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=joint, scale=scale)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize(("n_q", "n_k"), [(5, 5), (3, 7), (1, 6)])
def test_equals_pytorch_for_every_mask_and_bias(mask, bias, n_q, n_k):
    q, k, v = qkv(n_q, n_k)
    mask, bias = MASKS[mask](n_q, n_k), BIASES[bias](n_q, n_k)
    for scale in (None, 0.7):
        out = attention(q, k, v, bias=bias, mask=mask, scale=scale)
        expected = torch_attention(q, k, v, bias=bias, mask=mask, scale=scale)
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
        assert out.shape == q.shape


def test_equals_pytorch_with_a_causal_mask():
    q, k, v = qkv()
    expected = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(attention(q, k, v, causal=True), expected, rtol=0, atol=1e-12)


def test_causal_and_a_mask_both_apply():
    q, k, v = qkv()
    mask = random_mask(BATCH, N, N)
    joint = mask & torch.ones(N, N, dtype=torch.bool).tril()
    out = attention(q, k, v, causal=True, mask=mask)
    torch.testing.assert_close(out, torch_attention(q, k, v, mask=joint), rtol=0, atol=1e-12)


def test_value_width_may_differ_from_head_width():
    q, k, _ = qkv(4, 6)
    v = random(BATCH, HEADS, 6, 7)
    torch.testing.assert_close(
        attention(q, k, v), functional.scaled_dot_product_attention(q, k, v), rtol=0, atol=1e-12
    )


# Symmetry


@settings(max_examples=25, deadline=None, derandomize=True)
@given(order=st.permutations(range(N)))
def test_without_positions_attention_commutes_with_every_permutation(order):
    q, k, v = qkv()
    order = torch.tensor(order)
    out = attention(q, k, v)
    # Queries, keys and values permuted together: the output is permuted (equivariance).
    together = attention(q[:, :, order], k[:, :, order], v[:, :, order])
    torch.testing.assert_close(together, out[:, :, order], rtol=0, atol=1e-13)
    # Keys and values permuted alone: the output stays (a sum over a set).
    keys_alone = attention(q, k[:, :, order], v[:, :, order])
    torch.testing.assert_close(keys_alone, out, rtol=0, atol=1e-13)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(order=st.permutations(range(N)))
def test_causal_attention_reads_positions_not_memory_order(order):
    """Tokens stored in any order, each with its position, give what the sorted ones give."""
    q, k, v = qkv()
    order = torch.tensor(order)
    expected = attention(q, k, v, causal=True)
    out = attention(
        q[:, :, order],
        k[:, :, order],
        v[:, :, order],
        causal=True,
        q_positions=order,
        k_positions=order,
    )
    torch.testing.assert_close(out, expected[:, :, order], rtol=0, atol=1e-13)


def test_a_causal_mask_breaks_the_symmetry():
    q, k, v = qkv()
    order = torch.tensor([4, 3, 2, 1, 0])
    out = attention(q[:, :, order], k[:, :, order], v[:, :, order], causal=True)
    assert (out - attention(q, k, v, causal=True)[:, :, order]).abs().max() > 0.1


# Causal by positions


def test_causal_positions_decide_who_sees_whom():
    q, k, v = qkv(3, 5)
    q_positions, k_positions = torch.tensor([10, 2, -7]), torch.tensor([2, 11, 10, -7, 0])
    _, weights = attention(
        q,
        k,
        v,
        causal=True,
        q_positions=q_positions,
        k_positions=k_positions,
        return_weights=True,
    )
    allowed = k_positions[None, :] <= q_positions[:, None]
    assert torch.equal(weights > 0, allowed.expand_as(weights))


def test_causal_positions_may_differ_from_row_to_row():
    q, k, v = qkv(2, 4)
    q_positions = torch.tensor([[2, 3], [0, 1]])
    k_positions = torch.tensor([[0, 1, 2, 3], [-2, -1, 0, 1]])
    out, weights = attention(
        q,
        k,
        v,
        causal=True,
        q_positions=q_positions,
        k_positions=k_positions,
        return_weights=True,
    )
    allowed = k_positions[:, None, :] <= q_positions[:, :, None]
    assert torch.equal(weights > 0, allowed[:, None].expand_as(weights))
    torch.testing.assert_close(out, torch_attention(q, k, v, mask=allowed), rtol=0, atol=1e-12)
    # One side shared by all rows, the other not.
    mixed = attention(
        q,
        k,
        v,
        causal=True,
        q_positions=q_positions,
        k_positions=k_positions[0],
    )
    allowed = k_positions[0][None, None, :] <= q_positions[:, :, None]
    torch.testing.assert_close(mixed, torch_attention(q, k, v, mask=allowed), rtol=0, atol=1e-12)


def test_positions_without_causal_change_nothing():
    q, k, v = qkv()
    positions = torch.arange(N)
    out = attention(q, k, v, q_positions=positions, k_positions=positions)
    torch.testing.assert_close(out, attention(q, k, v), rtol=0, atol=0)


# Weights, empty rows, padding


def test_weights_are_those_of_the_output():
    q, k, v = qkv(3, 6)
    mask = random_mask(BATCH, 3, 6)
    out, weights = attention(q, k, v, mask=mask, return_weights=True)
    assert weights.shape == (BATCH, HEADS, 3, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, HEADS, 3).double())
    torch.testing.assert_close(weights @ v, out)
    assert bool((weights >= 0).all())
    torch.testing.assert_close(out, attention(q, k, v, mask=mask), rtol=0, atol=0)


def test_padding_keys_get_a_weight_of_exactly_zero():
    """And what stands in them is never seen, even when it is enormous."""
    q, k, v = qkv(3, 6)
    mask = torch.tensor([[False, False, True, True, True, True]] * 2)[:, None, None, :]
    k[:, :, :2], v[:, :, :2] = 1e6, -1e6
    out, weights = attention(q, k, v, mask=mask, return_weights=True)
    assert bool((weights[..., :2] == 0).all())
    expected = attention(q, k[:, :, 2:], v[:, :, 2:])
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_query_that_may_see_nothing_returns_zeros(dtype):
    q, k, v = qkv(dtype=dtype)
    mask = torch.ones(BATCH, N, N, dtype=torch.bool)
    mask[0, 2] = False
    mask[1] = False
    out, weights = attention(q, k, v, mask=mask, return_weights=True)
    assert bool(torch.isfinite(out).all()) and bool(torch.isfinite(weights).all())
    assert not out[0, :, 2].any() and not weights[0, :, 2].any()
    assert not out[1].any() and not weights[1].any()
    full = attention(q, k, v)
    torch.testing.assert_close(out[0, :, [0, 1, 3, 4]], full[0, :, [0, 1, 3, 4]])


def test_a_query_before_every_key_returns_zeros():
    q, k, v = qkv(2, 3)
    out = attention(
        q,
        k,
        v,
        causal=True,
        q_positions=torch.tensor([0, 9]),
        k_positions=torch.tensor([5, 6, 7]),
    )
    assert not out[:, :, 0].any()
    torch.testing.assert_close(out[:, :, 1], attention(q, k, v)[:, :, 1])


def test_gradients_stay_finite_where_nothing_may_be_seen():
    """Minus infinity in a softmax gives nan gradients, and one nan spoils every parameter."""
    q, k, v = (tensor.requires_grad_() for tensor in qkv())
    bias = random(HEADS, N, N, seed=9).requires_grad_()
    mask = torch.ones(BATCH, N, N, dtype=torch.bool)
    mask[0, 2] = False
    mask[1, :, 4] = False
    out = attention(q, k, v, bias=bias, mask=mask)
    out.square().sum().backward()
    for tensor in (q, k, v, bias):
        assert bool(torch.isfinite(tensor.grad).all())
    assert not q.grad[0, :, 2].any()
    assert not k.grad[1, :, 4].any() and not v.grad[1, :, 4].any()
    assert bool(q.grad[0, :, 1].any())


def test_an_infinite_bias_forbids_like_a_mask():
    q, k, v = qkv()
    mask = random_mask(N, N)
    bias = torch.zeros(HEADS, N, N, dtype=torch.float64).masked_fill(~mask, -math.inf)
    torch.testing.assert_close(
        attention(q, k, v, bias=bias), attention(q, k, v, mask=mask), rtol=0, atol=1e-13
    )


def test_a_bias_that_forbids_everything_returns_zeros_too():
    q, k, v = (tensor.requires_grad_() for tensor in qkv())
    bias = torch.zeros(HEADS, N, N, dtype=torch.float64)
    bias[:, 1] = -math.inf
    bias[:, 3, 1:] = -math.inf
    mask = torch.ones(N, N, dtype=torch.bool)
    mask[3, 0] = False  # what the bias leaves to query 3, the mask takes
    out, weights = attention(q, k, v, bias=bias, mask=mask, return_weights=True)
    out.square().sum().backward()
    assert not out[:, :, [1, 3]].any() and not weights[:, :, [1, 3]].any()
    for tensor in (out, weights, q.grad, k.grad, v.grad):
        assert bool(torch.isfinite(tensor).all())


def test_gradcheck():
    q, k, v = (tensor.requires_grad_() for tensor in qkv(3, 4))
    bias = random(HEADS, 3, 4, seed=9).requires_grad_()
    mask = random_mask(BATCH, 3, 4)
    mask[0, 1] = False
    assert torch.autograd.gradcheck(
        lambda q, k, v, bias: attention(q, k, v, bias=bias, mask=mask), (q, k, v, bias)
    )
    positions = torch.arange(3)
    assert torch.autograd.gradcheck(
        lambda q, k, v: attention(
            q,
            k[:, :, :3],
            v[:, :, :3],
            causal=True,
            q_positions=positions,
            k_positions=positions,
            return_weights=True,
        ),
        (q, k, v),
    )


# Precision


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_dtype_and_its_accuracy(dtype):
    q, k, v = qkv(dtype=dtype)
    out = attention(q, k, v, causal=True)
    assert out.dtype == dtype
    expected = attention(q.double(), k.double(), v.double(), causal=True)
    limit = 2e-2 if dtype is torch.bfloat16 else 2e-3
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=limit)


def test_the_softmax_of_half_precision_runs_in_float32():
    """A bias of -0.5 a step beside a score near 300: bfloat16 steps there are 2 wide."""
    q = torch.ones(1, 1, 1, 4, dtype=torch.bfloat16)
    k = torch.full((1, 1, 8, 4), 75.0, dtype=torch.bfloat16)
    v = torch.eye(8, dtype=torch.bfloat16)[None, None]
    bias = -0.5 * torch.arange(7, -1, -1, dtype=torch.float32)[None, None]
    _, weights = attention(q, k, v, bias=bias, scale=1.0, return_weights=True)
    expected = torch.softmax(bias[0, 0].double(), -1)
    torch.testing.assert_close(weights[0, 0, 0].double(), expected, rtol=0, atol=2e-3)


def test_many_small_weights_are_not_lost_in_half_precision():
    q = torch.zeros(1, 1, 1, 4, dtype=torch.float16)
    k = torch.zeros(1, 1, 4096, 4, dtype=torch.float16)
    v = torch.ones(1, 1, 4096, 4, dtype=torch.float16)
    out = attention(q, k, v)
    torch.testing.assert_close(out, torch.ones_like(out), rtol=0, atol=2e-3)


# Errors


def test_causal_with_unequal_lengths_needs_positions():
    """Top-left or bottom-right aligned? Nobody can know (Dao-AILab/flash-attention 907)."""
    q, k, v = qkv(4, 6)
    with pytest.raises(ValueError, match="4") as error:
        attention(q, k, v, causal=True)
    assert "6" in str(error.value) and "positions" in str(error.value)
    attention(q, k, v, causal=True, q_positions=torch.arange(2, 6), k_positions=torch.arange(6))


@pytest.mark.parametrize("causal", [False, True])
def test_positions_come_in_pairs(causal):
    q, k, v = qkv()
    with pytest.raises(ValueError, match="k_positions"):
        attention(q, k, v, causal=causal, q_positions=torch.arange(N))
    with pytest.raises(ValueError, match="q_positions"):
        attention(q, k, v, causal=causal, k_positions=torch.arange(N))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_mask_must_be_boolean(dtype):
    """A float mask could be additive and an integer one inverted: both exist elsewhere."""
    q, k, v = qkv()
    with pytest.raises(TypeError, match="mask"):
        attention(q, k, v, mask=torch.ones(N, N, dtype=dtype))


@pytest.mark.parametrize(
    "shape", [(4, 5), (5, 4), (5,), (3, 5, 5), (2, 2, 5, 5), (1, 1, 1, 5, 5), (2, 3, 5, 4)]
)
def test_a_mask_that_does_not_fit_is_rejected(shape):
    q, k, v = qkv()
    with pytest.raises(ValueError, match="mask"):
        attention(q, k, v, mask=torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize(
    "shape", [(4, 5, 5), (3, 5, 4), (3, 4, 5), (3, 3, 5, 5), (2, 4, 5, 5), (5,)]
)
def test_a_bias_that_does_not_fit_is_rejected(shape):
    q, k, v = qkv()
    for call in (
        lambda bias: attention(q, k, v, bias=bias),
        lambda bias: attention_scores(q, k, bias=bias),
    ):
        with pytest.raises(ValueError, match="bias"):
            call(torch.zeros(shape, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64])
def test_a_bias_must_be_floating_point(dtype):
    """A bool bias is a mask in the wrong place: added, it would hide nothing."""
    q, k, v = qkv()
    with pytest.raises(TypeError, match="bias"):
        attention(q, k, v, bias=torch.ones(HEADS, N, N).to(dtype))


def test_two_dimensional_inputs_are_rejected():
    flat = random(N, HEAD_DIM)
    q, k, v = qkv()
    with pytest.raises(ValueError, match=r"5, 4"):
        attention(flat, flat, flat)
    with pytest.raises(ValueError, match=r"5, 4"):
        attention_scores(flat, flat)
    with pytest.raises(ValueError):
        attention(q, flat, flat)


def test_shapes_that_do_not_fit_are_rejected():
    q, k, v = qkv()
    with pytest.raises(ValueError, match="6"):
        attention(q, random(BATCH, HEADS, N, 6), v)  # head width 6 against 4
    with pytest.raises(ValueError, match="7"):
        attention(q, k, random(BATCH, HEADS, 7, HEAD_DIM))  # 7 values for 5 keys
    with pytest.raises(ValueError, match="4"):
        attention(random(4, HEADS, N, HEAD_DIM), k, v)  # batch 4 against 2


def test_positions_that_do_not_fit_are_rejected():
    q, k, v = qkv()
    with pytest.raises(ValueError, match="4"):
        attention(q, k, v, causal=True, q_positions=torch.arange(4), k_positions=torch.arange(N))
    with pytest.raises(ValueError, match="6"):
        attention(q, k, v, causal=True, q_positions=torch.arange(N), k_positions=torch.arange(6))
    with pytest.raises(ValueError, match="3"):  # three rows of positions, a batch of two
        attention(
            q,
            k,
            v,
            causal=True,
            q_positions=torch.arange(N).expand(3, N),
            k_positions=torch.arange(N),
        )


def test_half_precision_positions_are_rejected():
    q, k, v = qkv()
    positions = torch.arange(N).bfloat16()
    with pytest.raises(TypeError, match="bfloat16"):
        attention(q, k, v, causal=True, q_positions=positions, k_positions=positions)


# Multi-head attention


DIM = HEADS * HEAD_DIM


def layer(encoding=None, *, causal=True, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    module = MultiHeadAttention(DIM, HEADS, encoding or NoPE(), causal=causal)
    return module.to(dtype)


def split(x):
    return x.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)


def test_the_layer_is_four_projections_around_attention():
    module = layer(causal=False)
    assert sorted(name for name, _ in module.named_parameters()) == [
        "key.weight",
        "out.weight",
        "query.weight",
        "value.weight",
    ]
    x = random(BATCH, N, DIM)
    q, k, v = (split(project(x)) for project in (module.query, module.key, module.value))
    expected = module.out(
        functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    )
    torch.testing.assert_close(module(x), expected, rtol=0, atol=1e-12)


def test_the_layer_rotates_queries_and_keys_and_never_values():
    encoding = RotaryEmbedding(HEAD_DIM)
    module = layer(encoding)
    x, positions = random(BATCH, N, DIM), torch.tensor([2, 3, 5, 8, 13])
    q, k, v = (split(project(x)) for project in (module.query, module.key, module.value))
    q, k = encoding.rotate_query_key(q, k, positions, positions)
    expected = module.out(attention(q, k, v, causal=True).transpose(1, 2).flatten(2))
    torch.testing.assert_close(module(x, positions=positions), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "encoding",
    [
        lambda: ALiBi(HEADS),
        lambda: T5Bias(HEADS, bidirectional=False),
        lambda: ShawRelative(HEAD_DIM, 3),
    ],
)
def test_the_layer_adds_the_bias_of_its_encoding(encoding):
    encoding = encoding().double()
    for parameter in encoding.parameters():
        parameter.data = random(*parameter.shape, seed=4)
    module = layer(encoding)
    x, positions = random(BATCH, N, DIM), torch.tensor([2, 3, 5, 8, 13])
    q, k, v = (split(project(x)) for project in (module.query, module.key, module.value))
    bias = encoding.score_bias(positions, positions, q=q)
    expected = module.out(attention(q, k, v, bias=bias, causal=True).transpose(1, 2).flatten(2))
    torch.testing.assert_close(module(x, positions=positions), expected, rtol=0, atol=1e-12)


def test_the_layer_never_opens_door_one():
    """The model adds to its embeddings once; a layer that did so too would do it twice."""
    x = random(BATCH, N, DIM)
    with_table, without = layer(SinusoidalEncoding(DIM)), layer(NoPE())
    torch.testing.assert_close(with_table(x), without(x), rtol=0, atol=0)


def test_default_positions_count_from_zero():
    for encoding in (RotaryEmbedding(HEAD_DIM), ALiBi(HEADS)):
        module = layer(encoding)
        x = random(BATCH, N, DIM)
        torch.testing.assert_close(module(x), module(x, positions=torch.arange(N)))
        batched = torch.arange(N).expand(BATCH, N)
        torch.testing.assert_close(module(x), module(x, positions=batched), rtol=0, atol=1e-13)


def test_a_causal_layer_never_looks_ahead():
    module = layer(RotaryEmbedding(HEAD_DIM))
    x = random(BATCH, N, DIM)
    changed = x.clone()
    changed[:, 3:] = random(BATCH, 2, DIM, seed=8)
    torch.testing.assert_close(module(x)[:, :3], module(changed)[:, :3], rtol=0, atol=1e-13)
    assert (module(x)[:, 3:] - module(changed)[:, 3:]).abs().max() > 1e-2


@pytest.mark.parametrize("shape", [(N, N), (BATCH, N, N), (BATCH, 1, 1, N), (BATCH, HEADS, N, N)])
def test_the_layer_takes_every_shape_of_mask(shape):
    module = layer(causal=False)
    x, mask = random(BATCH, N, DIM), random_mask(*shape)
    q, k, v = (split(project(x)) for project in (module.query, module.key, module.value))
    expected = module.out(attention(q, k, v, mask=mask).transpose(1, 2).flatten(2))
    torch.testing.assert_close(module(x, mask=mask), expected, rtol=0, atol=1e-12)


# Cross-attention


def opened(encoding):
    for parameter in encoding.parameters():
        parameter.data = random(*parameter.shape, seed=4)
    return encoding


CROSS = {
    "rope": lambda: RotaryEmbedding(HEAD_DIM),
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: opened(T5Bias(HEADS, bidirectional=True).double()),
    "shaw": lambda: opened(ShawRelative(HEAD_DIM, 3).double()),
}


@pytest.mark.parametrize("name", CROSS)
def test_cross_attention_without_context_positions_has_no_positions(name):
    """Two sequences share no coordinate (T5 issue 415: its decoder adds no bias there)."""
    module = layer(CROSS[name](), causal=False)
    x, context = random(BATCH, 4, DIM), random(BATCH, 6, DIM, seed=5)
    q, k, v = split(module.query(x)), split(module.key(context)), split(module.value(context))
    plain = module.out(attention(q, k, v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(module(x, context=context), plain, rtol=0, atol=1e-12)
    # Nor do positions of the queries alone bring any.
    torch.testing.assert_close(
        module(x, context=context, positions=torch.arange(7, 11)), plain, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("name", CROSS)
def test_cross_attention_with_context_positions_uses_them(name):
    encoding = CROSS[name]()
    module = layer(encoding, causal=False)
    x, context = random(BATCH, 4, DIM), random(BATCH, 6, DIM, seed=5)
    here, there = torch.arange(7, 11), torch.arange(6) * 2
    q, k, v = split(module.query(x)), split(module.key(context)), split(module.value(context))
    bias = encoding.score_bias(here, there, q=q)
    q, k = encoding.rotate_query_key(q, k, here, there)
    expected = module.out(attention(q, k, v, bias=bias).transpose(1, 2).flatten(2))
    out = module(x, context=context, positions=here, context_positions=there)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    assert (out - module(x, context=context)).abs().max() > 1e-3


def test_self_attention_is_cross_attention_to_oneself():
    for encoding in (RotaryEmbedding(HEAD_DIM), ALiBi(HEADS)):
        module = layer(encoding)
        x, positions = random(BATCH, N, DIM), torch.arange(N) + 3
        torch.testing.assert_close(
            module(x, context=x, positions=positions, context_positions=positions),
            module(x, positions=positions),
            rtol=0,
            atol=1e-12,
        )


def test_context_positions_without_a_context_are_an_error():
    with pytest.raises(ValueError, match="context"):
        layer()(random(BATCH, N, DIM), context_positions=torch.arange(N))


# The cache


def test_a_cache_counts_what_it_holds_and_continues_the_positions():
    module, cache = layer(RotaryEmbedding(HEAD_DIM)), KeyValueCache()
    assert len(cache) == 0
    with pytest.raises(ValueError, match="empty"):
        cache.next_positions(3)  # of how many rows?
    module(random(BATCH, 6, DIM), cache=cache)
    assert len(cache) == 6
    assert cache.next_positions(2)[..., :].expand(BATCH, 2).tolist() == [[6, 7]] * BATCH
    module(random(BATCH, 1, DIM), cache=cache)
    assert len(cache) == 7
    module(random(BATCH, 3, DIM), positions=torch.arange(20, 23), cache=cache)
    assert len(cache) == 10
    assert cache.next_positions(1).expand(BATCH, 1).tolist() == [[23]] * BATCH


class Recording(NoPE):
    """Notes the positions that a layer hands over."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def rotate_query_key(self, q, k, q_positions, k_positions):
        self.seen.append((q_positions.tolist(), k_positions.tolist()))
        return q, k


def last_row(positions):
    return positions[-1] if positions and isinstance(positions[0], list) else positions


def test_prefill_and_decoding_number_the_tokens_once_each():
    """Prefill 6, decode 3: 0..5, then 6, 7, 8 (Blaizzy/mlx-vlm issue 1983)."""
    encoding = Recording()
    module, cache = layer(encoding), KeyValueCache()
    module(random(BATCH, 6, DIM), cache=cache)
    for _ in range(3):
        module(random(BATCH, 1, DIM), cache=cache)
    queries = [last_row(q_positions) for q_positions, _ in encoding.seen]
    assert queries == [[0, 1, 2, 3, 4, 5], [6], [7], [8]]


def test_positions_continue_row_by_row():
    """A batch of prompts of different lengths, padded on the left."""
    encoding = Recording()
    module, cache = layer(encoding), KeyValueCache()
    positions = torch.tensor([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])
    real = torch.tensor([[False, False, True, True, True], [True] * 5])
    module(
        random(BATCH, 5, DIM),
        positions=positions,
        mask=real[:, None, :].expand(2, 5, 5),
        cache=cache,
    )
    assert cache.next_positions(2).tolist() == [[3, 4], [5, 6]]
    seen = torch.cat([real, torch.ones(2, 1, dtype=torch.bool)], dim=1)[:, None, :]
    module(random(BATCH, 1, DIM), mask=seen, cache=cache)
    assert encoding.seen[-1][0] == [[3], [5]]
    assert cache.next_positions(1).tolist() == [[4], [6]]


def test_given_positions_override_the_count():
    encoding = Recording()
    module, cache = layer(encoding), KeyValueCache()
    module(random(BATCH, 2, DIM), positions=torch.tensor([5, 6]), cache=cache)
    module(random(BATCH, 1, DIM), positions=torch.tensor([[9], [40]]), cache=cache)
    assert encoding.seen[-1][0] == [[9], [40]]
    assert cache.next_positions(1).tolist() == [[10], [41]]


def test_a_decoding_loop_may_count_its_own_positions_in_place():
    """The cache keeps the values it was given, not the caller's tensor."""
    module, cache = layer(RotaryEmbedding(HEAD_DIM)), KeyValueCache()
    x, position = random(BATCH, 4, DIM), torch.tensor([0])
    for step in range(4):
        out = module(x[:, step : step + 1], positions=position, cache=cache)
        position += 1
    assert cache.positions.tolist() == [[0, 1, 2, 3]] * BATCH
    torch.testing.assert_close(out, module(x)[:, -1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_with_a_cache_the_mask_covers_old_and_new_keys(length):
    module, cache = layer(), KeyValueCache()
    module(random(BATCH, 4, DIM), cache=cache)
    with pytest.raises(ValueError, match="mask"):
        module(
            random(BATCH, 2, DIM), mask=torch.ones(BATCH, 2, length, dtype=torch.bool), cache=cache
        )


def test_an_error_leaves_the_cache_as_it_was():
    module, cache = layer(), KeyValueCache()
    module(random(BATCH, 4, DIM), cache=cache)
    with pytest.raises(ValueError):
        module(random(BATCH, 2, DIM), mask=torch.ones(BATCH, 2, 3, dtype=torch.bool), cache=cache)
    assert len(cache) == 4
    assert cache.next_positions(1).expand(BATCH, 1).tolist() == [[4]] * BATCH


def test_a_cache_is_of_one_batch():
    module, cache = layer(), KeyValueCache()
    module(random(BATCH, 4, DIM), cache=cache)
    with pytest.raises(ValueError, match="3"):
        module(random(3, 1, DIM), cache=cache)


@pytest.mark.parametrize("causal", [False, True])
def test_a_cached_layer_hides_what_its_mask_hides(causal):
    module, cache = layer(causal=causal), KeyValueCache()
    x = random(BATCH, 5, DIM)
    module(x[:, :4], cache=cache)
    mask = torch.tensor([[True, False, True, True, True]])
    out = module(x[:, 4:], mask=mask, cache=cache)
    shorter = torch.cat([x[:, :1], x[:, 2:]], dim=1)
    torch.testing.assert_close(out, module(shorter)[:, -1:], rtol=0, atol=1e-12)


def test_rotary_keys_are_cached_rotated_once():
    """Rotating cached keys again would add up their angles."""
    encoding = RotaryEmbedding(HEAD_DIM)
    module, cache = layer(encoding), KeyValueCache()
    x = random(BATCH, 6, DIM)
    for step in range(6):
        out = module(x[:, step : step + 1], cache=cache)
    torch.testing.assert_close(out, module(x)[:, -1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dim", "heads"), [(12, 5), (12, 0), (0, 3), (12, -3)])
def test_heads_must_divide_the_width(dim, heads):
    with pytest.raises(ValueError, match=str(heads if heads != 3 else dim)):
        MultiHeadAttention(dim, heads, NoPE(), causal=True)


def test_causal_must_be_said():
    with pytest.raises(TypeError):
        MultiHeadAttention(DIM, HEADS, NoPE())
    assert inspect.signature(MultiHeadAttention).parameters["causal"].kind is (
        inspect.Parameter.KEYWORD_ONLY
    )


def test_an_input_of_the_wrong_width_is_rejected():
    with pytest.raises(ValueError, match="13"):
        layer()(random(BATCH, N, 13))
    with pytest.raises(ValueError):
        layer()(random(N, DIM))
    with pytest.raises(ValueError, match="13"):
        layer(causal=False)(random(BATCH, N, DIM), context=random(BATCH, 6, 13))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_layer_keeps_the_dtype(dtype):
    for encoding in (NoPE(), RotaryEmbedding(HEAD_DIM), ALiBi(HEADS)):
        module = layer(encoding, dtype=dtype)
        assert module(random(BATCH, N, DIM, dtype=dtype)).dtype == dtype


def test_autocast_keeps_the_positions():
    """Under autocast the projections are in bfloat16; the output stays near the float32 one."""
    for encoding in (RotaryEmbedding(HEAD_DIM), ALiBi(HEADS)):
        module = layer(encoding, dtype=torch.float32)
        x, positions = random(BATCH, N, DIM, dtype=torch.float32), torch.arange(N) + 1001
        outside = module(x, positions=positions)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = module(x, positions=positions)
        torch.testing.assert_close(inside.float(), outside, rtol=0, atol=3e-2)
