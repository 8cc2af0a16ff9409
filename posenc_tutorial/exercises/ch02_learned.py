"""Exercises of chapter 2: a table of positions, its gradient, its end, and longer tables."""

from __future__ import annotations

import torch

from ..learned import LearnedEncoding
from .registry import Cases, Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"


def _normal(seed: int, *shape: int, dtype=torch.float32) -> torch.Tensor:
    generator = torch.Generator(device="cpu").manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype, device="cpu")


# How many tokens a table serves


def _longest_text(
    *, all_rows: bool = False, off_by_one: bool = False, last_index: bool = False
) -> list[int]:
    longest = []
    for rows, first in ((512, 0), (514, 2), (514, 4)):
        table = LearnedEncoding(rows, 1)
        n = rows
        while not _serves(table, torch.arange(first, first + n)):
            n -= 1
        if all_rows:
            n = rows
        elif off_by_one and first:
            n += 1
        longest.append(n - 1 if last_index else n)
    return longest


def _serves(table: LearnedEncoding, positions: torch.Tensor) -> bool:
    try:
        table.add_to_input(torch.zeros(1, len(positions), 1), positions)
    except IndexError:
        return False
    return True


LONGEST_TEXT = Predict(
    name="longest_text",
    title="Where a table ends",
    chapter=2,
    difficulty=1,
    importance=2,
    minutes=4,
    points=1,
    reference=_longest_text,
    parts=("512 rows from 0", "514 rows from 2", "514 rows from 4"),
    hints=(
        "The last row of a table with 512 rows is row 511. Which token takes it?",
        "Count the rows that no token ever takes.",
    ),
    mistakes=(
        Mistake(
            "all_rows",
            "rows below the first position are in the table and no token of a text uses them",
            GITHUB + "huggingface/transformers/issues/9116",
            excludes=("off_by_one",),
        ),
        Mistake(
            "off_by_one",
            "if the first token takes row 2, two rows are lost, not one",
            GITHUB + "huggingface/transformers/issues/9116",
        ),
        Mistake(
            "last_index",
            "the largest position is one less than the number of tokens, since counting starts "
            "at 0",
            GITHUB + "facebookresearch/fairseq/issues/757",
        ),
    ),
)


# A lookup that knows its range


def _look_up(
    table: torch.Tensor,
    positions: torch.Tensor,
    *,
    wraps: bool = False,
    modulo: bool = False,
    clamps: bool = False,
    from_one: bool = False,
    from_two: bool = False,
) -> torch.Tensor:
    rows = table.shape[0]
    index = positions - 1 if from_one else positions + 2 if from_two else positions
    if modulo:
        index = index % rows
    if clamps:
        index = index.clamp(0, rows - 1)
    lowest = -rows if wraps else 0
    if index.numel() and not lowest <= int(index.min()) <= int(index.max()) < rows:
        raise IndexError(f"positions must be in 0 ... {rows - 1}")
    return table[index]


def _look_up_inputs() -> list[tuple]:
    table, small = _normal(21, 9, 4), _normal(22, 4, 3, dtype=torch.float64)
    return [
        (table, torch.tensor([2, 5, 6, 3, 2])),
        (small, torch.tensor([[1, 1], [1, 1]])),
        (table, torch.tensor([0, 3])),
        (table, torch.tensor([8, 4])),
        (table, torch.tensor([4, 9])),
        (small, torch.tensor([2, 40])),
        (table, torch.tensor([6, -1])),
        (small, torch.tensor([-3, 0, 1])),
    ]


LOOK_UP = Implement(
    name="look_up",
    title="A lookup that knows its range",
    chapter=2,
    difficulty=1,
    importance=3,
    minutes=6,
    points=1,
    signature="def look_up(table, positions):",
    make_inputs=_look_up_inputs,
    tolerance=1e-7,
    raises=True,
    reference=_look_up,
    hints=(
        "Look up first what Python thinks of row -1.",
        "Check before you look up: two comparisons, then raise IndexError, then one indexing.",
    ),
    mistakes=(
        Mistake(
            "wraps",
            "a negative position silently takes a row from the end of the table",
            GITHUB + "vllm-project/vllm/issues/14404",
            excludes=("modulo", "clamps"),
        ),
        Mistake(
            "modulo",
            "positions outside start again at the other end, so two places share a row unnoticed",
            GITHUB + "vllm-project/vllm/issues/14404",
            excludes=("clamps",),
        ),
        Mistake(
            "clamps",
            "all positions past the end silently share the last row",
            GITHUB + "luyang-huang96/LongDocSum/issues/5",
        ),
        Mistake(
            "from_one",
            "rows are counted from 1: position 0 is the first row",
            GITHUB + "graykode/nlp-tutorial/issues/73",
            excludes=("from_two",),
        ),
        Mistake(
            "from_two",
            "the first rows are skipped, as in tables that keep a row for padding; this one has "
            "none",
            GITHUB + "huggingface/transformers/issues/9116",
        ),
    ),
)


# Which rows learn


def _table_gradient(
    G: torch.Tensor,
    positions: torch.Tensor,
    rows: int,
    *,
    last_wins: bool = False,
    averaged: bool = False,
    shifted: bool = False,
) -> torch.Tensor:
    index = positions + 1 if shifted else positions
    total = torch.zeros(rows, G.shape[1], dtype=G.dtype)
    if last_wins:
        for t, row in enumerate(index.tolist()):
            if row < rows:
                total[row] = G[t]
        return total
    inside = index < rows
    total = total.index_add(0, index[inside], G[inside])
    if averaged:
        counts = torch.bincount(index[inside], minlength=rows).clamp(min=1)
        total = total / counts[:, None]
    return total


TABLE_GRADIENT = Implement(
    name="table_gradient",
    title="Who fills the rows",
    chapter=2,
    difficulty=2,
    importance=2,
    minutes=8,
    points=2,
    signature="def table_gradient(G, positions, rows):",
    make_inputs=lambda: [
        (_normal(23, 4, 6), torch.tensor([2, 0, 5, 2]), 8),
        (_normal(24, 7, 3), torch.tensor([0, 1, 2, 0, 1, 2, 3]), 5),
        (_normal(25, 5, 2, dtype=torch.float64), torch.tensor([1, 1, 1, 1, 4]), 6),
    ],
    tolerance=1e-5,
    any_float=True,
    reference=_table_gradient,
    hints=(
        "Which tokens does row 2 hear from, and what does a row hear from that nobody used?",
        "What does table[positions] += G do with a position that occurs twice?",
        "Either the one-hot matrix of the chapter, transposed, or index_add.",
    ),
    mistakes=(
        Mistake(
            "last_wins",
            "when a position occurs twice, only the last token is heard",
            GITHUB + "pytorch/pytorch/issues/3844",
            excludes=("averaged",),
        ),
        Mistake(
            "averaged",
            "the tokens at one position are averaged; a gradient adds them up",
            "claim 9",
        ),
        Mistake(
            "shifted",
            "each gradient arrives one row too far down",
            GITHUB + "huggingface/transformers/issues/9116",
        ),
    ),
)


# A longer table


def _resize_table(
    table: torch.Tensor,
    rows: int,
    *,
    half_pixel: bool = False,
    left_aligned: bool = False,
    nearest: bool = False,
    tiled: bool = False,
    untrained: bool = False,
) -> torch.Tensor:
    old = table.shape[0]
    new = torch.arange(rows, dtype=torch.float64)
    if tiled:
        return table[torch.arange(rows) % old]
    if untrained:
        fresh = torch.zeros(max(rows - old, 0), table.shape[1], dtype=table.dtype)
        return torch.cat([table[:rows], fresh])
    place = new * (old - 1) / (rows - 1)
    if half_pixel:
        place = (new + 0.5) * old / rows - 0.5
    elif left_aligned:
        place = new * old / rows
    if nearest:
        return table[place.round().long().clamp(0, old - 1)]
    place = place.clamp(0, old - 1)
    left = place.floor().long().clamp(max=old - 2)
    part = (place - left)[:, None]
    return ((1 - part) * table[left].double() + part * table[left + 1].double()).to(table.dtype)


def _copies_rows(cases: Cases) -> bool:
    """Every row is an old row, and none comes before one that stands before it.

    Which of two rows is the nearest is a matter of rounding, and of how places are counted.
    """
    for (table, _), _, got in cases:
        same = (got.double()[:, None] - table.double()).abs().amax(-1) < 1e-6
        if not same.any(1).all() or bool((same.int().argmax(1).diff() < 0).any()):
            return False
    return True


_RESIZE = ("half_pixel", "left_aligned", "nearest", "tiled", "untrained")

RESIZE_TABLE = Implement(
    name="resize_table",
    title="More hooks",
    chapter=2,
    difficulty=3,
    importance=2,
    minutes=12,
    points=3,
    signature="def resize_table(table, rows):",
    make_inputs=lambda: [
        (torch.arange(4, dtype=torch.float32, device="cpu")[:, None], 7),
        (_normal(26, 5, 3), 12),
        (_normal(27, 6, 4), 6),
        (_normal(28, 9, 2, dtype=torch.float64), 4),
        (_normal(29, 32, 8), 47),
    ],
    tolerance=3e-5,  # float32 places between rows, as torch.nn.functional.interpolate has them
    reference=_resize_table,
    hints=(
        "New row 0 is old row 0, and the last new row is the last old row. What about row 1?",
        "For each new row compute a place between two old rows, then a weighted mean of the two.",
        "There are rows - 1 steps in the new table and one less than its rows in the old one.",
    ),
    mistakes=(
        Mistake(
            "half_pixel",
            "the ends are not kept: rows are treated as pixels with a width, as image code does",
            GITHUB + "ggml-org/llama.cpp/pull/25781",
            excludes=_RESIZE[1:],
        ),
        Mistake(
            "left_aligned",
            "row 0 is kept and the last row is not: steps are counted where there are rows",
            GITHUB + "ggml-org/llama.cpp/pull/25781",
            excludes=_RESIZE[2:],
        ),
        Mistake(
            "nearest",
            "rows are copied, not blended, so neighbours become equal",
            GITHUB + "ggml-org/llama.cpp/pull/25781",
            excludes=_RESIZE[3:],
            symptom=_copies_rows,
        ),
        Mistake(
            "tiled",
            "the table starts again at its end, so two places share a row",
            "claim 9",
            excludes=_RESIZE[4:],
        ),
        Mistake(
            "untrained",
            "the old rows are kept and the new ones hold nothing that was trained",
            GITHUB + "huggingface/transformers/pull/13559",
        ),
    ),
)


# Where hook 600 comes from


def _old_place(
    *, half_pixel: bool = False, left_aligned: bool = False, tiled: bool = False
) -> float:
    old, new, row = 512, 1024, 600
    if tiled:
        return float(row % old)
    if left_aligned:
        return row * old / new
    # A table whose only column is its row number says where each new row was read.
    table = LearnedEncoding(old, 1).double()
    table.weight = torch.nn.Parameter(torch.arange(old, dtype=torch.float64)[:, None])
    mode = "half_pixel" if half_pixel else "linear"
    return float(table.resized(new, mode=mode).weight[row, 0].detach())


OLD_PLACE = Predict(
    name="old_place",
    title="Hook 600",
    chapter=2,
    difficulty=2,
    importance=1,
    minutes=5,
    points=1,
    reference=_old_place,
    tolerance=0.006,
    hints=(
        "Not 300, though nearly. Both ends are kept.",
        "Row 1023 of the new table is row 511 of the old one; row 600 is how far along?",
    ),
    mistakes=(
        Mistake(
            "half_pixel",
            "this is the place under the half-pixel convention, in which the ends are not kept",
            GITHUB + "ggml-org/llama.cpp/pull/25781",
            excludes=("left_aligned", "tiled"),
        ),
        Mistake(
            "left_aligned",
            "twice as many rows, half the number: then row 1023 would lie past the last old row",
            GITHUB + "ggml-org/llama.cpp/pull/25781",
            excludes=("tiled",),
        ),
        Mistake("tiled", "this is its place if the table were tiled", "claim 9"),
    ),
)


WHAT_A_TABLE_KNOWS = explain(
    {
        "A": Statement(
            "A row of the table gets a gradient only from tokens that stood at its position."
        ),
        "B": Statement(
            "Just past the longest training text a model with a learned table gets a little "
            "worse, and further out gradually more.",
            "the first untrained row is as strange to the model as any other, so the loss jumps "
            "at once",
            "claim 9",
        ),
        "C": Statement(
            "Every encoding that gives absolute positions has a largest position.",
            "tables end; an absolute encoding that is computed does not",
            "claim 26",
        ),
        "D": Statement("Rows that no token ever used can still change during training."),
        "E": Statement(
            "New rows filled with small random numbers do no harm: to the model they are as good "
            "as no position.",
            "noise is not the absence of a signal; the chapter measures less than without any "
            "positions",
            GITHUB + "huggingface/transformers/pull/13559",
        ),
        "F": Statement(
            "A table enlarged by interpolation serves short texts as before, and long ones as "
            "well as it can.",
            "its hooks hang closer together, so short texts are damaged: every distance that was "
            "learned is changed",
            "claim 9",
        ),
        "G": Statement(
            "Tiling a table of 512 rows to 1024 lets the model tell all 1024 positions apart.",
            "positions that are 512 apart get the same row, so exchanging them changes nothing",
            "claim 9",
        ),
        "H": Statement(
            "A learned table can hold a pattern that no linear readout of a sinusoidal table of "
            "the same width can."
        ),
    },
    name="what_a_table_knows",
    title="What a table knows",
    chapter=2,
    difficulty=3,
    importance=2,
    minutes=8,
    points=2,
    hints=(
        "Three of the eight are true.",
        "One of the three is about weight decay, another about prime numbers.",
    ),
)

EXERCISES = (
    LONGEST_TEXT,
    LOOK_UP,
    TABLE_GRADIENT,
    OLD_PLACE,
    RESIZE_TABLE,
    WHAT_A_TABLE_KNOWS,
)
