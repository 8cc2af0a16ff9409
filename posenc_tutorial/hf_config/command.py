"""The command ``python -m posenc_tutorial.hf_config FILE``."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path

from .dialects import PROGRAMS, written_for
from .report import Report, report

_EPILOG = """\
FILE is a config.json or the folder that holds one. Exit status: 0, or 1 with --strict when there
is a warning, or 2 when the file cannot be used; what is wrong with it stands on stderr.

examples:
  python -m posenc_tutorial.hf_config config.json
  python -m posenc_tutorial.hf_config config.json --plot clocks.png
  python -m posenc_tutorial.hf_config config.json --layer-type full_attention
  python -m posenc_tutorial.hf_config config.json --for vllm
"""
ROWS = 16  # of the table, unless all pairs are asked for


def main(arguments: list[str] | None = None) -> int:
    """Print a table of one configuration, and warnings; see ``--help``.

    Args:
        arguments: of the command line; by default those the program was called with.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(
        prog="python -m posenc_tutorial.hf_config",
        description="Print what a published model's config.json means for its rotary positions.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--layer-type", help="for models with one set of parameters for each kind")
    parser.add_argument("--length", type=int, help="tokens in the text, for dynamic and longrope")
    parser.add_argument("--all", action="store_true", help="all pairs, not a selection")
    parser.add_argument("--plot", type=Path, metavar="IMAGE", help="draw the pairs into a file")
    parser.add_argument(
        "--for", dest="program", choices=PROGRAMS, help="write the settings for this program"
    )
    parser.add_argument("--strict", action="store_true", help="a warning is a failure")
    options = parser.parse_args(arguments)

    try:
        found = report(options.file, layer_type=options.layer_type, seq_len=options.length)
        settings = options.program and written_for(found.config, options.program)
    except (ValueError, OSError, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        if settings:
            print(settings)
        else:
            print(f"file              {options.file.name}")
            print("\n".join(summary(found)))
            print()
            print("\n".join(table(found, rows=None if options.all else ROWS)))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if options.plot is not None:
        try:
            _draw(found, options.plot)
        except (ValueError, OSError) as error:  # an unknown kind of image, a folder that is none
            print(f"error: --plot {options.plot}: {error}", file=sys.stderr)
            return 2
    for note in found.notes:
        print(f"warning: {note}", file=sys.stderr)
    return 1 if options.strict and found.notes else 0


def summary(found: Report) -> list[str]:
    """The lines above the table: rule, widths, lengths, attention factor, and counts of pairs."""
    config, pairs = found.config, len(found.plain)
    slowed = found.slowed
    most = float(slowed.max())
    alone = int((slowed <= 1.001).sum())
    fully = int((slowed >= 0.999 * most).sum()) if most > 1.001 else 0
    factor = config.block.get("factor")
    lines = [
        f"rope type         {config.rope_type}" + (f", factor {factor:g}" if factor else ""),
        f"base              {config.base:g}",
        f"head              {config.head_dim} channels, {config.rotary_dim} of them turn: "
        f"{pairs} pairs",
        f"trained on        {_tokens(found.trained)}",
    ]
    if found.extended is not None:
        implied = f", {found.extended / found.trained:g} times" if found.trained else ""
        lines.append(f"meant for         {_tokens(found.extended)}{implied}")
    lines.append(
        f"attention factor  {found.parameters.attention_factor:.4f}, on cosine and sine; "
        f"{found.parameters.attention_factor**2:.4f} on the scores"
    )
    if most > 1.001:
        by = "stopped" if math.isinf(most) else f"slowed by {most:.4g}"
        lines.append(
            f"pairs             {alone} as trained, {pairs - alone - fully} between, {fully} {by}"
        )
    for name, length in (("trained", found.trained), ("extended", found.extended)):
        if length is not None:
            lines.append(
                f"no full turn      {pairs - found.turning(length)} of {pairs} pairs within the "
                f"{name} {length} tokens"
            )
    return lines


def table(found: Report, *, rows: int | None = ROWS) -> list[str]:
    """The table, one line for each pair that is shown.

    Args:
        found: the report.
        rows: about how many; first and last pair are always among them. None means all.

    Returns:
        Lines of at most 79 characters. The bar is the logarithm of the wavelength; ``|`` stands at
        the trained length and ``:`` at the extended one.
    """
    pairs = len(found.plain)
    shown = range(pairs)
    if rows is not None and pairs > rows:
        shown = sorted({round(i * (pairs - 1) / (rows - 1)) for i in range(rows)})
    marks = {"|": found.trained, ":": found.extended}
    finite = found.scaled[found.scaled.isfinite()].tolist()  # none if all pairs are at rest
    longest = max(2, *finite, *(length or 1 for length in marks.values()))
    columns = [f"turns in {length}" for length in marks.values() if length is not None]
    lines = ["pair  wavelength  slowed by  " + "  ".join(columns)]
    for i in shown:
        wave, slowed = float(found.scaled[i]), float(found.slowed[i])
        turns = [
            f"{_number(length / wave):>{len(column)}s}"
            for length, column in zip((n for n in marks.values() if n), columns, strict=True)
        ]
        cells = f"{i:4d}  {_number(wave):>10s}  {slowed:9.4g}  " + "  ".join(turns)
        lines.append(
            f"{cells}  {_bar(wave, longest, marks, width=max(4, 76 - len(cells)))}".rstrip()
        )
    return lines


def _bar(wave: float, longest: float, marks: dict[str, int | None], *, width: int) -> str:
    def place(tokens: float) -> int:
        return round(math.log(max(tokens, 1)) / math.log(longest) * (width - 1))

    filled = width if math.isinf(wave) else place(wave) + 1
    cells = list("#" * filled + " " * (width - filled))
    for mark, length in marks.items():
        if length is not None:
            cells[place(length)] = mark
    return "".join(cells)


def _number(value: float) -> str:
    """Four digits, without powers of ten as long as ten characters are enough."""
    if math.isinf(value):
        return "at rest"
    if value >= 1e10:
        return f"{value:.4g}"
    return f"{value:.0f}" if value >= 1000 else f"{value:.4f}" if value < 1 else f"{value:.4g}"


def _tokens(length: int | None) -> str:
    return "not said in the file" if length is None else f"{length} tokens"


def _draw(found: Report, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from ..plots.long_context import clocks

    ax = clocks(
        found.plain.numpy(),
        found.scaled.numpy(),
        trained=found.trained,
        extended=found.extended,
    )
    ax.figure.savefig(path)
    plt.close(ax.figure)
    print(f"plot: {path}", file=sys.stderr)
