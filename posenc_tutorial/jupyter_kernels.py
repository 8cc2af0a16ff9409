"""Two Jupyter kernels: the same notebooks on the CPU and on a GPU.

``python -m posenc_tutorial.jupyter_kernels`` installs two kernels into the environment of the
interpreter that runs it. ``posenc-cpu`` starts this interpreter with ``POSENC_DEVICE=cpu``,
``posenc-gpu`` with ``POSENC_DEVICE=cuda``. Each notebook asks
:func:`posenc_tutorial.device` in its first cell, so on a machine without CUDA the GPU kernel stops
there with an error; it never runs on the CPU in silence.

The kernels are found by JupyterLab, Jupyter Notebook, nbclient and nbval of the same environment.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

#: Kernel name -> (name shown in Jupyter, value of ``POSENC_DEVICE``).
KERNELS: dict[str, tuple[str, str]] = {
    "posenc-cpu": ("Where Tokens Are (CPU)", "cpu"),
    "posenc-gpu": ("Where Tokens Are (GPU)", "cuda"),
}


def kernel_spec(name: str) -> dict[str, object]:
    """The content of ``kernel.json`` for one kernel.

    Args:
        name: ``"posenc-cpu"`` or ``"posenc-gpu"``.

    Returns:
        A dictionary that Jupyter reads: the command line, the shown name, the environment.

    Raises:
        ValueError: the name is not one of :data:`KERNELS`.
    """
    if name not in KERNELS:
        raise ValueError(f"unknown kernel {name!r}, expected one of {', '.join(KERNELS)}")
    display_name, device = KERNELS[name]
    return {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": display_name,
        "language": "python",
        "env": {"POSENC_DEVICE": device},
        "metadata": {"debugger": True},
    }


def install(prefix: str | Path | None = None) -> list[Path]:
    """Write both kernels below a prefix, replacing older ones of the same name.

    Args:
        prefix: the root of an environment; ``None`` means that of this interpreter
            (``sys.prefix``).

    Returns:
        The two folders, ``<prefix>/share/jupyter/kernels/<name>``.

    Raises:
        ModuleNotFoundError: ipykernel is not installed for this interpreter, so that the kernels
            could not start.
        OSError: a folder that cannot be made or written to.
        ValueError: an empty prefix, which would be the working directory.
    """
    if prefix == "":
        raise ValueError("prefix must be the root of an environment, got an empty text")
    if importlib.util.find_spec("ipykernel") is None:
        raise ModuleNotFoundError(
            f"ipykernel is not installed for {sys.executable}, and both kernels start it; "
            f"install it with: {sys.executable} -m pip install ipykernel",
            name="ipykernel",
        )
    root = Path(sys.prefix if prefix is None else prefix) / "share" / "jupyter" / "kernels"
    folders = []
    for name in KERNELS:
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(kernel_spec(name), indent=1) + "\n"
        (folder / "kernel.json").write_text(text, encoding="utf-8")
        folders.append(folder)
    return folders


def main(arguments: list[str] | None = None) -> int:
    """Install both kernels and print where they are; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m posenc_tutorial.jupyter_kernels",
        description="Install the Jupyter kernels posenc-cpu and posenc-gpu.",
    )
    parser.add_argument("--prefix", help="root of an environment (default: this interpreter's)")
    options = parser.parse_args(arguments)
    try:
        folders = install(options.prefix)
    except (ModuleNotFoundError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for folder in folders:
        print(f"installed {folder.name} in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
