"""Versions in the address: what is packed with a release, and put back below the site."""

from __future__ import annotations

import os
import sys
import zipfile

import pytest
import yaml

from tools import site_versions
from tools.notebooks import ROOT


def edition(folder, version="1.2.3", extra=()):
    """A packed site that calls itself a version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / site_versions.ARCHIVE.name
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("index.html", f"<p>This is version {version} of the book.</p>")
        packed.writestr("_static/a.css", "a {}")
        for name in extra:
            packed.writestr(name, "text")
    return path


def test_a_packed_site_comes_back_as_it_was(tmp_path):
    site = tmp_path / "html"
    (site / "_static").mkdir(parents=True)
    (site / "index.html").write_text("This is version 0.9.10 of the book")
    (site / "_static" / "a.css").write_text("a {}")
    archive = tmp_path / "dist" / "site.zip"
    assert site_versions.pack(site, archive) == 2
    site_versions.unpack(archive, tmp_path / "latest", "v0.9.10")
    there = tmp_path / "latest" / "v0.9.10"
    assert (there / "index.html").read_text() == (site / "index.html").read_text()
    assert (there / "_static" / "a.css").read_text() == "a {}"


def test_an_empty_site_is_not_packed(tmp_path):
    with pytest.raises(FileNotFoundError, match="make book"):
        site_versions.pack(tmp_path, tmp_path / "site.zip")


@pytest.mark.parametrize("tag", ["latest", "v1.2", "v1.2.3-rc1", "../v1.2.3", "v1.2.3/x", ""])
def test_only_versions_become_folders(tag, tmp_path):
    with pytest.raises(ValueError, match="is no version"):
        site_versions.unpack(edition(tmp_path), tmp_path, tag)


@pytest.mark.parametrize("name", ["../evil.html", "/evil.html", "a/../../evil.html", "c:\\x"])
def test_nothing_is_written_outside_the_folder(name, tmp_path):
    with pytest.raises(ValueError, match="leads out of the folder"):
        site_versions.unpack(edition(tmp_path / "a", extra=[name]), tmp_path / "site", "v1.2.3")
    assert not (tmp_path / "site").exists()


def test_the_edition_of_another_version_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not the edition of that version"):
        site_versions.unpack(edition(tmp_path, "1.2.4"), tmp_path / "site", "v1.2.3")


# A stand-in for GitHub's command: two releases with the file, one without, and one tag that is
# no version.
GH = """#!{python}
import json, shutil, sys
if sys.argv[1:3] == ["release", "list"]:
    tags = ["v2.0.0", "nightly", "v1.2.3", "v0.1.0"]
    print(json.dumps([{{"tagName": tag}} for tag in tags]))
else:
    assert sys.argv[1:3] == ["release", "download"], sys.argv
    tag, folder = sys.argv[3], sys.argv[sys.argv.index("--dir") + 1]
    if tag == "v0.1.0":
        sys.exit("no assets match the file pattern")
    shutil.copy("{store}/" + tag + "/{archive}", folder)
"""


@pytest.mark.skipif(os.name == "nt", reason="a script stands in for gh")
def test_every_release_is_put_back_below_the_site(tmp_path, monkeypatch, capfd):
    store = tmp_path / "store"
    for version in ("2.0.0", "1.2.3"):
        edition(store / f"v{version}", version)
    program = tmp_path / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(
        GH.format(python=sys.executable, store=store, archive=site_versions.ARCHIVE.name)
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent) + os.pathsep + os.environ["PATH"])
    site = tmp_path / "html"
    assert site_versions.collect(site) == ["v2.0.0", "v1.2.3"]
    assert sorted(path.name for path in site.iterdir()) == ["v1.2.3", "v2.0.0"]
    assert "version 2.0.0" in (site / "v2.0.0" / "index.html").read_text()
    assert "v0.1.0: has no" in capfd.readouterr().out


def test_the_workflow_packs_what_it_later_collects():
    text = (ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    runs = {
        name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()
    }
    upload = runs["editions"][-1]
    assert upload.startswith("gh release upload")
    assert f"dist/{site_versions.ARCHIVE.name}" in upload
    release = runs["editions"]
    build, pack = 'make book POSENC_SITE_VERSION="$TAG"', "python -m tools.site_versions pack"
    assert release.index("make pdf epub") < release.index(build) < release.index(pack)
    assert runs["publish"] == ["make book", "python -m tools.site_versions collect"]
    assert jobs["publish"]["needs"] == "editions"
