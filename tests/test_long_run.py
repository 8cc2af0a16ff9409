"""The run of hours: what it plans, and that stopping and starting it loses and doubles nothing."""

from __future__ import annotations

import csv
import json
import os
from concurrent.futures.process import BrokenProcessPool

import pytest
import torch

from posenc_tutorial.context_extension import default_rope, dynamic_ntk, yarn
from posenc_tutorial.pretrained import long_run

ARGUMENTS = ["--lengths", "8192", "12288", "--spans", "0", "1", "--threads", "1"]


def pretended(job):
    """In the place of the forward pass, a loss that depends on everything that the job states."""
    tokens, method, factor, threads = job
    assert threads == 1
    loss = (len(tokens) % 97) / 97 + len(method) + factor + tokens[0] % 5
    return [loss] * long_run.TARGETS, 1.0, 2.0


@pytest.fixture
def quick(monkeypatch):
    """Without the model: numbers for tokens, and no forward pass."""

    class Tokenizer:
        def tokenize(self, text):
            return list(range(2 * (max(long_run.LENGTHS) + 1)))

    monkeypatch.setattr(long_run, "load_smollm2", Tokenizer)
    monkeypatch.setattr(long_run, "_alone", pretended)


def files(folder):
    names = (long_run.ROWS_FILE, long_run.TOKENS_FILE, long_run.FACTS_FILE)
    return {name: (folder / name).read_bytes() for name in names}


def test_each_setting_is_measured_once_for_each_span(quick, tmp_path, capsys):
    assert long_run.main(["--out", str(tmp_path), *ARGUMENTS]) == 0
    with (tmp_path / long_run.ROWS_FILE).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    settings = {(row["length"], row["method"], row["factor"]) for row in rows}
    assert len(rows) == 2 * len(settings)
    assert {s[2] for s in settings if s[:2] == ("12288", "yarn")} == {"1.5", "4.0"}
    assert ("8192", "plain", "1.0") in settings
    assert capsys.readouterr().out.count("\n") == len(rows)
    with (tmp_path / long_run.TOKENS_FILE).open(newline="") as stream:
        lines = list(csv.reader(stream))
    assert [line[:4] for line in lines] == [list(row.values())[:4] for row in rows]
    assert {len(line) for line in lines} == {4 + long_run.TARGETS}


@pytest.mark.parametrize("file", [long_run.ROWS_FILE, long_run.TOKENS_FILE])
@pytest.mark.parametrize("writes", [0, 1, 5])
def test_stopped_before_a_write_and_started_again_gives_the_same_files(
    file, writes, quick, tmp_path, monkeypatch
):
    long_run.main(["--out", str(tmp_path / "whole"), *ARGUMENTS])
    write, count = long_run._append, 0

    def stopped(path, *rest):
        nonlocal count
        if path.name == file:
            if count == writes:
                raise KeyboardInterrupt
            count += 1
        write(path, *rest)

    monkeypatch.setattr(long_run, "_append", stopped)
    with pytest.raises(KeyboardInterrupt):
        long_run.main(["--out", str(tmp_path / "parts"), *ARGUMENTS])
    monkeypatch.setattr(long_run, "_append", write)
    long_run.main(["--out", str(tmp_path / "parts"), *ARGUMENTS])
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_a_full_disk_leaves_whole_rows(quick, tmp_path, monkeypatch):
    long_run.main(["--out", str(tmp_path / "whole"), *ARGUMENTS])
    sync, count = os.fsync, 0

    def full(descriptor):
        nonlocal count
        count += 1
        if count == 4:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - 9)
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        long_run.main(["--out", str(tmp_path / "parts"), *ARGUMENTS])
    monkeypatch.setattr(os, "fsync", sync)
    long_run.main(["--out", str(tmp_path / "parts"), *ARGUMENTS])
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


@pytest.mark.parametrize("content", ["", '{"text', "[1]"])
def test_damaged_facts_are_told(quick, tmp_path, capsys, content):
    (tmp_path / long_run.FACTS_FILE).write_text(content)
    with pytest.raises(SystemExit):
        long_run.main(["--out", str(tmp_path), *ARGUMENTS])
    assert "is damaged" in capsys.readouterr().err
    assert (tmp_path / long_run.FACTS_FILE).read_text() == content


def test_no_thread_is_too_few(quick, tmp_path, capsys):
    with pytest.raises(SystemExit):
        long_run.main(["--out", str(tmp_path / "new"), "--threads", "0"])
    assert "--threads must be >= 1, got 0" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_rows_of_two_models_or_texts_do_not_mix(quick, tmp_path, capsys):
    long_run.main(["--out", str(tmp_path), *ARGUMENTS])
    facts = json.loads((tmp_path / long_run.FACTS_FILE).read_text())
    facts["text_sha256"] = "0"
    (tmp_path / long_run.FACTS_FILE).write_text(json.dumps(facts))
    before = files(tmp_path)
    with pytest.raises(SystemExit):
        long_run.main(["--out", str(tmp_path), *ARGUMENTS])
    assert "another text_sha256: use another folder" in capsys.readouterr().err
    assert files(tmp_path) == before


def test_a_pass_that_the_system_ends_is_an_error_and_no_endless_wait(monkeypatch):
    monkeypatch.setattr(long_run, "measure", os._exit)
    with pytest.raises(BrokenProcessPool):
        long_run._alone(9)


def test_targets_are_the_same_at_every_length():
    size = max(long_run.LENGTHS) + 1
    tokens = list(range(2 * size))
    for span in (0, 1):
        ends = {tuple(long_run.span_tokens(tokens, span, n)[-256:]) for n in long_run.LENGTHS}
        assert len(ends) == 1
        assert len(long_run.span_tokens(tokens, span, 8192)) == 8193
    with pytest.raises(ValueError, match=f"the text has {size} tokens, too few for span 1"):
        long_run.span_tokens(tokens[:size], 1, 8192)


def test_factors_that_fit_are_the_lengths_ratio_and_dynamic_reads_the_length():
    for length in long_run.LENGTHS:
        factors = {factor for method, factor in long_run.plan(length) if method == "yarn"}
        assert factors == {f for f in (length / 8192, 4.0) if f > 1}
    made = long_run.parameters("dynamic", 2.0, 16384, dim=64, base=1e5)
    assert torch.equal(made.inv_freq, dynamic_ntk(64, 1e5, 2.0, 8192, 16384).inv_freq)
    made = long_run.parameters("yarn", 4.0, 16384, dim=64, base=1e5)
    assert made.attention_factor == yarn(64, 1e5, 4.0, 8192).attention_factor
    made = long_run.parameters("plain", 1.0, 16384, dim=64, base=1e5)
    assert torch.equal(made.inv_freq, default_rope(64, 1e5).inv_freq)
