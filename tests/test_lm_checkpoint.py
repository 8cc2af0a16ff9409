"""Checkpoints: the format, a save that cannot destroy the last one, and runs that go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from posenc_tutorial import NoPE
from posenc_tutorial.lm import (
    Corpus,
    LanguageModel,
    Settings,
    build_model,
    load_model,
    load_tensors,
    model_facts,
    run,
    save_tensors,
    train,
    with_encoding,
)
from posenc_tutorial.lm.checkpoint import replace_file
from posenc_tutorial.lm.recipes import ENCODINGS, RECIPES

ROOT = Path(__file__).resolve().parent.parent
TINY = {"dim": 16, "num_layers": 2, "num_heads": 2, "length": 16, "batch_size": 4, "warmup": 2}


def text(n=4000, seed=0):
    generator = torch.Generator().manual_seed(seed)
    cycle = torch.arange(n) % 11 + 97
    noise = torch.rand(n, generator=generator) < 0.02
    return torch.where(noise, 32, cycle).to(torch.uint8)


def corpus():
    return Corpus(text(), text(seed=1), "a cycle of eleven letters")


def tensors():
    generator = torch.Generator().manual_seed(0)
    return {
        "matrix": torch.randn(3, 5, generator=generator),
        "half": torch.randn(7, generator=generator).half(),
        "brain": torch.randn(2, 2, generator=generator).bfloat16(),
        "double": torch.randn(4, dtype=torch.float64, generator=generator),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
        "bytes": torch.arange(5, dtype=torch.uint8),
        "whole": torch.tensor([-(2**40), 3]),
        "transposed": torch.arange(6.0).view(2, 3).T,
        "flags": torch.tensor([True, False]),
    }


# The format


def test_what_is_saved_comes_back(tmp_path):
    save_tensors(tmp_path / "a.safetensors", tensors(), {"note": "größer"})
    loaded, metadata = load_tensors(tmp_path / "a.safetensors")
    assert metadata == {"note": "größer"}
    assert loaded.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert loaded[name].dtype == tensor.dtype and loaded[name].shape == tensor.shape
        assert torch.equal(loaded[name], tensor)


def test_the_library_reads_our_files_and_we_read_the_librarys(tmp_path):
    library = pytest.importorskip("safetensors.torch")
    save_tensors(tmp_path / "ours.safetensors", tensors(), {"note": "text"})
    theirs = library.load_file(tmp_path / "ours.safetensors")
    assert theirs.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert theirs[name].dtype == tensor.dtype and torch.equal(theirs[name], tensor)
    contiguous = {name: tensor.contiguous() for name, tensor in tensors().items()}
    library.save_file(contiguous, tmp_path / "theirs.safetensors", metadata={"note": "text"})
    ours, metadata = load_tensors(tmp_path / "theirs.safetensors")
    assert metadata == {"note": "text"}
    assert all(torch.equal(ours[name], tensor) for name, tensor in tensors().items())


@pytest.mark.parametrize("damage", ["cut", "longer", "header", "empty"])
def test_a_damaged_file_is_an_error(tmp_path, damage):
    path = tmp_path / "a.safetensors"
    save_tensors(path, tensors())
    content = path.read_bytes()
    path.write_bytes(
        {
            "cut": content[:-3],
            "longer": content + b"0",
            "header": content[:9] + b"?" + content[10:],
            "empty": b"",
        }[damage]
    )
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load_tensors(path)


def test_what_cannot_be_saved(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(TypeError, match="complex64"):
        save_tensors(path, {"z": torch.zeros(2, dtype=torch.complex64)})
    with pytest.raises(TypeError, match="step"):
        save_tensors(path, {}, {"step": 3})
    assert list(tmp_path.iterdir()) == []


# A save that cannot destroy the last one


def test_a_failed_save_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "a.txt"
    replace_file(path, lambda file: file.write(b"old"))

    def fails(file):
        file.write(b"new and half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        replace_file(path, fails)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [RuntimeError("CUDA out of memory"), MemoryError()])
def test_a_failed_step_leaves_the_checkpoint_and_the_curve(tmp_path, monkeypatch, error):
    """Out of memory at step 7; the checkpoint is that of step 6, and going on changes nothing."""
    settings = Settings("rope", steps=12, **TINY)
    whole = run(settings, corpus(), tmp_path / "whole", save_every=3)
    forward, calls = LanguageModel.forward, []

    def fails(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 8:
            raise error
        return forward(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(LanguageModel, "forward", fails)
        with pytest.raises(type(error)):
            run(settings, corpus(), tmp_path / "failed", save_every=3)
    state, _ = load_tensors(tmp_path / "failed" / "state.safetensors")
    assert len(state["losses"]) == 6
    again = run(settings, corpus(), tmp_path / "failed", save_every=3)
    for name in ("log.csv", "model.safetensors"):
        assert (whole.parent / name).read_bytes() == (again.parent / name).read_bytes()


def test_a_loss_that_is_not_finite_stops_the_run_and_spares_the_checkpoint(tmp_path):
    model = build_model(Settings("nope", **TINY))
    path = tmp_path / "state.safetensors"
    options = {"length": 16, "steps": 30, "batch_size": 4, "checkpoint": path, "save_every": 5}
    poison = {"at": 12}

    def hook(module, args, output):
        poison["at"] -= 1
        return output * float("nan") if poison["at"] < 0 else output

    handle = model.register_forward_hook(hook)
    with pytest.raises(FloatingPointError, match="step 12"):
        train(model, text(), **options)
    handle.remove()
    state, _ = load_tensors(path)
    assert len(state["losses"]) == 10
    assert all(torch.isfinite(tensor.float()).all() for tensor in state.values())


KILLED = """
    import os, signal, sys
    import torch
    torch.set_num_threads(1)
    from posenc_tutorial.lm import Settings, run
    from posenc_tutorial.lm import checkpoint
    sys.path.insert(0, {tests!r})
    from test_lm_checkpoint import TINY, corpus

    saves = 0
    pack = checkpoint.replace_file

    def killed_in_the_middle(path, write):
        global saves
        def half(file):
            global saves
            if path.name == "state.safetensors":
                saves += 1
                if saves == 3:
                    class Half:
                        def write(self, data):
                            file.write(data[: len(data) // 2])
                            file.flush()
                            if file.tell() > 20_000:
                                os.kill(os.getpid(), signal.SIGKILL)
                    return write(Half())
            return write(file)
        return pack(path, half)

    checkpoint.replace_file = killed_in_the_middle
    run(Settings({encoding!r}, steps=14, **TINY), corpus(), {folder!r}, save_every=3)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 on this system")
@pytest.mark.parametrize("encoding", ["t5", "learned"])
def test_kill_9_in_the_middle_of_a_save(tmp_path, encoding):
    """The third save is half written when the process dies; the second is what is found."""
    settings = Settings(encoding, steps=14, **TINY)
    whole = run(settings, corpus(), tmp_path / "whole", save_every=3)
    folder = tmp_path / "killed"
    code = textwrap.dedent(KILLED).format(
        tests=str(ROOT / "tests"), encoding=encoding, folder=str(folder)
    )
    died = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert (folder / "state.safetensors.partial").stat().st_size > 20_000
    state, _ = load_tensors(folder / "state.safetensors")
    assert len(state["losses"]) == 6  # the save of step 9 never came to be
    assert len((folder / "log.csv").read_text().splitlines()) == 1 + 9
    again = run(settings, corpus(), folder, save_every=3)
    for name in ("log.csv", "model.safetensors", "state.safetensors"):
        assert (whole.parent / name).read_bytes() == (again.parent / name).read_bytes()
    assert not (folder / "state.safetensors.partial").exists()


# Resuming


@pytest.mark.parametrize("encoding", ["rope", "t5", "learned"])
@pytest.mark.parametrize("stop", [1, 5, 6, 9])
def test_interrupted_at_any_step_the_curve_is_the_same(tmp_path, monkeypatch, encoding, stop):
    settings = Settings(encoding, steps=10, **TINY)
    whole = run(settings, corpus(), tmp_path / "whole", save_every=100)
    forward, calls = LanguageModel.forward, []

    def interrupted(self, *args, **kwargs):
        calls.append(1)
        if len(calls) > stop:
            raise KeyboardInterrupt
        return forward(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(LanguageModel, "forward", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(settings, corpus(), tmp_path / "stopped", save_every=1)
    torch.manual_seed(stop)  # whatever else has drawn numbers in between
    torch.rand(3)
    again = run(settings, corpus(), tmp_path / "stopped", save_every=100)
    for name in ("log.csv", "model.safetensors"):
        assert (whole.parent / name).read_bytes() == (again.parent / name).read_bytes()


def test_a_finished_run_is_not_trained_again(tmp_path, monkeypatch):
    settings = Settings("alibi", steps=4, **TINY)
    path = run(settings, corpus(), tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(LanguageModel, "forward", None)  # any use would fail
    assert run(settings, corpus(), tmp_path).read_bytes() == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"learning_rate": 1e-3}, "learning_rate was 0.003, now 0.001"),
        ({"steps": 9}, "steps was 4, now 9"),
        ({"seed": 5}, "seed was 0, now 5"),
        ({"encoding": "learned"}, "parameters"),
        # The names and shapes of their weights are the same.
        ({"encoding": "rope"}, "about was {'encoding': 'nope', 'num_heads': 2}"),
        ({"num_heads": 4}, "now {'encoding': 'nope', 'num_heads': 4}"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(tmp_path, change, told):
    base = {"encoding": "nope", "steps": 4, **TINY}
    run(Settings(**base), corpus(), tmp_path)
    before = (tmp_path / "state.safetensors").read_bytes()
    with pytest.raises(ValueError, match="another run") as error:
        run(Settings(**{**base, **change}), corpus(), tmp_path)
    assert told in str(error.value)
    assert (tmp_path / "state.safetensors").read_bytes() == before


def test_a_checkpoint_from_before_the_encoding_was_kept_is_resumed(tmp_path):
    settings = Settings("rope", steps=2, **TINY)
    expected = run(settings, corpus(), tmp_path).read_bytes()
    state, metadata = load_tensors(tmp_path / "state.safetensors")
    old = json.loads(metadata["run"])
    assert old.pop("about") == {"encoding": "rope", "num_heads": 2}
    save_tensors(tmp_path / "state.safetensors", state, {"run": json.dumps(old)})
    assert run(settings, corpus(), tmp_path).read_bytes() == expected


def test_the_checkpoint_of_another_corpus_is_refused(tmp_path):
    settings = Settings("nope", steps=2, **TINY)
    run(settings, corpus(), tmp_path)
    other = Corpus(text(seed=3), text(seed=1), "another")
    with pytest.raises(ValueError, match="data_sha256"):
        run(settings, other, tmp_path)


# Models as files


@pytest.mark.parametrize("encoding", sorted(RECIPES))
def test_a_saved_model_computes_what_it_did(tmp_path, encoding):
    settings = Settings(encoding, steps=3, **TINY)
    path = run(settings, corpus(), tmp_path)
    facts = model_facts(path)
    assert facts["settings"]["encoding"] == encoding
    assert facts["corpus"]["sha256"] == corpus().sha256
    assert set(facts["versions"]) == {"python", "torch", "numpy"}
    model = load_model(tmp_path)
    state, _ = load_tensors(tmp_path / "state.safetensors")
    for name, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter.detach(), state[f"model.{name}"].half().float())


def test_building_a_model_leaves_the_random_state_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one = build_model(Settings("learned", seed=1, **TINY))
    assert torch.equal(torch.rand(3), expected)
    two = build_model(Settings("learned", seed=1, **TINY))
    other = build_model(Settings("learned", seed=2, **TINY))
    assert torch.equal(one.embedding.weight, two.embedding.weight)
    assert not torch.equal(one.embedding.weight, other.embedding.weight)


def test_with_encoding_changes_every_layer_and_not_the_model_itself():
    model = build_model(Settings("rope", **TINY)).eval()
    tokens = torch.randint(0, 256, (1, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        before = model(tokens)
        bare = with_encoding(model, NoPE())
        assert torch.equal(model(tokens), before)
        assert float((bare(tokens) - before).abs().max()) > 1e-4
        # Without positions and with all the same weights: the model built with NoPE.
        plain = build_model(Settings("nope", **TINY)).eval()
        plain.load_state_dict(model.state_dict(), strict=False)
        torch.testing.assert_close(bare(tokens), plain(tokens))
    with pytest.raises(TypeError, match="PositionalEncoding"):
        with_encoding(model, torch.nn.Identity())


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no-such-model"):
        load_model("no-such-model")
    path = tmp_path / "foreign.safetensors"
    save_tensors(path, {"x": torch.zeros(2)})
    with pytest.raises(ValueError, match="no settings"):
        load_model(path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"encoding": "rotary"}, "rotary"),
        ({"steps": 0}, "steps must be >= 1, got 0"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
        ({"seed": 2**64}, "seed must be below 2**64, got 18446744073709551616"),
        ({"learning_rate": 0.0}, "got 0.0"),
        ({"learning_rate": float("nan")}, "got nan"),
        ({"train_bytes": 64}, "got 64"),
    ],
)
def test_settings_errors(change, told):
    with pytest.raises(ValueError) as error:
        Settings(**change)
    assert told in str(error.value)
    if change == {"encoding": "rotary"}:
        assert all(name in str(error.value) for name in ENCODINGS)
