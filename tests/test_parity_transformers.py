"""Parity with an independent implementation: transformers, whole tensors, from config objects.

Nothing is downloaded. Where the two part, far out, mpmath decides.
"""

from __future__ import annotations

import math
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is imported

import mpmath
import pytest
import torch
from transformers import BloomConfig, GPTJConfig, GPTNeoXConfig, LlamaConfig, T5Config
from transformers.models.bloom import modeling_bloom as bloom
from transformers.models.distilbert import modeling_distilbert as distilbert
from transformers.models.gpt_neox import modeling_gpt_neox as neox
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama
from transformers.models.m2m_100 import modeling_m2m_100 as m2m
from transformers.models.marian import modeling_marian as marian
from transformers.models.mpt import modeling_mpt as mpt
from transformers.models.roformer import modeling_roformer as roformer
from transformers.models.t5 import modeling_t5 as t5

from posenc_tutorial.alibi import ALiBi, alibi_bias, alibi_slopes
from posenc_tutorial.attention import MultiHeadAttention
from posenc_tutorial.context_extension import default_rope
from posenc_tutorial.frequencies import inverse_frequencies
from posenc_tutorial.hf_config import rope_parameters_from_config
from posenc_tutorial.relative import T5Bias, relative_positions, t5_bucket
from posenc_tutorial.rope import RotaryEmbedding, rope_cos_sin, rotate
from posenc_tutorial.sinusoidal import sinusoidal_table


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def llama_config(rope, *, head_dim=128, max_positions=4096):
    return LlamaConfig(
        hidden_size=2 * head_dim,
        num_attention_heads=2,
        max_position_embeddings=max_positions,
        rope_parameters=dict(rope),
    )


HALF = 64
# Of the size of published lists: short ones rise slowly, long ones steeply.
FACTORS = [1 + 0.02 * i for i in range(HALF)], [1 + i for i in range(HALF)]
ROPES = {
    "default": (dict(rope_type="default", rope_theta=1e4), {}),
    "default_large_base": (dict(rope_type="default", rope_theta=5e5), {}),
    "linear": (dict(rope_type="linear", rope_theta=1e4, factor=4.0), {}),
    "dynamic": (dict(rope_type="dynamic", rope_theta=1e4, factor=2.0), dict(max_positions=1024)),
    "yarn": (
        dict(
            rope_type="yarn",
            rope_theta=1e4,
            factor=16.0,
            original_max_position_embeddings=4096,
        ),
        dict(max_positions=65536),
    ),
    "yarn_not_truncated": (
        dict(
            rope_type="yarn",
            rope_theta=150000.0,
            factor=32.0,
            original_max_position_embeddings=4096,
            truncate=False,
        ),
        dict(max_positions=131072, head_dim=64),
    ),
    "yarn_mscale": (
        dict(
            rope_type="yarn",
            rope_theta=1e4,
            factor=40.0,
            original_max_position_embeddings=4096,
            mscale=0.707,
            mscale_all_dim=0.5,
        ),
        dict(max_positions=163840, head_dim=64),
    ),
    "yarn_explicit_factor": (
        dict(
            rope_type="yarn",
            rope_theta=1e6,
            factor=4.0,
            original_max_position_embeddings=32768,
            attention_factor=1.5,
            beta_fast=16.0,
            beta_slow=2.0,
        ),
        dict(max_positions=131072),
    ),
    "llama3": (
        dict(
            rope_type="llama3",
            rope_theta=5e5,
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=8192,
        ),
        dict(max_positions=131072),
    ),
    "longrope_short": (
        dict(
            rope_type="longrope",
            rope_theta=1e4,
            short_factor=FACTORS[0],
            long_factor=FACTORS[1],
            original_max_position_embeddings=4096,
        ),
        dict(max_positions=131072),
    ),
    "longrope_long": (
        dict(
            rope_type="longrope",
            rope_theta=1e4,
            short_factor=FACTORS[0],
            long_factor=FACTORS[1],
            original_max_position_embeddings=1024,
        ),
        dict(max_positions=16384),
    ),
    "proportional": (
        dict(rope_type="proportional", rope_theta=1e6, partial_rotary_factor=0.25),
        {},
    ),
}
N = 2048


@pytest.mark.parametrize("name", ROPES)
def test_every_rope_type_frequencies_cosines_and_rotated_queries(name):
    rope, sizes = ROPES[name]
    config = llama_config(rope, **sizes)
    theirs = llama.LlamaRotaryEmbedding(config)
    positions = torch.arange(N)
    q, k = randn(1, 2, N, config.head_dim), randn(1, 2, N, config.head_dim, seed=1)
    cos, sin = theirs(q, positions[None])  # dynamic and longrope settle on N tokens here
    pairs = config.head_dim // 2

    ours = rope_parameters_from_config(config.to_dict(), seq_len=N)
    assert torch.allclose(ours.inv_freq, theirs.inv_freq.double(), rtol=1e-6, atol=0)
    assert ours.attention_factor == pytest.approx(theirs.attention_scaling, rel=1e-6)
    our_cos, our_sin = rope_cos_sin(
        positions, ours.inv_freq, attention_factor=ours.attention_factor
    )
    # Theirs stores every angle twice, one half beside the other, and in float32: it drifts by up
    # to 2e-4 of the magnitude at these positions.
    limit = 2e-4 * ours.attention_factor
    for a, b in [(our_cos, cos[0]), (our_sin, sin[0])]:
        assert (a - b[:, :pairs]).abs().max() < limit
        assert (a - b[:, pairs:]).abs().max() < limit

    their_q, their_k = llama.apply_rotary_pos_emb(q, k, cos, sin)
    our_q, our_k = RotaryEmbedding(config.head_dim, parameters=ours)(q, k)
    assert (our_q - their_q).abs().max() < 5 * limit  # an entry of q is below 5
    assert (our_k - their_k).abs().max() < 5 * limit
    # With the same tables the rotation itself agrees to rounding.
    same = rotate(q, cos[0, :, :pairs], sin[0, :, :pairs])
    assert (same - their_q).abs().max() < 2e-6


def test_batched_positions_are_laid_out_alike():
    config = llama_config(ROPES["default"][0])
    positions = torch.tensor([[0, 1, 2, 3], [7, 30, 8, 500]])
    q, k = randn(2, 4, 4, 128), randn(2, 2, 4, 128, seed=1)
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, positions)
    their_q, their_k = llama.apply_rotary_pos_emb(q, k, cos, sin)
    our_q, our_k = RotaryEmbedding(128)(q, k, positions)
    assert (our_q - their_q).abs().max() < 2e-4
    assert (our_k - their_k).abs().max() < 2e-4


def test_far_out_theirs_drifts_and_mpmath_sides_with_ours():
    config = llama_config(ROPES["default"][0])
    far = [131071, 524287, 2**20 - 1, 2**20]
    positions = torch.tensor(far)
    cos, sin = llama.LlamaRotaryEmbedding(config)(randn(1, 4, 128), positions[None])
    our_cos, our_sin = rope_cos_sin(positions, inverse_frequencies(128))
    with mpmath.workdps(40):
        exact = [
            [p * mpmath.power(10000, -mpmath.mpf(2 * i) / 128) for i in range(64)] for p in far
        ]
        exact_cos, exact_sin = (
            torch.tensor([[float(f(a)) for a in row] for row in exact], dtype=torch.float64)
            for f in (mpmath.cos, mpmath.sin)
        )
    assert (our_cos - exact_cos).abs().max() <= 3.1e-8
    assert (our_sin - exact_sin).abs().max() <= 3.1e-8
    assert (cos[0, :, :64] - exact_cos).abs().max() > 1e-2
    assert (sin[0, :, :64] - exact_sin).abs().max() > 1e-2


# --- interleaved and partial --------------------------------------------------------------------


@pytest.mark.parametrize("width", [32, 16])
def test_gptj_is_the_interleaved_layout(width):
    table = gptj.create_sinusoidal_positions(N, width)
    sin, cos = table.chunk(2, dim=-1)
    q = randn(1, 3, N, 32)
    turned = gptj.apply_rotary_pos_emb(q.transpose(1, 2)[..., :width], sin[None], cos[None])
    theirs = torch.cat([turned.transpose(1, 2), q[..., width:]], dim=-1)
    ours, _ = RotaryEmbedding(32, rotary_dim=width, layout="interleaved")(q, q)
    assert (ours - theirs).abs().max() < 1e-3
    assert torch.equal(ours[..., width:], theirs[..., width:])
    assert (rotate(q, cos, sin, layout="interleaved") - theirs).abs().max() < 2e-6
    assert (rotate(q, cos, sin, layout="half") - theirs).abs().max() > 0.1


def test_roformer_is_the_interleaved_layout():
    table = roformer.RoFormerSinusoidalPositionalEmbedding(512, 64).create_weight()
    q, k = randn(2, 3, 512, 64), randn(2, 3, 512, 64, seed=1)
    their_q, their_k = roformer.RoFormerSelfAttention.apply_rotary_position_embeddings(
        table[None, None], q, k
    )
    our_q, our_k = RotaryEmbedding(64, layout="interleaved")(q, k)
    # Their table is built in float64 as well, so this is exact to rounding.
    assert (our_q - their_q).abs().max() < 2e-6
    assert (our_k - their_k).abs().max() < 2e-6


@pytest.mark.parametrize("fraction", [0.25, 0.5, 1.0])
def test_gpt_neox_is_the_half_layout_of_the_first_channels(fraction):
    config = GPTNeoXConfig(
        hidden_size=128,
        num_attention_heads=2,
        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=fraction),
    )
    q, k = randn(1, 2, N, 64), randn(1, 2, N, 64, seed=1)
    cos, sin = neox.GPTNeoXRotaryEmbedding(config)(q, torch.arange(N)[None])
    their_q, their_k = neox.apply_rotary_pos_emb(q, k, cos, sin)
    width = int(64 * fraction)
    our_q, our_k = RotaryEmbedding(64, rotary_dim=width)(q, k)
    assert (our_q - their_q).abs().max() < 1e-3
    assert (our_k - their_k).abs().max() < 1e-3
    assert torch.equal(our_q[..., width:], their_q[..., width:])
    read = rope_parameters_from_config(config.to_dict())
    assert torch.equal(read.inv_freq, default_rope(width, 1e4).inv_freq)


# --- whole attention layers ---------------------------------------------------------------------


def causal_mask(n):
    return torch.zeros(1, 1, n, n).masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)


def copy_weights(layer, query, key, value, out):
    with torch.no_grad():
        for name, weight in [("query", query), ("key", key), ("value", value), ("out", out)]:
            getattr(layer, name).weight.copy_(weight)


def test_a_llama_attention_layer():
    config = llama_config(ROPES["default"][0], head_dim=16)
    config._attn_implementation = "eager"
    theirs = llama.LlamaAttention(config, 0).eval()
    ours = MultiHeadAttention(32, 2, RotaryEmbedding(16), causal=True)
    projections = (theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.o_proj)
    copy_weights(ours, *(p.weight for p in projections))
    x = randn(2, 50, 32)
    tables = llama.LlamaRotaryEmbedding(config)(x, torch.arange(50)[None])
    expected, _ = theirs(x, tables, causal_mask(50))
    assert (ours(x) - expected).abs().max() < 1e-5
    assert (ours(x, positions=2 * torch.arange(50)) - expected).abs().max() > 1e-3


def test_a_gptj_attention_layer():
    config = GPTJConfig(n_embd=32, n_head=2, rotary_dim=8, n_positions=64)
    config._attn_implementation = "eager"
    theirs = gptj.GPTJAttention(config, 0).eval()
    encoding = RotaryEmbedding(16, rotary_dim=8, layout="interleaved")
    ours = MultiHeadAttention(32, 2, encoding, causal=True)
    projections = (theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.out_proj)
    copy_weights(ours, *(p.weight for p in projections))
    x = randn(2, 50, 32)
    sin, cos = gptj.create_sinusoidal_positions(50, 8)[None].chunk(2, dim=-1)
    expected, _ = theirs(x, (sin, cos), causal_mask(50))
    assert (ours(x) - expected).abs().max() < 1e-5
    assert (ours(x, positions=2 * torch.arange(50)) - expected).abs().max() > 1e-3


@pytest.mark.parametrize("causal", [False, True])
def test_a_t5_attention_layer(causal):
    config = T5Config(d_model=32, d_kv=16, num_heads=2, is_decoder=causal, dropout_rate=0.0)
    config._attn_implementation = "eager"
    theirs = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
    encoding = T5Bias(2, bidirectional=not causal)
    ours = MultiHeadAttention(32, 2, encoding, causal=causal)
    with torch.no_grad():
        theirs.relative_attention_bias.weight.copy_(3 * randn(32, 2))
        encoding.weight.copy_(theirs.relative_attention_bias.weight)
    # T5 does not divide its scores by sqrt(head_dim): fold the missing 4 into the queries.
    copy_weights(ours, 4 * theirs.q.weight, theirs.k.weight, theirs.v.weight, theirs.o.weight)
    x = randn(2, 150, 32)
    expected = theirs(x, mask=causal_mask(150) if causal else None)[0]
    assert (ours(x) - expected).abs().max() < 1e-5
    assert (ours(x, positions=2 * torch.arange(150)) - expected).abs().max() > 1e-3


def test_a_bloom_attention_layer_with_left_padding():
    config = BloomConfig(hidden_size=48, n_head=6, hidden_dropout=0.0, attention_dropout=0.0)
    theirs = bloom.BloomAttention(config, 0).eval()
    with torch.no_grad():
        theirs.query_key_value.bias.zero_()
        theirs.dense.bias.zero_()
    ours = MultiHeadAttention(48, 6, ALiBi(6), causal=True)
    fused = theirs.query_key_value.weight.view(6, 3, 8, 48)
    copy_weights(ours, *(fused[:, i].reshape(48, 48) for i in range(3)), theirs.dense.weight)
    x = randn(2, 9, 48)
    real = torch.ones(2, 9, dtype=torch.long)
    real[0, :4] = 0
    additive = causal_mask(9).masked_fill(~real.bool()[:, None, None], -1e30).clamp(min=-1e30)
    alibi = bloom.build_alibi_tensor(real, 6, torch.float32)
    expected = theirs(x, torch.zeros_like(x), alibi, additive)[0]
    positions = (real.cumsum(-1) - 1).clamp(min=0)
    out = ours(x, positions=positions, mask=real.bool()[:, None, None])
    seen = real.bool()
    assert (out[seen] - expected[seen]).abs().max() < 1e-5


# --- ALiBi --------------------------------------------------------------------------------------

HEADS = [1, 2, 3, 4, 6, 8, 10, 12, 16, 40, 71, 112]


@pytest.mark.parametrize("heads", HEADS)
def test_bloom_builds_the_key_index_form_of_the_same_slopes(heads):
    n = 300
    theirs = bloom.build_alibi_tensor(torch.ones(1, n), heads, torch.float32)[:, 0]
    assert torch.allclose(theirs[:, 1].double(), alibi_slopes(heads).double(), rtol=2e-5, atol=0)
    # Every causal row of ours differs from theirs by a constant, which the softmax removes.
    difference = theirs[:, None] - alibi_bias(heads, torch.arange(n), torch.arange(n))
    for row in (0, 1, 17, n - 1):
        causal = difference[:, row, : row + 1]
        assert torch.allclose(causal, causal[:, :1].expand_as(causal), atol=5e-3, rtol=0)
    last = alibi_bias(heads, torch.tensor([n - 1]), torch.arange(n))[:, 0]
    assert torch.allclose(theirs - theirs[:, -1:], last, rtol=2e-5, atol=5e-3)


def test_bloom_counts_positions_of_padded_rows_alike():
    real = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    theirs = bloom.build_alibi_tensor(real, 4, torch.float32).view(2, 4, 5)
    positions = torch.tensor([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])
    ours = alibi_bias(4, positions[:, -1:], positions)[:, :, 0]
    assert torch.allclose(ours - ours[..., :1], theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize("heads", HEADS)
def test_mpt_builds_the_last_row(heads):
    n = 300
    theirs = mpt.build_mpt_alibi_tensor(heads, n)[:, 0]
    ours = alibi_bias(heads, torch.tensor([n - 1]), torch.arange(n))[:, 0]
    assert theirs.shape == ours.shape
    assert torch.allclose(ours, theirs, rtol=1e-6, atol=0)


# --- T5 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("num_buckets", "max_distance"),
    [(32, 128), (32, 64), (16, 128), (64, 256), (128, 1024), (8, 20), (32, 800), (6, 7)],
)
def test_buckets_of_every_distance(bidirectional, num_buckets, max_distance):
    relative = torch.arange(-5000, 5001)
    kinds = dict(bidirectional=bidirectional, num_buckets=num_buckets, max_distance=max_distance)
    theirs = t5.T5Attention._relative_position_bucket(relative, **kinds)
    assert torch.equal(t5_bucket(relative, **kinds), theirs)


@pytest.mark.parametrize("decoder", [False, True])
def test_the_bias_of_a_t5_layer(decoder):
    config = T5Config(d_model=32, d_kv=16, num_heads=4, is_decoder=decoder)
    theirs = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = T5Bias(4, bidirectional=not decoder)
    ours.weight.data.copy_(randn(32, 4))
    theirs.relative_attention_bias.load_state_dict(ours.state_dict())
    for n_q, n_k, past in [(300, 300, 0), (7, 20, 0), (1, 61, 60), (5, 200, 195)]:
        expected = theirs.compute_bias(n_q, n_k, past_seen_tokens=past)[0]
        got = ours.score_bias(torch.arange(past, past + n_q), torch.arange(n_k))
        assert torch.equal(got, expected)
    matrix = relative_positions(torch.arange(3), torch.arange(4))
    assert matrix[2].tolist() == [-2, -1, 0, 1]


# --- sinusoidal ---------------------------------------------------------------------------------


def test_marian_and_roformer_use_the_concatenated_layout():
    for module in (
        marian.MarianSinusoidalPositionalEmbedding,
        roformer.RoFormerSinusoidalPositionalEmbedding,
    ):
        theirs = module(512, 64).create_weight()
        ours = sinusoidal_table(512, 64, layout="concatenated")
        assert (ours - theirs).abs().max() < 1e-7  # both are built in float64
    interleaved = sinusoidal_table(512, 64)
    assert (interleaved - theirs).abs().max() > 1


def test_distilbert_uses_the_interleaved_layout():
    theirs = distilbert.create_sinusoidal_embeddings(512, 64, torch.empty(512, 64))
    assert (sinusoidal_table(512, 64) - theirs).abs().max() < 1e-7


def test_gptj_table_in_float32():
    theirs = gptj.create_sinusoidal_positions(N, 64)
    ours = sinusoidal_table(N, 64, layout="concatenated")
    assert (ours - theirs).abs().max() < 2e-4


def test_m2m100_ends_at_another_frequency_and_starts_two_rows_later():
    # tensor2tensor's end point: exponent i / (dim/2 - 1), so the last frequency is 1/base exactly.
    padding, dim, n = 1, 64, 100
    theirs = m2m.M2M100SinusoidalPositionalEmbedding.get_embedding(n + 2, dim, padding)
    assert torch.equal(theirs[padding], torch.zeros(dim))
    exponent = torch.arange(dim // 2).double() / (dim // 2 - 1)
    angle = (torch.arange(n) + padding + 1).double()[:, None] * 10000**-exponent
    expected = torch.cat([angle.sin(), angle.cos()], dim=-1)
    assert (theirs[padding + 1 :] - expected).abs().max() < 2e-4
    # Ours has the paper's end point and serves position 0 with row 0.
    ours = sinusoidal_table(torch.arange(n) + padding + 1, dim, layout="concatenated")
    assert (ours - theirs[padding + 1 :]).abs().max() > 0.1
    shared = (0, dim // 2)  # the fastest pair is the same
    assert (ours - theirs[padding + 1 :])[:, shared].abs().max() < 2e-4
