"""The minimal Llama with random weights: parity, caches, layouts, and errors before any work."""

from __future__ import annotations

import io
import sys

import pytest
import torch

from posenc_tutorial import ALiBi, LearnedEncoding, NoPE, RotaryEmbedding
from posenc_tutorial.context_extension import dynamic_ntk, yarn
from posenc_tutorial.pretrained import Llama, LlamaConfig, generate

CONFIG = LlamaConfig(
    num_layers=2,
    dim=48,
    hidden_dim=80,
    num_heads=6,
    num_kv_heads=2,
    vocabulary=97,
    context_length=32,
    rope_base=500.0,
)


def random_model(config=CONFIG, seed=0, **changes):
    torch.manual_seed(seed)
    model = Llama(config, **changes).double().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter += 0.3 * torch.randn_like(parameter)  # a weight of 1 would hide a lost one
    return model


def random_tokens(batch, n, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(CONFIG.vocabulary, (batch, n), generator=generator)


def weights_for_transformers(model):
    """Our names to theirs, for a model in the half layout."""
    names = {
        "attention_norm": "input_layernorm",
        "mlp_norm": "post_attention_layernorm",
        "query": "self_attn.q_proj",
        "key": "self_attn.k_proj",
        "value": "self_attn.v_proj",
        "out": "self_attn.o_proj",
        "gate": "mlp.gate_proj",
        "up": "mlp.up_proj",
        "down": "mlp.down_proj",
    }
    theirs = {
        "model.embed_tokens.weight": model.embedding.weight,
        "lm_head.weight": model.embedding.weight,
        "model.norm.weight": model.norm.weight,
    }
    for i, layer in enumerate(model.layers):
        for ours, their in names.items():
            theirs[f"model.layers.{i}.{their}.weight"] = getattr(layer, ours).weight
    return theirs


def transformers_llama(model):
    transformers = pytest.importorskip("transformers")
    config = model.config
    options = dict(
        hidden_size=config.dim,
        intermediate_size=config.hidden_dim,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads,
        vocab_size=config.vocabulary,
        max_position_embeddings=config.context_length,
        rms_norm_eps=config.norm_epsilon,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_base},
    )
    if int(transformers.__version__.split(".")[0]) < 5:
        options["rope_theta"] = options.pop("rope_parameters")["rope_theta"]
    other = transformers.LlamaForCausalLM(transformers.LlamaConfig(**options))
    other = other.to(model.embedding.weight.dtype).eval()
    other.load_state_dict(weights_for_transformers(model))
    return other


def test_equals_transformers():
    model = random_model()
    tokens = random_tokens(2, 20)
    with torch.no_grad():
        theirs = transformers_llama(model)(tokens).logits
    # Their cos and sin are float32 whatever the weights are.
    torch.testing.assert_close(model(tokens), theirs, atol=1e-5, rtol=1e-5)
    control = model.with_encoding(NoPE())(tokens)
    assert (control - theirs).abs().max() > 1e-2


def test_equals_transformers_at_other_positions():
    model = random_model()
    tokens = random_tokens(2, 7)
    positions = torch.tensor([[0, 1, 2, 9, 10, 11, 30], [4, 5, 6, 7, 8, 9, 10]])
    with torch.no_grad():
        theirs = transformers_llama(model)(tokens, position_ids=positions).logits
    ours = model(tokens, positions=positions)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pieces", [(9,), (1,) * 9, (4, 1, 3, 1), (6, 3)])
def test_decoding_with_a_cache_equals_one_pass(pieces):
    model = random_model()
    tokens = random_tokens(2, 9)
    caches = model.new_caches()
    parts = [model(part, caches=caches) for part in tokens.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), model(tokens), atol=1e-12, rtol=0)
    assert caches[0].positions.tolist() == [list(range(9))] * 2


def test_length_dependent_keys_are_cached_before_rotation():
    """One layer: with more, old activations were computed at another length (chapter 10)."""
    dynamic = RotaryEmbedding(8, parameters=lambda n: dynamic_ntk(8, 500.0, 2.0, 4, n))
    one = LlamaConfig(1, 48, 80, 6, 2, 97, 32)
    model = random_model(one, encoding=dynamic)
    tokens = random_tokens(1, 9)
    caches = model.new_caches()
    last = [model(token, caches=caches)[:, -1] for token in tokens.split(1, dim=1)][-1]
    torch.testing.assert_close(last, model(tokens)[:, -1], atol=1e-12, rtol=0)


def test_last_gives_the_last_rows():
    model = random_model()
    tokens = random_tokens(2, 9)
    torch.testing.assert_close(model(tokens, last=4), model(tokens)[:, -4:], atol=1e-12, rtol=0)


def test_a_later_token_changes_nothing_before_it():
    model = random_model()
    tokens = random_tokens(1, 9)
    other = tokens.clone()
    other[0, 6] = (other[0, 6] + 1) % CONFIG.vocabulary
    assert torch.equal(model(tokens)[:, :6], model(other)[:, :6])
    assert not torch.allclose(model(tokens)[:, 6:], model(other)[:, 6:])


def test_only_differences_of_positions_matter():
    model = random_model()
    tokens = random_tokens(1, 9)
    shifted = model(tokens, positions=torch.arange(9) + 1000)
    torch.testing.assert_close(shifted, model(tokens), atol=1e-10, rtol=0)
    stretched = model(tokens, positions=2 * torch.arange(9))
    assert (stretched - model(tokens)).abs().max() > 1e-3


def test_to_layout_changes_rows_and_rotation_together():
    half = random_model()
    tokens = random_tokens(1, 20)
    interleaved = half.to_layout("interleaved")
    torch.testing.assert_close(interleaved(tokens), half(tokens), atol=1e-12, rtol=0)
    assert not torch.equal(interleaved.layers[0].query.weight, half.layers[0].query.weight)
    back = interleaved.to_layout("half")
    assert torch.equal(back.layers[1].key.weight, half.layers[1].key.weight)
    # The rows alone, or the rotation alone, is another model.
    mixed = interleaved.with_encoding(RotaryEmbedding(8, base=500.0, layout="half"))
    assert (mixed(tokens) - half(tokens)).abs().max() > 1e-3
    assert half.to_layout("half").layers[0].query is half.layers[0].query
    with pytest.raises(ValueError, match="adjacent"):
        half.to_layout("adjacent")
    with pytest.raises(TypeError, match="NoPE has no pair layout"):
        half.with_encoding(NoPE()).to_layout("half")


def test_to_layout_keeps_the_frequencies_of_an_extension():
    parameters = yarn(8, 500.0, 4.0, 32)
    half = random_model(encoding=RotaryEmbedding(8, parameters=parameters))
    tokens = random_tokens(1, 20)
    same = half.to_layout("interleaved")
    torch.testing.assert_close(same(tokens), half(tokens), atol=1e-12, rtol=0)


def test_with_encoding_leaves_the_model_alone():
    model = random_model()
    tokens = random_tokens(1, 9)
    before = model(tokens)
    other = model.with_encoding(NoPE())
    assert not torch.allclose(other(tokens), before)
    assert torch.equal(model(tokens), before)
    assert other.layers is model.layers


def test_losses_are_those_of_the_targets():
    model = random_model()
    tokens = random_tokens(1, 9)[0]
    every = model.losses(tokens)
    logits = model(tokens[None])[0]
    expected = torch.stack([-logits[i].log_softmax(-1)[tokens[i + 1]] for i in range(8)])
    torch.testing.assert_close(every.double(), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(model.losses(tokens.tolist(), last=3), every[-3:])
    shifted = model.losses(tokens, positions=torch.arange(8) + 5)
    torch.testing.assert_close(shifted, every, atol=1e-5, rtol=0)


def test_generate_takes_the_most_probable_token_every_time():
    model = random_model()
    prompt = random_tokens(1, 5)[0].tolist()
    new = generate(model, prompt, 6)
    text = list(prompt)
    for _ in range(6):
        text.append(int(model(torch.tensor([text]))[0, -1].argmax()))
    assert new == text[5:]
    stop = new[3]
    assert generate(model, prompt, 6, stop=stop) == new[: new.index(stop)]
    assert generate(model, prompt, 0) == []


def test_generate_draws_a_bar_only_at_a_terminal(capsys, monkeypatch):
    model = random_model()
    generate(model, [1, 2], 3)
    assert capsys.readouterr() == ("", "")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", Terminal())
    generate(model, [1, 2], 2)
    assert "tokens" in sys.stderr.getvalue() and "2/2" in sys.stderr.getvalue()


def test_gradients_reach_every_weight():
    model = random_model().requires_grad_(True)
    model(random_tokens(1, 9)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"num_heads": 5}, "dim 48 is not a multiple of num_heads 5"),
        ({"num_kv_heads": 4}, "num_heads 6 is not a multiple of num_kv_heads 4"),
        ({"num_heads": 0}, "num_heads must be >= 1, got 0"),
        ({"num_layers": -1}, "num_layers must be >= 1, got -1"),
    ],
)
def test_sizes_that_do_not_divide(sizes, message):
    good = dict(
        num_layers=1,
        dim=48,
        hidden_dim=80,
        num_heads=6,
        num_kv_heads=2,
        vocabulary=97,
        context_length=32,
    )
    with pytest.raises(ValueError, match=message):
        LlamaConfig(**{**good, **sizes})


@pytest.mark.parametrize("encoding", [ALiBi(6), LearnedEncoding(32, 48)])
def test_encodings_of_other_doors_are_refused(encoding):
    with pytest.raises(TypeError, match="door 3 alone"):
        random_model().with_encoding(encoding)
    with pytest.raises(TypeError, match="must be a PositionalEncoding, got str"):
        Llama(CONFIG, "rope")


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (IndexError, "0 to 96, got 97", lambda m: m(torch.tensor([[1, 97]]))),
        (IndexError, "0 to 96, got -1", lambda m: m(torch.tensor([[1, -1]]))),
        (TypeError, "integers, got torch.float32", lambda m: m(torch.ones(1, 3))),
        (TypeError, "integers, got list", lambda m: m([[1, 2]])),
        (ValueError, r"\(batch, n\)", lambda m: m(torch.tensor([1, 2]))),
        (ValueError, "n >= 1", lambda m: m(torch.zeros(1, 0, dtype=torch.long))),
        (ValueError, r"batch and n >= 1, got \(0, 3\)", lambda m: m(random_tokens(0, 3))),
        # The last token is only a target; -100 is one that cross_entropy passes over.
        (IndexError, "0 to 96, got -100", lambda m: m.losses([1, 2, -100])),
        (IndexError, "0 to 96, got 97", lambda m: m.losses([1, 2, 97])),
        (ValueError, "last must be 1 to 2, .* got 3", lambda m: m(torch.tensor([[1, 2]]), last=3)),
        (ValueError, "last must be 1 to 2, .* got 0", lambda m: m(torch.tensor([[1, 2]]), last=0)),
        (ValueError, "2 caches, got 1", lambda m: m(random_tokens(1, 2), caches=[None])),
        (ValueError, "positions", lambda m: m(torch.tensor([[1, 2]]), positions=torch.arange(3))),
        (ValueError, "at least 2 tokens", lambda m: m.losses([1])),
        (ValueError, "at least 1 token", lambda m: generate(m, [], 3)),
        (ValueError, "max_new_tokens >= 0, got 2 and -1", lambda m: generate(m, [1, 2], -1)),
    ],
)
def test_errors_name_the_value(error, message, call):
    with pytest.raises(error, match=message):
        call(random_model())
