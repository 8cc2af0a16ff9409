"""A text cut over ranks: positions, rotation, and attention equal those of the whole text."""

from __future__ import annotations

import datetime
import math

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from posenc_tutorial.alibi import ALiBi
from posenc_tutorial.attention import attention
from posenc_tutorial.context_parallel import (
    SCHEMES,
    causal_pairs,
    gathered_attention,
    merge_attention,
    partial_attention,
    ring_attention,
    shard,
    shard_positions,
    unshard,
)
from posenc_tutorial.relative import T5Bias
from posenc_tutorial.rope import RotaryEmbedding

N, HEADS, WIDTH = 24, 4, 16


def whole(seed: int = 0):
    """Queries, keys and values of a whole text, float64."""
    generator = torch.Generator().manual_seed(seed)
    shape = (2, HEADS, N, WIDTH)
    return tuple(torch.randn(*shape, generator=generator, dtype=torch.float64) for _ in range(3))


def encodings():
    torch.manual_seed(0)
    return {
        "half": RotaryEmbedding(WIDTH),
        "interleaved": RotaryEmbedding(WIDTH, layout="interleaved"),
        "partial": RotaryEmbedding(WIDTH, rotary_dim=8),
        "alibi": ALiBi(HEADS),
        "t5": T5Bias(HEADS, bidirectional=False, num_buckets=8, max_distance=16),
    }


# Cutting


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_every_position_is_kept_by_exactly_one_rank(scheme, world_size):
    parts = [shard_positions(N, r, world_size, scheme=scheme) for r in range(world_size)]
    assert torch.cat(parts).sort().values.tolist() == list(range(N))
    assert {len(part) for part in parts} == {N // world_size}
    assert all(part.diff().gt(0).all() for part in parts)


def test_the_two_schemes_by_hand():
    cut = [shard_positions(8, rank, 2).tolist() for rank in (0, 1)]
    assert cut == [[0, 1, 2, 3], [4, 5, 6, 7]]
    cut = [shard_positions(8, rank, 2, scheme="zigzag").tolist() for rank in (0, 1)]
    assert cut == [[0, 1, 6, 7], [2, 3, 4, 5]]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dim", [1, 2, -1])
def test_shards_make_the_whole_again(scheme, dim):
    x = torch.randn(12, 12, 12, generator=torch.Generator().manual_seed(1))
    parts = [shard(x, r, 3, dim=dim, scheme=scheme) for r in range(3)]
    assert torch.equal(unshard(parts, dim=dim, scheme=scheme), x)
    assert torch.equal(parts[1], x.index_select(dim, shard_positions(12, 1, 3, scheme=scheme)))


def test_zigzag_shares_the_causal_work_and_contiguous_does_not():
    assert causal_pairs(8, 2) == [10, 26]
    assert causal_pairs(8, 2, scheme="zigzag") == [18, 18]
    for world_size in (2, 4, 8):
        shares = causal_pairs(64, world_size, scheme="zigzag")
        assert set(shares) == {64 * 65 // 2 // world_size}
        uneven = causal_pairs(64, world_size)
        assert sum(uneven) == sum(shares) and uneven == sorted(uneven)
        assert uneven[-1] > 1.4 * shares[0]


@pytest.mark.parametrize(
    ("world_size", "error", "message"),
    [(0, ValueError, "at least 1, got 0"), (-2, ValueError, "got -2"), (2.0, TypeError, "got 2.0")],
)
def test_work_is_shared_by_at_least_one_rank(world_size, error, message):
    with pytest.raises(error, match=f"world_size must be .*{message}"):
        causal_pairs(8, world_size)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((10, 0, 4), {}, ValueError, "multiple of 4 .* got 10"),
        ((12, 0, 4), {"scheme": "zigzag"}, ValueError, "multiple of 8 .* got 12"),
        ((0, 0, 2), {}, ValueError, "got 0"),
        ((8, 2, 2), {}, ValueError, r"rank must lie in 0 … 1, got 2"),
        ((8, -1, 2), {}, ValueError, "got -1"),
        ((8, 0, 0), {}, ValueError, "world_size must be at least 1, got 0"),
        ((8, 0, 2), {"scheme": "striped"}, ValueError, "contiguous.*got 'striped'"),
        ((8.0, 0, 2), {}, TypeError, "n must be an integer, got 8.0"),
        ((8, True, 2), {}, TypeError, "rank must be an integer, got True"),
    ],
)
def test_impossible_cuts_are_named(arguments, options, error, message):
    with pytest.raises(error, match=message):
        shard_positions(*arguments, **options)


def test_no_shards_are_no_text():
    with pytest.raises(ValueError, match="one tensor for each rank"):
        unshard([], dim=0)


# Attention in pieces


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("world_size", [2, 3])
def test_merged_pieces_equal_attention_over_the_whole(scheme, causal, world_size):
    q, k, v = whole()
    positions = torch.arange(N)
    expected = attention(q, k, v, causal=causal, q_positions=positions, k_positions=positions)
    outputs, totals = [], []
    for rank in range(world_size):
        kept = shard_positions(N, rank, world_size, scheme=scheme)
        out, total = partial_attention(
            q,
            k[..., kept, :],
            v[..., kept, :],
            q_positions=positions,
            k_positions=kept,
            causal=causal,
        )
        outputs.append(out)
        totals.append(total)
    merged, total = merge_attention(outputs, totals)
    torch.testing.assert_close(merged, expected, rtol=0, atol=1e-12)
    scores = q @ k.mT / math.sqrt(WIDTH)
    if causal:
        scores = scores.masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), -math.inf)
    torch.testing.assert_close(total, scores.logsumexp(-1), rtol=0, atol=1e-12)


def test_merging_is_associative_and_ignores_empty_pieces():
    q, k, v = whole()
    positions = torch.arange(N)
    pieces = [
        partial_attention(
            q,
            k[..., part, :],
            v[..., part, :],
            q_positions=positions,
            k_positions=part,
        )
        for part in positions.split(8)
    ]
    at_once = merge_attention(*zip(*pieces, strict=True))
    first = merge_attention(*zip(*pieces[1:], strict=True))
    later = merge_attention(*zip(pieces[0], first, strict=True))
    torch.testing.assert_close(at_once, later, rtol=0, atol=1e-12)
    # The first eight queries see none of the last keys: no nan, and nothing is added.
    assert torch.equal(pieces[2][0][..., :8, :], torch.zeros(2, HEADS, 8, WIDTH).double())
    assert bool((pieces[2][1][..., :8] == -math.inf).all())
    assert bool(at_once[0].isfinite().all())


def test_a_query_that_sees_nothing_gets_zeros():
    q, k, v = (x[..., :4, :] for x in whole())
    early, late = torch.arange(4), torch.arange(4) + 10
    piece = partial_attention(q, k, v, q_positions=early, k_positions=late)
    out, total = merge_attention([piece[0]] * 2, [piece[1]] * 2)
    assert not bool(out.any()) and bool((total == -math.inf).all())


def test_averaging_the_pieces_is_another_thing():
    q, k, v = whole()
    positions = torch.arange(N)
    expected = attention(q, k, v)
    pieces = [
        partial_attention(
            q, k[..., p, :], v[..., p, :], q_positions=positions, k_positions=p, causal=False
        )
        for p in positions.split(12)
    ]
    mean = (pieces[0][0] + pieces[1][0]) / 2
    assert float((mean - expected).abs().max()) > 0.1


def test_large_scores_do_not_overflow():
    q, k, v = whole()
    positions = torch.arange(N)
    pieces = [
        partial_attention(
            100 * q, 100 * k[..., p, :], v[..., p, :], q_positions=positions, k_positions=p
        )
        for p in positions.split(12)
    ]
    merged, _ = merge_attention(*zip(*pieces, strict=True))
    expected = attention(
        100 * q, 100 * k, v, causal=True, q_positions=positions, k_positions=positions
    )
    torch.testing.assert_close(merged, expected, rtol=0, atol=1e-10)


def test_half_precision_adds_up_in_float32():
    q, k, v = (x.bfloat16() for x in whole())
    out, total = partial_attention(
        q, k, v, q_positions=torch.arange(N), k_positions=torch.arange(N)
    )
    assert out.dtype == total.dtype == torch.float32


def test_positions_that_do_not_fit_are_named():
    q, k, v = whole()
    with pytest.raises(ValueError, match=r"k_positions must have shape \(24,\), got \(23,\)"):
        partial_attention(q, k, v, q_positions=torch.arange(N), k_positions=torch.arange(N - 1))
    with pytest.raises(TypeError, match="q_positions must be integers"):
        partial_attention(q, k, v, q_positions=torch.arange(N) / 2, k_positions=torch.arange(N))
    with pytest.raises(ValueError, match="one total for each output"):
        merge_attention([v], [])


# Two processes


def run_rank(rank: int, world_size: int, meeting_point: str, results) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{meeting_point}",
        rank=rank,
        world_size=world_size,
        timeout=datetime.timedelta(seconds=120),
    )
    try:
        found = {}
        for scheme in SCHEMES:
            positions = shard_positions(N, rank, world_size, scheme=scheme)
            q, k, v = (shard(x, rank, world_size, dim=2, scheme=scheme) for x in whole())
            for name, encoding in encodings().items():
                with torch.no_grad():
                    turned = encoding.rotate_query_key(q, k, positions, positions)
                    door2 = encoding.score_bias(positions, positions)
                    bias = None if door2 is None else encoding.score_bias
                    found[scheme, name] = (
                        *turned,
                        gathered_attention(*turned, v, positions, bias=bias),
                        ring_attention(*turned, v, positions, bias=bias),
                    )
        plain = torch.arange(N // world_size) + rank * N // world_size
        q, k, v = (shard(x, rank, world_size, dim=2) for x in whole())
        found["not causal"] = (
            gathered_attention(q, k, v, plain, causal=False),
            ring_attention(q, k, v, plain, causal=False),
        )
        results[rank] = found
        dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """What two gloo processes found, by rank."""
    with mp.Manager() as manager:
        results = manager.dict()
        meeting_point = str(tmp_path_factory.mktemp("ranks") / "meet")
        mp.spawn(run_rank, args=(2, meeting_point, results), nprocs=2)
        yield [results[rank] for rank in (0, 1)]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", list(encodings()))
def test_two_processes_rotate_and_attend_as_one(two_ranks, scheme, name):
    q, k, v = whole()
    positions = torch.arange(N)
    encoding = encodings()[name]
    with torch.no_grad():
        q, k = encoding.rotate_query_key(q, k, positions, positions)
        expected = attention(
            q,
            k,
            v,
            bias=encoding.score_bias(positions, positions),
            causal=True,
            q_positions=positions,
            k_positions=positions,
        )
    columns = zip(*(found[scheme, name] for found in two_ranks), strict=True)
    turned_q, turned_k, gathered, ring = (unshard(c, dim=2, scheme=scheme) for c in columns)
    assert torch.equal(turned_q, q) and torch.equal(turned_k, k)
    torch.testing.assert_close(gathered, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(ring, expected, rtol=0, atol=1e-12)


def test_two_processes_attend_as_one_without_a_mask(two_ranks):
    columns = zip(*(found["not causal"] for found in two_ranks), strict=True)
    for column in columns:
        torch.testing.assert_close(unshard(column, dim=2), attention(*whole()), rtol=0, atol=1e-12)


def test_positions_counted_within_the_shard_give_another_rotation():
    q, k, _ = whole()
    rope = RotaryEmbedding(WIDTH)
    right, _ = rope.rotate_query_key(q, k, torch.arange(N), torch.arange(N))
    local = torch.arange(N // 2)
    parts = [
        rope.rotate_query_key(*(shard(x, rank, 2, dim=2) for x in (q, k)), local, local)[0]
        for rank in (0, 1)
    ]
    wrong = unshard(parts, dim=2)
    assert torch.equal(wrong[..., : N // 2, :], right[..., : N // 2, :])
    assert float((wrong - right).abs().max()) > 0.5
