"""Published configurations: the right frequencies, or an error that names the field."""

from __future__ import annotations

import copy
import json
import math
import warnings

import pytest
import torch

from posenc_tutorial.context_extension import default_rope, dynamic_ntk, longrope, ntk_aware
from posenc_tutorial.frequencies import inverse_frequencies, wavelengths
from posenc_tutorial.hf_config import read_rope_config, rope_parameters_from_config

SHORT_48 = [1.0 + 0.02 * i for i in range(48)]
LONG_48 = [1.0 + 1.3 * i for i in range(48)]


def llama(**fields):
    """A small configuration in the older form, with changes; None takes a field out."""
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "max_position_embeddings": 8192,
        "rope_theta": 500000.0,
        "rope_scaling": None,
    } | fields
    return {key: value for key, value in config.items() if value is not None}


LLAMA3_BLOCK = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN_BLOCK = {
    "rope_type": "yarn",
    "factor": 16.0,
    "original_max_position_embeddings": 4096,
}
LONGROPE_BLOCK = {"type": "longrope", "short_factor": SHORT_48, "long_factor": LONG_48}

# model: configuration; head_dim, rotary width, base, rope type, max positions; second frequency;
# longest wavelength in tokens.
PUBLISHED = {
    "Llama-3-8B": (
        llama(),
        (128, 128, 5e5, "default", 8192),
        0.81461723,
    ),
    "Llama-3.1-8B": (
        llama(max_position_embeddings=131072, rope_scaling=LLAMA3_BLOCK),
        (128, 128, 5e5, "llama3", 131072),
        0.81461723,
    ),
    "CodeLlama-7B": (
        llama(rope_theta=1e6, max_position_embeddings=16384),
        (128, 128, 1e6, "default", 16384),
        1e6 ** (-2 / 128),
    ),
    "Mistral-7B-v0.3": (
        llama(
            model_type="mistral",
            rope_theta=1e6,
            max_position_embeddings=32768,
            num_key_value_heads=8,
        ),
        (128, 128, 1e6, "default", 32768),
        1e6 ** (-2 / 128),
    ),
    "Ministral-3-3B": (
        {
            "model_type": "mistral3",
            "vision_config": {"hidden_size": 1024, "rope_theta": 10000.0},
            "text_config": {
                "model_type": "ministral3",
                "head_dim": 128,
                "hidden_size": 3072,
                "num_attention_heads": 32,
                "max_position_embeddings": 262144,
                "rope_parameters": {
                    "rope_type": "yarn",
                    "type": "yarn",
                    "rope_theta": 1e6,
                    "factor": 16.0,
                    "original_max_position_embeddings": 16384,
                    "beta_fast": 32.0,
                    "beta_slow": 1.0,
                    "mscale": 1.0,
                    "mscale_all_dim": 1.0,
                    "llama_4_scaling_beta": 0.1,
                },
            },
        },
        (128, 128, 1e6, "yarn", 262144),
        1e6 ** (-2 / 128),
    ),
    "Qwen2-7B": (
        llama(
            model_type="qwen2",
            hidden_size=3584,
            num_attention_heads=28,
            rope_theta=1e6,
            max_position_embeddings=32768,
        ),
        (128, 128, 1e6, "default", 32768),
        1e6 ** (-2 / 128),
    ),
    "Gemma-2B": (
        llama(
            model_type="gemma",
            hidden_size=2048,
            num_attention_heads=8,
            head_dim=256,
            rope_theta=1e4,
        ),
        (256, 256, 1e4, "default", 8192),
        1e4 ** (-2 / 256),
    ),
    "Phi-3.5-mini": (
        llama(
            model_type="phi3",
            hidden_size=3072,
            rope_theta=1e4,
            max_position_embeddings=131072,
            original_max_position_embeddings=4096,
            rope_scaling=LONGROPE_BLOCK,
        ),
        (96, 96, 1e4, "longrope", 131072),
        1e4 ** (-2 / 96) / SHORT_48[1],
    ),
    "DeepSeek-V2-Lite": (
        llama(
            model_type="deepseek_v2",
            hidden_size=2048,
            num_attention_heads=16,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            rope_theta=10000,
            max_position_embeddings=163840,
            rope_scaling={
                "type": "yarn",
                "factor": 40,
                "original_max_position_embeddings": 4096,
                "beta_fast": 32,
                "beta_slow": 1,
                "mscale": 0.707,
                "mscale_all_dim": 0.707,
            },
        ),
        (64, 64, 1e4, "yarn", 163840),
        1e4 ** (-2 / 64),
    ),
    "GPT-J-6B": (
        {
            "model_type": "gptj",
            "n_embd": 4096,
            "n_head": 16,
            "n_positions": 2048,
            "rotary": True,
            "rotary_dim": 64,
        },
        (256, 64, 1e4, "default", 2048),
        1e4 ** (-2 / 64),
    ),
    "Pythia-1B": (
        {
            "model_type": "gpt_neox",
            "hidden_size": 2048,
            "num_attention_heads": 8,
            "max_position_embeddings": 2048,
            "rotary_emb_base": 10000,
            "rotary_pct": 0.25,
        },
        (256, 64, 1e4, "default", 2048),
        1e4 ** (-2 / 64),
    ),
    "InternLM2.5-7B": (
        llama(
            model_type="internlm2",
            rope_theta=1000000,
            max_position_embeddings=32768,
            rope_scaling={"type": "dynamic", "factor": 2.0},
        ),
        (128, 128, 1e6, "dynamic", 32768),
        1e6 ** (-2 / 128),
    ),
    "SmolLM2-135M": (
        llama(hidden_size=576, num_attention_heads=9, num_key_value_heads=3, rope_theta=100000),
        (64, 64, 1e5, "default", 8192),
        1e5 ** (-2 / 64),
    ),
}

NOT_ROTARY = {
    "GPT-2": ({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_positions": 1024}, "table"),
    "BERT": (
        {
            "model_type": "bert",
            "hidden_size": 768,
            "num_attention_heads": 12,
            "max_position_embeddings": 512,
            "position_embedding_type": "absolute",
        },
        "table",
    ),
    "T5": (
        {
            "model_type": "t5",
            "d_model": 512,
            "num_heads": 8,
            "relative_attention_num_buckets": 32,
            "relative_attention_max_distance": 128,
        },
        "buckets",
    ),
    "MPT": (
        {"model_type": "mpt", "d_model": 4096, "n_heads": 32, "attn_config": {"alibi": True}},
        "ALiBi",
    ),
    "BLOOM": ({"model_type": "bloom", "hidden_size": 64, "n_head": 8}, "ALiBi"),
    "Falcon-RW": (
        llama(model_type="falcon", alibi=True, rope_theta=10000.0),
        "ALiBi",
    ),
    "unnamed, with buckets": (
        {"d_model": 512, "num_heads": 8, "relative_attention_num_buckets": 32},
        "buckets",
    ),
    "unnamed, with a table": (
        {"hidden_size": 64, "num_attention_heads": 4, "position_embedding_type": "absolute"},
        "absolute",
    ),
}


# Published configurations.


@pytest.mark.parametrize("model", PUBLISHED)
def test_published_configuration_is_read(model):
    config, (head_dim, rotary_dim, base, rope_type, max_positions), _ = PUBLISHED[model]
    read = read_rope_config(config)
    assert (read.head_dim, read.rotary_dim, read.base) == (head_dim, rotary_dim, base)
    assert (read.rope_type, read.max_positions) == (rope_type, max_positions)


@pytest.mark.parametrize("model", PUBLISHED)
def test_published_configuration_has_the_right_frequencies(model):
    config, (_, rotary_dim, base, rope_type, _), second = PUBLISHED[model]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        params = rope_parameters_from_config(config)
    assert params.inv_freq.shape == (rotary_dim // 2,)
    assert params.inv_freq.dtype == torch.float64 and params.inv_freq.device.type == "cpu"
    assert float(params.inv_freq[0]) == 1.0
    assert float(params.inv_freq[1]) == pytest.approx(second, rel=1e-7)
    if rope_type in ("default", "dynamic"):
        assert torch.equal(params.inv_freq, inverse_frequencies(rotary_dim, base))
        assert params.attention_factor == 1.0


@pytest.mark.parametrize("model", PUBLISHED)
def test_both_forms_say_the_same(model):
    """Moving everything into one rope_parameters block, as newer files do, changes nothing."""
    old, *_ = PUBLISHED[model]
    new = copy.deepcopy(old)
    part = new.get("text_config", new)
    block = part.pop("rope_scaling", None) or part.pop("rope_parameters", None) or {}
    block.setdefault("rope_type", block.pop("type", "default"))
    for name, moved in [
        ("rope_theta", "rope_theta"),
        ("rotary_emb_base", "rope_theta"),
        ("rotary_pct", "partial_rotary_factor"),
    ]:
        if name in part:
            block[moved] = part.pop(name)
    part["rope_parameters"] = block
    expected, actual = rope_parameters_from_config(old), rope_parameters_from_config(new)
    assert torch.equal(actual.inv_freq, expected.inv_freq)
    assert actual.attention_factor == expected.attention_factor


@pytest.mark.parametrize(
    "model, longest",
    [
        ("Pythia-1B", 2 * math.pi * 1e4 ** (62 / 64)),
        ("Llama-3-8B", 2 * math.pi * 5e5 ** (126 / 128)),
        ("Llama-3.1-8B", 2 * math.pi / 3.0689260e-7),
        ("GPT-J-6B", 2 * math.pi * 1e4 ** (62 / 64)),
    ],
)
def test_longest_wavelength(model, longest):
    params = rope_parameters_from_config(PUBLISHED[model][0])
    assert float(wavelengths(params.inv_freq)[-1]) == pytest.approx(longest, rel=1e-7)


def test_llama31_published_values():
    inv_freq = rope_parameters_from_config(PUBLISHED["Llama-3.1-8B"][0]).inv_freq
    plain = inverse_frequencies(128, 5e5)
    assert float(inv_freq[32]) == pytest.approx(5.2484616e-4, rel=1e-7)
    assert torch.equal(inv_freq[:29], plain[:29])
    assert torch.equal(inv_freq[35:], plain[35:] / 8)


def test_phi35_published_magnitude_and_lists():
    config = PUBLISHED["Phi-3.5-mini"][0]
    for seq_len, factors in [(None, SHORT_48), (4096, SHORT_48), (4097, LONG_48)]:
        params = rope_parameters_from_config(config, seq_len=seq_len)
        assert params.attention_factor == pytest.approx(1.1902381, rel=1e-7)
        expected = inverse_frequencies(96, 1e4) / torch.tensor(factors, dtype=torch.float64)
        torch.testing.assert_close(params.inv_freq, expected, rtol=1e-15, atol=0)


def test_deepseek_v2_and_ministral_magnitudes_cancel():
    for model in ("DeepSeek-V2-Lite", "Ministral-3-3B"):
        assert rope_parameters_from_config(PUBLISHED[model][0]).attention_factor == 1.0


def test_internlm_scales_with_the_length_and_not_before():
    config = PUBLISHED["InternLM2.5-7B"][0]
    plain = inverse_frequencies(128, 1e6)
    for seq_len in (None, 1, 32768):
        params = rope_parameters_from_config(config, seq_len=seq_len)
        assert torch.equal(params.inv_freq, plain)
    longer = rope_parameters_from_config(config, seq_len=65536).inv_freq
    assert float(plain[-1] / longer[-1]) == pytest.approx(3.0, rel=1e-9)


def test_gpt_oss_range_is_not_truncated():
    config = llama(
        model_type="gpt_oss",
        hidden_size=2880,
        num_attention_heads=64,
        head_dim=64,
        rope_theta=150000,
        max_position_embeddings=131072,
        initial_context_length=4096,
        rope_scaling={
            "rope_type": "yarn",
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
        },
    )
    params = rope_parameters_from_config(config)
    assert float(params.inv_freq[17]) == pytest.approx(1.293187e-4, rel=1e-6)
    assert params.attention_factor == pytest.approx(1.3465736, rel=1e-7)


@pytest.mark.parametrize("model", NOT_ROTARY)
def test_models_without_rotary_positions_say_so(model):
    config, instead = NOT_ROTARY[model]
    with pytest.raises(ValueError, match=f"has no rotary positions, but .*{instead}"):
        rope_parameters_from_config(config)


# Fields that get lost, applied twice or ignored.


def test_the_base_arrives():
    config = llama(rope_scaling={"type": "linear", "factor": 2.0})
    assert float(rope_parameters_from_config(config).inv_freq[1]) == pytest.approx(
        0.40731, rel=1e-5
    )


@pytest.mark.parametrize("form", ["rope_scaling", "rope_parameters"])
def test_the_base_survives_a_round_trip_through_json(form, tmp_path):
    block = {"rope_type": "linear", "factor": 2.0}
    config = (
        llama(rope_scaling=block)
        if form == "rope_scaling"
        else llama(rope_theta=None, rope_parameters={**block, "rope_theta": 500000.0})
    )
    expected = rope_parameters_from_config(config).inv_freq
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    for source in (path, str(path), tmp_path, json.loads(path.read_text())):
        assert torch.equal(rope_parameters_from_config(source).inv_freq, expected)
    assert float(expected[1]) == pytest.approx(0.40731, rel=1e-5)


@pytest.mark.parametrize("fields", [{}, {"rope_scaling": {"type": "linear", "factor": 2.0}}])
def test_a_missing_base_is_named(fields):
    with pytest.raises(ValueError, match="rope_theta is missing"):
        rope_parameters_from_config(llama(rope_theta=None, **fields))


def test_a_model_whose_code_fixes_the_base_may_leave_it_out():
    assert read_rope_config(PUBLISHED["GPT-J-6B"][0]).base == 10000.0
    stated = {**PUBLISHED["GPT-J-6B"][0], "rope_theta": 5000.0}
    assert read_rope_config(stated).base == 5000.0


@pytest.mark.parametrize("head_dim, fraction, width", [(8, 0.5, 4), (128, 0.25, 32), (80, 0.4, 32)])
@pytest.mark.parametrize("place", ["top", "block"])
def test_the_partial_factor_is_applied_once(head_dim, fraction, width, place):
    field = {"partial_rotary_factor": fraction}
    config = llama(head_dim=head_dim, rope_theta=1e4)
    config |= field if place == "top" else {"rope_parameters": {"rope_type": "default", **field}}
    params = rope_parameters_from_config(config)
    assert torch.equal(params.inv_freq, inverse_frequencies(width, 1e4))


def test_the_partial_factor_published_values():
    params = rope_parameters_from_config(
        llama(head_dim=8, partial_rotary_factor=0.5, rope_theta=1e4)
    )
    assert params.inv_freq.tolist() == pytest.approx([1.0, 0.01])
    params = rope_parameters_from_config(
        llama(head_dim=128, partial_rotary_factor=0.25, rope_theta=1e4)
    )
    assert float(params.inv_freq[1]) == pytest.approx(0.56234, rel=1e-5)


@pytest.mark.parametrize(
    "block, length",
    [
        ({"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}, 131072),
        (LLAMA3_BLOCK, 131072),
        (LONGROPE_BLOCK | {"original_max_position_embeddings": 4096}, 131072),
    ],
)
def test_the_maximum_length_includes_the_factor(block, length):
    read = read_rope_config(llama(max_position_embeddings=length, rope_scaling=block))
    assert read.max_positions == length


def test_a_stated_head_width_wins_over_the_quotient():
    config = llama(hidden_size=3072, num_attention_heads=32, head_dim=128)
    assert read_rope_config(config).rotary_dim == 128
    assert read_rope_config(llama(hidden_size=3072, head_dim=None)).rotary_dim == 96


def test_attention_factor_and_betas_are_read():
    base = rope_parameters_from_config(
        llama(rope_scaling=YARN_BLOCK, max_position_embeddings=65536)
    )
    for change in ({"beta_fast": 16.0}, {"beta_slow": 4.0}, {"truncate": False}):
        changed = rope_parameters_from_config(
            llama(rope_scaling=YARN_BLOCK | change, max_position_embeddings=65536)
        )
        assert not torch.equal(changed.inv_freq, base.inv_freq), change
    stated = rope_parameters_from_config(
        llama(rope_scaling=YARN_BLOCK | {"attention_factor": 0.8}, max_position_embeddings=65536)
    )
    assert stated.attention_factor == 0.8


def test_llama3_thresholds_are_read():
    base = rope_parameters_from_config(llama(rope_scaling=LLAMA3_BLOCK))
    for change in ({"low_freq_factor": 2.0}, {"high_freq_factor": 8.0}, {"factor": 4.0}):
        changed = rope_parameters_from_config(llama(rope_scaling=LLAMA3_BLOCK | change))
        assert not torch.equal(changed.inv_freq, base.inv_freq), change


def test_longrope_magnitude_prefers_what_is_stated():
    config = PUBLISHED["Phi-3.5-mini"][0]

    def factor(seq_len=None, **change):
        changed = {**config, "rope_scaling": LONGROPE_BLOCK | change}
        return rope_parameters_from_config(changed, seq_len=seq_len).attention_factor

    assert factor() == pytest.approx(1.1902381, rel=1e-7)
    assert factor(factor=32.0) == pytest.approx(1.1902381, rel=1e-7)
    assert factor(attention_factor=1.3) == 1.3
    by_length = {"short_mscale": 1.1, "long_mscale": 1.2}
    assert factor(100, **by_length) == 1.1
    assert factor(5000, **by_length) == 1.2


# Names and dialects.


@pytest.mark.parametrize(
    "names",
    [
        {"type": "linear"},
        {"rope_type": "linear"},
        {"type": "linear", "rope_type": "linear"},
    ],
)
def test_type_and_rope_type_are_one_field(names):
    params = rope_parameters_from_config(llama(rope_scaling={"factor": 4.0, **names}))
    assert float(params.inv_freq[0]) == 0.25


def test_su_is_longrope():
    config = PUBLISHED["Phi-3.5-mini"][0]
    renamed = {**config, "rope_scaling": LONGROPE_BLOCK | {"type": "su"}}
    for seq_len in (100, 5000):
        params = rope_parameters_from_config(renamed, seq_len=seq_len)
        expected = longrope(96, 1e4, SHORT_48, LONG_48, 4096, 131072, seq_len)
        assert torch.equal(params.inv_freq, expected.inv_freq)
        assert params.attention_factor == expected.attention_factor


@pytest.mark.parametrize("block", [{"type": "mrope"}, {"type": "mrope", "rope_type": "default"}])
def test_mrope_has_plain_frequencies(block):
    config = llama(rope_scaling={**block, "mrope_section": [16, 24, 24]})
    params = rope_parameters_from_config(config)
    assert torch.equal(params.inv_freq, inverse_frequencies(128, 5e5))


def test_hunyuan_alpha_is_ntk_aware_scaling():
    config = llama(rope_theta=1e4, rope_scaling={"type": "dynamic", "alpha": 1000.0, "factor": 1.0})
    for seq_len in (None, 100, 100_000):
        params = rope_parameters_from_config(config, seq_len=seq_len)
        assert torch.equal(params.inv_freq, ntk_aware(128, 1e4, 1000.0).inv_freq)


def test_the_first_qwen_models_scale_by_their_own_rule():
    config = {
        "model_type": "qwen",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "kv_channels": 128,
        "rotary_emb_base": 10000,
        "rotary_pct": 1.0,
        "seq_length": 8192,
        "max_position_embeddings": 32768,
        "use_dynamic_ntk": True,
    }
    for seq_len in (None, 8192, 8193, 20000):
        params = rope_parameters_from_config(config, seq_len=seq_len)
        expected = dynamic_ntk(128, 1e4, 1.0, 8192, seq_len or 1, variant="qwen")
        assert torch.equal(params.inv_freq, expected.inv_freq), seq_len
    with pytest.raises(ValueError, match="seq_length is missing"):
        rope_parameters_from_config({**config, "seq_length": None})


def test_proportional_covers_the_whole_head():
    block = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}
    config = llama(rope_theta=None, head_dim=512, rope_parameters=block)
    inv_freq = rope_parameters_from_config(config).inv_freq
    assert inv_freq.shape == (256,)
    assert torch.equal(inv_freq[:64], inverse_frequencies(512, 1e6)[:64])
    assert bool((inv_freq[64:] == 0).all())
    halved = llama(rope_theta=None, head_dim=512, rope_parameters=block | {"factor": 2.0})
    assert torch.equal(rope_parameters_from_config(halved).inv_freq, inv_freq / 2)


GEMMA3_OLD = llama(
    model_type="gemma3_text",
    hidden_size=2560,
    num_attention_heads=8,
    head_dim=256,
    rope_theta=1e6,
    rope_local_base_freq=1e4,
    rope_scaling={"rope_type": "linear", "factor": 8.0},
    max_position_embeddings=131072,
)
GEMMA3_NEW = llama(
    model_type="gemma3_text",
    head_dim=256,
    rope_theta=None,
    rope_parameters={
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
)


@pytest.mark.parametrize("config", [GEMMA3_OLD, GEMMA3_NEW, {"text_config": GEMMA3_OLD}])
def test_gemma3_scales_its_global_layers_only(config):
    full = rope_parameters_from_config(config, layer_type="full_attention")
    sliding = rope_parameters_from_config(config, layer_type="sliding_attention")
    assert torch.equal(full.inv_freq, inverse_frequencies(256, 1e6) / 8)
    assert torch.equal(sliding.inv_freq, inverse_frequencies(256, 1e4))


@pytest.mark.parametrize("layer_type", [None, "chunked_attention"])
def test_layer_types_have_to_be_chosen(layer_type):
    with pytest.raises(ValueError, match=r"one of \['full_attention', 'sliding_attention'\]"):
        rope_parameters_from_config(GEMMA3_NEW, layer_type=layer_type)


def test_a_block_for_one_layer_type_only_needs_no_choice():
    block = {"full_attention": {"rope_type": "default", "rope_theta": 1e6}}
    config = llama(rope_theta=None, rope_parameters=block)
    assert read_rope_config(config).base == 1e6


def test_layers_without_rotary_positions_say_so():
    block = {"full_attention": None, "sliding_attention": {"rope_theta": 1e4}}
    config = llama(rope_theta=None, rope_parameters=block)
    with pytest.raises(ValueError, match="'full_attention' have no rotary positions"):
        rope_parameters_from_config(config, layer_type="full_attention")


def test_blocks_by_layer_fall_back_on_the_fields_outside():
    block = {"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_theta": 1e4}}
    config = llama(rope_parameters=block, partial_rotary_factor=0.5)
    full = read_rope_config(config, layer_type="full_attention")
    sliding = read_rope_config(config, layer_type="sliding_attention")
    assert (full.base, full.rotary_dim) == (5e5, 64)
    assert (sliding.base, sliding.rotary_dim) == (1e4, 64)


def test_a_layer_type_for_a_model_with_one_set_of_parameters():
    with pytest.raises(ValueError, match="layer_type must be left out, got 'full_attention'"):
        rope_parameters_from_config(llama(), layer_type="full_attention")
    listed = llama(layer_types=["full_attention", "sliding_attention"])
    params = rope_parameters_from_config(listed, layer_type="full_attention")
    assert torch.equal(params.inv_freq, inverse_frequencies(128, 5e5))


def test_modernbert_has_a_global_and_a_local_base():
    config = {
        "model_type": "modernbert",
        "hidden_size": 768,
        "num_attention_heads": 12,
        "max_position_embeddings": 8192,
        "position_embedding_type": "absolute",
        "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0,
    }
    assert read_rope_config(config, layer_type="full_attention").base == 160000.0
    assert read_rope_config(config, layer_type="sliding_attention").base == 10000.0
    config["local_rope_theta"] = None
    assert read_rope_config(config, layer_type="sliding_attention").base == 160000.0


def test_gemma4_has_wider_heads_in_its_global_layers():
    config = llama(
        model_type="gemma4_text",
        head_dim=256,
        global_head_dim=512,
        rope_theta=None,
        rope_parameters={
            "full_attention": {
                "rope_type": "proportional",
                "partial_rotary_factor": 0.25,
                "rope_theta": 1e6,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    )
    assert read_rope_config(config, layer_type="full_attention").rotary_dim == 512
    assert read_rope_config(config, layer_type="sliding_attention").rotary_dim == 256


@pytest.mark.parametrize("part", ["text_config", "llm_config", "language_config"])
def test_the_text_part_of_a_multimodal_model_is_read(part):
    nested = {"model_type": "some_vlm", "hidden_size": 7, part: llama(rope_theta=1e6)}
    assert read_rope_config(nested).base == 1e6
    own = {**llama(), part: llama(rope_theta=1e6)}
    with pytest.raises(ValueError, match=f"rope_theta is 500000.0, but 1000000.0 in {part}"):
        read_rope_config(own)
    assert read_rope_config({**own, part: llama()}).base == 5e5


def test_an_object_with_to_dict_is_read():
    class Config:
        def to_dict(self):
            return llama()

    expected = inverse_frequencies(128, 5e5)
    assert torch.equal(rope_parameters_from_config(Config()).inv_freq, expected)


def test_the_configuration_is_not_changed():
    for config, *_ in PUBLISHED.values():
        before = copy.deepcopy(config)
        rope_parameters_from_config(config)
        assert config == before


def test_width_of_a_stated_rotary_dim_is_exact_for_every_head():
    for head_dim in range(2, 200):
        for rotary_dim in range(2, head_dim + 1, 2):
            config = llama(head_dim=head_dim, rotary_dim=rotary_dim)
            assert read_rope_config(config).rotary_dim == rotary_dim


# Ten more models a stranger might bring.


@pytest.mark.parametrize(
    "config, expected",
    [
        # Yi-34B-200K
        (llama(hidden_size=7168, num_attention_heads=56, rope_theta=5e6), (128, 5e6)),
        # Phi-2
        (
            llama(model_type="phi", hidden_size=2560, partial_rotary_factor=0.4, rope_theta=1e4),
            (32, 1e4),
        ),
        # Qwen2.5-7B-Instruct-1M: the chunks move positions, not frequencies
        (
            llama(
                hidden_size=3584,
                num_attention_heads=28,
                rope_theta=1e7,
                max_position_embeddings=1010000,
                dual_chunk_attention_config={"chunk_size": 262144, "local_size": 8192},
            ),
            (128, 1e7),
        ),
        # DeepSeek-V3 without its yarn block; 7168 / 128 would be 56
        (
            llama(
                model_type="deepseek_v3",
                hidden_size=7168,
                num_attention_heads=128,
                qk_rope_head_dim=64,
                qk_nope_head_dim=128,
                rope_theta=10000,
            ),
            (64, 1e4),
        ),
        # GLM-4-9B
        (
            llama(model_type="glm", head_dim=128, partial_rotary_factor=0.5, rope_theta=1e4),
            (64, 1e4),
        ),
        # StableLM-2-1.6B
        (
            llama(
                model_type="stablelm",
                hidden_size=2048,
                partial_rotary_factor=0.25,
                rope_theta=10000,
            ),
            (16, 1e4),
        ),
        # Falcon-7B
        (
            llama(
                model_type="falcon",
                hidden_size=4544,
                num_attention_heads=71,
                alibi=False,
                rope_theta=1e4,
            ),
            (64, 1e4),
        ),
        # Persimmon-8B
        (
            llama(
                model_type="persimmon",
                num_attention_heads=64,
                partial_rotary_factor=0.5,
                rope_theta=25000.0,
            ),
            (32, 25000.0),
        ),
        # Command R
        (
            llama(model_type="cohere", hidden_size=8192, num_attention_heads=64, rope_theta=8e6),
            (128, 8e6),
        ),
        # MiniMax-M2
        (llama(model_type="minimax_m2", head_dim=128, rotary_dim=64, rope_theta=5e6), (64, 5e6)),
    ],
)
def test_more_models(config, expected):
    read = read_rope_config(config)
    assert (read.rotary_dim, read.base) == expected
    params = rope_parameters_from_config(config)
    assert torch.equal(params.inv_freq, default_rope(*expected).inv_freq)


# Absurd, missing and contradictory fields.


def yarn_with(**change):
    return llama(max_position_embeddings=65536, rope_scaling={**YARN_BLOCK, **change})


def longrope_with(**change):
    config = PUBLISHED["Phi-3.5-mini"][0]
    return {**config, "rope_scaling": {**LONGROPE_BLOCK, **change}}


@pytest.mark.parametrize(
    "config, message",
    [
        (llama(rope_theta=0), "rope_theta must be a finite number > 0, got 0"),
        (llama(rope_theta=-1e4), "rope_theta must be .* got -10000.0"),
        (llama(rope_theta="10000"), "rope_theta must be .* got '10000'"),
        (llama(rope_theta=math.nan), "rope_theta must be .* got nan"),
        (llama(rope_theta=True), "rope_theta must be .* got True"),
        (llama(rope_parameters={"rope_theta": 1e4}), "rope_theta is stated with different values"),
        (llama(rope_scaling="linear"), "rope_scaling must be a dictionary or null, got 'linear'"),
        (
            llama(rope_scaling={"type": "linear", "factor": 2}, rope_parameters={"factor": 4}),
            "factor is 4 in rope_parameters and 2 in rope_scaling",
        ),
        (llama(rope_scaling={"factor": 2.0}), "rope_type is missing beside factor 2.0"),
        (llama(rope_scaling={"type": "ntk", "factor": 2.0}), "one of .*'yarn'.*, got 'ntk'"),
        (llama(rope_scaling={"type": ["yarn"]}), r"rope_type must be one of .*, got \['yarn'\]"),
        (
            llama(rope_scaling={"type": "linear", "rope_type": "yarn"}),
            "rope_type is 'yarn', but type is 'linear'",
        ),
        (llama(rope_scaling={"type": "linear"}), "factor is missing; rope type 'linear'"),
        (
            llama(rope_parameters={"rope_theta": 1e6, "full_attention": {"rope_theta": 1e4}}),
            r"rope_theta is 1000000.0 beside blocks for layer types \['full_attention'\]",
        ),
        (
            llama(
                rope_parameters={"full_attention": {"rope_theta": 1e4}},
                rope_scaling={"rope_type": "linear", "factor": 2.0},
            ),
            r"factor is 2.0 beside blocks for layer types \['full_attention'\]",
        ),
        (
            llama(rope_scaling={"type": "linear", "factor": 0.25}),
            "factor must be .* >= 1, got 0.25",
        ),
        (llama(rope_scaling={"type": "linear", "factor": "4"}), "factor must be .* got '4'"),
        (llama(rope_scaling={"type": "dynamic", "factor": 0.5}), "factor must be .* >= 1, got 0.5"),
        (llama(rope_scaling={"type": "dynamic"}), "factor is missing; rope type 'dynamic'"),
        (
            llama(rope_scaling={"type": "dynamic", "factor": 2.0}, max_position_embeddings=None),
            "max_position_embeddings is missing; rope type 'dynamic'",
        ),
        (
            llama(rope_scaling={"type": "dynamic", "alpha": -1.0}),
            "alpha must be a finite number >= 1, got -1.0",
        ),
        (yarn_with(factor=None), "factor is missing; rope type 'yarn'"),
        (yarn_with(factor=0.5), "factor must be .* >= 1, got 0.5"),
        (
            yarn_with(original_max_position_embeddings=None),
            "original_max_position_embeddings is missing; rope type 'yarn'",
        ),
        (
            yarn_with(original_max_position_embeddings=4096.5),
            "original_max_position_embeddings must be an integer >= 1, got 4096.5",
        ),
        (
            yarn_with(original_max_position_embeddings=131072),
            r"max_position_embeddings must be at least .*\(131072\), got 65536",
        ),
        (yarn_with(truncate="no"), "truncate must be true or false, got 'no'"),
        (yarn_with(beta_fast="32"), "beta_fast must be .* got '32'"),
        (yarn_with(beta_fast=1.0, beta_slow=2.0), "beta_slow=2.0, beta_fast=1.0"),
        (yarn_with(attention_factor=-1.0), "attention_factor must be .* got -1.0"),
        (yarn_with(attention_factor=0), "attention_factor must be .* got 0"),
        (yarn_with(mscale=0.707), "mscale and mscale_all_dim both or neither"),
        (
            llama(rope_scaling={**LLAMA3_BLOCK, "low_freq_factor": None}),
            "low_freq_factor is missing; rope type 'llama3'",
        ),
        (
            llama(rope_scaling={**LLAMA3_BLOCK, "high_freq_factor": 0.5}),
            "low_freq_factor <= high_freq_factor must hold",
        ),
        (
            llama(rope_scaling={**LLAMA3_BLOCK, "original_max_position_embeddings": None}),
            "original_max_position_embeddings is missing; rope type 'llama3'",
        ),
        (longrope_with(short_factor=None), "short_factor is missing; rope type 'longrope'"),
        (longrope_with(long_factor=LONG_48[:-1]), "long_factor .* 48 pairs, got 47"),
        (longrope_with(long_factor="long"), "long_factor must be a list of 48 numbers, got long"),
        (longrope_with(short_factor=[1.0] * 47 + ["x"]), r"short_factor\[47\] must be .* got 'x'"),
        (longrope_with(short_factor=[1.0] * 47 + [0.0]), r"short_factor\[47\] must be .* got 0.0"),
        (longrope_with(factor=0.5), "factor must be .* >= 1, got 0.5"),
        (
            longrope_with(original_max_position_embeddings=8192),
            r"original_max_position_embeddings is stated with different values: \[8192, 4096\]",
        ),
        (
            {**longrope_with(), "max_position_embeddings": None},
            "max_position_embeddings is missing; rope type 'longrope'",
        ),
        (llama(head_dim=127), r"even and at least 2, got 127 \(head_dim 127"),
        (llama(head_dim=0), "head_dim must be an integer >= 1, got 0"),
        (llama(head_dim=128.0), "head_dim must be an integer >= 1, got 128.0"),
        (
            llama(hidden_size=4097),
            "hidden_size 4097 is not a multiple of num_attention_heads 32",
        ),
        (llama(hidden_size=None), "hidden_size is missing"),
        (llama(num_attention_heads=None), "num_attention_heads is missing"),
        (llama(num_attention_heads=0), "num_attention_heads must be an integer >= 1, got 0"),
        (llama(max_position_embeddings="8k"), "max_position_embeddings must be .* got '8k'"),
        (llama(partial_rotary_factor=1.5), "partial_rotary_factor must be .* got 1.5"),
        (llama(partial_rotary_factor=0), "partial_rotary_factor must be .* got 0"),
        (llama(partial_rotary_factor=0.01), r"even and at least 2, got 1 \(head_dim 128"),
        (llama(rotary_dim=256), r"rotary_dim must be at most head_dim \(128\), got 256"),
        (llama(rotary_dim=3), "even and at least 2, got 3"),
        (
            llama(rotary_dim=64, partial_rotary_factor=0.25),
            "rotary_dim is 64, but head_dim 128 times partial_rotary_factor 0.25 is 32",
        ),
        (
            {k: v for k, v in PUBLISHED["Pythia-1B"][0].items() if k != "rotary_pct"},
            "partial_rotary_factor is missing; models of type 'gpt_neox'",
        ),
        ({"model_type": "dinov3_vit", "patch_size": 16, "rope_theta": 100.0}, "image model"),
        # nomic-embed and ChatGLM scale in forms of their own
        (llama(rotary_scaling_factor=2.0), "rotary_scaling_factor is 2.0: .* not covered"),
        (llama(rope_ratio=50), "rope_ratio is 50: .* not covered"),
        # Llama 2, whose early files leave the base to the code
        (llama(rope_theta=None, max_position_embeddings=4096), "rope_theta is missing"),
        # LLaVA: the text part repeats only what differs from a default
        ({"text_config": {"model_type": "llama", "vocab_size": 32064}}, "rope_theta is missing"),
        ({}, "rope_theta is missing"),
    ],
)
def test_bad_fields_are_named(config, message):
    with pytest.raises(ValueError, match=message):
        rope_parameters_from_config(config)


@pytest.mark.parametrize("seq_len, error", [(0, ValueError), (-1, ValueError), (4.0, TypeError)])
@pytest.mark.parametrize("model", ["Llama-3-8B", "InternLM2.5-7B", "Phi-3.5-mini"])
def test_bad_lengths_are_named(model, seq_len, error):
    with pytest.raises(error, match=f"seq_len must be an integer >= 1 .*, got {seq_len}"):
        rope_parameters_from_config(PUBLISHED[model][0], seq_len=seq_len)


@pytest.mark.parametrize("config", [None, 5, [llama()]])
def test_what_is_no_configuration_is_refused(config):
    with pytest.raises(TypeError, match="config must be a dict, the path"):
        rope_parameters_from_config(config)


def test_files_that_are_missing_or_no_configuration(tmp_path):
    with pytest.raises(FileNotFoundError):
        rope_parameters_from_config(tmp_path / "config.json")
    (tmp_path / "config.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="must hold a JSON object, got list"):
        rope_parameters_from_config(tmp_path)


# Warnings.


@pytest.mark.parametrize(
    "config",
    [
        yarn_with(factor=4.0),
        longrope_with(factor=16.0),
    ],
)
def test_a_factor_that_the_lengths_contradict_is_used_with_a_warning(config):
    with pytest.warns(UserWarning, match="factor is .*max_position_embeddings / original"):
        rope_parameters_from_config(config)


def test_the_warning_names_the_file_that_called():
    with pytest.warns(UserWarning) as record:
        rope_parameters_from_config(yarn_with(factor=4.0))
    assert record[0].filename == __file__


@pytest.mark.parametrize(
    "config",
    [
        yarn_with(factor=15.999),
        # Qwen2.5 as its model card says: the factor is written in by hand, the length is left
        llama(
            max_position_embeddings=32768,
            rope_scaling={
                "type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 32768,
            },
        ),
        # Llama 3.1's own lengths say 16
        PUBLISHED["Llama-3.1-8B"][0],
    ],
)
def test_no_warning_where_published_files_are_usual(config):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rope_parameters_from_config(config)


def test_dynamic_scaling_starts_at_the_maximum_and_says_so():
    block = {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 2048}
    config = llama(rope_scaling=block)
    with pytest.warns(UserWarning, match=r"original_max_position_embeddings \(2048\) is not used"):
        params = rope_parameters_from_config(config, seq_len=8192)
    assert torch.equal(params.inv_freq, inverse_frequencies(128, 5e5))
