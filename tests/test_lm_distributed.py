"""Two processes give the loss curve of one, and can be interrupted too."""

from __future__ import annotations

import csv
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from posenc_tutorial.lm import load_tensors

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="this PyTorch has no gloo",
)
SIZES = "--dim 16 --num-layers 2 --num-heads 2 --length 16 --batch-size 8 --warmup 5"


@pytest.fixture
def folder(tmp_path):
    """A text to learn, in twelve files."""
    generator = torch.Generator().manual_seed(0)
    (tmp_path / "text").mkdir()
    for i in range(12):
        letters = torch.arange(600) % 11 + 97
        noise = torch.rand(600, generator=generator) < 0.1
        content = bytes(torch.where(noise, 32, letters).tolist())
        (tmp_path / "text" / f"{i:02d}.txt").write_bytes(content)
    return tmp_path


def launch(folder: Path, out: str, *more: str, processes: int = 1) -> subprocess.CompletedProcess:
    module = ["-m", "posenc_tutorial.lm", "train", *SIZES.split()]
    module += ["--text", str(folder / "text"), "--out", str(folder / out), "--device", "cpu", *more]
    command = [sys.executable, *module]
    if processes > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        torchrun += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
        command = [sys.executable, *torchrun, *module]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "POSENC_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=500,
    )


def curve(folder: Path, out: str) -> list[float]:
    with open(folder / out / "log.csv", newline="") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize("encoding", ["rope", "t5"])
def test_two_processes_give_the_curve_of_one(folder, encoding):
    options = ["--encoding", encoding, "--steps", "50"]
    one = launch(folder, "one", *options)
    assert one.returncode == 0, one.stderr
    two = launch(folder, "two", *options, processes=2)
    assert two.returncode == 0, two.stderr
    a, b = curve(folder, "one"), curve(folder, "two")
    assert len(a) == len(b) == 50
    assert max(abs(x - y) for x, y in zip(a, b, strict=True)) < 1e-5
    assert a[-1] < a[0] - 0.5  # it did learn, so equal curves are no accident
    # The first process alone speaks and writes.
    assert two.stdout.count("bytes to train on") == 1
    assert two.stdout.count("training loss") == 1
    weights = [load_tensors(folder / out / "state.safetensors")[0] for out in ("one", "two")]
    for name, tensor in weights[0].items():
        if name.startswith("model."):
            torch.testing.assert_close(tensor, weights[1][name], atol=1e-3, rtol=0)


def test_two_processes_resume_what_one_began(folder):
    """The state belongs to the run, not to the number of processes."""
    options = ["--encoding", "rope", "--steps", "24", "--save-every", "12"]
    assert launch(folder, "whole", *options).returncode == 0
    code = (
        "import sys\n"
        "from posenc_tutorial.lm import LanguageModel, cli\n"
        "forward, calls = LanguageModel.forward, []\n"
        "def dies(self, *a, **k):\n"
        "    calls.append(1)\n"
        "    if len(calls) > 15: raise KeyboardInterrupt\n"
        "    return forward(self, *a, **k)\n"
        "LanguageModel.forward = dies\n"
        "cli.main(sys.argv[1:])\n"
    )
    arguments = ["train", *SIZES.split(), "--text", str(folder / "text")]
    arguments += ["--out", str(folder / "shared"), "--device", "cpu", *options]
    stopped = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "KeyboardInterrupt" in stopped.stderr
    assert len(curve(folder, "shared")) == 15
    resumed = launch(folder, "shared", *options, processes=2)
    assert resumed.returncode == 0, resumed.stderr
    a, b = curve(folder, "whole"), curve(folder, "shared")
    assert a[:12] == b[:12] and len(b) == 24
    assert max(abs(x - y) for x, y in zip(a, b, strict=True)) < 1e-5


def test_a_batch_that_cannot_be_shared(folder):
    result = launch(folder, "odd", "--steps", "2", "--batch-size", "9", processes=2)
    assert result.returncode != 0
    assert "batch_size must be a multiple of the 2 processes, got 9" in result.stderr
