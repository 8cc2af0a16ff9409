"""Inputs that somebody will give one day: the right answer, or an error that names the value."""

from __future__ import annotations

import copy
import json

import pytest
import torch

from posenc_tutorial.attention import (
    KeyValueCache,
    MultiHeadAttention,
    attention,
    attention_scores,
)
from posenc_tutorial.context_extension import (
    dynamic_ntk,
    llama3,
    longrope,
    position_interpolation,
    yarn,
)
from posenc_tutorial.context_parallel import merge_attention, partial_attention, unshard
from posenc_tutorial.encoding import NoPE
from posenc_tutorial.frequencies import RopeParameters, angles, inverse_frequencies
from posenc_tutorial.hf_config import read_rope_config, rope_parameters_from_config
from posenc_tutorial.hf_config.command import main
from posenc_tutorial.hf_config.dialects import written_for
from posenc_tutorial.learned import LearnedEncoding
from posenc_tutorial.multi_axis import GridRotaryEmbedding, axial_cos_sin
from posenc_tutorial.relative import ShawRelative, T5Bias, t5_bucket
from posenc_tutorial.rope import RotaryEmbedding, convert_projection, rotation_matrix
from posenc_tutorial.sinusoidal import SinusoidalEncoding, shift_matrix

BEYOND = 10**400  # an integer that float64 does not hold


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.uint16, torch.int32])
def test_a_grid_wider_than_the_dtype_of_its_positions_does_not_wrap(dtype):
    positions = torch.tensor([0, 30, 60, 90, 120]).to(dtype)
    row, column = GridRotaryEmbedding(8, 300).coordinates(positions)
    assert row.tolist() == [0] * 5
    assert column.tolist() == [0, 30, 60, 90, 120]


def test_a_grid_refuses_what_is_no_position():
    grid = GridRotaryEmbedding(8, 3)
    for wrong in ([0, 1], torch.tensor([True, False]), torch.tensor([0.5])):
        with pytest.raises(TypeError, match="positions"):
            grid.coordinates(wrong)
    with pytest.raises(TypeError, match="rows must be a tensor"):
        axial_cos_sin([0, 1], torch.arange(2), inverse_frequencies(4))


def test_attention_over_a_shard_takes_the_positions_that_attention_takes():
    q = random(1, 2, 5, 8)
    whole = attention(q, q, q, causal=True)
    for dtype in (torch.uint8, torch.uint16, torch.uint32, torch.int64):
        places = torch.arange(5).to(dtype)
        out, _ = partial_attention(q, q, q, q_positions=places, k_positions=places)
        torch.testing.assert_close(out, whole)
    for wrong in (torch.ones(5, dtype=torch.bool), [0, 1, 2, 3, 4], torch.arange(5.0)):
        with pytest.raises(TypeError, match="q_positions"):
            partial_attention(q, q, q, q_positions=wrong, k_positions=torch.arange(5))
    for v in (q[:, :, :3], q[:, :1]):
        with pytest.raises(ValueError, match="v must agree with k"):
            partial_attention(q, q, v, q_positions=places, k_positions=places)


def test_pieces_and_shards_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match="shards must have one shape"):
        unshard([torch.zeros(3), torch.zeros(1)], dim=0)
    outputs = [torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 1, 4)]
    with pytest.raises(ValueError, match="must agree in all pieces"):
        merge_attention(outputs, [out[..., 0] for out in outputs])
    with pytest.raises(ValueError, match="must agree in all pieces"):
        merge_attention(outputs[:1], [torch.zeros(1, 2, 1)])


def test_dynamic_parameters_take_an_empty_side():
    rope = RotaryEmbedding(8, parameters=lambda n: dynamic_ntk(8, 1e4, 2.0, 4, n))
    none, some = random(1, 2, 0, 8), random(1, 2, 6, 8)
    positions = torch.arange(6)
    both = rope.rotate_query_key(some, some, positions, positions)[0]
    q, k = rope.rotate_query_key(none, some, positions[:0], positions)
    assert q.shape == none.shape and torch.equal(k, both)
    q, k = rope.rotate_query_key(some, none, positions, positions[:0])
    assert k.shape == none.shape and torch.equal(q, both)
    cache, layer = KeyValueCache(), MultiHeadAttention(16, 2, rope, causal=True)
    layer(random(1, 6, 16), cache=cache)
    assert layer(random(1, 0, 16), cache=cache).shape == (1, 0, 16)
    assert len(cache) == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda n: T5Bias(n, bidirectional=True),
        lambda n: MultiHeadAttention(8, n, NoPE(), causal=True),
        lambda n: MultiHeadAttention(n, 1, NoPE(), causal=True),
        lambda n: LearnedEncoding(n, 4),
        lambda n: LearnedEncoding(4, n),
        lambda n: LearnedEncoding(4, 4).resized(n),
        lambda n: ShawRelative(n, 4),
        lambda n: ShawRelative(4, n),
        lambda n: convert_projection(torch.zeros(8, 3), n, to="half"),
    ],
)
def test_a_count_that_is_no_integer_is_named(make):
    for wrong in (2.0, 2.5, "2", True, None):
        with pytest.raises(TypeError, match=f"must be an integer >= 1, got {wrong!r}"):
            make(wrong)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=f"must be an integer >= 1, got {wrong}"):
            make(wrong)


def test_t5_refuses_a_distance_that_is_no_number():
    for wrong in (True, None, "128"):
        with pytest.raises(TypeError, match="max_distance must be a number > 8"):
            t5_bucket(torch.arange(3), bidirectional=True, max_distance=wrong)


@pytest.mark.parametrize(
    "matrix",
    [
        lambda p: shift_matrix(p, 4),
        lambda p: rotation_matrix(p, inverse_frequencies(4), layout="half"),
        lambda p: rotation_matrix(p, inverse_frequencies(4), layout="interleaved"),
    ],
)
def test_a_matrix_is_of_one_position(matrix):
    assert torch.equal(matrix(3), matrix(torch.tensor(3)))
    for several in (torch.arange(3), [1, 2], torch.tensor([2])):
        with pytest.raises(ValueError, match="must be one number, got shape"):
            matrix(several)
    for wrong in ("2", None, 1j, BEYOND):
        with pytest.raises(TypeError, match="must be a number"):
            matrix(wrong)


def test_numbers_beyond_float64_are_refused():
    for make in (
        lambda: inverse_frequencies(4, BEYOND),
        lambda: RopeParameters(inverse_frequencies(4), BEYOND),
        lambda: position_interpolation(4, 1e4, BEYOND),
        lambda: yarn(4, 1e4, 2.0, 16, mscale=BEYOND, mscale_all_dim=1),
    ):
        with pytest.raises(ValueError, match="must be a finite number"):
            make()


@pytest.mark.parametrize("length", [2**53 + 1, BEYOND])
@pytest.mark.parametrize(
    "rule",
    [
        lambda n: dynamic_ntk(8, 1e4, 2.0, 128, n),
        lambda n: yarn(8, 1e4, 2.0, n),
        lambda n: llama3(8, 1e4, 2.0, n),
        lambda n: longrope(4, 1e4, [1, 1], [2, 2], 128, n, 5),
    ],
)
def test_a_length_that_float64_does_not_count_is_refused(rule, length):
    with pytest.raises(ValueError, match=r"of at most 2\*\*53 \(tokens\)"):
        rule(length)


def test_queries_and_keys_of_two_dtypes_are_named():
    q, k = random(1, 1, 2, 4).half(), random(1, 1, 2, 4)
    with pytest.raises(TypeError, match="one dtype, got torch.float16 and torch.float32"):
        attention_scores(q, k)
    with torch.autocast("cpu", torch.bfloat16):
        assert attention_scores(q.bfloat16(), k).dtype == torch.bfloat16
    with pytest.raises(ValueError, match="head_dim must be at least 1"):
        attention_scores(k[..., :0], k[..., :0])


def test_a_cache_takes_only_what_fits():
    keys, positions = torch.zeros(1, 2, 3, 4), torch.arange(3)
    cache = KeyValueCache()
    for values, wrong, error in (
        (keys, torch.arange(5), ValueError),
        (keys, positions.expand(2, 3), ValueError),
        (keys, positions.half(), TypeError),
        (keys, [0, 1, 2], TypeError),
        (keys[:, :, :2], positions, ValueError),
    ):
        with pytest.raises(error):
            cache.append(keys, values, wrong)
        assert len(cache) == 0
    cache.append(keys, keys, positions)
    for other in (torch.zeros(1, 3, 3, 4), torch.zeros(1, 2, 3, 6)):
        with pytest.raises(ValueError, match="the cache holds keys of 2 heads and 4 channels"):
            cache.append(other, other, positions)
    assert cache.next_positions(0).shape == (1, 0)
    for wrong, error in ((-1, ValueError), (1.5, TypeError), (0.0, TypeError), (False, TypeError)):
        with pytest.raises(error, match="n must be an integer"):
            cache.next_positions(wrong)


@pytest.mark.parametrize("fractional", [False, True])
def test_on_the_meta_device_a_model_gives_shapes(fractional):
    with torch.device("meta"):
        x, positions = torch.zeros(2, 3, 8), torch.arange(3)
        layer = MultiHeadAttention(8, 2, RotaryEmbedding(4), causal=True)
        grid = MultiHeadAttention(8, 2, GridRotaryEmbedding(4, 2), causal=True)
        learned, fixed = LearnedEncoding(5, 8), SinusoidalEncoding(8)
        assert learned.add_to_input(x, positions).shape == x.shape
        assert grid(x, positions=positions).shape == x.shape
        positions = positions.double() if fractional else positions
        for out in (layer(x, positions=positions), fixed.add_to_input(x, positions)):
            assert out.is_meta and out.shape == x.shape
        assert angles(positions, torch.ones(4, device="cpu")).is_meta


def test_float64_and_grids_compile_into_one_graph():
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    rope, grid = RotaryEmbedding(8), GridRotaryEmbedding(8, 3)
    x, positions = random(1, 2, 5, 8, dtype=torch.float64), torch.arange(5)
    for encoding in (rope, grid):
        compiled = torch.compile(encoding.rotate_query_key, backend=backend, fullgraph=True)
        expected = encoding.rotate_query_key(x, x, positions, positions)[0]
        assert torch.equal(compiled(x, x, positions, positions)[0], expected)
    assert len(graphs) == 2


LLAMA = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
WINDOWS = {"layer_types": ["sliding_attention", "full_attention"]}


@pytest.mark.parametrize(
    "fields, message",
    [
        # 0 equals False and would pass a test for False and True; it is neither.
        ({"rope_scaling": {**YARN, "truncate": 0}}, "truncate must be true or false, got 0"),
        ({"rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0}}, "mscale_all_dim 0"),
        ({"rope_scaling": {**YARN, "factor": float("inf")}}, "factor must be .* got inf"),
        ({"text_config": {**LLAMA, "rope_theta": 5e5}}, "rope_theta is 10000.0, but 500000.0"),
        ({"text_config": {**LLAMA, "rope_scaling": YARN}}, "rope_scaling is None, but .*yarn"),
        ({"compress_rope_theta": 160000}, "compress_rope_theta is 160000"),
        ({"swa_rope_theta": 5e6}, "swa_rope_theta is 5000000.0"),
        ({"layer_rope_theta": [1e4, 0, 5e5]}, "layer_rope_theta is"),
        ({"model_type": "gemma3_text", **WINDOWS}, "rope_local_base_freq is missing"),
        ({"per_layer_config": [1]}, r"per_layer_config must be a dictionary or null, got \[1\]"),
        ({"per_layer_config": {"a": {}}}, "got 'a'"),
        ({"per_layer_config": {"0": 5}}, "got '0': 5"),
        ({"per_layer_config": {"0": {}}, "layer_types": 5}, "layer_types must be a list or null"),
    ],
)
def test_a_file_that_says_two_things_or_nonsense_is_refused(fields, message, tmp_path, capsys):
    with pytest.raises(ValueError, match=message):
        rope_parameters_from_config(LLAMA | fields)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | fields))
    assert main([str(path)]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_what_only_looks_like_two_things_is_read():
    plain = rope_parameters_from_config(LLAMA)
    for fields in (
        {"text_config": copy.deepcopy(LLAMA)},
        {"text_config": {"hidden_size": 512}},
        {"layer_rope_theta": [1e4, 0, 1e4]},
        {"swa_rope_theta": 10000},
        {"layer_types": None, "per_layer_config": {}},
    ):
        assert torch.equal(rope_parameters_from_config(LLAMA | fields).inv_freq, plain.inv_freq)
    stated = {**YARN, "mscale": 1.0, "mscale_all_dim": 0}
    same = rope_parameters_from_config(LLAMA | {"rope_scaling": stated})
    assert same.attention_factor == pytest.approx(1.1386294)


def test_a_name_twice_in_the_text_of_a_file_is_an_error(tmp_path):
    path = tmp_path / "config.json"
    twice = json.dumps(LLAMA)[:-1] + ', "rope_theta": 500000.0}'
    path.write_text(twice)
    with pytest.raises(ValueError, match="rope_theta is stated twice, 10000.0 and 500000.0"):
        rope_parameters_from_config(path)
    path.write_text(twice.replace("500000.0", "1e4"))
    assert rope_parameters_from_config(path).rotary_dim == 64


def test_olmo3_scales_its_global_layers_only():
    config = LLAMA | WINDOWS | {"model_type": "olmo3", "rope_scaling": YARN}
    scaled = rope_parameters_from_config(config, layer_type="full_attention")
    local = rope_parameters_from_config(config, layer_type="sliding_attention")
    assert scaled.attention_factor > 1 and scaled.inv_freq[-1] < local.inv_freq[-1]
    assert torch.equal(local.inv_freq, inverse_frequencies(64, 10000.0))
    with pytest.raises(ValueError, match="layer_type must be one of"):
        rope_parameters_from_config(config)


@pytest.mark.parametrize(
    "model_type", ["bamba", "glm4v_moe_text", "moonshine", "qwen3_5_moe_text", "qwen3_5_text"]
)
def test_the_part_that_turns_is_asked_for_where_transformers_has_a_default(model_type):
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(model_type, rope_theta=10000.0)
    assert config.rope_parameters["partial_rotary_factor"] < 1
    with pytest.raises(ValueError, match="partial_rotary_factor is missing"):
        rope_parameters_from_config(LLAMA | {"model_type": model_type})


@pytest.mark.parametrize("factor", [float("inf"), 1e308])
@pytest.mark.parametrize("rule", ["linear", "dynamic"])
def test_the_command_survives_an_absurd_factor_and_length(factor, rule, tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"rope_scaling": {"type": rule, "factor": factor}}))
    assert main([str(path)]) == (2 if factor == float("inf") else 0)  # and no traceback
    path.write_text(json.dumps(LLAMA | {"rope_scaling": {"type": "dynamic", "factor": 2.0}}))
    assert main([str(path), "--length", str(BEYOND)]) == 2
    assert "at most 2**53" in capsys.readouterr().err


def test_the_command_draws_a_table_of_pairs_that_are_all_at_rest(tmp_path, capsys):
    path = tmp_path / "config.json"
    block = {"rope_type": "proportional", "rope_theta": 1e4, "partial_rotary_factor": 0.001}
    path.write_text(json.dumps(LLAMA | {"rope_parameters": block}))
    assert main([str(path)]) == 0
    assert capsys.readouterr().out.count("at rest") == 16


def test_settings_for_other_programs_keep_all_digits_and_all_fields():
    odd = read_rope_config(
        LLAMA
        | {"rope_theta": 12345678.5, "rope_scaling": {"rope_type": "linear", "factor": 1.2345678}}
    )
    words = written_for(odd, "llama.cpp")
    assert "--rope-freq-base 12345678.5" in words and "--rope-scale 1.2345678" in words
    block = {
        "rope_type": "longrope",
        "original_max_position_embeddings": 1024,
        "short_factor": [1.0] * 32,
        "long_factor": [2.0] * 32,
        "short_mscale": 1.1,
        "long_mscale": 1.2,
    }
    tuned = read_rope_config(LLAMA | {"rope_scaling": block})
    written = json.loads(written_for(tuned, "transformers"))["rope_parameters"]
    assert (written["short_mscale"], written["long_mscale"]) == (1.1, 1.2)
    with pytest.raises(ValueError, match="not known to read short_mscale, long_mscale"):
        written_for(tuned, "tensorrt-llm")
