"""How long the cell *Set up* of the derived notebooks takes, in an environment like Colab's.

A new virtual environment gets what Colab has (torch, NumPy, Matplotlib), which is not measured.
Then each different cell *Set up* runs there three times, each time without what it installs and
without pip's cache. Seconds on the clock depend on the network and on what else the machine does,
so that seconds of processor time are counted too. Two things differ from Colab: the package comes
from the Git repository of this checkout, not over the network, and the machine. The result,
``tools/setup_seconds.json``, names the machine; ``book/colab-help.md`` shows the processor times,
and a test compares them.

Usage: ``python -m tools.measure_setup`` (minutes, and some gigabytes in the temporary folder), or
``python -m tools.measure_setup PYTHON`` with the interpreter of an environment that has these.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from tools import derive
from tools.book_numbers import repository
from tools.notebooks import ROOT, read

RESULT = ROOT / "tools" / "setup_seconds.json"
COLAB_HAS = ("torch", "numpy", "matplotlib", "ipykernel")
REPEATS = 3


def set_ups() -> dict[str, list[str]]:
    """Each different cell *Set up*, and the chapters that have it."""
    found: dict[str, list[str]] = {}
    for path in sorted(derive.FOLDER.glob("[0-9][0-9]-*.ipynb")):
        found.setdefault(read(path).cells[1].source, []).append(path.stem)
    return found


def installed_by(code: str) -> list[str]:
    """What a cell *Set up* installs where only PyTorch and its like are present."""
    wheels = [wheel for wheel, module, _ in derive.MODELS.values() if module in code]
    readers = [
        reader
        for _, module, readers in derive.MODELS.values()
        if module in code
        for reader in readers
    ]
    return ["posenc-tutorial", *dict.fromkeys(readers), *wheels]


def seconds(python: Path, code: str, environment: dict[str, str]) -> tuple[float, float]:
    """Run a cell once, from a state in which nothing of it is installed.

    Returns:
        Seconds on the clock, and seconds of processor time.
    """
    names = [name.split("==")[0] for name in installed_by(code)]
    quiet = {"stdout": subprocess.DEVNULL, "check": True, "env": environment}
    subprocess.run([python, "-m", "pip", "uninstall", "--yes", "--quiet", *names], **quiet)
    before, start = os.times(), time.perf_counter()
    subprocess.run([python, "-c", code], cwd=python.parent, **quiet)
    clock, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system
    return clock, used - before.children_user - before.children_system


def measure(python: Path) -> None:
    """Measure every cell with an interpreter, and write the result."""
    where = repository()
    rows = []
    environment = {**os.environ, "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for code, chapters in set_ups().items():
        local = code.replace(where.pip, f"git+{ROOT.as_uri()}")
        times = [seconds(python, local, environment) for _ in range(REPEATS)]
        rows.append(
            {
                "chapters": chapters,
                "installs": installed_by(code),
                "clock": [round(clock, 1) for clock, _ in times],
                "processor": [round(used, 1) for _, used in times],
            }
        )
        print(rows[-1], flush=True)
    about = {"cores": os.cpu_count(), "python": platform.python_version(), "system": sys.platform}
    text = json.dumps({"machine": about, "set_ups": rows}, indent=1) + "\n"
    RESULT.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Measure in the environment that is named, or in a new one; the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if given:
        measure(Path(given[0]).absolute())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts" if os.name == "nt" else "bin", "python")
        pip = [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
        subprocess.run([*pip, *COLAB_HAS], check=True)
        measure(python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
