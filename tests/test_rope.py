"""The rotation itself: rope_cos_sin, rotate, rotation_matrix and the conversion between layouts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_tutorial.attention import MultiHeadAttention
from posenc_tutorial.context_extension import proportional
from posenc_tutorial.frequencies import inverse_frequencies
from posenc_tutorial.rope import (
    RotaryEmbedding,
    convert_projection,
    half_to_interleaved,
    interleaved_to_half,
    rope_cos_sin,
    rotate,
    rotation_matrix,
)

LAYOUTS = ("half", "interleaved")
TO_HALF = [0, 2, 4, 6, 1, 3, 5, 7]
TO_INTERLEAVED = [0, 4, 1, 5, 2, 6, 3, 7]
searched = settings(deadline=None, derandomize=True, max_examples=60)


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def table(positions, dim, base=10000.0, dtype=torch.float64):
    """cos and sin of integer positions (a list or a tensor) for a rotated width of ``dim``."""
    positions = torch.as_tensor(positions)
    return rope_cos_sin(positions, inverse_frequencies(dim, base), dtype=dtype)


def by_complex_numbers(x, positions, inv_freq, layout):
    """The independent implementation: a pair is a complex number, a rotation multiplies it."""
    x = x.detach().numpy().astype(np.float64)
    pairs = len(inv_freq)
    phase = np.exp(1j * np.asarray(positions, dtype=np.float64)[:, None] * inv_freq.numpy())
    out = x.copy()
    if layout == "half":
        re, im = slice(0, pairs), slice(pairs, 2 * pairs)
    else:
        re, im = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    turned = (x[..., re] + 1j * x[..., im]) * phase
    out[..., re], out[..., im] = turned.real, turned.imag
    return torch.from_numpy(out)


# --- rope_cos_sin -------------------------------------------------------------------------------


def test_shapes_follow_the_positions():
    inv_freq = inverse_frequencies(8)
    for shape in [(5,), (2, 5), (1, 1), (0,), (2, 0)]:
        cos, sin = rope_cos_sin(torch.zeros(shape, dtype=torch.long), inv_freq)
        assert cos.shape == sin.shape == (*shape, 4)
        assert cos.dtype == sin.dtype == torch.float32


@pytest.mark.parametrize("positions", [3, 3.0, [0, 1], np.arange(3), None])
def test_positions_that_are_not_tensors_are_refused(positions):
    with pytest.raises(TypeError, match="tensor"):
        rope_cos_sin(positions, inverse_frequencies(8))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.bool, torch.complex64])
def test_position_dtypes_that_cannot_count_are_refused(dtype):
    with pytest.raises(TypeError, match=str(dtype).removeprefix("torch.")):
        rope_cos_sin(torch.zeros(3, dtype=dtype), inverse_frequencies(8))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_positions_must_be_finite(value):
    with pytest.raises(ValueError, match="finite"):
        rope_cos_sin(torch.tensor([0.0, value]), inverse_frequencies(8))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_cos_and_sin_are_rounded_once_from_float64(dtype):
    inv_freq = inverse_frequencies(64)
    positions = torch.cat([torch.arange(-64, 4096), torch.tensor([2**20 - 1, 2**20, -(2**20)])])
    exact = positions.double()[:, None] * inv_freq
    cos, sin = rope_cos_sin(positions, inv_freq, attention_factor=1.3, dtype=dtype)
    assert cos.dtype == sin.dtype == dtype
    assert torch.equal(cos, (1.3 * exact.cos()).to(dtype))
    assert torch.equal(sin, (1.3 * exact.sin()).to(dtype))


def test_float32_tables_are_within_half_an_ulp_far_out():
    positions = torch.tensor([1857, 2048, 2049, 131071, 2**20 - 1, 2**20, -(2**20)])
    inv_freq = inverse_frequencies(128)
    cos, sin = rope_cos_sin(positions, inv_freq)
    exact = positions.double()[:, None] * inv_freq
    assert (cos.double() - exact.cos()).abs().max() <= 3.1e-8
    assert (sin.double() - exact.sin()).abs().max() <= 3.1e-8


def test_half_precision_table_has_the_error_of_one_rounding():
    # Published limits: angles in half precision are off by 0.78 (float16) and 2.0 (bfloat16);
    # casting cos last costs 2.4e-4 and 1.95e-3 (EleutherAI/gpt-neox issue 1003).
    positions = torch.arange(2048)
    inv_freq = inverse_frequencies(32)
    exact = (positions.double()[:, None] * inv_freq).cos()
    for dtype, limit in [(torch.float16, 2.5e-4), (torch.bfloat16, 2e-3)]:
        cos, _ = rope_cos_sin(positions, inv_freq, dtype=dtype)
        assert (cos.double() - exact).abs().max() <= limit
        assert not torch.equal(cos[2046], cos[2047])


def test_attention_factor_multiplies_cosine_and_sine():
    positions, inv_freq = torch.arange(50), inverse_frequencies(16)
    plain = rope_cos_sin(positions, inv_freq, dtype=torch.float64)
    scaled = rope_cos_sin(positions, inv_freq, attention_factor=1.25, dtype=torch.float64)
    for a, b in zip(plain, scaled, strict=True):
        assert torch.equal(1.25 * a, b)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_attention_factor_must_be_positive_and_finite(bad):
    with pytest.raises(ValueError, match="attention_factor"):
        rope_cos_sin(torch.arange(3), inverse_frequencies(8), attention_factor=bad)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float64]
)
def test_every_position_dtype_gives_the_same_table(dtype):
    inv_freq = inverse_frequencies(8)
    expected = rope_cos_sin(torch.arange(100), inv_freq)
    got = rope_cos_sin(torch.arange(100).to(dtype), inv_freq)
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))


def test_float32_positions_may_be_fractional():
    inv_freq = inverse_frequencies(8)
    cos, sin = rope_cos_sin(torch.tensor([998.39, 1000.0]), inv_freq)
    assert not torch.equal(cos[0], cos[1])
    p = float(torch.tensor(998.39))
    assert torch.equal(sin[0], (p * inv_freq).sin().float())


def test_integer_table_dtype_is_refused():
    with pytest.raises((TypeError, ValueError), match="int64"):
        rope_cos_sin(torch.arange(3), inverse_frequencies(8), dtype=torch.int64)


def test_default_dtype_and_autocast_change_nothing():
    positions, inv_freq = torch.arange(4096), inverse_frequencies(128)
    expected = rope_cos_sin(positions, inv_freq)
    with torch.autocast("cpu", torch.bfloat16):
        inside = rope_cos_sin(positions, inv_freq)
    torch.set_default_dtype(torch.bfloat16)
    try:
        defaulted = rope_cos_sin(positions, inv_freq)
    finally:
        torch.set_default_dtype(torch.float32)
    for other in (inside, defaulted):
        assert all(torch.equal(a, b) for a, b in zip(expected, other, strict=True))


def test_table_lies_on_the_positions_device():
    cos, sin = rope_cos_sin(torch.arange(3), inverse_frequencies(8))
    assert cos.device == sin.device == torch.device("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_no_float64_tensor_is_created_on_an_accelerator():
    from torch.utils._python_dispatch import TorchDispatchMode

    class NoFloat64(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for tensor in torch.utils._pytree.tree_leaves(out):
                if isinstance(tensor, torch.Tensor) and tensor.device.type != "cpu":
                    assert tensor.dtype != torch.float64, func
            return out

    positions = torch.arange(16, device="cuda")
    q = randn(1, 2, 16, 8, dtype=torch.float32).cuda()
    rope = RotaryEmbedding(8).cuda()
    with NoFloat64():
        cos, sin = rope_cos_sin(positions, inverse_frequencies(8))
        rotate(q, cos, sin)
        rope(q, q, positions)
    assert cos.device.type == "cuda"


# --- rotate: published values -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "x", "expected"),
    [
        ("interleaved", [1, 0, 0, 0], [0.5403, 0.8415, 0, 0]),
        ("half", [1, 0, 0, 0], [0.5403, 0, 0.8415, 0]),
        ("interleaved", [1, 2, 3, 4], [-1.1426, 1.9221, 2.9599, 4.0298]),
        ("half", [1, 2, 3, 4], [-1.9841, 1.9599, 2.4624, 4.0198]),
    ],
)
def test_published_values_of_both_layouts(layout, x, expected):
    # huggingface/transformers issue 25199: d=4, base 1e4, position 1
    out = rotate(torch.tensor([x], dtype=torch.float64), *table([1], 4), layout=layout)
    assert torch.allclose(out[0], torch.tensor(expected, dtype=torch.float64), atol=5e-5, rtol=0)


def test_the_default_layout_is_half():
    x = randn(3, 8)
    cos, sin = table([1, 2, 3], 8)
    assert torch.equal(rotate(x, cos, sin), rotate(x, cos, sin, layout="half"))
    assert not torch.equal(rotate(x, cos, sin), rotate(x, cos, sin, layout="interleaved"))


def test_partial_and_proportional_rotary_are_different_and_both_right():
    # apple/coreai-models issue 66: d=8, r=4, base 1e4, position 1, x = e1
    e1 = torch.eye(8, dtype=torch.float64)[1:2]
    partial = rotate(e1, *table([1], 4))[0]
    assert partial[1] == pytest.approx(0.99995, abs=5e-6)
    assert partial[3] == pytest.approx(0.0100, abs=5e-5)
    params = proportional(8, 10000.0, 0.5)
    whole = rotate(e1, *rope_cos_sin(torch.tensor([1]), params.inv_freq, dtype=torch.float64))[0]
    assert whole[1] == pytest.approx(0.9950, abs=5e-5)
    assert whole[5] == pytest.approx(0.0998, abs=5e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_partial_rotation_passes_the_other_channels_bit_for_bit(layout, dtype):
    x = randn(2, 3, 5, 8).to(dtype)
    out = rotate(x, *table(range(1, 6), 4, dtype=torch.float32), layout=layout)
    assert torch.equal(out[..., 4:], x[..., 4:])
    assert (out[..., :4] != x[..., :4]).any(-1).all()
    alone = rotate(x[..., :4], *table(range(1, 6), 4, dtype=torch.float32), layout=layout)
    assert torch.equal(out[..., :4], alone)


# --- rotate: properties -------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_position_zero_is_the_identity_bit_for_bit(layout, dtype):
    x = randn(2, 3, 4, 16).to(dtype)
    cos, sin = table([0, 0, 0, 0], 16, dtype=torch.float32)
    assert torch.equal(rotate(x, cos, sin, layout=layout), x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_norm_is_kept_times_the_attention_factor(layout):
    positions = torch.tensor([0, 1, 7, -3, 4096, 2**20, -(2**20)])
    x = randn(7, 16)
    cos, sin = rope_cos_sin(
        positions, inverse_frequencies(16), attention_factor=1.5, dtype=torch.float64
    )
    out = rotate(x, cos, sin, layout=layout)
    assert torch.allclose(out.norm(dim=-1), 1.5 * x.norm(dim=-1), rtol=1e-13, atol=0)


@searched
@given(
    a=st.integers(-4096, 4096),
    b=st.integers(-4096, 4096),
    pairs=st.integers(1, 16),
    base=st.sampled_from([2.0, 100.0, 1e4, 5e5]),
    layout=st.sampled_from(LAYOUTS),
)
def test_rotations_compose(a, b, pairs, base, layout):
    x = randn(3, 2 * pairs)

    def turn(x, p):
        return rotate(x, *table([p] * 3, 2 * pairs, base), layout=layout)

    assert torch.allclose(turn(turn(x, b), a), turn(x, a + b), atol=2e-11, rtol=0)
    assert torch.allclose(turn(turn(x, a), -a), x, atol=1e-14 * 100, rtol=0)


@searched
@given(
    offset=st.integers(-(2**16), 2**16),
    pairs=st.integers(1, 16),
    layout=st.sampled_from(LAYOUTS),
    seed=st.integers(0, 10),
)
def test_scores_depend_on_the_difference_alone(offset, pairs, layout, seed):
    """One query vector and one key vector at every position: the score matrix is Toeplitz."""
    q, k = randn(2, 2 * pairs, seed=seed)
    n = 12

    def scores(start):
        cos, sin = table(torch.arange(start, start + n), 2 * pairs)
        turned_q = rotate(q.expand(n, -1), cos, sin, layout=layout)
        return turned_q @ rotate(k.expand(n, -1), cos, sin, layout=layout).T

    near = scores(0)
    for distance in range(-n + 1, n):
        diagonal = near.diagonal(distance)
        assert (diagonal - diagonal[0]).abs().max() < 1e-12
    assert (scores(offset) - near).abs().max() < 1e-9


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_negative_angle_for_the_key_makes_scores_depend_on_the_sum(layout):
    # huggingface/transformers issue 30900. This is what the right sign is told apart from.
    q, k = randn(2, 8)
    cos, sin = table(range(11), 8)
    turned_q = rotate(q.expand(11, -1), cos, sin, layout=layout)
    right = turned_q @ rotate(k.expand(11, -1), cos, sin, layout=layout).T
    wrong = turned_q @ rotate(k.expand(11, -1), cos, -sin, layout=layout).T
    assert (right[0, 0] - right[5, 5]).abs() < 1e-12
    assert (wrong[0, 0] - wrong[5, 5]).abs() > 1e-2
    assert (wrong[3, 5] - wrong[4, 4]).abs() < 1e-12
    assert (right[3, 5] - right[4, 4]).abs() > 1e-2


@searched
@given(
    positions=st.lists(st.integers(-(2**12), 2**12), min_size=1, max_size=6),
    pairs=st.integers(1, 8),
    extra=st.integers(0, 5),
    layout=st.sampled_from(LAYOUTS),
)
def test_rotate_is_the_matrix_and_complex_multiplication(positions, pairs, extra, layout):
    inv_freq = inverse_frequencies(2 * pairs)
    x = randn(2, 3, len(positions), 2 * pairs + extra)
    out = rotate(
        x, *rope_cos_sin(torch.tensor(positions), inv_freq, dtype=torch.float64), layout=layout
    )
    assert torch.allclose(
        out, by_complex_numbers(x, positions, inv_freq, layout), atol=1e-12, rtol=0
    )
    for row, position in enumerate(positions):
        matrix = rotation_matrix(position, inv_freq, layout=layout)
        turned = x[..., row, : 2 * pairs] @ matrix.T
        assert torch.allclose(out[..., row, : 2 * pairs], turned, atol=1e-12, rtol=0)
    assert torch.equal(out[..., 2 * pairs :], x[..., 2 * pairs :])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotation_matrix_is_a_rotation(layout):
    inv_freq = inverse_frequencies(8)
    eye = torch.eye(8, dtype=torch.float64)
    assert torch.equal(rotation_matrix(0, inv_freq, layout=layout), eye)
    a = rotation_matrix(5, inv_freq, layout=layout)
    assert a.shape == (8, 8)
    assert a.dtype == torch.float64
    assert torch.allclose(a @ a.T, eye, atol=1e-14, rtol=0)
    assert torch.linalg.det(a) == pytest.approx(1.0, abs=1e-12)
    b = rotation_matrix(-3, inv_freq, layout=layout)
    c = rotation_matrix(2, inv_freq, layout=layout)
    assert torch.allclose(a @ b, c, atol=1e-14, rtol=0)


def test_rotation_matrix_entries():
    inv_freq = inverse_frequencies(4)
    c0, s0, c1, s1 = math.cos(1), math.sin(1), math.cos(0.01), math.sin(0.01)
    interleaved = torch.tensor(
        [[c0, -s0, 0, 0], [s0, c0, 0, 0], [0, 0, c1, -s1], [0, 0, s1, c1]], dtype=torch.float64
    )
    half = torch.tensor(
        [[c0, 0, -s0, 0], [0, c1, 0, -s1], [s0, 0, c0, 0], [0, s1, 0, c1]], dtype=torch.float64
    )
    for layout, expected in [("interleaved", interleaved), ("half", half)]:
        got = rotation_matrix(1, inv_freq, layout=layout)
        assert torch.allclose(got, expected, atol=1e-15, rtol=0)


def test_a_table_of_one_layout_with_the_rotation_of_the_other_is_no_rotation():
    # facebookresearch/vjepa2 pull 15. Both mixtures shrink e0 to 0.5404; ours keep its norm.
    x = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    cos, sin = table([1], 4)
    tiled = torch.cat([cos, cos], -1)[0], torch.cat([sin, sin], -1)[0]
    repeated = cos[0].repeat_interleave(2), sin[0].repeat_interleave(2)
    adjacent = torch.stack([-x[1::2], x[0::2]], -1).flatten()
    halves = torch.cat([-x[2:], x[:2]])
    assert (x * tiled[0] + adjacent * tiled[1]).norm() == pytest.approx(0.5404, abs=5e-5)
    assert (x * repeated[0] + halves * repeated[1]).norm() == pytest.approx(0.5404, abs=5e-5)
    for layout in LAYOUTS:
        out = rotate(x[None], cos, sin, layout=layout)
        assert out.norm() == pytest.approx(1.0, abs=1e-15)


# --- rotate: shapes, dtypes, memory -------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_number_of_leading_axes(layout):
    cos, sin = table(range(5), 8)
    x = randn(2, 3, 5, 8)
    expected = rotate(x, cos, sin, layout=layout)
    assert expected.shape == x.shape
    assert torch.equal(rotate(x[0, 0], cos, sin, layout=layout), expected[0, 0])
    assert torch.equal(rotate(x[0], cos, sin, layout=layout), expected[0])
    deep = x.reshape(1, 2, 3, 5, 8)
    assert torch.equal(rotate(deep, cos, sin, layout=layout)[0], expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batched_tables_need_the_heads_axis(layout):
    positions = torch.tensor([[0, 1, 2, 3, 4], [9, 3, 100, -4, 0]])
    cos, sin = table(positions, 8)
    x = randn(2, 2, 5, 8)
    # Batch and heads are equal here, so broadcasting would line up, with the wrong axis.
    with pytest.raises(ValueError, match="head"):
        rotate(x, cos, sin, layout=layout)
    out = rotate(x, cos[:, None], sin[:, None], layout=layout)
    for row in range(2):
        assert torch.equal(out[row], rotate(x[row], cos[row], sin[row], layout=layout))
    # With as many axes as x a table is taken as it is.
    three = rotate(x[:, 0], cos, sin, layout=layout)
    assert torch.equal(three, out[:, 0])


@pytest.mark.parametrize("rows", [1, 4, 6, 10])
def test_row_count_must_match(rows):
    x = randn(2, 3, 5, 8)
    cos, sin = table(range(rows), 8)
    with pytest.raises(ValueError, match=rf"(?s)(?=.*\b{rows}\b)(?=.*\b5\b)"):
        rotate(x, cos, sin)
    with pytest.raises(ValueError, match=rf"(?s)(?=.*\b{rows}\b)(?=.*\b5\b)"):
        rotate(x, cos[None, None], sin[None, None])


def test_a_batched_table_must_fit_the_batch():
    cos, sin = table(torch.zeros(3, 1, 5, dtype=torch.long), 8)
    with pytest.raises(ValueError, match="3"):
        rotate(randn(2, 4, 5, 8), cos, sin)


@pytest.mark.parametrize(("width", "channels"), [(8, 6), (8, 7), (4, 3), (16, 8), (2, 1)])
def test_a_table_wider_than_the_head_is_refused(width, channels):
    # (4, 3) is labmlai/annotated_deep_learning_paper_implementations issue 215; (16, 8) is the
    # full-width table of implementations that store every angle twice.
    cos, sin = table(range(5), width)
    with pytest.raises(ValueError, match=rf"(?s)(?=.*\b{width}\b)(?=.*\b{channels}\b)"):
        rotate(randn(5, channels), cos, sin)


def test_cos_and_sin_must_have_one_shape():
    cos, sin = table(range(5), 8)
    with pytest.raises(ValueError, match=r"\(5, 4\) and \(5, 2\)"):
        rotate(randn(5, 8), cos, sin[:, :2])
    with pytest.raises(ValueError, match=r"\(5, 4\) and \(1, 4\)"):
        rotate(randn(5, 8), cos, sin[:1])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.complex64])
def test_x_of_whole_or_complex_numbers_is_refused(dtype):
    # torch.tensor([[1, 0, 0, 0]]) would come back rounded to whole numbers
    with pytest.raises(TypeError, match=str(dtype).removeprefix("torch.")):
        rotate(torch.ones(1, 4).to(dtype), *table([1], 4))


@pytest.mark.parametrize("layout", ["halves", "", None, "HALF"])
def test_unknown_layouts_are_refused(layout):
    cos, sin = table(range(5), 8)
    with pytest.raises(ValueError, match="interleaved"):
        rotate(randn(5, 8), cos, sin, layout=layout)
    with pytest.raises(ValueError, match="interleaved"):
        rotation_matrix(1, inverse_frequencies(8), layout=layout)
    with pytest.raises(ValueError, match="interleaved"):
        RotaryEmbedding(8, layout=layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("table_dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32_and_rounded_once(layout, dtype, table_dtype):
    x = randn(2, 3, 64, 32).to(dtype)
    cos, sin = table(range(1000, 1064), 32, dtype=table_dtype)
    out = rotate(x, cos, sin, layout=layout)
    assert out.dtype == dtype
    expected = rotate(x.float(), cos.float(), sin.float(), layout=layout)
    assert expected.dtype == torch.float32
    assert torch.equal(out, expected.to(dtype))


def test_the_output_has_the_dtype_of_x():
    for x_dtype in (torch.float32, torch.float64):
        for table_dtype in (torch.bfloat16, torch.float32, torch.float64):
            cos, sin = table(range(5), 8, dtype=table_dtype)
            assert rotate(randn(5, 8).to(x_dtype), cos, sin).dtype == x_dtype


def test_float64_x_is_rotated_in_float64():
    x = randn(5, 8)
    cos, sin = table([0, 3, 17, 900, 4096], 8)
    exact = by_complex_numbers(x, [0, 3, 17, 900, 4096], inverse_frequencies(8), "half")
    assert (rotate(x, cos, sin) - exact).abs().max() < 1e-14 * 10


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [4, 8])
def test_inputs_are_not_changed_and_not_shared(layout, dtype, width):
    x = randn(2, 3, 5, 8).to(dtype)
    cos, sin = table(range(5), width, dtype=torch.float32)
    before = x.clone(), cos.clone(), sin.clone()
    out = rotate(x, cos, sin, layout=layout)
    for a, b in zip((x, cos, sin), before, strict=True):
        assert torch.equal(a, b)
    out.zero_()
    assert torch.equal(x, before[0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_non_contiguous_and_expanded_inputs(layout):
    cos, sin = table(range(5), 8)
    x = randn(2, 5, 3, 8)
    swapped = x.transpose(1, 2)
    assert not swapped.is_contiguous()
    expected = rotate(swapped.contiguous(), cos, sin, layout=layout)
    assert torch.equal(rotate(swapped, cos, sin, layout=layout), expected)
    strided = randn(5, 16)[:, ::2]
    assert torch.equal(
        rotate(strided, cos, sin, layout=layout),
        rotate(strided.contiguous(), cos, sin, layout=layout),
    )
    row = randn(8)
    assert torch.equal(
        rotate(row.expand(2, 3, 5, 8), cos, sin, layout=layout),
        rotate(row.repeat(2, 3, 5, 1), cos, sin, layout=layout),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_empty_sequence(layout):
    cos, sin = table(torch.zeros(0, dtype=torch.long), 8)
    assert rotate(randn(2, 3, 0, 8), cos, sin, layout=layout).shape == (2, 3, 0, 8)


# --- rotate: the backward -----------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", [4, 6])
def test_gradcheck(layout, width):
    cos, sin = table(range(3, 7), width)
    x = randn(2, 4, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: rotate(x, cos, sin, layout=layout), x)
    assert torch.autograd.gradgradcheck(lambda x: rotate(x, cos, sin, layout=layout), x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_backward_is_the_rotation_by_the_negative_angle(layout):
    # Dao-AILab/flash-attention pull 569
    x = randn(2, 5, 8).requires_grad_()
    upstream = randn(2, 5, 8, seed=1)
    cos, sin = table(range(5), 6)
    (grad,) = torch.autograd.grad(rotate(x, cos, sin, layout=layout), x, upstream)
    assert torch.equal(grad, rotate(upstream, cos, -sin, layout=layout))

    x = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(
        rotate(x, *table([1], 2), layout=layout), x, torch.tensor([[1.0, 0.0]]).double()
    )
    assert torch.allclose(grad, torch.tensor([[0.5403, -0.8415]]).double(), atol=5e-5, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_gradient_of_half_the_squared_norm_is_x(layout):
    x = randn(2, 5, 8).requires_grad_()
    energy = 0.5 * rotate(x, *table(range(100, 105), 8), layout=layout).square().sum()
    (grad,) = torch.autograd.grad(energy, x)
    assert torch.allclose(grad, x, atol=1e-14, rtol=0)


# --- permutations and conversion ----------------------------------------------------------------


def test_published_permutations():
    channels = torch.arange(8)
    assert interleaved_to_half(channels).tolist() == TO_HALF
    assert half_to_interleaved(channels).tolist() == TO_INTERLEAVED


@searched
@given(pairs=st.integers(1, 20), lead=st.lists(st.integers(1, 3), max_size=3))
def test_the_permutations_undo_each_other_and_swap_the_layouts(pairs, lead):
    x = randn(*lead, 3, 2 * pairs)
    assert torch.equal(half_to_interleaved(interleaved_to_half(x)), x)
    assert torch.equal(interleaved_to_half(half_to_interleaved(x)), x)
    cos, sin = table([1, 5, 9], 2 * pairs)
    interleaved = rotate(x, cos, sin, layout="interleaved")
    halves = rotate(interleaved_to_half(x), cos, sin, layout="half")
    assert torch.equal(interleaved_to_half(interleaved), halves)


@pytest.mark.parametrize("function", [interleaved_to_half, half_to_interleaved])
@pytest.mark.parametrize("width", [1, 3, 7])
def test_permutations_refuse_an_odd_width(function, width):
    with pytest.raises(ValueError, match=str(width)):
        function(randn(2, width))


def heads_of(x, weight, heads, bias=None):
    out = torch.nn.functional.linear(x, weight, bias)
    return out.unflatten(-1, (heads, -1)).transpose(-3, -2)


def rotated_scores(q, k, layout, width, start=8):
    """Scores away from position 0, where every layout is nearly the identity."""
    cos, sin = table(range(start, start + q.shape[-2]), width)
    q, k = rotate(q, cos, sin, layout=layout), rotate(k, cos, sin, layout=layout)
    k = k.repeat_interleave(q.shape[-3] // k.shape[-3], dim=-3)
    return q @ k.mT


@pytest.mark.parametrize("to", LAYOUTS)
@pytest.mark.parametrize("width", [None, 4, 8])
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (4, 4), (4, 2), (6, 1)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_converted_projections_keep_the_scores(to, width, heads, kv_heads, with_bias):
    # meta-pytorch/gpt-fast issue 190, rasbt/LLMs-from-scratch pull 750
    head_dim, dim = 8, 24
    source = LAYOUTS[1 - LAYOUTS.index(to)]
    x = randn(5, dim)
    weight_q, weight_k = randn(heads * head_dim, dim, seed=1), randn(kv_heads * head_dim, dim)
    bias_q = randn(heads * head_dim, seed=3) if with_bias else None
    bias_k = randn(kv_heads * head_dim, seed=4) if with_bias else None
    rotated = width or head_dim

    def converted(parameter, n):
        if parameter is None:
            return None
        return convert_projection(parameter, n, to=to, rotary_dim=width)

    old_q = heads_of(x, weight_q, heads, bias_q)
    old_k = heads_of(x, weight_k, kv_heads, bias_k)
    new_q = heads_of(x, converted(weight_q, heads), heads, converted(bias_q, heads))
    new_k = heads_of(x, converted(weight_k, kv_heads), kv_heads, converted(bias_k, kv_heads))
    before = rotated_scores(old_q, old_k, source, rotated)
    after = rotated_scores(new_q, new_k, to, rotated)
    assert (after - before).abs().max() < 1e-12 * before.abs().max()
    # What was compared has power: the same weights in the other layout are far off,
    assert (rotated_scores(old_q, old_k, to, rotated) - before).abs().max() > 0.1
    # and it is the scores that agree, not q itself.
    assert not torch.allclose(new_q, old_q)


def test_conversion_is_per_head():
    # Row i of the result is row list[i] of the head, with an offset of head_dim per head.
    weight = torch.arange(3 * 8)[:, None].repeat(1, 2)
    for to, order in [("interleaved", TO_INTERLEAVED), ("half", TO_HALF)]:
        out = convert_projection(weight, 3, to=to)
        assert out.shape == weight.shape
        assert out[:, 0].tolist() == [8 * head + row for head in range(3) for row in order]
        assert torch.equal(out[:, 0], out[:, 1])
        assert torch.equal(convert_projection(weight[:, 0], 3, to=to), out[:, 0])


def test_partial_conversion_moves_the_rotated_rows_alone():
    rows = convert_projection(torch.arange(16), 2, to="half", rotary_dim=4)
    assert rows.tolist() == [0, 2, 1, 3, 4, 5, 6, 7, 8, 10, 9, 11, 12, 13, 14, 15]


@pytest.mark.parametrize("width", [None, 4])
def test_conversion_round_trip_leaves_the_input_alone(width):
    weight = randn(32, 6)
    before = weight.clone()
    there = convert_projection(weight, 4, to="half", rotary_dim=width)
    back = convert_projection(there, 4, to="interleaved", rotary_dim=width)
    assert torch.equal(back, before)
    assert torch.equal(weight, before)
    assert there.dtype == weight.dtype
    there.zero_()
    assert torch.equal(weight, before)


def test_conversion_errors():
    weight = randn(24, 6)
    with pytest.raises(ValueError, match="interleaved"):
        convert_projection(weight, 3, to="neox")
    with pytest.raises(ValueError, match=r"(?s)(?=.*24)(?=.*5)"):
        convert_projection(weight, 5, to="half")
    with pytest.raises(ValueError, match=r"(?s)(?=.*10)(?=.*8)"):
        convert_projection(weight, 3, to="half", rotary_dim=10)
    with pytest.raises(ValueError, match="3"):
        convert_projection(weight, 3, to="half", rotary_dim=3)
    with pytest.raises((ValueError, TypeError), match="0"):
        convert_projection(weight, 0, to="half")
    with pytest.raises(ValueError, match="3"):
        convert_projection(randn(9, 6), 3, to="half")  # an odd head width has no pairs
    with pytest.raises(ValueError, match=r"24"):
        convert_projection(randn(2, 24, 6), 3, to="half")


@pytest.mark.parametrize("to", LAYOUTS)
def test_a_converted_model_gives_the_same_output_with_value_and_out_left_alone(to):
    source = LAYOUTS[1 - LAYOUTS.index(to)]
    torch.manual_seed(0)
    old = MultiHeadAttention(24, 3, RotaryEmbedding(8, layout=source), causal=True).double()
    new = MultiHeadAttention(24, 3, RotaryEmbedding(8, layout=to), causal=True).double()
    x = randn(2, 12, 24)
    new.load_state_dict(old.state_dict())
    assert (new(x) - old(x)).abs().max() > 1e-3
    with torch.no_grad():
        for name in ("query", "key"):
            weight = getattr(new, name).weight
            weight.copy_(convert_projection(weight, 3, to=to))
    assert (new(x) - old(x)).abs().max() < 1e-13
    # The value rows carry no position: permuting them too would change the output.
    with torch.no_grad():
        new.value.weight.copy_(convert_projection(new.value.weight, 3, to=to))
    assert (new(x) - old(x)).abs().max() > 1e-3
