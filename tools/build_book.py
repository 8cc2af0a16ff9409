"""``make book``: render the book into ``_build/html``; a warning is an error.

It always starts from nothing: Sphinx repeats no warning about a page that it did not read again,
so a second incremental build would pass where the first one failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import yaml

from tools.notebooks import ROOT

BUILD = ROOT / "_build"


def command() -> list[str]:
    """The command line, which README.md shows too."""
    scripts = Path(sysconfig.get_path("scripts"))
    program = shutil.which("jupyter-book", path=str(scripts)) or "jupyter-book"
    # jupyter-book joins a relative toc path to book/, so it has to be absolute.
    options = ["--config", "_config.yml", "--toc", str(ROOT / "_toc.yml"), "--path-output", "."]
    return [program, "build", "book", *options, "-W", "-n", "--keep-going"]


def pages() -> list[str]:
    """Every page that ``_toc.yml`` names, in order, without a suffix."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))

    def files(entry: object) -> list[str]:
        if isinstance(entry, list):
            return [name for item in entry for name in files(item)]
        if not isinstance(entry, dict):
            return []
        own = [entry[key] for key in ("root", "file") if key in entry]
        return own + [name for value in entry.values() for name in files(value)]

    return files(toc)


def missing_pages(html: Path) -> list[str]:
    """Pages of the table of contents that were not rendered, or rendered without a heading."""
    found = []
    for page in pages():
        path = html / f"{page}.html"
        if not path.is_file() or "<h1" not in path.read_text(encoding="utf-8"):
            found.append(page)
    return found


def main() -> int:
    """Build and look whether every page is there; the exit status."""
    shutil.rmtree(BUILD, ignore_errors=True)
    # autodoc imports the package from the checkout, with torch and its like mocked.
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    print("==", " ".join(["jupyter-book", *command()[1:]]).replace(str(ROOT), "$PWD"), flush=True)
    done = subprocess.run(
        command(), cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        print("the book was not built: a warning is an error here, see above")
        return done.returncode
    missing = missing_pages(BUILD / "html")
    if missing:
        print(f"in _toc.yml but not rendered: {', '.join(missing)}")
        return 1
    print(f"{len(pages())} pages; open _build/html/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
