"""How the language models in transformers place their tokens, counted by reading their code.

A list of models that somebody picked for a book about RoPE says nothing about how common RoPE is.
This count has a rule that leaves no choice: every folder of transformers that the mapping
``AutoModelForCausalLM`` leads to, sorted by what its attention calls, and dated by the year in the
copyright line of its file.

    python -m posenc_tutorial.published_configs.census            # what the table says
    python -m posenc_tutorial.published_configs.census --count    # counts anew; needs transformers

What the rule cannot see is said in :func:`count`.
"""

from __future__ import annotations

import argparse
import ast
import csv
import importlib.util
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).parent / "census.csv"
VERSION = "5.24.0"  # of transformers, which the table was made with
KINDS = ("rotary", "table", "buckets", "slope", "other", "none")

_CALLS = re.compile(r"^_?apply_.*(rotary|rope)|^apply_multimodal_rotary|apply_rotary")
_OTHER_PARTS = re.compile(r"Vision|Audio|Encoder(?!Decoder)|Speech|VQ|Image", re.I)
# Folders whose class only wraps another language model, which is counted where it lives.
_WRAPPERS = frozenset(
    "fuyu got_ocr2 gemma4_assistant gemma4_unified_assistant moss_transcribe_diarize".split()
)
# Where positions come from code that the words below do not find; looked up by hand.
_BY_HAND = {
    "ctrl": "table",  # sinusoids, computed once and added
    "xlm": "table",
    "openai": "table",
    "prophetnet": "buckets",
    "cpmant": "buckets",
    "xlnet": "other",  # relative terms in the score
    "reformer": "table",
    "inkling": "other",  # a learned bias by distance
    "inkling2": "other",
    "inkling2_loop": "other",
    "musicgen": "table",
    "musicgen_melody": "table",
    "xglm": "table",
    "zamba": "none",  # its variable of that name is a length
}


@dataclass(frozen=True)
class Row:
    """One folder of transformers.

    Attributes:
        folder: its name.
        year: in the copyright line of its file, or None where there is none.
        kind: ``"rotary"``, ``"table"`` (learned or sinusoidal, added to the input), ``"buckets"``
            (T5's), ``"slope"`` (ALiBi), ``"other"``, or ``"none"`` (a recurrence, or attention
            that is given no positions).
    """

    folder: str
    year: int | None
    kind: str


def read_census(path: Path = TABLE) -> list[Row]:
    """The committed table.

    Args:
        path: a CSV file with the columns folder, year, kind.

    Returns:
        Rows in the order of the file.

    Raises:
        ValueError: an unknown kind.
    """
    rows = []
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["kind"] not in KINDS:
                raise ValueError(f"kind must be one of {KINDS}, got {row['kind']!r}")
            rows.append(Row(row["folder"], int(row["year"]) if row["year"] else None, row["kind"]))
    return rows


def shares(rows: Iterable[Row]) -> dict[str, Counter]:
    """Kinds by year, years as text, ``"?"`` for files without one.

    Args:
        rows: of :func:`read_census`.

    Returns:
        Year to a counter of kinds, in the order of years.
    """
    table: dict[str, Counter] = {}
    for row in rows:
        table.setdefault("?" if row.year is None else str(row.year), Counter())[row.kind] += 1
    return dict(sorted(table.items()))


def count() -> list[Row]:
    """Read the code of the installed transformers.

    A folder counts as rotary if one of its classes, vision and audio parts aside, *calls* a
    function that applies a rotation. That the function is there is not enough: Jamba's file has
    it, and never calls it. What this cannot see: whether a configuration switches the call off,
    whether every layer makes it (some leave each fourth out), and whether anybody uses the model.
    The year is that of the copyright line: roughly when the file was written, not when the model
    came out. LLaMA's says 2022, after the file it was made from; the model is of 2023.

    Returns:
        One row for each folder, sorted by name.

    Raises:
        ModuleNotFoundError: transformers is not installed.
    """
    from transformers.models.auto.configuration_auto import model_type_to_module_name
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    spec = importlib.util.find_spec("transformers")
    models = Path(spec.submodule_search_locations[0]) / "models"
    folders = {model_type_to_module_name(name) for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
    rows = []
    for folder in sorted(folders - _WRAPPERS):
        files = sorted((models / folder).glob("modeling_*.py"))
        if files:  # a configuration without code uses the code of another folder
            source = files[0].read_text(encoding="utf-8")
            rows.append(Row(folder, _year(source), _kind(folder, source)))
    return rows


def _year(source: str) -> int | None:
    found = re.search(r"[Cc]opyright.{0,16}?(20\d\d)", source[:2000])
    return int(found.group(1)) if found else None


def _kind(folder: str, source: str) -> str:
    if folder in _BY_HAND:
        return _BY_HAND[folder]
    if _rotates(source):
        return "rotary"
    if "alibi" in source.lower():
        return "slope"
    if "relative_attention_bias" in source:
        return "buckets"
    if re.search(r"position_embeddings? = |wpe|embed_positions", source):
        return "table"
    return "none"


def _rotates(source: str) -> bool:
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and _OTHER_PARTS.search(node.name):
            continue
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call):
                    function = inner.func
                    name = getattr(function, "id", None) or getattr(function, "attr", "")
                    if _CALLS.search(name):
                        return True
    return False


def main(arguments: list[str] | None = None) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(
        prog="python -m posenc_tutorial.published_configs.census",
        description="Count how the language models in transformers place their tokens.",
    )
    parser.add_argument(
        "--count", action="store_true", help="count in the installed transformers; print CSV"
    )
    options = parser.parse_args(arguments)
    if options.count:
        print("folder,year,kind")
        for row in count():
            print(f"{row.folder},{'' if row.year is None else row.year},{row.kind}")
        return 0
    table = shares(read_census())
    print("year  " + "".join(f"{kind:>9s}" for kind in KINDS))
    for year, kinds in table.items():
        print(f"{year:5s} " + "".join(f"{kinds[kind]:9d}" for kind in KINDS))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
