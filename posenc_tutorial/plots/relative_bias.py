"""Figures of chapter 5, relative biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from ._style import (
    BLUE,
    DIVERGING,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    SKY,
    label_line,
    new_axes,
    style,
)


def distance_grids(grids: Mapping[str, tuple[Sequence, Sequence, Sequence]], *, axes=None):
    """Tables of relative positions, queries down and keys across, each number written in its cell.

    All panels share one colour scale: red for keys after the query, blue for keys before it.

    Args:
        grids: label to query positions ``(n_q,)``, key positions ``(n_k,)`` and the table
            ``(n_q, n_k)``.
        axes: one axes for each table, or None for a new figure.

    Returns:
        The array of axes.
    """
    limit = max(np.abs(np.asarray(table)).max() for _, _, table in grids.values())
    with style():
        if axes is None:
            sizes = [len(table) for _, _, table in grids.values()]
            heights = [max(sizes[row : row + 2]) + 2.2 for row in range(0, len(sizes), 2)]
            figure = plt.figure(figsize=(7.0, 0.42 * sum(heights)))
            grid = figure.add_gridspec(len(heights), 2, height_ratios=heights)
            axes = [figure.add_subplot(grid[place // 2, place % 2]) for place in range(len(sizes))]
        axes = np.ravel(axes)
        for ax, (label, (queries, keys, table)) in zip(axes, grids.items(), strict=True):
            table = np.asarray(table)
            ax.imshow(table, cmap=DIVERGING, vmin=-2.2 * limit, vmax=2.2 * limit)
            for (row, column), value in np.ndenumerate(table):
                shown = f"{value}".replace("-", "\N{MINUS SIGN}")
                ax.text(column, row, shown, ha="center", va="center", fontsize=9)
            ax.set_xticks(range(len(keys)), [str(key) for key in keys])
            ax.set_yticks(range(len(queries)), [str(query) for query in queries])
            ax.xaxis.tick_top()
            ax.tick_params(length=0)
            ax.spines[:].set_visible(False)
            ax.set_ylabel("query at")
            ax.set_xlabel(label)
    return axes


def preference_curves(relative, curves: Mapping[str, Sequence], *, clipped: int, ax=None):
    """What is added to a score against the relative position, a line for each query.

    Args:
        relative: ``(n,)``, key minus query.
        curves: label to ``(n,)``.
        clipped: beyond this distance all keys share one number; that part is shaded.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    relative = np.asarray(relative)
    with style():
        ax = new_axes(ax, figsize=(6.2, 3.4))
        for side in (-1, 1):
            edge = side * (clipped + 0.5)
            ax.axvspan(edge, relative[0 if side < 0 else -1], color=GREY, alpha=0.15, lw=0)
        ax.axhline(0, color=GREY, lw=0.8)
        looks = zip((BLUE, ORANGE, INK), ("o", "s", "D"), ("-", "--", ":"), strict=False)
        for (label, values), (colour, marker, dash) in zip(curves.items(), looks, strict=False):
            values = np.asarray(values)
            ax.plot(relative, values, color=colour, marker=marker, ls=dash, ms=5, lw=1.3)
            top = int(values.argmax())
            place = (relative[top], values[top])
            label_line(ax, *place, label, colour=colour, xytext=(0, 11), ha="center")
        ax.margins(x=0, y=0.2)
        ax.set_xlabel("key minus query (tokens)")
        ax.set_ylabel("added to the score")
    return ax


def bucket_rulers(rulers: Mapping[str, tuple[Sequence, Sequence]], *, ax=None):
    """Buckets as boxes on a ruler of relative positions, one ruler a row, each box numbered.

    Args:
        rulers: label to relative positions ``(n,)``, consecutive, and their buckets ``(n,)``.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(7.0, 1.25 * len(rulers) + 0.6))
        for level, (label, (relative, buckets)) in enumerate(rulers.items()):
            relative, buckets = np.asarray(relative), np.asarray(buckets)
            first = np.flatnonzero(np.diff(buckets, prepend=-1))
            last = np.append(first[1:] - 1, len(buckets) - 1)
            for number, (start, end) in enumerate(zip(first, last, strict=True)):
                width = end - start + 1
                box = Rectangle(
                    (relative[start] - 0.5, -level - 0.3),
                    width,
                    0.6,
                    facecolor=(SKY, "white")[number % 2],
                    edgecolor=INK,
                    lw=0.6,
                )
                ax.add_patch(box)
                if width >= 7:
                    middle = (relative[start] + relative[end]) / 2
                    ax.text(middle, -level, buckets[start], ha="center", va="center", fontsize=8)
            ax.text(relative[0], -level + 0.38, label, ha="left", va="bottom", fontsize=9)
        ends = [relative[side] for relative, _ in rulers.values() for side in (0, -1)]
        ax.set_xlim(min(ends) - 1, max(ends) + 1)
        ax.set_ylim(-len(rulers) + 0.5, 0.75)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("key minus query (tokens)")
    return ax


def bucket_stairs(stairs: Mapping[str, tuple[Sequence, Sequence]], *, max_distance: int, ax=None):
    """Bucket against distance, with a logarithmic axis of distances.

    Args:
        stairs: label to distances ``(n,)``, consecutive and from 1, and their buckets ``(n,)``.
        max_distance: marked by a line.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.6))
        ends = []
        for (label, (distance, bucket)), colour in zip(stairs.items(), (BLUE, RED), strict=False):
            edges = np.append(distance, distance[-1] + 1)
            ax.stairs(bucket, edges, baseline=None, color=colour, lw=1.8)
            label_line(ax, edges[-1], bucket[-1], label, colour=colour)
            ends.append(edges[-1])
        ax.axvline(max_distance, color=GREY, lw=1.0, ls="--")
        label_line(ax, max_distance, 1, f" {max_distance}", colour=INK)
        ax.set_xscale("log", base=2)
        ticks = [1, 2, 4, 8, 16, 32, 64, 128, 256]
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        ax.set_xlim(0.9, 2.4 * max(ends))
        ax.set_xlabel("distance (tokens)")
        ax.set_ylabel("bucket")
    return ax


def learned_biases(bias, *, marks: Sequence[int] = (), axes=None):
    """The bias that each head has learned, by distance back; one panel a head.

    Args:
        bias: ``(heads, n)``; entry k is what a key k tokens back gets.
        marks: distances to mark with a line, in every panel.
        axes: one axes a head, or None for a new figure with two in a row.

    Returns:
        The array of axes.
    """
    bias = np.asarray(bias)
    with style():
        rows = -(-len(bias) // 2)
        if axes is None:
            axes = new_axes(
                None, figsize=(7.0, 2.3 * rows), nrows=rows, ncols=2, sharex=True, sharey=True
            )
        axes = np.ravel(axes)[: len(bias)]
        for head, (ax, values) in enumerate(zip(axes, bias, strict=True)):
            for mark in marks:
                ax.axvline(mark, color=ORANGE, lw=1.0, ls="--")
            ax.axhline(0, color=GREY, lw=0.8)
            ax.plot(range(len(values)), values, color=BLUE, marker="o", ms=2.5, lw=1.0)
            ax.text(0.97, 0.94, f"head {head}", transform=ax.transAxes, ha="right", va="top")
            if head % 2 == 0:
                ax.set_ylabel("bias")
            if head >= len(bias) - 2:
                ax.set_xlabel("distance back (tokens)")
    return axes


def longer_than_trained(
    losses: Mapping[str, Mapping[int, float]],
    share: Mapping[int, float],
    *,
    trained: int,
    axes=None,
):
    """Loss by length of the text for several models, and the weight on the last bucket for one.

    Args:
        losses: label to a mapping from length to loss.
        share: length to the attention weight on the last bucket, from 0 to 1.
        trained: the trained length.
        axes: two axes, or None for a new figure.

    Returns:
        The two axes.
    """
    with style():
        axes = new_axes(axes, figsize=(6.2, 5.8), nrows=2, sharex=True)
        top, bottom = axes
        lengths = list(share)
        looks = zip((BLUE, INK, RED, GREEN), ("o", "s", "D", "^"), strict=True)
        for (label, points), (colour, marker) in zip(losses.items(), looks, strict=False):
            values = [points[length] for length in lengths]
            top.plot(lengths, values, color=colour, marker=marker, ms=4.5, lw=1.3)
            label_line(top, lengths[-1], values[-1], label, colour=colour)
        top.set_ylabel("loss (nats per byte)")
        bottom.plot(lengths, list(share.values()), color=BLUE, marker="o", ms=4.5, lw=1.3)
        bottom.set_ylim(0, 1)
        bottom.set_ylabel("weight on the last bucket")
        for ax in axes:
            ax.axvline(trained, color=GREY, lw=1.0, ls="--")
        label_line(bottom, trained, 0.9, "trained", xytext=(5, 0))
        bottom.set_xscale("log", base=2)
        bottom.set_xticks(lengths, [str(length) for length in lengths])
        bottom.minorticks_off()
        bottom.set_xlim(lengths[0] * 0.85, lengths[-1] * 2.2)
        bottom.set_xlabel("bytes in the text")
    return axes
