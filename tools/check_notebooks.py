"""What can be said of a stored notebook without running it.

``check_notebook`` returns findings, one line each; ``make test`` fails when there is one. The
prose rules live in ``tools/check_prose.py``.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from nbformat import NotebookNode

from tools import check_prose
from tools.notebooks import KERNELSPEC, cell_ids, chapters, normalise, read, shown, text_of

# One cell with output in ten may leave its output uncompared.
QUOTA = 10

IGNORE_TAG = "nbval-ignore-output"
# Tags and comments with which nbval does not run a cell or lets it fail: never allowed.
FORBIDDEN_TAGS = ("nbval-skip", "nbval-raises-exception", "raises-exception")
IGNORE_COMMENTS = ("NBVAL_IGNORE_OUTPUT", "PYTEST_VALIDATE_IGNORE_OUTPUT")
FORBIDDEN_COMMENTS = ("NBVAL_SKIP", "NBVAL_RAISES_EXCEPTION")

FILE_NAME = re.compile(r"\.(png|svg|jpe?g|gif|webp|pdf|ipynb)\b|^\S*[/\\]\S*$", re.IGNORECASE)
MINIMAL_ALT_WORDS = 5

# An absolute path with two parts, a Windows drive, a file: address; hosts and messages of pip.
MACHINE_PATH = re.compile(
    r"""(?:^|[\s"'(=:])(/[A-Za-z_][\w.+-]*/[\w.+-]+)|\b([A-Za-z]:\\\w+)|(file:/\S*)|(site-packages)""",
    re.MULTILINE,
)
REGISTRY = re.compile(
    r"https?://\S*(?:pypi|pythonhosted|conda|/simple/?\b|/whl\b)\S*|Looking in indexes", re.I
)


def check_notebook(path: Path) -> list[str]:
    """All findings about one notebook, each with its name and the number of the cell."""
    notebook = read(path)
    findings = [*_form(notebook, path), *_code(notebook), *_figures(notebook), *_ignored(notebook)]
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            findings += [f"cell {index}: {text}" for text in check_prose.check(cell.source)]
    return [f"{shown(path)}: {finding}" for finding in findings]


def check_all(paths: Sequence[Path]) -> list[str]:
    """Findings about each notebook and about all of them together."""
    findings = [finding for path in paths for finding in check_notebook(path)]
    owner: dict[str, Path] = {}
    for path in paths:
        for name in figure_names(read(path)):
            if owner.setdefault(name, path) != path:
                where = f"{shown(path)} and {shown(owner[name])}"
                findings.append(f"{where}: two figures have the name {name!r}")
    return findings


def figure_names(notebook: NotebookNode) -> list[str]:
    """The ``mystnb.figure.name`` of every cell that has one."""
    figures = [_mystnb(cell, "figure") for cell in notebook.cells]
    return [figure["name"] for figure in figures if figure.get("name")]


def ignored_cells(notebook: NotebookNode) -> list[int]:
    """Indices of the cells whose output nbval does not compare."""
    return [
        index
        for index, cell in enumerate(notebook.cells)
        if IGNORE_TAG in _tags(cell) or _has_comment(cell, IGNORE_COMMENTS)
    ]


def is_explorer(output: NotebookNode) -> bool:
    """Whether an output is an explorer: it says in words what it shows, and has no caption."""
    return 'class="posenc-explorer"' in output.get("data", {}).get("text/html", "")


def quota_line(path: Path) -> str:
    """How much of its quota a notebook uses, and for which cells."""
    notebook = read(path)
    with_output = sum(bool(cell.get("outputs")) for cell in notebook.cells)
    ignored = ignored_cells(notebook)
    cells = f" (cells {', '.join(map(str, ignored))})" if ignored else ""
    return f"{shown(path)}: {len(ignored)} of {with_output} outputs not compared{cells}"


def _form(notebook: NotebookNode, path: Path) -> Iterator[str]:
    name = notebook.metadata.get("kernelspec", {}).get("name")
    if name != KERNELSPEC["name"]:
        yield f"the kernelspec is {name!r}, it must be 'python3', which every machine has"
    code = _code_cells(notebook)
    unexecuted = [index for index, cell in code if cell.execution_count is None]
    if unexecuted:
        yield f"cells {unexecuted} were not executed (make refresh)"
    counts = [cell.execution_count for _, cell in code]
    if not unexecuted and counts != list(range(1, len(counts) + 1)):
        yield f"execution counts are {counts}, not 1 to {len(counts)} in order (make refresh)"
    ids = [cell.get("id") for cell in notebook.cells]
    wrong = [
        i
        for i, pair in enumerate(zip(ids, cell_ids(notebook.cells), strict=True))
        if pair[0] != pair[1]
    ]
    if wrong:
        yield f"cells {wrong} have ids that do not follow from their content (make refresh)"
    if not (unexecuted or wrong) and text_of(normalise(notebook)) != path.read_text("utf-8"):
        yield "the file is not in the form that make refresh writes (make refresh)"


def _code(notebook: NotebookNode) -> Iterator[str]:
    code = _code_cells(notebook)
    if not code:
        yield "there is no code cell"
        return
    if not _calls_device(code[0][1].source):
        yield f"cell {code[0][0]}: the first code cell does not call device()"
    for index, cell in code:
        if cell.source.rstrip().endswith(";"):
            yield f"cell {index}: ends in ';', which hides an output here and shows it in nbval"
        for tag in sorted(set(_tags(cell)) & set(FORBIDDEN_TAGS)):
            yield f"cell {index}: the tag {tag} is not allowed"
        if _has_comment(cell, FORBIDDEN_COMMENTS):
            yield f"cell {index}: {' and '.join(FORBIDDEN_COMMENTS)} are not allowed"
        for output in cell.outputs:
            if output.output_type == "error":
                yield f"cell {index}: the stored output is an error, {output.ename}"
            if output.output_type == "stream" and output.name == "stderr":
                yield f"cell {index}: the stored output has a stderr stream"
            for text in _texts(output):
                for found in MACHINE_PATH.finditer(text):
                    yield f"cell {index}: the output names a place of one machine: {found[0]!r}"
                for found in REGISTRY.finditer(text):
                    yield f"cell {index}: the output names a package registry: {found[0]!r}"


def _figures(notebook: NotebookNode) -> Iterator[str]:
    seen: set[str] = set()
    for name in figure_names(notebook):
        if name in seen:
            yield f"two figures have the name {name!r}"
        seen.add(name)
    for index, cell in _code_cells(notebook):
        pictures = [o for o in cell.outputs if "image/png" in o.get("data", {})]
        explorers = [o for o in pictures if is_explorer(o)]
        for output in explorers:
            alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
            if len(alt.split()) < MINIMAL_ALT_WORDS:
                yield f"cell {index}: the explorer's still picture has no alt text: {alt!r}"
        if len(pictures) == len(explorers):
            continue
        figure, alt = _mystnb(cell, "figure"), str(_mystnb(cell, "image").get("alt", "")).strip()
        for key in ("caption", "name"):
            if not str(figure.get(key, "")).strip():
                yield f"cell {index}: the figure has no mystnb.figure.{key}"
        if not alt:
            yield f"cell {index}: the figure has no alt text (mystnb.image.alt)"
        elif FILE_NAME.search(alt):
            yield f"cell {index}: the alt text looks like a file name: {alt!r}"
        elif len(alt.split()) < MINIMAL_ALT_WORDS:
            yield f"cell {index}: the alt text says too little of what one sees: {alt!r}"
        elif alt == str(figure.get("caption", "")).strip():
            yield f"cell {index}: the alt text repeats the caption; say what one sees"
        printed = " ".join(
            text
            for output in cell.outputs
            if "image/png" not in output.get("data", {})
            for text in _texts(output)
        )
        if not re.search(r"\d", printed):
            yield f"cell {index}: the figure cell prints no number that its picture must show"


def _ignored(notebook: NotebookNode) -> Iterator[str]:
    ignored = ignored_cells(notebook)
    with_output = sum(bool(cell.get("outputs")) for cell in notebook.cells)
    if len(ignored) * QUOTA > with_output:
        yield (
            f"cells {ignored} leave their output uncompared: {len(ignored)} of {with_output} "
            f"outputs, and at most one in {QUOTA} may"
        )
    code = _code_cells(notebook)
    order = [index for index, _ in code]
    for index in ignored:
        following = order.index(index) + 1 if index in order else len(code)
        if following >= len(code) or not _has_assert(code[following][1].source):
            yield f"cell {index}: its output is not compared and the next code cell asserts nothing"


def _code_cells(notebook: NotebookNode) -> list[tuple[int, NotebookNode]]:
    return [(index, cell) for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]


def _tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def _mystnb(cell: NotebookNode, key: str) -> dict[str, str]:
    return dict(cell.metadata.get("mystnb", {}).get(key) or {})


def _has_comment(cell: NotebookNode, words: Sequence[str]) -> bool:
    lines = cell.source.splitlines() if cell.cell_type == "code" else []
    return any(line.strip().startswith("#") and line.strip(" #") in words for line in lines)


def _texts(output: NotebookNode) -> Iterator[str]:
    if output.output_type == "stream":
        yield output.text
    for kind, content in output.get("data", {}).items():
        if kind.startswith("text/") and isinstance(content, str):
            yield content


def _tree(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except SyntaxError:  # a magic command
        return None


def _calls_device(source: str) -> bool:
    tree = _tree(source)
    if tree is None:
        return re.search(r"\bdevice\(\)", source) is not None
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(
        (isinstance(call, ast.Name) and call.id == "device")
        or (isinstance(call, ast.Attribute) and call.attr == "device")
        for call in calls
    )


def _has_assert(source: str) -> bool:
    tree = _tree(source)
    if tree is None:
        return re.search(r"^\s*assert\b", source, re.MULTILINE) is not None
    return any(isinstance(node, ast.Assert) for node in ast.walk(tree))


def main(arguments: list[str] | None = None) -> int:
    """Print all findings; 1 when there is one."""
    parser = argparse.ArgumentParser(prog="python -m tools.check_notebooks", description=__doc__)
    parser.add_argument("notebooks", nargs="*", help="default: all in book/")
    paths = chapters(parser.parse_args(arguments).notebooks)
    for path in paths:
        print(quota_line(path))
    findings = check_all(paths)
    for finding in findings:
        print(finding)
    print(f"{len(paths)} notebooks, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
