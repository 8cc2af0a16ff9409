"""The pages at the back that are made of measurements: claims, comparison, how the book is tested.

Nothing on them is typed. What the notebooks have stored, and what experiments and test runs have
written, becomes Markdown, which takes its place in a page before the page is read. The functions
that make the Markdown come first and are tested in ``tests/test_back_pages.py``.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx

from tools.notebooks import BOOK, ROOT, printed

PACKAGE = ROOT / "posenc_tutorial"
NOT_MEASURED = "not measured"


def load(path: Path) -> ModuleType:
    """A module of the package by its file: rendering installs no torch, which the root imports."""
    name = f"back_pages_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


verdicts = load(PACKAGE / "claims" / "__init__.py")
catalogue = load(PACKAGE / "claims" / "catalogue.py")


def escaped(text: str) -> str:
    """Printed text as Markdown that shows it as it was printed."""
    return re.sub(r"([\\`*_{}\[\]<>$|~#])", r"\\\1", text)


def chapters(book: Path = BOOK) -> list[Path]:
    """The notebooks of the chapters, in order."""
    return sorted(book.glob("[0-9][0-9]-*.ipynb"))


def number_of(page: str) -> int:
    """Number of a chapter: ``"04-limits-of-absolute"`` is 4."""
    return int(page[:2])


def table(head: Sequence[str], rows: Iterable[Sequence[str]], name: str) -> str:
    """A table whose first column names its rows; wide ones scroll in a box of their own."""
    lines = [":::{list-table}", ":header-rows: 1", ":stub-columns: 1", f":class: {name}", ""]
    for row in [head, *rows]:
        lines += [f"{'* ' if at == 0 else '  '}- {cell}" for at, cell in enumerate(row)]
    return "\n".join([*lines, ":::", ""])


# ------------------------------------------------------------------- claims, checked


STYLES = dict(zip(verdicts.KINDS, ("holds", "condition", "fails"), strict=True))  # back.css


class Decided(NamedTuple):
    """A cell that decides a claim, as it is stored.

    Attributes:
        page: ``"04-limits-of-absolute"``.
        verdict: a ``posenc_tutorial.claims.Verdict``.
        label: where a link to it leads: ``claim-8`` in the chapter that treats the claim, and the
            cell itself in others, ``claim-8-09``.
    """

    page: str
    verdict: Any
    label: str


def cell_label(claim: int, page: str) -> str:
    """The label that :func:`on_doctree` puts on the cell of a claim."""
    return f"claim-{claim}-{page[:2]}"


def decided(notebooks: Iterable[Path]) -> list[Decided]:
    """The verdicts that notebooks have stored: outputs of cells with the tag ``claim``."""
    found = []
    for path in notebooks:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        words = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        for cell in cells:
            if "claim" not in cell["metadata"].get("tags", []):
                continue
            for verdict in verdicts.read_verdicts(printed(cell)):
                label = f"claim-{verdict.claim}"
                if not re.search(rf"^\({label}\)=$", words, re.MULTILINE):
                    label = cell_label(verdict.claim, path.stem)
                found.append(Decided(path.stem, verdict, label))
    return found


def kinds(cells: Iterable[Decided]) -> dict[int, str]:
    """What each claim comes to; the least favourable of several verdicts."""
    found: dict[int, str] = {}
    for _, verdict, _ in cells:
        ranks = [verdicts.KINDS.index(k) for k in (verdict.kind, found.get(verdict.claim)) if k]
        found[verdict.claim] = verdicts.KINDS[max(ranks)]
    return found


def claims_summary(claims: Sequence[Any], cells: Sequence[Decided]) -> str:
    """How many claims hold, hold with a condition, and do not hold; and which."""
    found = kinds(cells)
    lines = [f"Of {len(claims)} claims:", ""]
    for kind, one, more in (
        (verdicts.KINDS[0], "holds", "hold"),
        (verdicts.KINDS[1], "holds with a condition", "hold with a condition"),
        (verdicts.KINDS[2], "does not hold", "do not hold"),
        (None, "is not measured yet", "are not measured yet"),
    ):
        numbers = [c.number for c in claims if found.get(c.number) == kind]
        if numbers:
            links = ", ".join(f"{{ref}}`{n} <checked-{n}>`" for n in numbers)
            words = one if len(numbers) == 1 else more
            lines.append(f"- **{len(numbers)} {words}**: {links}")
    return "\n".join([*lines, ""])


def claims_list(claims: Sequence[Any], cells: Sequence[Decided]) -> str:
    """Every claim as a section: who says so, each verdict with its numbers, a link to the cell."""
    lines = []
    for claim in claims:
        sources = " and ".join(f"{{ref}}`[{source}] <sources>`" for source in claim.sources)
        lines += [f"(checked-{claim.number})=", f"### {claim.number}. {claim.text}", ""]
        lines += [f"Said by {sources}.", ""]
        own = [cell for cell in cells if cell.verdict.claim == claim.number]
        for page, verdict, label in own:
            said, numbers = escaped(verdict.verdict), escaped(verdict.evidence)
            lines += [
                f":::{{container}} verdict verdict-{STYLES[verdict.kind]}",
                "",
                f"**{said[0].upper() + said[1:]}.**",
                f"{numbers[0].upper() + numbers[1:]}.",
                f"See {{ref}}`chapter {number_of(page)} <{label}>`.",
                "",
                ":::",
                "",
            ]
        if not own:
            lines += [":::{container} verdict", "", "**Not measured yet.**"]
            lines += ["No cell of the book has decided this claim.", "", ":::", ""]
    return "\n".join(lines)


# ------------------------------------------------------------------- comparison


class Method(NamedTuple):
    """A row of the comparison.

    Attributes:
        name: as the book calls it.
        page: the chapter that teaches it.
        door: ``"1"``, ``"2"``, ``"3"`` or ``"none"``.
        trained: its key in the tables of trained models, or "".
        stretch: its key in the table of RoPE stretched, or "".
        cost: what it adds to a layer; ``{rotation}`` is the measured share of a rotation.
        cache: what becomes of keys that are kept while a text grows.
        users: kind in the census, or what its setting is called in a published configuration.
    """

    name: str
    page: str
    door: str
    trained: str
    stretch: str
    cost: str
    cache: str
    users: str


_COUNTED, _SCORED = "nothing in a layer", "a number added to each score"
_TURNED = "turned keys stay"
METHODS = (
    Method("NoPE", "01-why-positions", "none", "nope", "", "nothing", "keys stay", "census none"),
    Method(
        "learned table",
        "02-learned",
        "1",
        "learned",
        "",
        _COUNTED,
        "keys stay, moving one is impossible",
        "census table",
    ),
    Method(
        "sinusoidal",
        "03-sinusoidal",
        "1",
        "sinusoidal",
        "",
        _COUNTED,
        "keys stay, moving one is impossible",
        "census table",
    ),
    Method(
        "Shaw",
        "05-relative-bias",
        "2",
        "",
        "",
        "a product with the query for each score",
        "keys stay, can be moved",
        "",
    ),
    Method(
        "T5",
        "05-relative-bias",
        "2",
        "t5",
        "",
        _SCORED,
        "keys stay, can be moved",
        "census buckets",
    ),
    Method(
        "ALiBi", "08-alibi", "2", "alibi", "", _SCORED, "keys stay, can be moved", "census slope"
    ),
    Method(
        "RoPE",
        "06-rope",
        "3",
        "rope",
        "",
        "{rotation}",
        "turned keys stay, moving one is a turn",
        "census rotary",
    ),
    Method(
        "RoPE, base 500,000",
        "09-train-short-test-long",
        "3",
        "rope500000",
        "",
        "as RoPE",
        _TURNED,
        "base 500000",
    ),
    Method(
        "PI",
        "10-extending-context",
        "3",
        "",
        "position_interpolation",
        "as RoPE",
        _TURNED,
        "type linear",
    ),
    Method(
        "NTK-aware",
        "10-extending-context",
        "3",
        "",
        "ntk_aware",
        "as RoPE",
        _TURNED,
        "",
    ),
    Method(
        "dynamic NTK",
        "10-extending-context",
        "3",
        "",
        "dynamic_ntk",
        "as RoPE, and new angles as the text grows",
        "turned keys go stale: keep them unturned",
        "type dynamic",
    ),
    Method("YaRN", "10-extending-context", "3", "", "yarn_1_32", "as RoPE", _TURNED, "type yarn"),
    Method("llama3", "10-extending-context", "3", "", "llama3", "as RoPE", _TURNED, "type llama3"),
    Method(
        "longrope",
        "10-extending-context",
        "3",
        "",
        "longrope",
        "as RoPE",
        "turned keys go stale once, at the trained length",
        "type longrope",
    ),
)
LENGTHS = (64, 128, 256, 512, 1024)
QUOTES = "09-train-short-test-long"  # the chapter whose cell measures what is remembered
QUOTE_NAMES = {"learned table": "learned", "RoPE, base 500,000": "RoPE 500,000"}


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def mean_and_spread(row: Mapping[str, str] | None, digits: int = 2) -> str:
    """``"1.52 ± 0.02"`` that does not break, or "not measured"."""
    if row is None:
        return NOT_MEASURED
    return f"{float(row['mean']):.{digits}f}\u202f±\u202f{float(row['std']):.{digits}f}"


class Experiments:
    """The files of the experiments that the comparison is made of.

    Args:
        package: folder of the package, with the tables of results.
        book: folder of the chapters.
    """

    def __init__(self, package: Path = PACKAGE, book: Path = BOOK) -> None:
        results = package / "lm" / "results"
        self.facts = json.loads((results / "length.json").read_text(encoding="utf-8"))
        self.length = {
            (row["encoding"], int(row["length"])): row
            for row in read_rows(results / "length_mean.csv")
        }
        self.stretched = {
            (row["method"], float(row["factor"]), int(row["length"])): row
            for row in read_rows(results / "extension_mean.csv")
        }
        self.parameters: dict[str, int] = {}
        for row in read_rows(results / "runs.csv"):  # one for each seed
            size = self.parameters.setdefault(row["encoding"], int(row["parameters"]))
            if size != int(row["parameters"]):
                raise ValueError(f"runs of {row['encoding']} have {size} and {row['parameters']}")
        passkey = results / "passkey_mean.csv"
        self.passkey = {
            (row["encoding"], int(row["length"]), int(row["distance"])): row
            for row in (read_rows(passkey) if passkey.is_file() else [])
        }
        self.layers = [
            row
            for row in read_rows(package / "kernels" / "measured.csv")
            if row["part"] == "share of a layer"
        ]
        self.census = load(package / "published_configs" / "census.py")
        self.folders = read_rows(package / "published_configs" / "census.csv")
        self.published = load(package / "published_configs" / "__init__.py").PUBLISHED
        self.quotes = remembered(book / f"{QUOTES}.ipynb")

    @property
    def trained(self) -> int:
        """The length that the models were trained on."""
        return self.facts["settings"]["length"]

    def losses(self, method: Method) -> list[str]:
        """At each length. A stretched RoPE has the factor that the length needs, and 4 at 64."""
        if method.trained:
            return [mean_and_spread(self.length.get((method.trained, n))) for n in LENGTHS]
        factors = [4.0 if n == self.trained else n / self.trained for n in LENGTHS]
        keys = [(method.stretch, s, n) for s, n in zip(factors, LENGTHS, strict=True)]
        return [mean_and_spread(self.stretched.get(key)) for key in keys]

    def own_parameters(self, method: Method) -> str:
        """How many numbers the encoding itself adds to the small model."""
        if method.trained:
            return f"{self.parameters[method.trained] - self.parameters['nope']:,}"
        return "0" if method.door == "3" else NOT_MEASURED

    def rotation(self) -> str:
        """What a rotation adds to the time of a layer, fast kernel and plain code."""
        longest = max(int(row["n"]) for row in self.layers)
        own = {row["what"]: float(row["milliseconds"]) for row in self.layers}
        own |= {
            row["what"]: float(row["milliseconds"])
            for row in self.layers
            if int(row["n"]) == longest
        }
        none = own["layer, no rotation"]
        more = [100 * (own[f"layer, rotation {how}"] / none - 1) for how in ("auto", "eager")]
        return f"{more[0]:+.0f} to {more[1]:+.0f} % of a layer's time at {longest:,} tokens"

    def numbers_found(self, method: Method) -> str:
        """Share of the digits of a hidden number, inside and beyond the trained length."""
        found = []
        for length, distance in ((64, 48), (256, 200)):
            row = self.passkey.get((method.trained, length, distance))
            found.append(mean_and_spread(row))
        return found[0] if found[0] == found[1] else ", ".join(found)

    def users(self, method: Method) -> str:
        """Who uses it, as far as the book has counted."""
        source, _, what = method.users.partition(" ")
        if source == "census":
            own = [row for row in self.folders if row["kind"] == what]
            recent = [row for row in self.folders if row["year"] >= "2024"]
            since = sum(row["year"] >= "2024" for row in own)
            names = f" ({', '.join(row['folder'] for row in own)})" if len(own) <= 3 else ""
            return (
                f"{len(own)} of {len(self.folders)} folders{names}; "
                f"since 2024, {since} of {len(recent)}"
            )
        if not source:
            return "not counted"
        own = [model.label for model in self.published if uses(model.load(), source, what)]
        names = f": {', '.join(own)}" if 1 <= len(own) <= 3 else ""
        return f"{len(own)} of {len(self.published)} configurations{names}"


def remembered(notebook: Path) -> dict[str, str]:
    """How far back each model still knows an opening quote, as chapter 9 has stored it.

    Raises:
        ValueError: no cell says so.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    line = r"^(\S.*?) +more than [\d.]+ nats up to +(\d+) bytes back$"
    for cell in cells:
        found = re.findall(line, printed(cell), re.MULTILINE)
        if found:
            return dict(found)
    raise ValueError(f"no cell of {notebook.name} says how far back a quote is remembered")


def uses(config: Mapping[str, Any], what: str, value: str) -> bool:
    """Whether a published configuration has a type of scaling, or a base at least that large."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if what == "type":
        return value == (scaling.get("rope_type") or scaling.get("type"))
    base = config.get("rope_theta") or scaling.get("rope_theta") or 0
    return base >= float(value)


def comparison(found: Experiments) -> str:
    """How the numbers were made, and the table of all methods."""
    facts, settings = found.facts, found.facts["settings"]
    versions = facts["versions"]
    head = ["method", "door", "own parameters"]
    head += [
        f"loss at {n:,} ({'trained' if n == found.trained else f'{n // found.trained}×'})"
        for n in LENGTHS
    ]
    head += ["remembers a quote, bytes"]
    head += ["finds a number"] if found.passkey else []
    head += ["cost", "cache", "used by"]
    rows = []
    for method in METHODS:
        row = [f"{{doc}}`{method.name} <{method.page}>`", method.door]
        row += [found.own_parameters(method), *found.losses(method)]
        quote = QUOTE_NAMES.get(method.name, method.name)
        row += [found.quotes.get(quote, NOT_MEASURED)]
        row += [found.numbers_found(method)] if found.passkey else []
        row += [method.cost.format(rotation=found.rotation()), method.cache, found.users(method)]
        rows.append(row)
    made = (
        f"One model ({settings['num_layers']} layers, width {settings['dim']}, "
        f"{settings['num_heads']} heads), trained for {settings['steps']} steps on texts of "
        f"{settings['length']} bytes, once for each of {len(facts['seeds'])} seeds.\n"
        f"Losses are in nats per byte, over the same "
        f"{facts['evaluation']['target_bytes']:,} held-out bytes at every length: the mean over "
        "the seeds ± their standard deviation.\n"
        f"Made by `{facts['command']}` and `sweep extension`, with Python {versions['python']} "
        f"and torch {versions['torch']}.\n"
    )
    return f"{made}\n{table(head, rows, 'comparison')}"


# ------------------------------------------------------------------- how this book is tested


def minutes(seconds: float) -> str:
    """``"48 s"`` or ``"12 min 5 s"``, on one line."""
    whole = round(seconds)
    words = f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
    return words.replace(" ", "\u00a0")


def record_of_tests(record: Mapping[str, Any], pages: Sequence[str]) -> str:
    """What a run of ``make test`` has written down, as prose and two tables.

    Args:
        record: ``book/tested.json``, which ``python -m tools.tested`` writes.
        pages: the chapters; one that the run left out is named.
    """
    machine = record["machine"]
    extent = "all of it" if record["complete"] else "a part of it"
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    lines = [
        f"The run of {record['date']} ({extent}), version {record['version']} of the package.",
        f"Machine: {machine['system']}, {machine['architecture']}, {machine['cores']} cores.",
        f"Versions: {versions}.",
        "",
    ]
    rows = []
    for name, step in record["steps"].items():
        tests = "–"
        if "tests" in step:
            tests = f"{step['tests'] - step['skipped']:,} passed"
            tests += f", {step['skipped']:,} skipped" if step["skipped"] else ""
        result = "passed" if step["passed"] else "failed"
        rows.append([f"`{name}`", step["title"], result, tests, minutes(step["seconds"])])
    lines += [table(["step", "what", "result", "tests", "time"], rows, "test-steps")]
    rows = []
    for page in pages:
        own = [run for run in record["notebooks"] if run["name"] == page]
        for run in own:
            result = "passed" if run["passed"] else "failed"
            row = [f"{{doc}}`{page}`", result, minutes(run["seconds"]), f"`{run['kernel']}`"]
            rows.append([*row, run["device"], f"{run['cells']:,}", str(run["pictures"])])
        if not own:
            rows.append([f"{{doc}}`{page}`", "not in this run", *["–"] * 5])
    head = ["chapter", "result", "time", "kernel", "device", "cells", "pictures"]
    lines += [table(head, rows, "test-notebooks")]
    return "\n".join(lines)


# ------------------------------------------------------------------- Sphinx events


def _experiments() -> list[Path]:
    found = [*(PACKAGE / "lm" / "results").glob("*"), *(PACKAGE / "published_configs").glob("*.*")]
    return [*found, PACKAGE / "kernels" / "measured.csv", BOOK / f"{QUOTES}.ipynb"]


def _record() -> str:
    record = json.loads((BOOK / "tested.json").read_text(encoding="utf-8"))
    return record_of_tests(record, [path.stem for path in chapters()])


# What stands in a page as an empty directive -> the files it is made of, and the Markdown.
GENERATED: dict[str, tuple[Callable[[], list[Path]], Callable[[], str]]] = {
    "claims-summary": (chapters, lambda: claims_summary(catalogue.CLAIMS, decided(chapters()))),
    "claims-list": (chapters, lambda: claims_list(catalogue.CLAIMS, decided(chapters()))),
    "comparison": (_experiments, lambda: comparison(Experiments())),
    "test-record": (lambda: [BOOK / "tested.json"], _record),
}
PLACE = re.compile(rf"^:::\{{({'|'.join(GENERATED)})\}}\n\n:::$", re.MULTILINE)


def on_source(app: Sphinx, page: str, source: list[str]) -> None:
    """Put the computed Markdown in its places, before the page is read.

    A place that is not filled, because its name is misspelt, is an unknown directive: an error.
    """
    for name in PLACE.findall(source[0]):
        for path in GENERATED[name][0]():
            app.env.note_dependency(str(path))
    source[0] = PLACE.sub(lambda found: GENERATED[found[1]][1](), source[0])


def on_doctree(app: Sphinx, doctree: nodes.document) -> None:
    """Put a label on every cell that decides a claim, so that other pages can lead to it."""
    page = app.env.docname
    labels = app.env.get_domain("std").anonlabels
    for cell in doctree.findall(nodes.container):
        if "tag_claim" in cell.get("classes", []):
            for verdict in verdicts.read_verdicts(cell.astext()):
                label = cell_label(verdict.claim, page)
                cell["ids"].append(label)
                labels[label] = (page, label)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", on_source)
    app.connect("doctree-read", on_doctree)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
