"""Tables, the sweep that makes them, the command line, and what models are asked besides loss."""

from __future__ import annotations

import io
import json
import math

import pytest
import torch

from posenc_tutorial import LearnedEncoding
from posenc_tutorial.lm import (
    ENCODINGS,
    Corpus,
    LanguageModel,
    Settings,
    copy_accuracy,
    copy_corpus,
    copy_sequences,
    folder_corpus,
    load_model,
    passkey_accuracy,
    passkey_sequences,
    save_tensors,
)
from posenc_tutorial.lm.cli import main
from posenc_tutorial.lm.extension import METHODS, extended_rope
from posenc_tutorial.lm.progress import progress
from posenc_tutorial.lm.results import mean_and_spread, read_facts, read_table, write_table
from posenc_tutorial.lm.sweep import EXPERIMENTS, Sweep, install_checkpoints

TINY = Settings(length=8, steps=3, batch_size=2, warmup=1, dim=16, num_layers=1, num_heads=2)


def noise(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(32, 127, (n,), generator=generator, dtype=torch.uint8)


# Results


def test_a_table_and_its_facts_come_back(tmp_path):
    rows = [
        {"encoding": "rope", "length": 64, "loss": 1.5},
        {"encoding": "t5", "length": 128, "loss": 2.25},
    ]
    write_table(tmp_path / "deep" / "length.csv", rows, {"seeds": [0, 1], "command": "é"})
    assert read_table(tmp_path / "deep" / "length.csv") == rows
    assert read_facts(tmp_path / "deep" / "length.csv") == {"seeds": [0, 1], "command": "é"}
    assert (tmp_path / "deep" / "length.csv").read_text() == (
        "encoding,length,loss\nrope,64,1.5\nt5,128,2.25\n"
    )


@pytest.mark.parametrize("rows", [[], [{"a": 1}, {"b": 1}], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]])
def test_rows_must_agree(tmp_path, rows):
    with pytest.raises(ValueError, match="t.csv: a table needs rows"):
        write_table(tmp_path / "t.csv", rows, {})
    assert not list(tmp_path.iterdir())


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no table 'nothing'"):
        read_table("nothing")


def test_mean_and_sample_deviation():
    rows = [{"name": n, "x": x} for n, x in (("b", 1), ("a", 4), ("b", 2), ("b", 6))]
    first, second = mean_and_spread(rows, ["name"], "x")
    assert (first["name"], first["mean"], first["n"]) == ("b", 3.0, 3)
    assert first["std"] == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert (second["name"], second["mean"], second["n"]) == ("a", 4.0, 1)
    assert math.isnan(second["std"])
    with pytest.raises(KeyError):
        mean_and_spread(rows, ["name"], "y")


# Text


def test_a_folder_is_split_by_file(tmp_path):
    (tmp_path / "sub").mkdir()
    for i in range(6):
        place = tmp_path / ("sub" if i % 2 else "") / f"{i}.txt"
        place.write_bytes(bytes([65 + i]) * 10)
    (tmp_path / "empty.txt").touch()
    (tmp_path / "other.md").write_bytes(b"?" * 10)
    corpus = folder_corpus(tmp_path, held_out_every=3)
    # In the order of the paths: 0, 2, 4, sub/1, sub/3, sub/5; every third from the first.
    assert bytes(corpus.held_out.tolist()) == b"A" * 10 + b"B" * 10
    assert bytes(corpus.train.tolist()) == b"C" * 10 + b"E" * 10 + b"D" * 10 + b"F" * 10
    assert tmp_path.name in corpus.description and corpus.sha256[:12] in corpus.description
    assert folder_corpus(tmp_path, pattern="*.*", held_out_every=2).facts()["held_out_bytes"] == 40


@pytest.mark.parametrize("every", [1, 7])
def test_folders_that_cannot_be_split(tmp_path, every):
    for i in range(6):
        (tmp_path / f"{i}.txt").write_text("x")
    error, told = (ValueError, "got 1") if every == 1 else (FileNotFoundError, "only 6 files")
    with pytest.raises(error, match=told):
        folder_corpus(tmp_path, held_out_every=every)


def test_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="not a folder"):
        folder_corpus(tmp_path / "nowhere")


def test_in_a_corpus_of_copies_every_line_repeats_its_letters():
    text = torch.full((500,), 46, dtype=torch.uint8)  # dots: all letters and newlines are ours
    made = copy_corpus(Corpus(text, text, "dots"), num_bytes=2000, size=5, reach=20)
    lines = bytes(made.train.tolist()).split(b"\n")[:-1]
    assert len(made.train) >= 2000 and len(made.held_out) >= 200 and "dots" in made.description
    gaps = set()
    for line in lines[1:]:
        assert line[:5] == line[-5:] and line[:5].isalpha()
        gaps.add(len(line) - 10)
    assert gaps <= set(range(16)) and len(gaps) > 8
    with pytest.raises(ValueError, match="reach >= size"):
        copy_corpus(Corpus(text, text, ""), size=5, reach=4)


# Tasks


class Table(torch.nn.Module):
    """A model that has the answers: for every row it is asked, the row's own continuation."""

    def __init__(self, rows, right=True):
        super().__init__()
        self.embedding = torch.nn.Embedding(1, 1)  # says where the model is
        self.rows, self.right = rows.long(), right

    def forward(self, tokens):
        n = tokens.shape[1]
        out = torch.zeros(len(tokens), n, 256)
        for i, row in enumerate(tokens.long()):
            match = (self.rows[:, :n] == row).all(1).nonzero()[0, 0]
            answer = self.rows[match, 1 : n + 1] if self.right else row
            out[i].scatter_(1, answer[:, None], 1.0)
        return out


def test_copies_stand_at_the_distance_and_end_alike():
    data = noise(4000)
    near, far = (copy_sequences(data, distance=d, size=6, num_sequences=5) for d in (10, 40))
    for rows, distance in ((near, 10), (far, 40)):
        assert rows.shape == (5, distance + 6) and rows.dtype == torch.uint8
        assert torch.equal(rows[:, :6], rows[:, distance:])
        assert ((rows[:, :6] >= 97) & (rows[:, :6] <= 122)).all()
    assert torch.equal(near[:, -10:], far[:, -10:])  # the letters, and the text just before them


@pytest.mark.parametrize(
    "options",
    [
        {"distance": 3},
        {"distance": 9999},
        {"distance": 9, "size": 0},
        {"distance": 9, "num_sequences": 0},
    ],
)
def test_copies_that_cannot_be_made(options):
    with pytest.raises(ValueError, match="must be"):
        copy_sequences(noise(4000), **{"size": 6, **options})


def test_copy_accuracy_counts_letters_after_the_cue():
    data = noise(4000)
    rows = copy_sequences(data, distance=20, size=8, num_sequences=6, seed=3)
    how = {"distance": 20, "size": 8, "num_sequences": 6, "seed": 3}
    assert copy_accuracy(Table(rows), data, **how) == 1.0
    assert copy_accuracy(Table(rows, right=False), data, **how) < 0.3
    with pytest.raises(ValueError, match="cue must be from 1 to 7, got 8"):
        copy_accuracy(Table(rows), data, **how, cue=8)


def test_a_passkey_stands_where_it_should():
    data = noise(4000)
    rows = passkey_sequences(data, length=60, distance=30, digits=4, num_sequences=7)
    assert rows.shape == (7, 60)
    for row in rows:
        text = bytes(row.tolist())
        assert text[-11:-4] == b"\nkey = " and text[-41:-34] == b"\nkey = "
        assert text[26:30] == text[56:60] and text[26:30].isdigit() and text[30:31] == b"\n"
    assert (
        passkey_accuracy(Table(rows), data, length=60, distance=30, digits=4, num_sequences=7)
        == 1.0
    )


@pytest.mark.parametrize(
    "options", [{"distance": 11}, {"distance": 50}, {"length": 5000, "distance": 30}, {"digits": 0}]
)
def test_passkeys_that_cannot_be_placed(options):
    with pytest.raises(ValueError, match="must be"):
        passkey_sequences(noise(4000), **{"length": 60, "distance": 30, "digits": 4, **options})


# Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_for_a_person_and_silence_for_a_file():
    quiet, terminal = io.StringIO(), Terminal()
    assert list(progress(range(3), 3, stream=quiet)) == [0, 1, 2] and quiet.getvalue() == ""
    assert list(progress(range(7, 10), 10, label="rope", start=7, stream=terminal)) == [7, 8, 9]
    shown = terminal.getvalue()
    assert shown.startswith("\rrope [") and "10/10" in shown and shown.endswith("\n")
    assert "#" * 30 in shown


# The sweep


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The main comparison with a tiny model; tests start it a second time."""
    folder = tmp_path_factory.mktemp("sweep")
    said = []
    corpus = Corpus(noise(4000), noise(3000, 1), "noise")
    sweep = Sweep(
        corpus=corpus,
        out=folder / "runs",
        results=folder / "results",
        seeds=(0, 1),
        encodings=ENCODINGS,
        settings=TINY,
        lengths=(8, 16, 64),
        chunk=64,
        num_chunks=2,
        say=said.append,
    )
    EXPERIMENTS["encodings"](sweep)
    return sweep, said, folder


def test_the_sweep_writes_every_seed_and_its_means(swept):
    sweep, said, folder = swept
    rows = read_table(folder / "results" / "length.csv")
    assert {(r["encoding"], r["seed"], r["length"]) for r in rows} == {
        (name, seed, n) for name in ENCODINGS for seed in (0, 1) for n in (8, 16, 64)
    }
    means = read_table(folder / "results" / "length_mean.csv")
    pair = [r["loss"] for r in rows if (r["encoding"], r["length"]) == ("rope", 16)]
    mean = next(r for r in means if (r["encoding"], r["length"]) == ("rope", 16))
    assert mean["n"] == 2 and mean["mean"] == pytest.approx(sum(pair) / 2, abs=1e-4)
    assert said == [f"{name}-seed{seed}" for name in ENCODINGS for seed in (0, 1)]
    facts = read_facts(folder / "results" / "length.csv")
    assert facts["seeds"] == [0, 1] and facts["settings"]["steps"] == 3
    assert facts["corpus"]["sha256"] == sweep.corpus.sha256
    assert facts["command"].endswith("sweep encodings") and facts["evaluation"]["chunk"] == 64


def test_loss_by_position_agrees_with_loss_by_length(swept):
    _, _, folder = swept
    by_length = read_table(folder / "results" / "length.csv")
    by_position = read_table(folder / "results" / "position.csv")
    for name in ("nope", "alibi"):
        whole = next(
            r["loss"] for r in by_length if (r["encoding"], r["seed"], r["length"]) == (name, 1, 64)
        )
        parts = [r["loss"] for r in by_position if (r["encoding"], r["seed"]) == (name, 1)]
        assert len(parts) == 64 and sum(parts) / 64 == pytest.approx(whole, abs=1e-4)


def test_a_second_start_computes_nothing(swept, monkeypatch):
    sweep, _, folder = swept
    before = (folder / "results" / "length.csv").read_bytes()

    def refuse(*args, **kwargs):
        raise AssertionError("evaluated again")

    monkeypatch.setattr("posenc_tutorial.lm.sweep.loss_by_length", refuse)
    monkeypatch.setattr("posenc_tutorial.lm.sweep.loss_by_position", refuse)
    EXPERIMENTS["encodings"](sweep)
    assert (folder / "results" / "length.csv").read_bytes() == before


def test_an_evaluation_is_forgotten_with_its_model(swept):
    sweep, _, folder = swept
    run = folder / "runs" / "nope-seed0"
    assert sweep.kept(run, "answer", lambda: 1) == 1 and sweep.kept(run, "answer", lambda: 2) == 1
    path = run / "model.safetensors"
    old = path.read_bytes()
    try:
        path.write_bytes(old[:-2] + b"\0\0")
        assert sweep.kept(run, "answer", lambda: 2) == 2
    finally:
        path.write_bytes(old)


def test_checkpoints_are_the_first_seeds_models(swept, tmp_path):
    _, _, folder = swept
    made = install_checkpoints(folder / "runs", tmp_path / "models")
    assert [path.stem for path in made] == list(ENCODINGS)
    for path in made:
        assert (
            path.read_bytes()
            == (folder / "runs" / f"{path.stem}-seed0" / "model.safetensors").read_bytes()
        )
    with pytest.raises(FileNotFoundError):
        install_checkpoints(folder / "runs", tmp_path / "models", seed=5)


@pytest.mark.parametrize("method", METHODS)
def test_methods_by_name(method):
    rope = extended_rope(method, factor=4.0, length=64, head_dim=32)
    q = torch.randn(1, 2, 5, 32, generator=torch.Generator().manual_seed(0))
    turned, _ = rope.rotate_query_key(q, q, torch.arange(5), torch.arange(5))
    assert turned.shape == q.shape and torch.isfinite(turned).all()


def test_an_unknown_method():
    with pytest.raises(ValueError, match="unknown method 'magic'; it must be one of none"):
        extended_rope("magic", factor=4.0, length=64, head_dim=32)


# The command line


@pytest.fixture
def letters(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for i in range(4):
        (folder / f"{i}.txt").write_bytes(bytes(noise(3000, i).tolist()))
    return folder


def small_run(letters, out, *more):
    sizes = [
        "--dim",
        "16",
        "--num-layers",
        "1",
        "--num-heads",
        "2",
        "--length",
        "8",
        "--steps",
        "3",
    ]
    return [
        "train",
        "--out",
        str(out),
        "--text",
        str(letters),
        "--held-out-every",
        "2",
        "--batch-size",
        "2",
        "--device",
        "cpu",
        *sizes,
        *more,
    ]


def test_train_evaluate_compare(letters, tmp_path, capsys):
    one, two = tmp_path / "one", tmp_path / "two"
    assert main(small_run(letters, one, "--encoding", "alibi")) == 0
    assert "training loss" in capsys.readouterr().out
    assert main(small_run(letters, two, "--encoding", "alibi")) == 0
    assert main(["compare", str(one), str(two)]) == 0
    assert "equal bit for bit" in capsys.readouterr().out

    where = ["--text", str(letters), "--held-out-every", "2", "--device", "cpu"]
    size = ["--chunk", "64", "--num-chunks", "2", "--lengths", "8", "64"]
    assert main(["evaluate", str(one), *where, *size]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[2] == "length,loss" and [row.split(",")[0] for row in out[3:]] == ["8", "64"]
    assert main(["evaluate", str(one), "--by", "position", *where, *size]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[3].startswith("0,7,") and out[4].startswith("8,63,")
    assert main(["evaluate", str(one), "--by", "passkey", "--distances", "16", *where]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("16,")


def test_another_text_is_told(letters, tmp_path, capsys):
    main(small_run(letters, tmp_path / "run"))
    (letters / "0.txt").write_bytes(b"x" * 3000)
    size = ["--chunk", "64", "--num-chunks", "2", "--lengths", "8", "--device", "cpu"]
    assert (
        main(
            [
                "evaluate",
                str(tmp_path / "run"),
                "--text",
                str(letters),
                "--held-out-every",
                "2",
                *size,
            ]
        )
        == 0
    )
    assert "# trained on another corpus: folder text" in capsys.readouterr().out


def test_different_models_differ(letters, tmp_path, capsys):
    main(small_run(letters, tmp_path / "a", "--encoding", "nope"))
    main(small_run(letters, tmp_path / "b", "--encoding", "nope", "--seed", "1"))
    main(small_run(letters, tmp_path / "c", "--encoding", "t5"))
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "largest difference" in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "c")]) == 2
    assert "different weights" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["evaluate", "no-such-model"], "no trained model 'no-such-model'"),
        (["sweep", "nonsense"], "unknown experiment 'nonsense'"),
        (["sweep", "--lengths", "64", "100"], "must divide --chunk 1024, got 100"),
        (["evaluate", "rope", "--lengths", "64", "100"], "must divide --chunk 1024, got 100"),
        (["sweep", "--seeds", "1", "0", "1"], "seeds must be at least one, and none of them twice"),
        (["sweep", "--encodings", "rope", "rope"], "got rope"),
        (["sweep", "encodings", "--encodings", "rope", "rope"], "none of them twice, got ['rope'"),
        (["sweep", "--encodings", "rope"], "'data-size' needs one of learned, sinusoidal among"),
        (["sweep", "copy", "--encodings", "t5_common_rate"], "got t5_common_rate"),
        (["train", "--text", ".", "--pattern", "/tmp/*.txt"], "got '/tmp/*.txt'"),
        (["train", "--text", ".", "--pattern", ""], "pattern must be relative"),
        (["train", "--text", "no-such-folder", "--out", "unused"], "is not a folder"),
    ],
)
def test_what_is_wrong_is_told(arguments, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--device", "cpu"]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "unused").exists()


def test_a_table_that_is_too_short_is_told(letters, tmp_path, capsys):
    main(small_run(letters, tmp_path / "run", "--encoding", "learned"))
    where = ["--text", str(letters), "--held-out-every", "2", "--device", "cpu"]
    size = ["--chunk", "256", "--num-chunks", "1", "--lengths", "256"]
    assert main(["evaluate", str(tmp_path / "run"), *where, *size]) == 2
    assert "position 255 is outside the table of 128" in capsys.readouterr().err


def test_a_length_given_twice_is_one_stretch(letters, tmp_path, capsys):
    main(small_run(letters, tmp_path / "run"))
    where = ["--text", str(letters), "--held-out-every", "2", "--device", "cpu"]
    size = ["--chunk", "64", "--num-chunks", "1", "--lengths", "8", "64", "8"]
    assert main(["evaluate", str(tmp_path / "run"), "--by", "position", *where, *size]) == 0
    rows = capsys.readouterr().out.splitlines()[-2:]
    assert rows[0].startswith("0,7,") and rows[1].startswith("8,63,") and "nan" not in str(rows)


def test_the_difference_to_weights_that_are_nan_is_nan(tmp_path, capsys):
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    a, b = torch.zeros(2), torch.ones(2)
    save_tensors(one, {"a": a, "b": a})
    save_tensors(two, {"a": b, "b": torch.tensor([0.0, math.nan])})
    assert main(["compare", str(one), str(two)]) == 0
    assert "largest difference nan" in capsys.readouterr().out
    save_tensors(two, {"a": a.half(), "b": a})  # another dtype, the same numbers
    assert main(["compare", str(one), str(two)]) == 0
    assert "largest difference 0" in capsys.readouterr().out


def test_any_length_can_be_the_longest(tmp_path):
    sweep = Sweep(
        corpus=Corpus(noise(4000), noise(3000, 1), "noise"),
        out=tmp_path,
        results=tmp_path,
        seeds=(0,),
        encodings=("nope",),
        settings=TINY,
        lengths=(200,),  # 200 // 64 does not divide it
        chunk=200,
        num_chunks=1,
    )
    EXPERIMENTS["encodings"](sweep)
    rows = read_table(tmp_path / "position.csv")
    assert [row["first"] for row in rows] == list(range(0, 200, 2)) and rows[-1]["last"] == 199


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "--steps", "0"], "must be a whole number >= 1, got '0'"),
        (["train", "--learning-rate", "nan"], "must be a finite number > 0, got 'nan'"),
        (["train", "--encoding", "magic"], "invalid choice: 'magic'"),
        ([], "COMMAND"),
    ],
)
def test_arguments_out_of_range(arguments, told, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2 and told in capsys.readouterr().err


def test_sizes_that_do_not_fit_are_told_before_any_work(tmp_path, capsys):
    out = tmp_path / "run"
    assert (
        main(["train", "--dim", "10", "--num-heads", "3", "--out", str(out), "--device", "cpu"])
        == 2
    )
    assert not out.exists() and "error" in capsys.readouterr().err


# The models that come with the package


@pytest.mark.parametrize("name", ENCODINGS)
def test_packaged_models_load(name):
    model = load_model(name)
    assert isinstance(model, LanguageModel)
    with torch.no_grad():
        logits = model(torch.tensor([list(b"import ")]))
    assert logits.shape == (1, 7, 256) and torch.isfinite(logits).all()


def test_the_learned_model_knows_nothing_beyond_its_table():
    model = load_model("learned")
    assert isinstance(model.encoding, LearnedEncoding)
    norms = model.encoding.weight.detach().norm(dim=1)
    assert float(norms[:64].min()) > float(norms[64:].max())


def test_facts_are_json(swept):
    _, _, folder = swept
    for path in (folder / "results").glob("*.json"):
        assert json.loads(path.read_text())["versions"]["torch"]
