"""Parity with transformers, offline, for every rope type and for the models' own modules.

Frequencies agree to 1e-6 relative (theirs are float32), attention factors to 1e-9, cosines and
sines to 2e-4 absolute below position 2048; beyond that their float32 angles drift and
``test_precision_mpmath.py`` decides.
"""

from __future__ import annotations

import importlib
import json
import logging
import warnings

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from posenc_tutorial.context_extension import (
    default_rope,
    dynamic_ntk,
    llama3,
    longrope,
    position_interpolation,
    proportional,
    yarn,
)
from posenc_tutorial.hf_config import rope_parameters_from_config
from posenc_tutorial.rope import rope_cos_sin

logging.getLogger("transformers").setLevel(logging.ERROR)
transformers = pytest.importorskip("transformers")
ROPE_INIT_FUNCTIONS = pytest.importorskip("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
LlamaRotaryEmbedding = pytest.importorskip(
    "transformers.models.llama.modeling_llama"
).LlamaRotaryEmbedding

SHORT = [1.0 + 0.03 * i for i in range(64)]
LONG = [1.0 + 1.1 * i for i in range(64)]


def llama_config(scaling=None, *, max_positions=8192, base=10000.0, head_dim=128, **fields):
    return transformers.LlamaConfig(
        hidden_size=head_dim * 4,
        num_attention_heads=4,
        head_dim=head_dim,
        max_position_embeddings=max_positions,
        rope_theta=base,
        rope_scaling=scaling,
        **fields,
    )


def theirs(config, seq_len=None, layer_type=None):
    """inv_freq (float64) and attention factor of transformers."""
    parameters = config.rope_parameters
    rope_type = (parameters[layer_type] if layer_type else parameters)["rope_type"]
    if rope_type == "default":
        inv_freq, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    else:
        init = ROPE_INIT_FUNCTIONS[rope_type]
        inv_freq, factor = init(config, "cpu", seq_len=seq_len, layer_type=layer_type)
    return inv_freq.double(), factor


def assert_same(params, inv_freq, factor):
    torch.testing.assert_close(params.inv_freq, inv_freq.double(), rtol=1e-6, atol=0)
    assert params.attention_factor == pytest.approx(factor, abs=1e-9)


# name: scaling block, other fields, sequence length, the direct call that it amounts to
YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}
YARN_LENGTH = {"max_positions": 65536}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": SHORT,
    "long_factor": LONG,
    "original_max_position_embeddings": 4096,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
CASES = {
    "default": (None, {}, None, lambda: default_rope(128, 1e4)),
    "linear": (
        {"rope_type": "linear", "factor": 4.0},
        {},
        None,
        lambda: position_interpolation(128, 1e4, 4.0),
    ),
    "linear partial": (
        {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.25},
        {},
        None,
        lambda: position_interpolation(32, 1e4, 4.0),
    ),
    "dynamic, no length": (DYNAMIC, {}, None, lambda: default_rope(128, 1e4)),
    "dynamic, short": (DYNAMIC, {}, 100, lambda: dynamic_ntk(128, 1e4, 2.0, 8192, 100)),
    "dynamic, at the end": (DYNAMIC, {}, 8192, lambda: dynamic_ntk(128, 1e4, 2.0, 8192, 8192)),
    "dynamic, one more": (DYNAMIC, {}, 8193, lambda: dynamic_ntk(128, 1e4, 2.0, 8192, 8193)),
    "dynamic, long": (DYNAMIC, {}, 50000, lambda: dynamic_ntk(128, 1e4, 2.0, 8192, 50000)),
    "dynamic, partial": (
        {**DYNAMIC, "partial_rotary_factor": 0.5},
        {},
        50000,
        lambda: dynamic_ntk(64, 1e4, 2.0, 8192, 50000),
    ),
    "yarn": (YARN, YARN_LENGTH, None, lambda: yarn(128, 1e4, 16.0, 4096)),
    "yarn, not truncated": (
        {**YARN, "truncate": False},
        YARN_LENGTH,
        None,
        lambda: yarn(128, 1e4, 16.0, 4096, truncate=False),
    ),
    "yarn, gpt-oss": (
        {**YARN, "factor": 32.0, "truncate": False},
        {"max_positions": 131072, "base": 150000.0, "head_dim": 64},
        None,
        lambda: yarn(64, 150000.0, 32.0, 4096, truncate=False),
    ),
    "yarn, mscale": (
        {**YARN, "mscale": 1.0, "mscale_all_dim": 0.5},
        YARN_LENGTH,
        None,
        lambda: yarn(128, 1e4, 16.0, 4096, mscale=1.0, mscale_all_dim=0.5),
    ),
    "yarn, attention factor": (
        {**YARN, "attention_factor": 0.75},
        YARN_LENGTH,
        None,
        lambda: yarn(128, 1e4, 16.0, 4096, attention_factor=0.75),
    ),
    "yarn, betas": (
        {**YARN, "beta_fast": 24.0, "beta_slow": 2.0},
        YARN_LENGTH,
        None,
        lambda: yarn(128, 1e4, 16.0, 4096, beta_fast=24.0, beta_slow=2.0),
    ),
    "yarn, partial": (
        {**YARN, "partial_rotary_factor": 0.5},
        YARN_LENGTH,
        None,
        lambda: yarn(64, 1e4, 16.0, 4096),
    ),
    "llama3": (
        LLAMA3,
        {"max_positions": 131072, "base": 5e5},
        None,
        lambda: llama3(128, 5e5, 8.0, 8192),
    ),
    "llama3, 1B": (
        {**LLAMA3, "factor": 32.0},
        {"max_positions": 131072, "base": 5e5, "head_dim": 64},
        None,
        lambda: llama3(64, 5e5, 32.0, 8192),
    ),
    "llama3, other thresholds": (
        {**LLAMA3, "low_freq_factor": 2.0, "high_freq_factor": 16.0},
        {"max_positions": 131072},
        None,
        lambda: llama3(128, 1e4, 8.0, 8192, low_freq_factor=2.0, high_freq_factor=16.0),
    ),
    "longrope, no length": (
        LONGROPE,
        {"max_positions": 131072},
        None,
        lambda: longrope(128, 1e4, SHORT, LONG, 4096, 131072, 1),
    ),
    "longrope, at the end": (
        LONGROPE,
        {"max_positions": 131072},
        4096,
        lambda: longrope(128, 1e4, SHORT, LONG, 4096, 131072, 4096),
    ),
    "longrope, one more": (
        LONGROPE,
        {"max_positions": 131072},
        4097,
        lambda: longrope(128, 1e4, SHORT, LONG, 4096, 131072, 4097),
    ),
    "longrope, factor": (
        {**LONGROPE, "factor": 32.0},
        {"max_positions": 131072},
        9999,
        lambda: longrope(128, 1e4, SHORT, LONG, 4096, 131072, 9999),
    ),
    "longrope, attention factor": (
        {**LONGROPE, "attention_factor": 1.5},
        {"max_positions": 131072},
        9999,
        lambda: longrope(128, 1e4, SHORT, LONG, 4096, 131072, 9999, attention_factor=1.5),
    ),
    "proportional": (
        {"rope_type": "proportional", "partial_rotary_factor": 0.25},
        {},
        None,
        lambda: proportional(128, 1e4, 0.25),
    ),
    "proportional, whole": (
        {"rope_type": "proportional"},
        {},
        None,
        lambda: default_rope(128, 1e4),
    ),
}


def case(name):
    scaling, fields, seq_len, ours = CASES[name]
    return llama_config(None if scaling is None else dict(scaling), **fields), seq_len, ours


@pytest.mark.parametrize("name", CASES)
def test_methods_agree(name):
    config, seq_len, ours = case(name)
    assert_same(ours(), *theirs(config, seq_len))


@pytest.mark.parametrize("name", CASES)
def test_reading_their_configuration_agrees(name):
    """From their object, from its dictionary, and from the older form that they still accept."""
    config, seq_len, _ = case(name)
    scaling, fields, _, _ = CASES[name]
    fields = {"max_positions": 8192, "base": 1e4, "head_dim": 128} | fields
    older = {
        "model_type": "llama",
        "hidden_size": 4 * fields["head_dim"],
        "num_attention_heads": 4,
        "max_position_embeddings": fields["max_positions"],
        "rope_theta": fields["base"],
        "rope_scaling": scaling,
    }
    saved = json.loads(json.dumps(config.to_dict()))
    expected = theirs(config, seq_len)
    for source in (config, saved, older):
        assert_same(rope_parameters_from_config(source, seq_len=seq_len), *expected)


@pytest.mark.parametrize("name", CASES)
def test_the_base_survives_a_round_trip_through_their_configuration(name):
    config, seq_len, _ = case(name)
    again = transformers.LlamaConfig.from_dict(json.loads(config.to_json_string()))
    expected = rope_parameters_from_config(config, seq_len=seq_len)
    actual = rope_parameters_from_config(again, seq_len=seq_len)
    assert torch.equal(actual.inv_freq, expected.inv_freq)
    assert actual.attention_factor == expected.attention_factor


@pytest.mark.parametrize("name", CASES)
def test_cos_and_sin_agree_below_position_2048(name):
    config, seq_len, _ = case(name)
    inv_freq, factor = theirs(config, seq_len)
    positions = torch.arange(2048)
    # As their modules do it: float32 throughout, the factor multiplied at the end.
    angle = positions.float()[:, None] * inv_freq.float()
    params = rope_parameters_from_config(config, seq_len=seq_len)
    cos, sin = rope_cos_sin(positions, params.inv_freq, attention_factor=params.attention_factor)
    torch.testing.assert_close(cos, angle.cos() * factor, rtol=0, atol=2e-4)
    torch.testing.assert_close(sin, angle.sin() * factor, rtol=0, atol=2e-4)


@pytest.mark.parametrize("name", ["default", "linear", "yarn", "llama3"])
def test_cos_and_sin_agree_with_their_module(name):
    config, _, _ = case(name)
    positions = torch.arange(2048)
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1, 1), positions[None])
    params = rope_parameters_from_config(config)
    ours = rope_cos_sin(positions, params.inv_freq, attention_factor=params.attention_factor)
    pairs = params.rotary_dim // 2
    for mine, other in zip(ours, (cos, sin), strict=True):
        torch.testing.assert_close(mine, other[0, :, :pairs], rtol=0, atol=2e-4)
        torch.testing.assert_close(mine, other[0, :, pairs:], rtol=0, atol=2e-4)


widths = st.sampled_from([16, 32, 64, 80, 96, 128, 256])
bases = st.floats(1000.0, 1e7)
factors = st.floats(1.0, 64.0)
searched = settings(deadline=None, derandomize=True, max_examples=30)


@searched
@given(
    dim=widths,
    base=bases,
    factor=factors,
    original=st.integers(256, 65536),
    slow=st.floats(0.5, 4.0),
    more=st.floats(4.0, 60.0),
    truncate=st.booleans(),
)
def test_yarn_agrees_over_its_parameters(dim, base, factor, original, slow, more, truncate):
    scaling = {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original,
        "beta_fast": slow + more,
        "beta_slow": slow,
        "truncate": truncate,
    }
    config = llama_config(scaling, base=base, head_dim=dim, max_positions=original)
    params = yarn(
        dim, base, factor, original, beta_fast=slow + more, beta_slow=slow, truncate=truncate
    )
    # Their ramp is float32; where it has just begun, a rounding of it is all there is to compare.
    inv_freq, attention_factor = theirs(config)
    torch.testing.assert_close(params.inv_freq, inv_freq, rtol=5e-6, atol=0)
    assert params.attention_factor == pytest.approx(attention_factor, abs=1e-9)


@searched
@given(
    dim=widths,
    base=bases,
    factor=factors,
    original=st.integers(256, 65536),
    low=st.floats(0.5, 4.0),
    more=st.floats(2.0, 60.0),
)
def test_llama3_agrees_over_its_parameters(dim, base, factor, original, low, more):
    scaling = {
        "rope_type": "llama3",
        "factor": factor,
        "original_max_position_embeddings": original,
        "low_freq_factor": low,
        "high_freq_factor": low + more,
    }
    config = llama_config(scaling, base=base, head_dim=dim, max_positions=2 * original)
    params = llama3(dim, base, factor, original, low_freq_factor=low, high_freq_factor=low + more)
    inv_freq, _ = theirs(config)
    torch.testing.assert_close(params.inv_freq, inv_freq, rtol=5e-6, atol=0)


@searched
@given(
    dim=widths,
    base=bases,
    factor=factors,
    original=st.integers(16, 65536),
    times=st.floats(0.1, 32.0),
)
def test_dynamic_ntk_agrees_over_its_parameters(dim, base, factor, original, times):
    seq_len = int(original * times)
    assume(seq_len >= 1)
    config = llama_config(
        {"rope_type": "dynamic", "factor": factor}, base=base, head_dim=dim, max_positions=original
    )
    params = dynamic_ntk(dim, base, factor, original, seq_len)
    inv_freq, _ = theirs(config, seq_len)
    torch.testing.assert_close(params.inv_freq, inv_freq, rtol=2e-6, atol=0)


# The models' own rotary modules, built from configuration objects: module, configuration class,
# rotary class, arguments.
FACTORS_48 = {"short_factor": SHORT[:48], "long_factor": LONG[:48]}
DEEPSEEK_YARN = {
    "type": "yarn",
    "factor": 40,
    "original_max_position_embeddings": 4096,
    "beta_fast": 32,
    "beta_slow": 1,
}
MODELS = {
    "gemma3": (
        "Gemma3TextConfig",
        "Gemma3RotaryEmbedding",
        {
            "num_hidden_layers": 6,
            "rope_theta": 1e6,
            "rope_local_base_freq": 1e4,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
    ),
    "gemma4": ("Gemma4TextConfig", "Gemma4TextRotaryEmbedding", {"num_hidden_layers": 6}),
    "modernbert": ("ModernBertConfig", "ModernBertRotaryEmbedding", {}),
    "gpt_oss": ("GptOssConfig", "GptOssRotaryEmbedding", {}),
    "ministral3": ("Ministral3Config", "Ministral3RotaryEmbedding", {}),
    "deepseek_v2": (
        "DeepseekV2Config",
        "DeepseekV2RotaryEmbedding",
        {
            "max_position_embeddings": 163840,
            "rope_scaling": {**DEEPSEEK_YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
        },
    ),
    "deepseek_v3": (
        "DeepseekV3Config",
        "DeepseekV3RotaryEmbedding",
        {
            "max_position_embeddings": 163840,
            "rope_scaling": {**DEEPSEEK_YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
        },
    ),
    "gpt_neox": (
        "GPTNeoXConfig",
        "GPTNeoXRotaryEmbedding",
        {
            "hidden_size": 2048,
            "num_attention_heads": 8,
            "rotary_pct": 0.25,
            "rotary_emb_base": 10000,
        },
    ),
    "stablelm": ("StableLmConfig", "StableLmRotaryEmbedding", {}),
    "persimmon": ("PersimmonConfig", "PersimmonRotaryEmbedding", {}),
    "cohere": ("CohereConfig", "CohereRotaryEmbedding", {}),
    "falcon": ("FalconConfig", "FalconRotaryEmbedding", {}),
    "glm4": ("Glm4Config", "Glm4RotaryEmbedding", {}),
    "phi": (
        "PhiConfig",
        "PhiRotaryEmbedding",
        {"hidden_size": 2560, "num_attention_heads": 32, "partial_rotary_factor": 0.4},
    ),
    "phi3": (
        "Phi3Config",
        "Phi3RotaryEmbedding",
        {
            "max_position_embeddings": 131072,
            "original_max_position_embeddings": 4096,
            "rope_scaling": {"type": "longrope", **FACTORS_48},
        },
    ),
    "hunyuan_v1_dense": (
        "HunYuanDenseV1Config",
        "HunYuanDenseV1RotaryEmbedding",
        {"head_dim": 128, "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}},
    ),
    "qwen2_vl": (
        "Qwen2VLTextConfig",
        "Qwen2VLRotaryEmbedding",
        {"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
    ),
    "mistral4": ("Mistral4Config", "Mistral4RotaryEmbedding", {}),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_own_modules_agree(name):
    config_name, module_name, arguments = MODELS[name]
    package = f"transformers.models.{name}"
    configuration = importlib.import_module(f"{package}.configuration_{name}")
    modeling = importlib.import_module(f"{package}.modeling_{name}")
    config = getattr(configuration, config_name)(**arguments)
    saved = json.loads(json.dumps(config.to_dict()))
    module = getattr(modeling, module_name)(config)
    found = 0
    for buffer, inv_freq in module.named_buffers():
        if not buffer.endswith("inv_freq") or "original" in buffer:
            continue
        layer_type = buffer.removesuffix("inv_freq").rstrip("_") or None
        prefix = "" if layer_type is None else f"{layer_type}_"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            params = rope_parameters_from_config(saved, layer_type=layer_type)
        # DeepSeek-V2's module has no factor of its own when the two mscales cancel.
        assert_same(params, inv_freq, getattr(module, f"{prefix}attention_scaling", 1.0))
        found += 1
    assert found == (2 if name in ("gemma3", "gemma4", "modernbert") else 1)


@pytest.mark.parametrize("layer_type", ["full_attention", "sliding_attention"])
def test_functions_agree_by_layer_type(layer_type):
    config = transformers.Gemma3TextConfig(
        num_hidden_layers=6,
        max_position_embeddings=65536,
        rope_parameters={
            "full_attention": {**YARN, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
        },
    )
    params = rope_parameters_from_config(config, layer_type=layer_type)
    assert_same(params, *theirs(config, layer_type=layer_type))


@pytest.mark.parametrize("name", ["gptj", "codegen"])
def test_the_table_of_models_with_a_fixed_base_agrees(name):
    configuration = importlib.import_module(f"transformers.models.{name}.configuration_{name}")
    modeling = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    config = getattr(configuration, {"gptj": "GPTJConfig", "codegen": "CodeGenConfig"}[name])()
    expected_sin, expected_cos = modeling.create_sinusoidal_positions(
        config.n_positions, config.rotary_dim
    ).chunk(2, dim=-1)
    params = rope_parameters_from_config(config)
    assert params.rotary_dim == config.rotary_dim
    cos, sin = rope_cos_sin(torch.arange(config.n_positions), params.inv_freq)
    torch.testing.assert_close(cos, expected_cos, rtol=0, atol=2e-4)
    torch.testing.assert_close(sin, expected_sin, rtol=0, atol=2e-4)


@pytest.mark.parametrize(
    "name", ["GPT2Config", "BertConfig", "T5Config", "MptConfig", "BloomConfig", "OPTConfig"]
)
def test_their_configurations_without_rotary_positions_are_refused(name):
    with pytest.raises(ValueError, match="has no rotary positions"):
        rope_parameters_from_config(getattr(transformers, name)())
