"""The small language model: what it reads, that it learns, and that lengths are comparable."""

from __future__ import annotations

import math
import sysconfig
from pathlib import Path

import pytest
import torch

from posenc_tutorial import ALiBi, KeyValueCache, LearnedEncoding, NoPE, RotaryEmbedding
from posenc_tutorial.lm import (
    LanguageModel,
    attention_maps,
    loss_by_position,
    mean_loss,
    standard_library_corpus,
    train,
)


def small(encoding=None, seed=0, **sizes):
    torch.manual_seed(seed)
    encoding = LearnedEncoding(32, 16) if encoding is None else encoding
    return LanguageModel(encoding, **{"dim": 16, "num_layers": 2, "num_heads": 2, **sizes})


def text(n=4000):
    """Bytes with an order that can be learned: a cycle of eleven with a little noise."""
    generator = torch.Generator().manual_seed(0)
    cycle = torch.arange(n) % 11 + 97
    noise = torch.rand(n, generator=generator) < 0.02
    return torch.where(noise, 32, cycle).to(torch.uint8)


# The corpus


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A standard library of 24 files, each of one byte value, and some that must be left out."""
    for i in range(24):
        (tmp_path / f"module_{i:02d}.py").write_bytes(bytes([65 + i]) * (2000 + i))
    (tmp_path / "short.py").write_bytes(b"!" * 1999)
    (tmp_path / "notes.txt").write_bytes(b"?" * 3000)
    for name in ("site-packages", "test", "idlelib"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "other.py").write_bytes(b"#" * 3000)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    return tmp_path


def test_files_are_either_trained_on_or_held_out(library):
    corpus = standard_library_corpus()
    train_files = set(corpus.train.unique().tolist())
    held_files = set(corpus.held_out.unique().tolist())
    assert held_files == {65, 75, 85}  # every tenth, from the first
    assert train_files == set(range(65, 89)) - held_files
    sizes = {65 + i: 2000 + i for i in range(24)}
    assert len(corpus.train) == sum(sizes[b] for b in train_files)
    assert len(corpus.held_out) == sum(sizes[b] for b in held_files)


def test_another_split(library):
    corpus = standard_library_corpus(held_out_every=2, min_bytes=2010)
    assert set(corpus.held_out.unique().tolist()) == set(range(75, 89, 2))
    assert set(corpus.train.unique().tolist()) == set(range(76, 89, 2))


def test_the_description_follows_the_bytes(library):
    first = standard_library_corpus().description
    assert standard_library_corpus().description == first
    path = library / "module_05.py"
    path.write_bytes(path.read_bytes()[:-1] + b"~")
    assert standard_library_corpus().description != first


def test_the_real_corpus_is_deterministic_and_split_by_file():
    one, two = standard_library_corpus(), standard_library_corpus()
    assert one.description == two.description
    assert torch.equal(one.train, two.train) and torch.equal(one.held_out, two.held_out)
    assert one.train.dtype == one.held_out.dtype == torch.uint8
    assert len(one.train) > 1_000_000 and len(one.held_out) > 100_000
    assert str(len(one.train)) in one.description and str(len(one.held_out)) in one.description
    # The first file that qualifies is held out, so none of its lines starts the training bytes.
    first = bytes(one.held_out[:200].tolist())
    root = Path(sysconfig.get_path("stdlib"))
    assert any(path.read_bytes().startswith(first) for path in root.rglob("*.py"))
    assert first not in bytes(one.train.numpy().tobytes())


@pytest.mark.parametrize("every", [1, 0, -3])
def test_a_split_that_leaves_nothing(every):
    with pytest.raises(ValueError, match=str(every)):
        standard_library_corpus(held_out_every=every)


def test_a_library_without_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(FileNotFoundError, match="0 source files"):
        standard_library_corpus()


# The model


def test_logits_and_tied_weights():
    model = small()
    out = model(torch.randint(0, 256, (3, 7)))
    assert out.shape == (3, 7, 256)
    names = [name for name, _ in model.named_parameters()]
    assert sum("embedding" in name for name in names) == 1
    assert sum(name == "encoding.weight" for name in names) == 1  # shared by all layers


def test_it_is_causal():
    model = small()
    tokens = torch.randint(0, 256, (1, 9), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[0, 6] = (tokens[0, 6] + 1) % 256
    with torch.no_grad():
        one, two = model(tokens), model(changed)
    assert torch.equal(one[:, :6], two[:, :6])
    assert float((one[:, 6:] - two[:, 6:]).abs().amax(-1).min()) > 0


def test_door_one_is_opened_once():
    class Counting(NoPE):
        calls = 0

        def add_to_input(self, x, positions):
            Counting.calls += 1
            return x

    small(Counting(), num_layers=3)(torch.zeros(1, 4, dtype=torch.long))
    assert Counting.calls == 1


@pytest.mark.parametrize(
    "make", [NoPE, lambda: LearnedEncoding(32, 16), lambda: RotaryEmbedding(8)]
)
def test_decoding_step_by_step_equals_one_pass(make):
    model = small(make()).eval()
    tokens = torch.randint(0, 256, (2, 6), generator=torch.Generator().manual_seed(0))
    caches = [KeyValueCache() for _ in model.blocks]
    with torch.no_grad():
        whole = model(tokens)
        steps = [model(tokens[:, i : i + 1], caches=caches) for i in range(6)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-5, rtol=1e-5)


def test_model_errors():
    with pytest.raises(ValueError, match="give 2 caches"):
        small()(torch.zeros(1, 1, dtype=torch.long), caches=[KeyValueCache()])
    with pytest.raises(ValueError):
        small(NoPE(), num_heads=3)
    with pytest.raises(TypeError):
        small(torch.nn.Identity())


# Training


def test_training_lowers_the_loss():
    model = small()
    before = mean_loss(model, text(), length=16, chunk=64, num_chunks=8)
    losses = train(model, text(), length=16, steps=80, batch_size=8, warmup=5)
    after = mean_loss(model, text(), length=16, chunk=64, num_chunks=8)
    assert len(losses) == 80
    assert abs(losses[0] - math.log(256)) < 0.3  # nothing known yet: all 256 bytes alike
    assert after < 0.5 * before
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


def test_training_is_reproducible_and_the_seed_matters():
    def run(seed):
        model = small()
        return train(model, text(), length=16, steps=4, batch_size=4, seed=seed), model

    (one, first), (two, second), (other, _) = run(0), run(0), run(1)
    assert one == two
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    assert one != other


def test_training_does_not_depend_on_the_global_generator():
    torch.manual_seed(1)
    model = small()
    torch.manual_seed(99)
    one = train(model, text(), length=16, steps=3, batch_size=4)
    model = small()
    assert train(model, text(), length=16, steps=3, batch_size=4) == one


def test_rows_beyond_the_training_length_are_never_taught():
    """Weight decay shrinks them all by the same factor; nothing else happens to them."""
    model = small()
    before = model.encoding.weight.detach().clone()
    train(model, text(), length=16, steps=10, batch_size=4, warmup=2)
    ratio = model.encoding.weight.detach()[16:] / before[16:]
    torch.testing.assert_close(ratio, ratio[:1, :1].expand_as(ratio), atol=1e-5, rtol=0)
    assert 0.99 < float(ratio.mean()) < 1
    moved = (model.encoding.weight.detach() - before).norm(dim=1)
    assert float(moved[:16].min()) > 10 * float(moved[16:].max())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0, "steps": 1}, "got 0 and 1"),
        ({"length": 4, "steps": 0}, "got 4 and 0"),
        ({"length": 4000, "steps": 1}, "4000"),
    ],
)
def test_training_errors(options, message):
    with pytest.raises(ValueError, match=message):
        train(small(NoPE()), text(), **options)


# Evaluation


class Oracle(torch.nn.Module):
    """A model that knows nothing but the last byte, and remembers what it was asked."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(256, 256)
        self.asked = []

    def forward(self, tokens, *, positions=None):
        self.asked.append(tokens.clone())
        self.positions = positions
        return self.embedding(tokens.long())


@pytest.mark.parametrize("length", [1, 4, 16, 64])
def test_the_same_bytes_are_scored_at_every_length(length):
    """A model that ignores context has the same mean loss at every length."""
    torch.manual_seed(0)
    model = Oracle()
    options = {"chunk": 64, "num_chunks": 5}
    loss = mean_loss(model, text(), length=length, **options)
    assert loss == pytest.approx(mean_loss(model, text(), length=64, **options), abs=1e-5)


@pytest.mark.parametrize("length", [4, 64])
def test_every_window_is_asked_once_whatever_the_batch(length):
    data = torch.arange(700).remainder(251).to(torch.uint8)
    asked = []
    for batch_bytes in (1, 130, 10_000):
        model = Oracle()
        loss_by_position(
            model, data, length=length, chunk=64, num_chunks=3, batch_bytes=batch_bytes
        )
        asked.append(torch.cat(model.asked))
    assert asked[0].shape == (3 * 64 // length, length)
    assert torch.equal(asked[0], asked[1]) and torch.equal(asked[0], asked[2])


def test_loss_is_given_by_position():
    """Bytes 0, 1, ..., 9, 0, 1, ...; a model that knows the successor of all but byte 3."""
    data = torch.arange(400).remainder(10).to(torch.uint8)
    model = Oracle()
    with torch.no_grad():
        model.embedding.weight.zero_()
        for byte in range(10):
            if byte != 3:
                model.embedding.weight[byte, (byte + 1) % 10] = 50
    loss = loss_by_position(model, data, length=10, chunk=10, num_chunks=1)
    assert loss.dtype == torch.float64 and loss.shape == (10,)
    assert float(loss[3]) == pytest.approx(math.log(256), abs=1e-4)
    assert float(loss.sum() - loss[3]) < 1e-4


def test_positions_reach_the_model_in_training_and_evaluation():
    places = torch.arange(16) + 16
    model = Oracle()
    loss_by_position(model, text(), length=16, chunk=64, num_chunks=2, positions=places)
    assert torch.equal(model.positions, places)
    model = small()
    before = model.encoding.weight.detach().clone()
    train(model, text(), length=16, steps=3, batch_size=4, warmup=1, positions=places)
    moved = (model.encoding.weight.detach() - before).norm(dim=1)
    assert float(moved[16:].min()) > 10 * float(moved[:16].max())  # the others only decay


def test_attention_maps_are_the_weights_of_every_layer():
    model = small(ALiBi(2)).eval()
    tokens = torch.randint(0, 256, (3, 5), generator=torch.Generator().manual_seed(0))
    maps = attention_maps(model, tokens)
    assert maps.shape == (2, 3, 2, 5, 5)
    torch.testing.assert_close(maps.sum(-1), torch.ones(2, 3, 2, 5))
    assert float(maps.triu(1).abs().max()) == 0  # causal
    # ALiBi sees differences only; twice as far apart is another matter.
    moved = attention_maps(model, tokens, positions=torch.arange(5) + 100)
    torch.testing.assert_close(moved, maps)
    stretched = attention_maps(model, tokens, positions=2 * torch.arange(5))
    assert float((stretched - maps).abs().max()) > 1e-3


def test_a_fixed_context_model_is_scored_as_trained():
    model = small(ALiBi(2))
    loss = loss_by_position(model, text(), length=32, chunk=64, num_chunks=4)
    assert loss.shape == (32,) and torch.isfinite(loss).all()
    assert mean_loss(model, text(), length=32, chunk=64, num_chunks=4) == pytest.approx(
        float(loss.mean())
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 3}, "got 3"),
        ({"length": 0}, "got 0"),
        ({"length": 128}, "got 128"),
        ({"length": 64, "chunk": 4000}, "4000"),
    ],
)
def test_evaluation_errors(options, message):
    with pytest.raises(ValueError, match=message):
        loss_by_position(small(NoPE()), text(), **{"chunk": 64, **options})
