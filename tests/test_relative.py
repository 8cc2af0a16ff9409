"""Relative positions, Shaw's key term, T5's buckets and bias."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_tutorial.attention import MultiHeadAttention
from posenc_tutorial.encoding import PositionalEncoding
from posenc_tutorial.relative import ShawRelative, T5Bias, relative_positions, t5_bucket

searched = settings(deadline=None, derandomize=True, max_examples=60)


def randn(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


# --- relative positions -------------------------------------------------------------------------


def test_relative_position_is_key_minus_query():
    out = relative_positions(torch.tensor([0, 5]), torch.tensor([0, 1, 7]))
    assert out.tolist() == [[0, 1, 7], [-5, -4, 2]]
    assert not out.is_floating_point()


def test_relative_positions_of_batches():
    q, k = torch.tensor([[0, 1], [10, 4]]), torch.tensor([[0, 1, 2], [3, 9, 9]])
    out = relative_positions(q, k)
    assert out.shape == (2, 2, 3)
    assert out[1].tolist() == [[-7, -1, -1], [-1, 5, 5]]
    assert torch.equal(relative_positions(q, k[0])[1], relative_positions(q[1], k[0]))
    assert torch.equal(relative_positions(q[0], k)[1], relative_positions(q[0], k[1]))


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32]
)
def test_narrow_and_unsigned_positions_do_not_wrap(dtype):
    info = torch.iinfo(dtype)
    q, k = torch.tensor([0, 3, info.max]), torch.tensor([5, 0, info.min])
    out = relative_positions(q.to(dtype), k.to(dtype))
    assert out.tolist() == (k - q[:, None]).tolist()


def test_positions_of_other_shapes_and_dtypes_are_refused():
    with pytest.raises(ValueError, match="position"):
        relative_positions(torch.tensor(3), torch.arange(3))
    with pytest.raises(ValueError, match="position"):
        relative_positions(torch.arange(3), torch.zeros(2, 3, 4, dtype=torch.long))
    with pytest.raises(ValueError, match=r"(?s)(?=.*2)(?=.*3)"):
        relative_positions(torch.zeros(2, 4).long(), torch.zeros(3, 4).long())
    with pytest.raises(TypeError, match="bfloat16"):
        relative_positions(torch.arange(3).bfloat16(), torch.arange(3))
    with pytest.raises(TypeError, match="tensor"):
        relative_positions(3, torch.arange(3))


# --- T5 buckets ---------------------------------------------------------------------------------


def test_published_rows_of_a_ten_by_ten():
    # ml-explore/mlx-examples pull 113
    rows = t5_bucket(relative_positions(torch.arange(10), torch.arange(10)), bidirectional=True)
    assert rows[0].tolist() == [0, 17, 18, 19, 20, 21, 22, 23, 24, 24]
    assert rows[9].tolist() == [8, 8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_published_boundaries():
    # First distance of buckets 8 to 15 with 32 buckets and a maximum of 128; +16 after the query.
    starts = [8, 12, 16, 23, 32, 46, 64, 91]
    distance = torch.arange(0, 400)
    before = t5_bucket(-distance, bidirectional=True)
    after = t5_bucket(distance, bidirectional=True)
    assert [int((before == bucket).nonzero()[0]) for bucket in range(8, 16)] == starts
    assert before[:8].tolist() == list(range(8))
    assert torch.equal(after[1:], before[1:] + 16)
    assert after[0] == 0
    assert before[-1] == 15


def test_causal_buckets():
    distance = torch.arange(0, 400)
    before = t5_bucket(-distance, bidirectional=False)
    assert before[:16].tolist() == list(range(16))
    assert int(before.max()) == 31
    # 16 buckets share 16 to 128 by equal ratios
    for bucket in range(16, 32):
        first = math.ceil(16 * 8 ** ((bucket - 16) / 16) - 1e-9)
        assert int((before == bucket).nonzero()[0]) == first, bucket
    # Keys after the query cannot be seen; they share bucket 0 with the query itself.
    assert torch.equal(t5_bucket(distance, bidirectional=False), torch.zeros(400).long())


@searched
@given(
    half=st.integers(2, 32),
    extra=st.integers(1, 500),
    bidirectional=st.booleans(),
)
def test_buckets_are_in_range_monotone_and_signed(half, extra, bidirectional):
    num_buckets = 2 * half
    per_side = half if bidirectional else num_buckets
    max_distance = per_side // 2 + extra
    distance = torch.arange(0, 2 * max_distance + 10)

    def bucket(relative):
        return t5_bucket(
            relative,
            bidirectional=bidirectional,
            num_buckets=num_buckets,
            max_distance=max_distance,
        )

    before, after = bucket(-distance), bucket(distance)
    assert (before[1:] >= before[:-1]).all()
    assert before[: per_side // 2].tolist() == list(range(per_side // 2))
    assert int(before.min()) == 0
    assert int(before.max()) == per_side - 1
    assert torch.equal(before[max_distance:], torch.full_like(before[max_distance:], per_side - 1))
    if bidirectional:
        assert torch.equal(after[1:], before[1:] + per_side)
    else:
        assert torch.equal(after, torch.zeros_like(after))
    assert before.dtype == torch.int64


def test_the_shape_is_kept_and_narrow_integers_do_not_wrap():
    relative = relative_positions(torch.arange(3), torch.arange(4))[None, None]
    out = t5_bucket(relative, bidirectional=True)
    assert out.shape == (1, 1, 3, 4)
    narrow = torch.tensor([-128, -91, -5, 0, 5, 127], dtype=torch.int8)
    assert torch.equal(
        t5_bucket(narrow, bidirectional=True), t5_bucket(narrow.long(), bidirectional=True)
    )


@pytest.mark.parametrize("num_buckets", [0, -2, 1, 3, 31])
def test_an_odd_or_empty_number_of_buckets_is_refused(num_buckets):
    with pytest.raises(ValueError, match=str(num_buckets)):
        t5_bucket(torch.arange(3), bidirectional=True, num_buckets=num_buckets)
    with pytest.raises(ValueError, match=str(num_buckets)):
        T5Bias(2, bidirectional=True, num_buckets=num_buckets)


def test_too_few_buckets_are_refused():
    # Two per direction leave one exact bucket and one for the rest; one leaves none.
    with pytest.raises(ValueError, match="2"):
        t5_bucket(torch.arange(3), bidirectional=True, num_buckets=2)
    with pytest.raises(ValueError, match="1"):
        t5_bucket(torch.arange(3), bidirectional=False, num_buckets=1)


@pytest.mark.parametrize(
    ("bidirectional", "max_distance"), [(True, 8), (True, 0), (True, -1), (False, 16), (False, 9)]
)
def test_max_distance_must_exceed_the_exact_buckets(bidirectional, max_distance):
    with pytest.raises(ValueError, match=str(max_distance)):
        t5_bucket(torch.arange(3), bidirectional=bidirectional, max_distance=max_distance)
    with pytest.raises(ValueError, match=str(max_distance)):
        T5Bias(2, bidirectional=bidirectional, max_distance=max_distance)


def test_smallest_legal_max_distance():
    out = t5_bucket(-torch.arange(12), bidirectional=True, max_distance=9)
    assert out.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 15, 15]


# --- T5 bias ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_bias_is_looked_up_by_bucket(bidirectional):
    encoding = T5Bias(3, bidirectional=bidirectional)
    assert isinstance(encoding, PositionalEncoding)
    assert encoding.weight.shape == (32, 3)
    with torch.no_grad():
        encoding.weight.copy_(randn(32, 3))
    q, k = torch.tensor([3, 100, 0]), torch.tensor([0, 7, 2, 300])
    bias = encoding.score_bias(q, k)
    assert bias.shape == (3, 3, 4)
    for head in range(3):
        for i in range(3):
            for j in range(4):
                bucket = t5_bucket(k[j] - q[i], bidirectional=bidirectional)
                assert bias[head, i, j] == encoding.weight[bucket, head]


def test_the_bias_of_batched_positions():
    encoding = T5Bias(3, bidirectional=True)
    with torch.no_grad():
        encoding.weight.copy_(randn(32, 3))
    q, k = torch.tensor([[0, 1], [10, 4]]), torch.tensor([[0, 1, 2], [3, 9, 90]])
    bias = encoding.score_bias(q, k)
    assert bias.shape == (2, 3, 2, 3)
    for row in range(2):
        assert torch.equal(bias[row], encoding.score_bias(q[row], k[row]))


def test_cached_decoding_reads_the_last_row():
    encoding = T5Bias(3, bidirectional=False)
    with torch.no_grad():
        encoding.weight.copy_(randn(32, 3))
    full = encoding.score_bias(torch.arange(50), torch.arange(50))
    for n in (1, 2, 17, 50):
        step = encoding.score_bias(torch.tensor([n - 1]), torch.arange(n))
        assert torch.equal(step[:, 0], full[:, n - 1, :n])


def test_a_common_shift_changes_nothing():
    encoding = T5Bias(3, bidirectional=True)
    near = encoding.score_bias(torch.arange(20), torch.arange(20))
    far = torch.arange(20) + 2**30
    assert torch.equal(encoding.score_bias(far, far), near)


def test_one_table_is_shared_by_all_layers():
    # huggingface/transformers issue 10221: 32 numbers a head for a whole stack
    encoding = T5Bias(4, bidirectional=True)
    with torch.no_grad():
        encoding.weight.copy_(randn(32, 4))
    layers = torch.nn.ModuleList(
        MultiHeadAttention(16, 4, encoding, causal=False) for _ in range(3)
    )
    assert sum(p.numel() for p in encoding.parameters()) == 32 * 4
    table_numbers = sum(p.numel() for p in layers.parameters()) - 3 * 4 * 16 * 16
    assert table_numbers == 32 * 4
    positions = torch.arange(6)
    biases = [layer.encoding.score_bias(positions, positions) for layer in layers]
    assert all(torch.equal(bias, biases[0]) for bias in biases)
    x = randn(1, 6, 16, dtype=torch.float32)
    out = x
    for layer in layers:
        out = layer(out)
    out.square().sum().backward()
    # Distances 0 to 5 both ways were used, from all three layers; the other buckets were not.
    used = encoding.weight.grad.abs().sum(1) > 0
    assert used.nonzero().flatten().tolist() == [0, 1, 2, 3, 4, 5, 17, 18, 19, 20, 21]


def test_cross_attention_has_no_relative_bias():
    # google-research/text-to-text-transfer-transformer issue 415: no coordinate is shared
    encoding = T5Bias(4, bidirectional=False)
    with torch.no_grad():
        encoding.weight.copy_(10 * randn(32, 4))
    layer = MultiHeadAttention(16, 4, encoding, causal=False).double()
    x, context = randn(1, 5, 16), randn(1, 7, 16, seed=3)
    with_table = layer(x, context=context)
    with torch.no_grad():
        encoding.weight.zero_()
    assert torch.equal(layer(x, context=context), with_table)


def test_a_cast_table_follows_the_model_but_its_buckets_stay_exact():
    encoding = T5Bias(2, bidirectional=True)
    with torch.no_grad():
        encoding.weight.copy_(torch.arange(64).view(32, 2))
    expected = encoding.score_bias(torch.arange(300), torch.arange(300))
    cast = copy.deepcopy(encoding).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        got = cast.score_bias(torch.arange(300), torch.arange(300))
    assert torch.equal(got.float(), expected)  # integers up to 63 are exact in bfloat16


def test_t5_heads_must_be_a_positive_integer():
    for bad in (0, -1):
        with pytest.raises(ValueError, match=str(bad)):
            T5Bias(bad, bidirectional=True)
    with pytest.raises(TypeError):
        T5Bias(2.0, bidirectional=True)


# --- Shaw ---------------------------------------------------------------------------------------


def shaw(head_dim=8, max_distance=3):
    encoding = ShawRelative(head_dim, max_distance)
    with torch.no_grad():
        encoding.weight.copy_(randn(2 * max_distance + 1, head_dim, seed=9))
    return encoding.double()


def test_shaw_has_one_vector_a_clipped_distance():
    encoding = ShawRelative(8, 3)
    assert isinstance(encoding, PositionalEncoding)
    assert encoding.weight.shape == (7, 8)
    assert sum(p.numel() for p in encoding.parameters()) == 56


def test_shaw_is_query_times_the_vector_of_the_clipped_distance():
    # Shaw et al. 2018, equations 4 and 5
    encoding = shaw()
    q = randn(2, 4, 6, 8)
    q_positions, k_positions = torch.arange(6) + 10, torch.tensor([0, 9, 10, 11, 13, 14, 15, 99])
    bias = encoding.score_bias(q_positions, k_positions, q=q)
    assert bias.shape == (2, 4, 6, 8)
    for i, p in enumerate(q_positions.tolist()):
        for j, r in enumerate(k_positions.tolist()):
            vector = encoding.weight[min(max(r - p, -3), 3) + 3]
            assert torch.allclose(
                bias[:, :, i, j], q[:, :, i] @ vector / math.sqrt(8), atol=1e-14, rtol=0
            )


def test_shaw_scores_equal_adding_the_vector_to_the_key():
    encoding = shaw()
    q, k = randn(1, 2, 5, 8), randn(1, 2, 5, 8, seed=1)
    positions = torch.arange(5)
    index = relative_positions(positions, positions).clamp(-3, 3) + 3
    keys = k[:, :, None] + encoding.weight[index]
    expected = (q[:, :, :, None] * keys).sum(-1) / math.sqrt(8)
    got = q @ k.mT / math.sqrt(8) + encoding.score_bias(positions, positions, q=q)
    assert torch.allclose(got, expected, atol=1e-13, rtol=0)


def test_shaw_clips_both_ways_and_tells_before_from_after():
    encoding = shaw()
    q = randn(1, 1, 1, 8)
    bias = encoding.score_bias(torch.tensor([50]), torch.arange(101), q=q)[0, 0, 0]
    assert torch.equal(bias[:48], bias[47].expand(48))
    assert torch.equal(bias[53:], bias[53].expand(48))
    assert len(set(bias[47:54].tolist())) == 7


def test_shaw_batched_positions_and_decode_rows():
    encoding = shaw()
    q = randn(2, 4, 6, 8)
    positions = torch.stack([torch.arange(6), torch.arange(6) * 2 + 5])
    bias = encoding.score_bias(positions, positions, q=q)
    assert bias.shape == (2, 4, 6, 6)
    for row in range(2):
        alone = encoding.score_bias(positions[row], positions[row], q=q[row : row + 1])
        assert torch.allclose(bias[row], alone[0], atol=1e-14, rtol=0)
    step = encoding.score_bias(torch.tensor([5]), torch.arange(6), q=q[:1, :, -1:])
    assert torch.allclose(step[0, :, 0], bias[0, :, -1], atol=1e-14, rtol=0)


@searched
@given(shift=st.integers(-(2**30), 2**30))
def test_shaw_depends_on_the_difference_alone(shift):
    encoding = shaw()
    q, positions = randn(1, 2, 5, 8), torch.arange(5)
    near = encoding.score_bias(positions, positions, q=q)
    assert torch.equal(encoding.score_bias(positions + shift, positions + shift, q=q), near)


def test_shaw_gradients():
    q = randn(1, 2, 3, 4).requires_grad_()
    weight = randn(5, 4, seed=2).requires_grad_()
    encoding = ShawRelative(4, 2).double()

    def bias(q, weight):
        return torch.func.functional_call(
            _Call(encoding), {"encoding.weight": weight}, (torch.tensor([0, 1, 9]), q)
        )

    assert torch.autograd.gradcheck(bias, (q, weight))


class _Call(torch.nn.Module):
    def __init__(self, encoding):
        super().__init__()
        self.encoding = encoding

    def forward(self, positions, q):
        return self.encoding.score_bias(positions, positions, q=q)


def test_shaw_errors():
    positions = torch.arange(3)
    with pytest.raises(ValueError, match="q"):
        ShawRelative(8, 3).score_bias(positions, positions)
    with pytest.raises(ValueError, match=r"(?s)(?=.*8)(?=.*16)"):
        ShawRelative(8, 3).score_bias(positions, positions, q=randn(1, 2, 3, 16))
    with pytest.raises(ValueError, match=r"(?s)(?=.*3)(?=.*5)"):
        ShawRelative(8, 3).score_bias(positions, positions, q=randn(1, 2, 5, 8).float())
    with pytest.raises(ValueError, match="shape"):
        ShawRelative(8, 3).score_bias(positions, positions, q=randn(3, 8).float())
    with pytest.raises(ValueError, match=r"(?s)(?=.*3)(?=.*2)"):
        ShawRelative(8, 3).score_bias(
            positions.expand(3, 3), positions, q=randn(2, 2, 3, 8).float()
        )
    with pytest.raises(TypeError, match="integers"):
        ShawRelative(8, 3).score_bias(positions.double(), positions, q=randn(1, 1, 3, 8).float())
    for head_dim, max_distance in [(0, 3), (-8, 3), (8, 0), (8, -1)]:
        with pytest.raises(ValueError, match=str(min(head_dim, max_distance))):
            ShawRelative(head_dim, max_distance)


def test_shaw_layer_decodes_as_it_reads():
    layer = MultiHeadAttention(16, 2, shaw(), causal=True).double()
    x = randn(1, 7, 16)
    full = layer(x)
    for n in range(1, 8):
        assert (layer(x[:, :n])[:, -1] - full[:, n - 1]).abs().max() < 1e-13
