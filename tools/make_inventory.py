"""Write the small intersphinx inventories in ``book/inv``.

Intersphinx normally downloads each project's whole inventory (megabytes) while the book is
built. The book links to a handful of names, so those are listed here and written in the same
format (Sphinx inventory version 2): four header lines, then zlib-compressed lines
``name domain:role priority uri display-name``. In a uri, ``$`` stands for the name; as display
name, ``-`` means "the same".

Run ``python tools/make_inventory.py`` after changing the table; a test checks that the files
and the table agree.
"""

from __future__ import annotations

import zlib
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "book" / "inv"

_ATTRIBUTE = "tensor_attributes.html#$"
_GENERATED = "generated/$.html#$"
_NUMPY = "reference/generated/$.html#$"
_AXES = "api/_as_gen/$.html#$"

# project -> (name, role, uri)
NAMES: dict[str, list[tuple[str, str, str]]] = {
    "python": [
        ("collections.Counter", "class", "library/collections.html#$"),
        ("collections.abc.Callable", "class", "library/collections.abc.html#$"),
        ("collections.abc.Iterable", "class", "library/collections.abc.html#$"),
        ("collections.abc.Iterator", "class", "library/collections.abc.html#$"),
        ("collections.abc.Mapping", "class", "library/collections.abc.html#$"),
        ("collections.abc.Sequence", "class", "library/collections.abc.html#$"),
        ("contextlib.AbstractContextManager", "class", "library/contextlib.html#$"),
        ("os.PathLike", "class", "library/os.html#$"),
        ("pathlib.Path", "class", "library/pathlib.html#$"),
        ("typing.Any", "data", "library/typing.html#$"),
        ("typing.Literal", "data", "library/typing.html#$"),
        ("typing.NamedTuple", "class", "library/typing.html#$"),
        ("FileNotFoundError", "exception", "library/exceptions.html#$"),
        ("ImportError", "exception", "library/exceptions.html#$"),
        ("IndexError", "exception", "library/exceptions.html#$"),
        ("KeyError", "exception", "library/exceptions.html#$"),
        ("ModuleNotFoundError", "exception", "library/exceptions.html#$"),
        ("RuntimeError", "exception", "library/exceptions.html#$"),
        ("TypeError", "exception", "library/exceptions.html#$"),
        ("ValueError", "exception", "library/exceptions.html#$"),
    ],
    "torch": [
        ("torch.Tensor", "class", "tensors.html#$"),
        ("torch.Generator", "class", _GENERATED),
        ("torch.device", "class", _ATTRIBUTE),
        ("torch.dtype", "class", _ATTRIBUTE),
        ("torch.distributed.ProcessGroup", "class", "distributed.html#$"),
        ("torch.nn.Module", "class", _GENERATED),
        ("torch.nn.Embedding", "class", _GENERATED),
        ("torch.nn.Linear", "class", _GENERATED),
        ("torch.nn.functional.interpolate", "function", _GENERATED),
        ("torch.nn.functional.scaled_dot_product_attention", "function", _GENERATED),
        ("torch.nn.Parameter", "class", "generated/torch.nn.parameter.Parameter.html"),
        ("torch.nn.parameter.Parameter", "class", _GENERATED),
    ],
    "numpy": [
        ("numpy.ndarray", "class", _NUMPY),
        ("numpy.typing.ArrayLike", "data", "reference/typing.html#$"),
        ("numpy.typing.NDArray", "data", "reference/typing.html#$"),
    ],
    "matplotlib": [
        ("matplotlib.axes.Axes", "class", _AXES),
        ("matplotlib.figure.Figure", "class", _AXES),
        ("matplotlib.pyplot.subplots", "function", _AXES),
    ],
}


def inventory(project: str) -> bytes:
    """The inventory of one project, as the bytes of a version 2 file."""
    header = (
        "# Sphinx inventory version 2\n"
        f"# Project: {project}\n"
        "# Version: \n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    lines = (f"{name} py:{role} 1 {uri} -\n" for name, role, uri in NAMES[project])
    return header.encode() + zlib.compress("".join(lines).encode(), 9)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for project in NAMES:
        path = FOLDER / f"{project}.inv"
        path.write_bytes(inventory(project))
        print(f"{path.relative_to(FOLDER.parent.parent)}: {len(NAMES[project])} names")


if __name__ == "__main__":
    main()
