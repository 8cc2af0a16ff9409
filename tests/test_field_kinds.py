"""More bugs of the kinds that users of positional encodings report; each test names its kind."""

from __future__ import annotations

import json
import math

import pytest
import torch

from posenc_tutorial import (
    ALiBi,
    KeyValueCache,
    LearnedEncoding,
    MultiHeadAttention,
    RopeParameters,
    RotaryEmbedding,
    SinusoidalEncoding,
    T5Bias,
    attention_scores,
    dynamic_ntk,
    inverse_frequencies,
    rope_parameters_from_config,
    rotation_matrix,
    shift_matrix,
    sinusoidal_table,
    t5_bucket,
)
from posenc_tutorial.attention import attention
from posenc_tutorial.lm import LanguageModel, loss_by_position, train


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def small_model(encoding=None) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(encoding or RotaryEmbedding(8), dim=16, num_layers=2, num_heads=2)


def text(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, (n,), generator=torch.Generator().manual_seed(seed))


def growing_rope() -> RotaryEmbedding:
    return RotaryEmbedding(8, parameters=lambda n: dynamic_ntk(8, 10000.0, 2.0, 4, n))


# --- life cycle: a buffer that is not saved stays on the meta device ----------------------------


@pytest.mark.parametrize("make", [lambda: RotaryEmbedding(8), lambda: SinusoidalEncoding(16)])
def test_weights_assigned_to_a_meta_model_are_enough(make):
    trained = small_model(make())
    with torch.device("meta"):
        loaded = small_model(make())
    loaded.load_state_dict(trained.state_dict(), assign=True)
    tokens = text(9)[None]
    assert torch.equal(loaded(tokens), trained(tokens))


# --- caches: aliasing, sharing, running apart ---------------------------------------------------


def test_one_cache_for_all_layers_is_refused():
    with pytest.raises(ValueError, match="none of them twice"):
        small_model()(text(3)[None], caches=[KeyValueCache()] * 2)


def test_caches_that_have_run_apart_are_refused():
    model, tokens = small_model(), text(5)[None]
    caches = [KeyValueCache(), KeyValueCache()]
    model(tokens[:, :4], caches=caches)
    caches[1] = KeyValueCache()
    with pytest.raises(ValueError, match=r"\[4, 0\]"):
        model(tokens[:, 4:], caches=caches)


# --- empty batches and sequences, negative offsets ----------------------------------------------


@pytest.mark.parametrize("batch, n", [(0, 3), (2, 0), (0, 0)])
@pytest.mark.parametrize("make", [growing_rope, lambda: RotaryEmbedding(8)])
def test_nothing_to_rotate(make, batch, n):
    rope, q = make(), torch.zeros(batch, 2, n, 8)
    for positions in (None, torch.zeros(batch, n, dtype=torch.long)):
        assert rope(q, q, positions)[0].shape == q.shape


def test_length_dependent_rope_at_negative_positions_is_plain_rope():
    q, positions = randn(1, 2, 3, 8), torch.tensor([-7, -2, -1])
    expected = RotaryEmbedding(8)(q, q, positions)
    assert all(map(torch.equal, growing_rope()(q, q, positions), expected))


# --- half precision: overflow, and minus infinity in the bias -----------------------------------


def test_float16_scores_do_not_overflow_before_they_are_scaled():
    # 128 channels of 30 * 30 are 115200, beyond float16; divided by sqrt(128) they are 10182
    q = torch.full((1, 1, 2, 128), 30.0, dtype=torch.float16)
    assert torch.allclose(attention_scores(q, q).float(), torch.tensor(10182.0), rtol=2e-3)
    assert torch.isfinite(attention(q, q, q)).all()


def test_a_row_hidden_by_the_bias_gives_zeros_and_finite_gradients():
    bias = torch.zeros(1, 3, 3)
    bias[:, 1] = -math.inf  # an additive mask, as other libraries have it
    q = randn(2, 2, 3, 4).requires_grad_()
    out, weights = attention(q, q, q, bias=bias, return_weights=True)
    assert not weights[:, :, 1].any() and not out[:, :, 1].any()
    assert torch.allclose(weights[:, :, [0, 2]].sum(-1), torch.ones(2, 2, 2))
    out.sum().backward()
    assert torch.isfinite(q.grad).all()


def test_mask_and_bias_that_hide_everything_only_together():
    bias, mask = torch.tensor([[[-math.inf, 0.0]]]), torch.tensor([[True, False]])
    q = randn(1, 1, 2, 4)
    assert not attention(q, q, q, bias=bias, mask=mask).any()


# --- silent conversions -------------------------------------------------------------------------


def test_whole_numbers_are_refused_by_attention():
    x, whole = randn(1, 1, 2, 2), torch.eye(2, dtype=torch.long)[None, None]
    for q, k, v in [(whole, whole, whole), (whole, x, x), (x, whole, x), (x, x, whole)]:
        with pytest.raises(TypeError, match="int64"):
            attention(q, k, v)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("make", [ALiBi, lambda heads: T5Bias(heads, bidirectional=False)])
def test_a_bias_for_another_number_of_heads_is_refused(make, heads):
    # with one head it would broadcast: every head of the layer with the slope or table of the one
    layer = MultiHeadAttention(16, 2, make(heads), causal=True)
    with pytest.raises(ValueError, match=f"made for {heads} heads, the layer has 2"):
        layer(randn(1, 3, 16))


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool])
def test_a_sinusoidal_table_of_whole_numbers_is_refused(dtype):
    with pytest.raises(TypeError, match=str(dtype)):
        sinusoidal_table(4, 8, dtype=dtype)


@pytest.mark.parametrize("make", [lambda: SinusoidalEncoding(8), lambda: LearnedEncoding(8, 8)])
def test_door_one_refuses_what_is_not_a_batch_of_embeddings(make):
    with pytest.raises(TypeError, match="int64"):
        make().add_to_input(torch.ones(1, 3, 8, dtype=torch.long), torch.arange(3))
    for shape in [(3, 8), (1, 3, 6)]:
        with pytest.raises(ValueError, match=rf"\(batch, n, 8\), got \({shape[0]}, "):
            make().add_to_input(torch.ones(shape), torch.arange(3))


def test_matrices_of_fractional_positions_are_as_exact_as_those_of_whole_ones():
    inv_freq = inverse_frequencies(8)
    for layout in ("half", "interleaved"):
        tenth = rotation_matrix(0.1, inv_freq, layout=layout)
        ten_times = torch.linalg.matrix_power(tenth, 10)
        assert torch.allclose(
            ten_times, rotation_matrix(1, inv_freq, layout=layout), atol=1e-14, rtol=0
        )
    moved = torch.linalg.matrix_power(shift_matrix(0.1, 8), 10)
    assert torch.allclose(moved, shift_matrix(1, 8), atol=1e-14, rtol=0)


@pytest.mark.parametrize("far", [math.nan, math.inf])
def test_t5_needs_a_finite_maximum_distance(far):
    with pytest.raises(ValueError, match=f"max_distance.*{far}"):
        t5_bucket(torch.arange(-300, 300), bidirectional=True, max_distance=far)


def test_t5_refuses_what_cannot_be_counted():
    with pytest.raises(TypeError, match="32.0"):
        T5Bias(2, bidirectional=True, num_buckets=32.0)
    for dtype in (torch.bool, torch.complex64, torch.float32):
        with pytest.raises(TypeError, match="relative_position"):
            t5_bucket(torch.zeros(3, dtype=dtype), bidirectional=True)


# --- compiled regions ---------------------------------------------------------------------------


@pytest.fixture
def dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_a_learned_table_compiles_without_graph_breaks(dynamo):
    encoding, x = LearnedEncoding(8, 4), randn(2, 3, 4)
    compiled = torch.compile(encoding.add_to_input, backend="aot_eager", fullgraph=True)
    for positions in (torch.arange(3), torch.tensor([[0, 1, 2], [5, 6, 7]])):
        assert torch.equal(compiled(x, positions), encoding.add_to_input(x, positions))
    for wrong in (8, -1):
        with pytest.raises(RuntimeError, match="table of 8 positions"):
            compiled(x, torch.tensor([0, 1, wrong]))


# --- configurations -----------------------------------------------------------------------------


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    fields = {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 5e5}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(fields), encoding="utf-8-sig")
    expected = rope_parameters_from_config(fields).inv_freq
    assert torch.equal(rope_parameters_from_config(path).inv_freq, expected)


@pytest.mark.parametrize("content", [b"", b'{"rope_theta": ', b'{"name": "\xe9"}'])
def test_a_broken_file_is_named(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="config.json is not a JSON file"):
        rope_parameters_from_config(path)


# --- training and evaluation --------------------------------------------------------------------


def test_windows_of_large_data_stay_inside_it():
    # 2**24 + 3 as a float32 is 2**24 + 4: the last window would end past the data
    data = torch.zeros(2**24 + 3 + 64 + 1, dtype=torch.uint8)
    loss = loss_by_position(small_model(), data, length=64, chunk=64, num_chunks=2)
    assert torch.isfinite(loss).all()


def test_there_must_be_something_to_average():
    data = text(200)
    for options in ({"num_chunks": 0}, {"chunk": 0}):
        with pytest.raises(ValueError, match="must be >= 1"):
            loss_by_position(small_model(), data, length=8, **{"chunk": 64, **options})
    with pytest.raises(ValueError, match="batch_size.* 0"):
        train(small_model(), data, length=8, steps=1, batch_size=0)


def test_data_and_tokens_are_rows_of_whole_numbers():
    with pytest.raises(TypeError, match="float32"):
        train(small_model(), text(200) + 0.5, length=8, steps=1)
    with pytest.raises(TypeError, match="float32"):
        loss_by_position(small_model(), text(200) + 0.5, length=8, chunk=64)
    for shape in [(200, 1), (2, 100)]:
        with pytest.raises(ValueError, match=rf"\({shape[0]}, {shape[1]}\)"):
            train(small_model(), text(200).view(shape), length=8, steps=1)
        with pytest.raises(ValueError, match=rf"\({shape[0]}, {shape[1]}\)"):
            loss_by_position(small_model(), text(200).view(shape), length=8, chunk=64)
    with pytest.raises(ValueError, match=r"\(5,\)"):
        small_model()(text(5))


@pytest.mark.parametrize(
    "block",
    [
        # Kimi K2: https://github.com/radixark/miles/issues/335
        {"rope_type": "yarn", "beta_fast": 1.0, "beta_slow": 1.0},
        {"rope_type": "yarn", "beta_fast": 1.0, "beta_slow": 1.0, "truncate": False},
        {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 1.0},
    ],
)
def test_equal_thresholds_are_a_step_as_in_transformers(block):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    fields = {
        "hidden_size": 256,
        "num_attention_heads": 4,
        "max_position_embeddings": 131072,
        "rope_parameters": {
            "rope_theta": 50000.0,
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            **block,
        },
    }
    ours = rope_parameters_from_config(fields)
    theirs, factor = ROPE_INIT_FUNCTIONS[block["rope_type"]](LlamaConfig(**fields), "cpu")
    assert torch.allclose(ours.inv_freq, theirs.double(), rtol=1e-6, atol=0)
    assert ours.attention_factor == pytest.approx(factor)
    ratio = inverse_frequencies(64, 50000.0) / ours.inv_freq
    assert torch.equal(torch.unique(ratio.round()), torch.tensor([1.0, 32.0]).double())


def test_a_schedule_that_changes_its_width_is_refused():
    def schedule(length):
        return RopeParameters(inverse_frequencies(8 if length < 5 else 4))

    rope = RotaryEmbedding(8, parameters=schedule)
    q = torch.randn(1, 1, 5, 8)
    with pytest.raises(ValueError, match="rotate 8 channels at every length, but rotates 4 at"):
        rope(q, q)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_resized_table_keeps_its_dtype_and_a_float32_one_is_never_made_wider(dtype):
    table = LearnedEncoding(4, 2).to(dtype)
    assert table.resized(7).weight.dtype == dtype
