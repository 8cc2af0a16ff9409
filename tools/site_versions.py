"""Give every released version of the book an address that stays: ``.../v1.2.3/``.

GitHub Pages serves what was uploaded last, and nothing else. So the edition of each release is
kept as a file of that release, and every upload puts all of them back:

    make book POSENC_SITE_VERSION=v1.2.3     builds the edition of a release (site_files.py)
    python -m tools.site_versions pack       packs it, dist/where-tokens-are-site.zip
    python -m tools.site_versions collect    unpacks that file of every release below _build/html

``collect`` asks GitHub with its command ``gh``. ``.github/workflows/publish.yml`` calls both.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"
ARCHIVE = ROOT / "dist" / "where-tokens-are-site.zip"
TAG = re.compile(r"v\d+\.\d+\.\d+")


def pack(site: Path, archive: Path) -> int:
    """Pack a built site; the number of its files."""
    files = sorted(path for path in site.rglob("*") if path.is_file())
    if site / "index.html" not in files:
        raise FileNotFoundError(f"{site} holds no book (make book)")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in files:
            packed.write(path, path.relative_to(site).as_posix())
    return len(files)


def unpack(archive: Path, site: Path, tag: str) -> None:
    """Put a packed site below another one, in the folder of its version.

    Raises:
        ValueError: the tag is no version, or the archive is not the edition of that version, or
            one of its names leads out of the folder.
    """
    if not TAG.fullmatch(tag):
        raise ValueError(f"{tag!r} is no version such as v1.2.3")
    with zipfile.ZipFile(archive) as packed:
        names = packed.namelist()
        for name in names:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
                raise ValueError(f"{archive.name} of {tag}: {name!r} leads out of the folder")
        first = packed.read("index.html").decode() if "index.html" in names else ""
        if f"This is version {tag[1:]} of the book" not in first:
            raise ValueError(f"{archive.name} of {tag} is not the edition of that version")
        packed.extractall(site / tag)


def releases() -> list[str]:
    """The tags of all published releases that are versions, newest first."""
    command = ["gh", "release", "list", "--exclude-drafts", "--limit", "1000", "--json", "tagName"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    tags = [release["tagName"] for release in json.loads(done.stdout)]
    return [tag for tag in tags if TAG.fullmatch(tag)]


def collect(site: Path) -> list[str]:
    """Put the editions of all releases below a site; the versions that are there then.

    A release without the file (one whose edition was never packed) is named and left out.
    """
    there = []
    for tag in releases():
        with tempfile.TemporaryDirectory() as folder:
            command = ["gh", "release", "download", tag, "--pattern", ARCHIVE.name, "--dir", folder]
            done = subprocess.run(command, cwd=ROOT, check=False)
            archive = Path(folder, ARCHIVE.name)
            if done.returncode or not archive.is_file():
                print(f"{tag}: has no {ARCHIVE.name}, left out")
                continue
            unpack(archive, site, tag)
            there.append(tag)
    return there


def main(arguments: list[str] | None = None) -> int:
    """Pack or collect; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.site_versions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("pack", "collect"))
    if parser.parse_args(arguments).what == "pack":
        print(f"{ARCHIVE.relative_to(ROOT)}: {pack(SITE, ARCHIVE)} files")
    else:
        print(f"versions: {', '.join(collect(SITE)) or 'none yet'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
