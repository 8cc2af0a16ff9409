"""RotaryEmbedding: the table, its dtype and device, growth, compilation, changing parameters."""

from __future__ import annotations

import copy
import io
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_tutorial.context_extension import dynamic_ntk, longrope, position_interpolation
from posenc_tutorial.encoding import PositionalEncoding
from posenc_tutorial.frequencies import RopeParameters, inverse_frequencies
from posenc_tutorial.rope import RotaryEmbedding, rope_cos_sin, rotate

LAYOUTS = ("half", "interleaved")


def randn(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def by_hand(x, positions, inv_freq, *, factor=1.0, layout="half"):
    """x is (batch, heads, n, head_dim), positions (n,) or (batch, n)."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    cos, sin = rope_cos_sin(positions, inv_freq, attention_factor=factor, dtype=dtype)
    if positions.dim() == 2:
        cos, sin = cos[:, None], sin[:, None]
    return rotate(x, cos, sin, layout=layout)


# --- what it computes ---------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", [None, 8, 4])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "positions",
    [
        None,
        torch.arange(5),
        torch.arange(1000, 1005),
        torch.tensor([9, 3, 3, 0, 70]),
        torch.tensor([[0, 1, 2, 3, 4], [7, 8, 1, 2, 2000]]),
        torch.tensor([[-3, -2, -1, 0, 1], [5, 6, 7, 8, 9]]),
    ],
    ids=["none", "arange", "offset", "unsorted", "batched", "negative"],
)
def test_it_equals_rotate_by_hand(layout, width, dtype, positions):
    rope = RotaryEmbedding(8, rotary_dim=width, layout=layout)
    q, k = randn(2, 4, 5, 8, dtype=dtype), randn(2, 2, 5, 8, seed=1, dtype=dtype)
    before = q.clone(), k.clone()
    out_q, out_k = rope(q, k, positions)
    p = torch.arange(5) if positions is None else positions
    inv_freq = inverse_frequencies(width or 8)
    assert torch.equal(out_q, by_hand(q, p, inv_freq, layout=layout))
    assert torch.equal(out_k, by_hand(k, p, inv_freq, layout=layout))
    assert out_q.dtype == out_k.dtype == dtype
    assert torch.equal(q, before[0])
    assert torch.equal(k, before[1])


def test_it_is_a_positional_encoding_that_uses_door_three_alone():
    rope = RotaryEmbedding(8)
    assert isinstance(rope, PositionalEncoding)
    assert not rope.length_dependent
    assert list(rope.parameters()) == []
    x = randn(2, 5, 8)
    assert torch.equal(rope.add_to_input(x, torch.arange(5)), x)
    assert rope.score_bias(torch.arange(5), torch.arange(5)) is None


def test_query_and_key_have_their_own_positions():
    rope = RotaryEmbedding(8)
    q, k = randn(2, 4, 2, 8), randn(2, 4, 7, 8, seed=1)
    q_positions, k_positions = torch.tensor([5, 6]), torch.arange(7)
    out_q, out_k = rope.rotate_query_key(q, k, q_positions, k_positions)
    inv_freq = inverse_frequencies(8)
    assert torch.equal(out_q, by_hand(q, q_positions, inv_freq))
    assert torch.equal(out_k, by_hand(k, k_positions, inv_freq))


def test_one_batched_and_one_shared_position_tensor():
    rope = RotaryEmbedding(8)
    q, k = randn(2, 4, 1, 8), randn(2, 4, 3, 8, seed=1)
    q_positions, k_positions = torch.tensor([[2], [9]]), torch.arange(3)
    out_q, out_k = rope.rotate_query_key(q, k, q_positions, k_positions)
    inv_freq = inverse_frequencies(8)
    assert torch.equal(out_q, by_hand(q, q_positions, inv_freq))
    assert torch.equal(out_k, by_hand(k, k_positions, inv_freq))


def test_query_and_key_are_not_crossed():
    # hpcaitech/ColossalAI pull 6429
    rope = RotaryEmbedding(8)
    q, zero = randn(1, 2, 5, 8), torch.zeros(1, 2, 5, 8)
    out_q, out_k = rope(q, zero)
    assert torch.equal(out_k, zero)
    assert not torch.equal(out_q, q)
    other_q, _ = rope(q, randn(1, 2, 5, 8, seed=5))
    assert torch.equal(other_q, out_q)
    zero_q, rotated_k = rope(zero, q)
    assert torch.equal(zero_q, zero)
    assert torch.equal(rotated_k, out_q)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shift", [1, 1000, 2**20, -5])
def test_shift_invariance_in_float64(layout, shift):
    rope = RotaryEmbedding(16, layout=layout)
    q, k = randn(2, 2, 9, 16, dtype=torch.float64), randn(2, 2, 9, 16, seed=1, dtype=torch.float64)

    def scores(positions):
        out_q, out_k = rope(q, k, positions)
        return out_q @ out_k.mT

    limit = 1e-12 if abs(shift) <= 1000 else 1e-8  # a float64 angle at 2**20 is good to 1e-10
    near = scores(torch.arange(9))
    assert (scores(torch.arange(9) + shift) - near).abs().max() < limit
    assert (scores(2 * torch.arange(9)) - near).abs().max() > 0.1


@settings(deadline=None, derandomize=True, max_examples=40)
@given(positions=st.lists(st.integers(-100, 5000), min_size=1, max_size=8))
def test_order_and_gaps_do_not_matter(positions):
    rope = RotaryEmbedding(8)
    n = len(positions)
    q = randn(1, 1, n, 8)
    out, _ = rope(q, q, torch.tensor(positions))
    for row, position in enumerate(positions):
        alone, _ = rope(q[:, :, row : row + 1], q[:, :, :1], torch.tensor([position]))
        assert torch.equal(out[:, :, row : row + 1], alone)


def test_position_zero_is_the_identity():
    rope = RotaryEmbedding(8)
    q = randn(1, 2, 1, 8)
    out, _ = rope(q, q)
    assert torch.equal(out, q)


def test_attention_factor_acts_twice_on_the_scores():
    factor = 1.3688879
    rope = RotaryEmbedding(8, parameters=RopeParameters(inverse_frequencies(8), factor))
    plain = RotaryEmbedding(8)
    q, k = randn(1, 2, 5, 8, dtype=torch.float64), randn(1, 2, 5, 8, seed=1, dtype=torch.float64)
    out_q, out_k = rope(q, k)
    plain_q, plain_k = plain(q, k)
    ratio = (out_q @ out_k.mT) / (plain_q @ plain_k.mT)
    assert torch.allclose(ratio, torch.full_like(ratio, factor**2), rtol=1e-12, atol=0)


def test_position_interpolation_is_plain_rope_at_a_quarter_of_the_position():
    # ml-explore/mlx-lm pull 1553
    rope = RotaryEmbedding(8, parameters=position_interpolation(8, 10000.0, 4.0))
    q = randn(1, 2, 50, 8, dtype=torch.float64)
    out, _ = rope(q, q)
    quarter = by_hand(q, torch.arange(50, dtype=torch.float64) / 4, inverse_frequencies(8))
    assert torch.allclose(out, quarter, atol=1e-13, rtol=0)
    assert (out - RotaryEmbedding(8)(q, q)[0]).abs().max() > 0.1


def test_gradients_flow_to_both():
    rope = RotaryEmbedding(8, layout="interleaved", rotary_dim=6)
    q = randn(1, 2, 3, 8, dtype=torch.float64).requires_grad_()
    k = randn(1, 1, 3, 8, seed=1, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k: rope(q, k, torch.tensor([4, 0, 11])), (q, k))
    energy = 0.5 * sum(out.square().sum() for out in rope(q, k))
    grads = torch.autograd.grad(energy, (q, k))
    assert torch.allclose(grads[0], q, atol=1e-14, rtol=0)
    assert torch.allclose(grads[1], k, atol=1e-14, rtol=0)


# --- the table: dtype, device, growth -----------------------------------------------------------


@pytest.fixture
def fresh():
    """What a module that nobody touched gives at near and far positions."""
    q = randn(1, 2, 6, 32)
    positions = torch.tensor([0, 1, 255, 257, 1857, 2047])
    return q, positions, RotaryEmbedding(32)(q, q, positions)[0]


def test_no_cast_changes_an_angle(fresh):
    q, positions, expected = fresh
    for cast in ("bfloat16", "half", "double", "float"):
        rope = getattr(RotaryEmbedding(32), cast)()
        assert torch.equal(rope(q, q, positions)[0], expected), cast
    rope = RotaryEmbedding(32).to(torch.bfloat16).to(torch.float32)
    assert torch.equal(rope(q, q, positions)[0], expected)
    parent = torch.nn.Sequential(torch.nn.Linear(2, 2), RotaryEmbedding(32)).bfloat16()
    assert torch.equal(parent[1](q, q, positions)[0], expected)


def test_a_cast_module_serves_half_precision_inputs_with_float32_angles(fresh):
    q, positions, _ = fresh
    q = q.bfloat16()
    expected = by_hand(q, positions, inverse_frequencies(32))
    assert torch.equal(RotaryEmbedding(32).bfloat16()(q, q, positions)[0], expected)


def test_autocast_changes_nothing(fresh):
    # huggingface/transformers pull 29285: a matmul of angles under autocast is off by 2.0
    q, positions, expected = fresh
    with torch.autocast("cpu", torch.bfloat16):
        rope = RotaryEmbedding(32)
        inside = rope(q, q, positions)[0]
        grown = rope(q, q, positions + 5000)[0]
        cast = rope.bfloat16()(q, q, positions)[0]
    assert inside.dtype == torch.float32
    assert torch.equal(inside, expected)
    assert torch.equal(cast, expected)
    assert torch.equal(grown, RotaryEmbedding(32)(q, q, positions + 5000)[0])


def test_autocast_changes_nothing_for_length_dependent_parameters(fresh):
    q, positions, _ = fresh

    def parameters(seq_len):
        return dynamic_ntk(32, 10000.0, 2.0, 64, seq_len)

    expected = RotaryEmbedding(32, parameters=parameters)(q, q, positions)[0]
    with torch.autocast("cpu", torch.bfloat16):
        inside = RotaryEmbedding(32, parameters=parameters)(q, q, positions)[0]
    assert torch.equal(inside, expected)


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float16, torch.float64])
def test_the_default_dtype_changes_nothing(fresh, default):
    q, positions, expected = fresh
    torch.set_default_dtype(default)
    try:
        got = RotaryEmbedding(32)(q, q, positions)[0]
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(got, expected)


def test_meta_initialisation_then_to_empty(fresh):
    q, positions, expected = fresh
    with torch.device("meta"):
        rope = RotaryEmbedding(32)
    rope = rope.to_empty(device="cpu")
    assert torch.equal(rope(q, q, positions)[0], expected)
    grown = rope(q, q, positions + 5000)[0]
    assert torch.equal(grown, RotaryEmbedding(32)(q, q, positions + 5000)[0])


def test_meta_initialisation_inside_a_model_with_assigned_weights(fresh):
    q, positions, expected = fresh

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.rope = RotaryEmbedding(32)

    source = Model()
    with torch.device("meta"):
        model = Model()
    model = model.to_empty(device="cpu")
    model.load_state_dict(source.state_dict(), assign=True)
    assert torch.equal(model.rope(q, q, positions)[0], expected)
    cast = model.to(torch.bfloat16)
    assert torch.equal(cast.rope(q, q, positions)[0], expected)


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_the_default_device_does_not_break_length_dependent_parameters(device):
    def parameters(seq_len):
        return dynamic_ntk(8, 10000.0, 2.0, 4, seq_len)

    q = randn(1, 1, 9, 8)
    with torch.device(device):
        rope = RotaryEmbedding(8, parameters=parameters)
    rope = rope.to_empty(device="cpu")
    expected = by_hand(q, torch.arange(9), parameters(9).inv_freq)
    assert torch.equal(rope(q, q)[0], expected)


def test_nothing_is_saved_and_strict_loading_works(fresh):
    q, positions, expected = fresh
    rope = RotaryEmbedding(32)
    rope(q, q, positions + 5000)
    assert rope.state_dict() == {}
    other = RotaryEmbedding(32)
    other.load_state_dict(rope.state_dict(), strict=True)
    assert torch.equal(other(q, q, positions)[0], expected)


def test_copies_are_whole_and_separate(fresh):
    q, positions, expected = fresh
    rope = RotaryEmbedding(32)
    twin = copy.deepcopy(rope)
    rope.bfloat16()(q, q, positions + 9000)
    assert torch.equal(twin(q, q, positions)[0], expected)
    assert torch.equal(twin.bfloat16()(q, q, positions)[0], expected)


def test_a_module_can_be_saved_whole(fresh):
    q, positions, expected = fresh
    buffer = io.BytesIO()
    torch.save(RotaryEmbedding(32), buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    assert torch.equal(loaded(q, q, positions)[0], expected)


def test_changing_the_given_frequencies_afterwards_changes_nothing():
    inv_freq = inverse_frequencies(8)
    rope = RotaryEmbedding(8, parameters=RopeParameters(inv_freq))
    q = randn(1, 1, 5, 8)
    before = rope(q, q)[0]
    inv_freq.mul_(3)
    far = rope(q, q, torch.arange(9000, 9005))[0]
    assert torch.equal(rope(q, q)[0], before)
    assert torch.equal(far, by_hand(q, torch.arange(9000, 9005), inverse_frequencies(8)))


@pytest.mark.parametrize("position", [15, 16, 17, 2047, 2048, 4095, 4096, 65537, 2**20])
def test_growth_equals_a_fresh_table(position):
    # vllm-project/vllm issue 14404: never wraps, never reads garbage
    rope = RotaryEmbedding(4)
    q = randn(1, 1, 1, 4)
    rope(q, q)
    out, _ = rope(q, q, torch.tensor([position]))
    assert torch.equal(out, by_hand(q, torch.tensor([position]), inverse_frequencies(4)))
    again, _ = rope(q, q, torch.tensor([7]))
    assert torch.equal(again, by_hand(q, torch.tensor([7]), inverse_frequencies(4)))


def test_reserve_and_growth_give_the_same_rows():
    reserved, grown = RotaryEmbedding(8), RotaryEmbedding(8)
    reserved.reserve(10000)
    q = randn(1, 1, 3, 8)
    positions = torch.tensor([0, 5000, 9999])
    assert torch.equal(reserved(q, q, positions)[0], grown(q, q, positions)[0])
    reserved.reserve(4)  # never shrinks
    assert torch.equal(reserved(q, q, positions)[0], grown(q, q, positions)[0])


def test_a_table_grown_in_inference_mode_serves_training():
    rope = RotaryEmbedding(8)
    q = randn(1, 1, 3, 8)
    positions = torch.tensor([0, 5000, 9999])
    with torch.inference_mode():
        expected = rope(q, q, positions)[0].clone()
    q.requires_grad_()
    out, _ = rope(q, q, positions)
    assert torch.equal(out, expected)
    out.square().sum().backward()
    assert torch.allclose(q.grad, 2 * q.detach(), atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_negative_positions_turn_backwards(layout):
    rope = RotaryEmbedding(8, layout=layout)
    q = randn(1, 1, 1, 8)
    rope.reserve(4096)
    for position in (-1, -2, -4096, -5000):
        out, _ = rope(q, q, torch.tensor([position]))
        expected = by_hand(q, torch.tensor([position]), inverse_frequencies(8), layout=layout)
        assert torch.equal(out, expected)
        back, _ = rope(out.double(), q, torch.tensor([-position]))
        assert torch.allclose(back, q.double(), atol=1e-6)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32]
)
def test_every_integer_dtype_of_positions(dtype):
    rope = RotaryEmbedding(8)
    q = randn(1, 1, 4, 8)
    positions = torch.tensor([0, 3, 127, 2])
    expected = rope(q, q, positions)[0]
    assert torch.equal(rope(q, q, positions.to(dtype))[0], expected)


def test_half_precision_positions_are_refused():
    # NVIDIA/Megatron-LM issue 535: bfloat16 rounds 257 to 256
    rope = RotaryEmbedding(8)
    q = randn(1, 1, 4, 8)
    for dtype in (torch.bfloat16, torch.float16):
        with pytest.raises(TypeError, match=str(dtype).removeprefix("torch.")):
            rope(q, q, torch.arange(4).to(dtype))


# --- shapes that do not fit ---------------------------------------------------------------------


def test_positions_must_match_the_sequence():
    rope = RotaryEmbedding(8)
    q = randn(2, 3, 5, 8)
    for positions in [
        torch.arange(4),
        torch.arange(1),
        torch.zeros(1, 4, dtype=torch.long),
        torch.zeros(2, 6, dtype=torch.long),
        torch.zeros(3, 5, dtype=torch.long),
        torch.zeros(2, 3, 5, dtype=torch.long),
        torch.tensor(3),
    ]:
        with pytest.raises(ValueError, match="positions|row|shape"):
            rope(q, q, positions)
    with pytest.raises(TypeError, match="tensor"):
        rope(q, q, 3)


def test_head_width_must_match():
    rope = RotaryEmbedding(8)
    with pytest.raises(ValueError, match=r"(?s)(?=.*\b8\b)(?=.*\b16\b)"):
        rope(randn(1, 1, 5, 16), randn(1, 1, 5, 16))
    with pytest.raises(ValueError, match=r"(?s)(?=.*\b8\b)(?=.*\b6\b)"):
        rope(randn(1, 1, 5, 8), randn(1, 1, 5, 6))


@pytest.mark.parametrize("width", [0, -2, 1, 3, 5, 10])
def test_rotary_dim_must_be_even_and_fit(width):
    # labmlai/annotated_deep_learning_paper_implementations issue 215 asks for 3 of 4
    with pytest.raises(ValueError, match=str(width)):
        RotaryEmbedding(8, rotary_dim=width)


def test_a_head_of_odd_width_is_refused():
    with pytest.raises(ValueError, match="5"):
        RotaryEmbedding(5)


@pytest.mark.parametrize("bad", [4.0, True, "8", None])
def test_head_dim_must_be_an_integer(bad):
    with pytest.raises(TypeError):
        RotaryEmbedding(bad)


@pytest.mark.parametrize("base", [0.0, -1.0, math.nan, math.inf])
def test_base_must_be_positive(base):
    with pytest.raises(ValueError, match="base"):
        RotaryEmbedding(8, base=base)


def test_the_base_is_used():
    # unslothai/unsloth pull 7028: a base that is lost ruins long texts only
    q = randn(1, 1, 5, 128, dtype=torch.float64)
    out, _ = RotaryEmbedding(128, base=500000.0)(q, q)
    assert torch.equal(out, by_hand(q, torch.arange(5), inverse_frequencies(128, 500000.0)))
    partial, _ = RotaryEmbedding(128, base=500000.0, rotary_dim=64)(q, q)
    assert torch.equal(partial, by_hand(q, torch.arange(5), inverse_frequencies(64, 500000.0)))


def test_parameters_that_contradict_the_other_arguments_are_refused():
    # vllm-project/vllm pull 30384: a partial factor applied twice, or not at all
    with pytest.raises(ValueError, match=r"(?s)(?=.*4)(?=.*6)"):
        RotaryEmbedding(8, rotary_dim=6, parameters=RopeParameters(inverse_frequencies(4)))
    with pytest.raises(ValueError, match=r"(?s)(?=.*16)(?=.*8)"):
        RotaryEmbedding(8, parameters=RopeParameters(inverse_frequencies(16)))
    with pytest.raises(ValueError, match="base"):
        RotaryEmbedding(8, base=500000.0, parameters=RopeParameters(inverse_frequencies(8)))
    with pytest.raises(TypeError, match="parameters"):
        RotaryEmbedding(8, parameters=inverse_frequencies(8))


def test_a_callable_that_returns_something_else_is_refused():
    q = randn(1, 1, 5, 8)
    with pytest.raises(TypeError, match="RopeParameters"):
        RotaryEmbedding(8, parameters=lambda seq_len: inverse_frequencies(8))(q, q)
    with pytest.raises(ValueError, match=r"(?s)(?=.*16)(?=.*8)"):
        RotaryEmbedding(8, parameters=lambda n: RopeParameters(inverse_frequencies(16)))(q, q)


def test_rotary_dim_defaults_to_the_width_of_the_parameters():
    rope = RotaryEmbedding(8, parameters=RopeParameters(inverse_frequencies(4)))
    q = randn(1, 1, 5, 8)
    out, _ = rope(q, q)
    assert torch.equal(out, by_hand(q, torch.arange(5), inverse_frequencies(4)))
    assert torch.equal(out[..., 4:], q[..., 4:])


def test_partial_rotary_uses_frequencies_of_the_rotated_width():
    # Phi-2: head 80, rotary 32. The second frequency has exponent 2/32, not 2/80.
    rope = RotaryEmbedding(80, rotary_dim=32)
    e1 = torch.zeros(1, 1, 1, 80, dtype=torch.float64)
    e1[..., 1] = 1
    out, _ = rope(e1, e1, torch.tensor([1]))
    assert out[0, 0, 0, 17] == pytest.approx(math.sin(10000 ** (-2 / 32)), abs=1e-12)


# --- parameters that depend on the length -------------------------------------------------------

ORIGINAL = 16


def dynamic(seq_len):
    return dynamic_ntk(8, 10000.0, 2.0, ORIGINAL, seq_len)


def long(seq_len):
    return longrope(8, 10000.0, [1.0, 1.1, 1.2, 1.3], [1.0, 2.0, 4.0, 8.0], ORIGINAL, 64, seq_len)


@pytest.mark.parametrize("parameters", [dynamic, long], ids=["dynamic_ntk", "longrope"])
def test_no_state_is_left_behind_by_another_length(parameters):
    # huggingface/transformers issue 25104: after a long text, a short one keeps the long base
    assert RotaryEmbedding(8, parameters=parameters).length_dependent
    used = RotaryEmbedding(8, parameters=parameters)
    for n in (256, ORIGINAL, 5, 100, ORIGINAL + 1, ORIGINAL, 256):
        q = randn(1, 2, n, 8, seed=n)
        out, _ = used(q, q)
        assert torch.equal(out, RotaryEmbedding(8, parameters=parameters)(q, q)[0])
        p = parameters(n)
        assert torch.equal(
            out, by_hand(q, torch.arange(n), p.inv_freq, factor=p.attention_factor)
        ), n


def test_the_published_sequence_of_lengths():
    # d=128, L=2048, s=2: n=4096, then n=L, then n=100; the last two equal a fresh module
    def parameters(seq_len):
        return dynamic_ntk(128, 10000.0, 2.0, 2048, seq_len)

    used = RotaryEmbedding(128, parameters=parameters)
    plain = RotaryEmbedding(128)
    for n in (4096, 2048, 100):
        q = randn(1, 1, n, 128, seed=n)
        out = used(q, q)[0]
        assert torch.equal(out, RotaryEmbedding(128, parameters=parameters)(q, q)[0])
        assert torch.equal(out, plain(q, q)[0]) == (n <= 2048)


@pytest.mark.parametrize("n", [1, 15, 16])
def test_dynamic_ntk_is_plain_rope_within_the_original_length(n):
    q = randn(1, 2, n, 8)
    out, _ = RotaryEmbedding(8, parameters=dynamic)(q, q)
    assert torch.equal(out, RotaryEmbedding(8)(q, q)[0])


def test_the_length_is_read_from_the_positions_not_from_the_heads():
    # ml-explore/mlx-lm pull 1553. 40 heads and 40 rows of a batch, 5 tokens: still short.
    q = randn(40, 40, 5, 8)
    out, _ = RotaryEmbedding(8, parameters=dynamic)(q, q)
    assert torch.equal(out, RotaryEmbedding(8)(q, q)[0])


def test_the_length_is_the_last_position_plus_one():
    seen = []

    def parameters(seq_len):
        seen.append(seq_len)
        return RopeParameters(inverse_frequencies(8))

    rope = RotaryEmbedding(8, parameters=parameters)
    q = randn(1, 1, 3, 8)
    seen.clear()
    rope(q, q, torch.tensor([20, 22, 21]))
    assert set(seen) == {23}
    assert all(type(n) is int for n in seen)
    seen.clear()
    rope.rotate_query_key(q[:, :, :1], q, torch.tensor([40]), torch.tensor([38, 39, 40]))
    assert set(seen) == {41}


def test_every_row_of_a_batch_has_its_own_length():
    rope = RotaryEmbedding(8, parameters=dynamic)
    q = randn(3, 2, 4, 8)
    positions = torch.tensor([[0, 1, 2, 3], [27, 28, 29, 30], [97, 98, 99, 100]])
    out, _ = rope(q, q, positions)
    for row, n in enumerate((4, 31, 101)):
        alone, _ = rope(q[row : row + 1], q[row : row + 1], positions[row : row + 1])
        assert torch.equal(out[row : row + 1], alone)
        assert torch.equal(
            alone, by_hand(q[row : row + 1], positions[row : row + 1], dynamic(n).inv_freq)
        )


def test_query_and_all_keys_share_the_parameters_of_the_current_length():
    # Decoding token 33 of L=16: one query, 33 raw keys, one base for all of them.
    rope = RotaryEmbedding(8, parameters=dynamic)
    n = 33
    q, k = randn(1, 2, n, 8, dtype=torch.float64), randn(1, 2, n, 8, seed=1, dtype=torch.float64)
    full_q, full_k = rope(q, k)
    step_q, step_k = rope.rotate_query_key(q[:, :, -1:], k, torch.tensor([n - 1]), torch.arange(n))
    assert torch.equal(step_q, full_q[:, :, -1:])
    assert torch.equal(step_k, full_k)
    # Keys cached at the base of their own length give other scores (up to 0.9 in the report).
    cached = torch.cat(
        [rope(q[:, :, : i + 1], k[:, :, : i + 1])[1][:, :, -1:] for i in range(n)], dim=2
    )
    error = (full_q[:, :, -1:] @ (cached - full_k).mT).abs()
    assert error.max() > 0.05


@pytest.mark.parametrize("parameters", [dynamic, long], ids=["dynamic_ntk", "longrope"])
def test_length_dependent_modules_survive_casts_and_copies(parameters):
    q = randn(1, 2, 40, 8)
    expected = RotaryEmbedding(8, parameters=parameters)(q, q)[0]
    rope = RotaryEmbedding(8, parameters=parameters)
    assert torch.equal(copy.deepcopy(rope).bfloat16()(q, q)[0], expected)
    assert torch.equal(rope.half()(q, q)[0], expected)
    assert rope.state_dict() == {}
    double = RotaryEmbedding(8, parameters=parameters)(q.double(), q.double())[0]
    assert (double - expected).abs().max() < 1e-5
    exact = by_hand(
        q.double(),
        torch.arange(40),
        parameters(40).inv_freq,
        factor=parameters(40).attention_factor,
    )
    assert (double - exact).abs().max() < 1e-13


# --- torch.compile ------------------------------------------------------------------------------

LENGTHS = (16, 17, 33, 64, 128)


@pytest.fixture
def dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("given_positions", [False, True])
def test_at_most_two_graphs_over_many_lengths(dynamo, layout, given_positions):
    # huggingface/transformers issue 35716: one graph a length until the limit of 8
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    rope = RotaryEmbedding(32, layout=layout)
    rope.reserve(256)
    compiled = torch.compile(rope, backend=counter, fullgraph=True)
    for n in LENGTHS:
        q, k = randn(1, 4, n, 32, seed=n), randn(1, 2, n, 32, seed=n + 1)
        positions = torch.arange(n) + 3 if given_positions else None
        out = compiled(q, k, positions)
        for a, b in zip(out, rope(q, k, positions), strict=True):
            assert torch.equal(a, b), n
    assert counter.frame_count <= 2


def test_the_functions_compile_as_well(dynamo):
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    compiled = torch.compile(rotate, backend=counter, fullgraph=True)
    for n in LENGTHS:
        q = randn(1, 4, n, 32, seed=n)
        cos, sin = rope_cos_sin(torch.arange(n), inverse_frequencies(32))
        assert torch.equal(compiled(q, cos, sin), rotate(q, cos, sin))
    assert counter.frame_count <= 2


def test_inductor_agrees(dynamo):
    rope = RotaryEmbedding(16)
    compiled = torch.compile(rope, fullgraph=True)
    for n in (17, 33):
        q, k = randn(1, 2, n, 16, seed=n), randn(1, 1, n, 16, seed=n + 1)
        try:
            out = compiled(q, k, torch.arange(n) + 3)
        except torch._inductor.exc.InductorError as error:
            pytest.skip(f"no working C++ compiler for inductor: {str(error)[:80]}")
        for a, b in zip(out, rope(q, k, torch.arange(n) + 3), strict=True):
            assert (a - b).abs().max() < 1e-6


@pytest.mark.parametrize("position", [-1, 10**6])
def test_compiled_and_outside_the_table_is_an_error_or_right_never_garbage(dynamo, position):
    rope = RotaryEmbedding(8)
    compiled = torch.compile(rope, backend="eager", fullgraph=True)
    q = randn(1, 1, 3, 8)
    positions = torch.tensor([0, 1, position])
    try:
        out, _ = compiled(q, q, positions)
    except (RuntimeError, IndexError, ValueError) as error:
        assert "reserve" in str(error)
    else:
        assert torch.equal(out, by_hand(q, positions, inverse_frequencies(8)))
    # The table is unharmed either way.
    assert torch.equal(rope(q, q)[0], by_hand(q, torch.arange(3), inverse_frequencies(8)))


def test_compiled_with_more_tokens_than_the_table_has_rows(dynamo):
    rope = RotaryEmbedding(4)
    compiled = torch.compile(rope, backend="eager", fullgraph=True)
    q = randn(1, 1, 70000, 4)
    try:
        out, _ = compiled(q, q)
    except (RuntimeError, IndexError, ValueError) as error:
        assert "reserve" in str(error)
    else:
        assert torch.equal(out, by_hand(q, torch.arange(70000), inverse_frequencies(4)))


def test_reserve_before_compiling_covers_far_positions(dynamo):
    rope = RotaryEmbedding(8)
    rope.reserve(5000)
    compiled = torch.compile(rope, backend="eager", fullgraph=True)
    q = randn(1, 1, 3, 8)
    positions = torch.tensor([0, 4999, 17])
    assert torch.equal(compiled(q, q, positions)[0], rope(q, q, positions)[0])


def test_compiled_float64_inputs_keep_float64_arithmetic_or_are_refused(dynamo):
    rope = RotaryEmbedding(8)
    compiled = torch.compile(rope, backend="eager", fullgraph=True)
    q = randn(1, 1, 9, 8, dtype=torch.float64)
    try:
        out, _ = compiled(q, q, torch.arange(9) + 100)
    except torch._dynamo.exc.TorchDynamoException:
        return  # float64 angles are built on the CPU, outside any compiled region
    expected = by_hand(q, torch.arange(9) + 100, inverse_frequencies(8))
    assert (out - expected).abs().max() < 1e-12


def test_backward_through_the_compiled_module(dynamo):
    rope = RotaryEmbedding(8)
    compiled = torch.compile(rope, backend="aot_eager", fullgraph=True)
    q = randn(1, 1, 9, 8).requires_grad_()
    k = randn(1, 1, 9, 8, seed=1).requires_grad_()
    out_q, out_k = compiled(q, k)
    grads = torch.autograd.grad(0.5 * (out_q.square().sum() + out_k.square().sum()), (q, k))
    assert torch.allclose(grads[0], q.detach(), atol=1e-5)
    assert torch.allclose(grads[1], k.detach(), atol=1e-5)


# --- accelerators -------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_on_cuda_the_angles_are_the_same(layout):
    rope = RotaryEmbedding(32, layout=layout).cuda()
    q = randn(2, 2, 6, 32)
    for positions in (torch.tensor([0, 1, 255, 257, 9000, 65537]), torch.arange(-2, 4)):
        out, _ = rope(q.cuda(), q.cuda(), positions.cuda())
        expected = by_hand(q, positions, inverse_frequencies(32), layout=layout)
        assert (out.cpu() - expected).abs().max() < 1e-6
    with torch.autocast("cuda", torch.bfloat16):
        inside, _ = rope(q.cuda(), q.cuda(), torch.arange(6, device="cuda") + 9000)
    outside, _ = rope(q.cuda(), q.cuda(), torch.arange(6, device="cuda") + 9000)
    assert torch.equal(inside, outside)
