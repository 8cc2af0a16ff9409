"""Figures of chapter 4, the limits of absolute positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from ._style import (
    BLUE,
    COLOURS,
    DIVERGING,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    label_line,
    new_axes,
    style,
)


def street(rows: Sequence[tuple[int, int, int]], *, houses: int = 8, ax=None):
    """Rows of numbered houses; in each, one asks, and the answer is some doors to the left.

    Args:
        rows: for each row the first house number, the number of the one who asks, and the number
            of the answer.
        houses: houses per row.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 1.7 * len(rows)))
        for level, (first, asks, answer) in enumerate(rows):
            y = -1.9 * level
            for place in range(houses):
                number = first + place
                colour = {asks: BLUE, answer: ORANGE}.get(number, "white")
                box = Rectangle((place - 0.4, y - 0.3), 0.8, 0.6, facecolor=colour, edgecolor=INK)
                box.set_alpha(0.55 if colour != "white" else 1)
                ax.add_patch(box)
                ax.text(place, y, str(number), ha="center", va="center")
            start, end = asks - first, answer - first
            ax.annotate(
                "",
                (end, y + 0.34),
                (start, y + 0.34),
                arrowprops={"arrowstyle": "-|>", "color": INK, "connectionstyle": "arc3,rad=0.35"},
            )
            label = f"{asks - answer} to the left"
            ax.text((start + end) / 2, y + 1.0, label, ha="center", va="bottom")
        ax.set_xlim(-0.6, houses - 0.4)
        ax.set_ylim(-1.9 * (len(rows) - 1) - 0.45, 1.4)
        ax.set_aspect("equal")
        ax.axis("off")
    return ax


def term_grid(terms, *, axes=None):
    """The four terms of a score and their sum as heat maps, all on one colour scale.

    The scale ends at the largest entry of the terms; where the sum goes beyond, it is clipped.

    Args:
        terms: ``(4, n, n)`` in the order of :data:`~posenc_tutorial.decomposition.TERMS`; queries
            run down, keys across.
        axes: five axes, the sum last, or None for a new figure.

    Returns:
        The array of five axes.
    """
    terms = np.asarray(terms)
    panels = [*terms, terms.sum(0)]
    limit = np.abs(terms).max()
    names = ("content · content", "content · position", "position · content")
    names = (*names, "position · position", "sum: the score")
    with style():
        if axes is None:
            figure = plt.figure(figsize=(7.2, 4.4))
            grid = figure.add_gridspec(2, 4, width_ratios=(1, 1, 0.12, 1.5))
            cells = (grid[0, 0], grid[0, 1], grid[1, 0], grid[1, 1], grid[:, 3])
            axes = [figure.add_subplot(cell) for cell in cells]
        axes = np.ravel(axes)
        for ax, panel, name in zip(axes, panels, names, strict=True):
            image = ax.imshow(panel, cmap=DIVERGING, vmin=-limit, vmax=limit)
            ax.set_xlabel(name)
            ax.set_xticks([0, panel.shape[1] - 1])
            ax.set_yticks([0, panel.shape[0] - 1])
        axes[4].set_ylabel("query")
        axes[4].text(
            0.5, 1.02, "key", transform=axes[4].transAxes, ha="center", va="bottom", fontsize=10
        )
        axes[4].figure.colorbar(
            image, ax=axes[4], orientation="horizontal", shrink=0.8, extend="both"
        )
    return axes


def value_curves(positions, changes: Mapping[str, Sequence], *, ax=None):
    """How far the value of one token moves with its position, a line for each encoding.

    Encodings for which nothing moves share one line and one label.

    Args:
        positions: ``(n,)``.
        changes: name to ``(n,)``, relative change.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.4))
        still = [name for name, change in changes.items() if not np.any(change)]
        colours = iter((BLUE, ORANGE, RED, GREEN))
        for name, change in changes.items():
            if name not in still:
                colour = next(colours)
                ax.plot(positions, change, color=colour, label=name)
                label_line(ax, positions[-1], change[-1], name, colour=colour)
        if still:
            ax.plot(positions, np.zeros(len(positions)), color=INK, lw=2.4)
            text = ", ".join(still) + ": exactly 0"
            label_line(ax, positions[0], 0, text, xytext=(4, 9))
        ax.set_xlim(positions[0], positions[-1] * 1.2)
        ax.set_ylim(bottom=-0.02)
        ax.set_xticks([tick for tick in ax.get_xticks() if tick <= positions[-1]])
        ax.set_xlabel("position of the token")
        ax.set_ylabel("change of its value")
    return ax


def sharpness(channels, weights: Mapping[str, Sequence], *, ax=None):
    """Weight on the wanted token against the number of channels, a line for each gain.

    Args:
        channels: ``(n,)``.
        weights: label to ``(n,)``, from 0 to 1.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.6))
        looks, ends = zip(COLOURS, "osD^v", strict=False), {}
        for (label, values), (colour, marker) in zip(weights.items(), looks, strict=False):
            ax.plot(channels, values, color=colour, marker=marker, markersize=4, lw=1.3)
            ends[label] = (values[-1], colour)
        below = np.inf  # labels from the top down, at least so far apart that they can be read
        for label, (end, colour) in sorted(ends.items(), key=lambda item: -item[1][0]):
            below = min(end, below - 0.06)
            label_line(ax, channels[-1], below, label, colour=colour)
        ax.set_xscale("log", base=2)
        ax.set_xticks(channels, [str(c) for c in channels])
        ax.minorticks_off()
        ax.set_xlim(channels[0] * 0.9, channels[-1] * 1.7)
        ax.set_ylim(0, 1.03)
        ax.set_xlabel("channels that the head may use for positions")
        ax.set_ylabel("weight on the wanted token")
    return ax


def position_scores(scores: Mapping[str, Sequence], *, axes=None):
    """What a softmax sees of position scores: the visible keys, each row less its mean.

    Args:
        scores: label to ``(n, n)``, queries down and keys across; keys after the query are
            hidden by a causal mask and left white. Each panel has a colour scale of its own.
        axes: one axes for each matrix, or None for a new figure with two in a row.

    Returns:
        The array of axes.
    """
    with style():
        rows = -(-len(scores) // 2)
        axes = new_axes(axes, figsize=(6.0, 3.1 * rows), nrows=rows, ncols=2, squeeze=False)
        axes = np.ravel(axes)[: len(scores)]
        for ax, (label, values) in zip(axes, scores.items(), strict=True):
            seen = visible_part(values)
            limit = np.nanpercentile(np.abs(seen), 99)
            ax.imshow(seen, cmap=DIVERGING, vmin=-limit, vmax=limit)
            ax.text(0.97, 0.95, label, transform=ax.transAxes, ha="right", va="top")
            ax.set_xticks([0, len(seen) - 1])
            ax.set_yticks([0, len(seen) - 1])
            ax.set_xlabel("key position", labelpad=-6)
            ax.set_ylabel("query position", labelpad=-6)
    return axes


def visible_part(scores):
    """``(n, n)`` with nan for keys after the query, and each row less the mean of the rest."""
    scores = np.array(scores, dtype=float)
    scores[np.triu_indices(len(scores), 1)] = np.nan
    return scores - np.nanmean(scores, axis=1, keepdims=True)


def moved_text(
    mass: Mapping[str, Sequence],
    losses: Mapping[str, Mapping[int, float]],
    *,
    trained: int,
    axes=None,
):
    """The same texts at other offsets: where the attention goes, and what is lost.

    Args:
        mass: label to mean attention weight by distance, from distance 0.
        losses: label to a mapping from offset to loss.
        trained: the trained length; offsets from there on are shaded.
        axes: two axes, or None for a new figure.

    Returns:
        The two axes.
    """
    with style():
        axes = new_axes(axes, figsize=(6.0, 6.2), nrows=2)
        top, bottom = axes
        looks = zip((INK, BLUE, RED, ORANGE), ("-", "--", "-", "--"), strict=False)
        for (label, values), (colour, dash) in zip(mass.items(), looks, strict=False):
            top.plot(range(len(values)), values, color=colour, ls=dash, lw=1.5, label=label)
        top.legend(fontsize=9)
        top.set_ylim(bottom=0)
        top.set_xlabel("distance back (tokens)")
        top.set_ylabel("attention weight")
        looks = zip((INK, RED, BLUE), "osD", strict=False)
        for (label, points), (colour, marker) in zip(losses.items(), looks, strict=False):
            places = range(len(points))
            bottom.plot(places, points.values(), color=colour, marker=marker, markersize=4, lw=1.2)
            label_line(bottom, len(points) - 1, list(points.values())[-1], label, colour=colour)
        offsets = list(next(iter(losses.values())))
        beyond = sum(offset < trained for offset in offsets) - 0.5
        bottom.axvspan(beyond, len(offsets) - 0.7, color=GREY, alpha=0.15, lw=0)
        bottom.set_xticks(range(len(offsets)), [str(offset) for offset in offsets])
        bottom.set_xlim(-0.3, len(offsets) + 0.6)
        bottom.set_xlabel("offset (tokens)")
        bottom.set_ylabel("loss (nats per byte)")
    return axes


def longer_texts(
    by_position: Sequence,
    extended: Mapping[str, tuple[float, float, float]],
    *,
    trained: int,
    block: int,
    axes=None,
):
    """Loss along a long text, and what extending an encoding costs before and after training.

    Args:
        by_position: loss in blocks of ``block`` positions.
        extended: method to three losses: at the trained length, of the extended model on longer
            texts, and after some further training.
        trained: the trained length.
        block: tokens per block.
        axes: two axes, or None for a new figure.

    Returns:
        The two axes.
    """
    with style():
        axes = new_axes(axes, figsize=(6.0, 6.2), nrows=2)
        top, bottom = axes
        edges = np.arange(len(by_position) + 1) * block
        top.stairs(by_position, edges, baseline=None, color=BLUE, lw=1.8)
        top.axvline(trained, color=GREY, lw=1.0, ls="--")
        label_line(top, trained, max(by_position), f"trained\nto {trained}", xytext=(-40, -10))
        top.set_xticks(edges[::2])
        top.set_xlabel("position in the text")
        top.set_ylabel("loss (nats per byte)")
        rows = range(len(extended))[::-1]
        for row, (old, new, tuned) in zip(rows, extended.values(), strict=True):
            bottom.plot([0, new - old], [row, row], color=GREY, lw=0.8)
            bottom.plot(new - old, row, marker="o", color=RED, ls="none")
            bottom.plot(tuned - old, row, marker="D", color=BLUE, ls="none", markersize=5)
        bottom.axvline(0, color=INK, lw=1.0)
        bottom.set_yticks(list(rows), list(extended))
        bottom.set_ylim(-0.6, len(extended) - 0.2)
        old, new, tuned = max(extended.values(), key=lambda losses: losses[1] - losses[2])
        row = len(extended) - 1 - list(extended.values()).index((old, new, tuned))
        label_line(bottom, new - old, row, "at once", colour=RED, xytext=(0, 11), ha="center")
        label_line(bottom, tuned - old, row, "tuned", colour=BLUE, xytext=(0, 11), ha="center")
        bottom.set_xlabel("cost of twice the length (nats per byte)")
    return axes
