"""The files around the package agree with each other."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from importlib.metadata import metadata, requires
from pathlib import Path

import pytest
import yaml

import posenc_tutorial
from tools import build_book
from tools.notebooks import ROOT

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
ADDRESS = CONFIG["repository"]["url"]
EXTRAS = ("book", "test", "models", "fast")
REQUIREMENTS = {name: ROOT / "requirements" / f"{name}.txt" for name in EXTRAS}
# https://creativecommons.org/licenses/by/4.0/legalcode.txt, byte for byte
CC_BY_4_SHA256 = "9ba9550ad48438d0836ddab3da480b3b69ffa0aac7b7878b5a0039e7ab429411"


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def tracked_texts() -> dict[str, str]:
    """The repository's own text files; in a checkout without git, those of the usual places."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        names = [name for name in listed.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("git cannot list the files of this checkout")
    texts = {}
    for name in names:
        try:
            texts[name] = text(name)
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
    return texts


def names_of(lines: str) -> list[str]:
    """Distribution names in a requirements or constraints file, normalised."""
    found = [re.match(r"[A-Za-z0-9][\w.-]*", line) for line in lines.splitlines()]
    return [re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match]


def github_projects(source: str) -> set[str]:
    """Every ``owner/name`` of an address on GitHub in a text."""
    found = re.findall(r"(?<![\w.])github\.com/([\w.-]+/[\w.-]+)", source)
    return {name.removesuffix(".git").rstrip(".") for name in found}


def project_of(address: str) -> str:
    return address.removeprefix("https://github.com/").rstrip("/")


@pytest.mark.parametrize("name", ["README.md", "CITATION.cff", "pyproject.toml"])
def test_the_repository_address_agrees_with_the_config(name):
    assert github_projects(text(name)) <= {project_of(ADDRESS)}


def test_pyproject_and_citation_name_the_address():
    assert f'Repository = "{ADDRESS}"' in text("pyproject.toml")
    assert yaml.safe_load(text("CITATION.cff"))["repository-code"] == ADDRESS


def test_workflows_and_notebooks_agree_with_the_address():
    """Other projects may be linked, but ours only under its one address."""
    own = project_of(ADDRESS)
    paths = [*(ROOT / ".github").rglob("*.yml"), *(ROOT / "book").glob("*.ipynb")]
    assert paths
    for path in [*paths, *(ROOT / "book").glob("*.md")]:
        source = path.read_text(encoding="utf-8")
        named = github_projects(source)
        named |= set(re.findall(r"colab\.research\.google\.com/github/([\w.-]+/[\w.-]+)", source))
        repository = own.split("/")[1]
        assert {name for name in named if name.split("/")[1] == repository} <= {own}, path


def test_an_old_address_would_be_noticed():
    stale = "see https://github.com/somebody-else/posenc-tutorial for the code"
    assert github_projects(stale) == {"somebody-else/posenc-tutorial"}


def test_versions_agree():
    version = posenc_tutorial.__version__
    assert metadata("posenc-tutorial")["Version"] == version
    assert yaml.safe_load(text("CITATION.cff"))["version"] == version
    assert f"## {version}" in text("CHANGELOG.md")


def test_runtime_dependencies_have_lower_bounds_only():
    """A tighter bound would replace the torch of a reader's environment (or of Colab's)."""
    found = [line for line in requires("posenc-tutorial") if "extra ==" not in line]
    assert sorted(found) == ["matplotlib>=3.8", "numpy>=1.26", "torch>=2.5"]
    assert metadata("posenc-tutorial")["Requires-Python"] == ">=3.10"


def test_extras_are_the_requirement_files():
    extras = metadata("posenc-tutorial").get_all("Provides-Extra")
    assert sorted(extras) == sorted(EXTRAS)
    for extra, path in REQUIREMENTS.items():
        listed = [line for line in requires("posenc-tutorial") if f'extra == "{extra}"' in line]
        assert sorted(names_of("\n".join(listed))) == sorted(names_of(path.read_text("utf-8")))


def test_every_requirement_is_pinned():
    pinned = set(names_of(text("constraints.txt")))
    for path in REQUIREMENTS.values():
        assert set(names_of(path.read_text(encoding="utf-8"))) <= pinned
    assert {"torch", "numpy", "matplotlib"} <= pinned
    lines = [line for line in text("constraints.txt").splitlines() if line[:1] not in ("", "#")]
    assert all(
        re.fullmatch(r'[a-z0-9-]+==[^\s;+]+( ; python_version >= "3\.\d+")?', line)
        for line in lines
    )


def test_rendering_needs_no_torch():
    wanted = set(names_of(REQUIREMENTS["book"].read_text(encoding="utf-8")))
    assert not wanted & {"torch", "numpy", "transformers", "posenc-tutorial"}
    code = "import sys, tools.build_book; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_conda_environment_installs_the_same():
    pip = yaml.safe_load(text("environment.yml"))["dependencies"][-1]["pip"]
    assert "-c constraints.txt" in pip
    assert {f"-r requirements/{name}.txt" for name in REQUIREMENTS} <= set(pip)


def test_the_readme_shows_the_commands_of_the_makefile():
    readme, makefile = text("README.md"), text("Makefile")
    modules = set(re.findall(r"-m (tools\.\w+|posenc_tutorial\.\w+)", makefile))
    assert "tools.run_all" in modules
    assert all(module in readme for module in modules)
    assert (
        " ".join(build_book.command()[1:])
        .replace(str(ROOT), '"$PWD"')
        .replace('"$PWD"/_toc.yml', '"$PWD/_toc.yml"')
        in readme
    )
    wheel = re.search(r"MODEL_WHEELS := (\S+)", makefile)[1]
    assert wheel in readme


def test_every_target_has_a_line_of_help():
    makefile = text("Makefile")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    assert {"help", "book", "test", "refresh", "mutants", "clean"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:.*## \S", makefile, re.MULTILINE), target


def test_workflows_run_the_local_commands():
    for name, commands in {
        ".github/workflows/ci.yml": {"make test", "make book"},
        ".github/workflows/publish.yml": {"make book"},
    }.items():
        jobs = yaml.safe_load(text(name))["jobs"]
        runs = {step["run"] for job in jobs.values() for step in job["steps"] if "run" in step}
        assert commands <= runs
        own = ("make ", "nvidia-smi", "command -v ", "gh release ", "python -m tools.")
        assert all(run.startswith(own) for run in runs)
        assert "{{ secrets" not in text(name)
    assert "make test" in text(".ci/run")


def test_every_page_of_the_contents_exists():
    for page in build_book.pages():
        found = [
            suffix for suffix in (".md", ".ipynb") if (ROOT / f"book/{page}{suffix}").is_file()
        ]
        assert len(found) == 1, page


def test_every_chapter_is_in_the_contents():
    chapters = {path.stem for path in (ROOT / "book").glob("*.ipynb")}
    assert chapters <= set(build_book.pages())


def test_a_page_that_was_not_rendered_is_noticed(tmp_path):
    for page in build_book.pages()[1:]:
        path = tmp_path / f"{page}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("<h1>A page</h1>", encoding="utf-8")
    assert build_book.missing_pages(tmp_path) == [build_book.pages()[0]]


def test_licences():
    assert text("LICENSE").startswith("MIT License")
    assert "The Where Tokens Are authors" in text("LICENSE")
    digest = hashlib.sha256((ROOT / "LICENSE-TEXT").read_bytes()).hexdigest()
    assert digest == CC_BY_4_SHA256


def test_no_file_names_this_machine_or_an_index():
    """Neither the place of this checkout, nor a home folder, nor where packages come from."""
    places = {str(ROOT), str(Path.home()), sys.prefix}
    places = {place for place in places if len(place) > 4}
    index = re.compile(r"--(?:(?:extra-)?index-url|find-links)|(?:^|\s)-i https?:", re.M)
    for name, content in tracked_texts().items():
        for place in places:
            assert f"{place}/" not in content and f'{place}"' not in content, (name, place)
        if name != "tests/test_repository.py":
            assert not index.search(content), name


def test_notebooks_are_json_of_version_4_5():
    for path in (ROOT / "book").glob("*.ipynb"):
        content = json.loads(path.read_text(encoding="utf-8"))
        assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
