"""Figures of chapter 02: a lookup, trained and untrained rows, a real table, and longer ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, NullLocator

from ._style import (
    BLUE,
    DIVERGING,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    RED,
    label_line,
    new_axes,
    style,
)


def lookup(one_hot, table, ax=None):
    """A lookup as a product: one-hot rows times the table are rows of the table.

    Args:
        one_hot: ``(n, positions)``, one 1 in every row.
        table: ``(positions, dim)``.
        ax: three axes to draw on, or None for a new figure.

    Returns:
        Array of three axes: the one-hot matrix, the table, their product.
    """
    one_hot, table = np.asarray(one_hot, dtype=float), np.asarray(table, dtype=float)
    n, rows = one_hot.shape
    dim = table.shape[1]
    limit = np.abs(table).max()
    with style():
        ax = new_axes(ax, figsize=(6.4, 2.9), ncols=3, width_ratios=[rows, dim, dim])
        panels = (
            (one_hot, "Greys", (-0.12, 1.4), "one-hot"),
            (table, DIVERGING, (-limit, limit), "table"),
            (one_hot @ table, DIVERGING, (-limit, limit), "rows looked up"),
        )
        for axes, (values, colours, (low, high), name) in zip(ax, panels, strict=True):
            axes.imshow(values, cmap=colours, vmin=low, vmax=high)
            axes.set_xlabel(name)
            axes.set_xticks(np.arange(values.shape[1] + 1) - 0.5, [])
            axes.set_yticks(np.arange(values.shape[0] + 1) - 0.5, [])
            axes.grid(color="white", linewidth=1)
            axes.tick_params(length=0)
            axes.spines[["left", "bottom"]].set_visible(False)
        for token in range(n):
            position = int(one_hot[token].argmax())
            ax[0].text(position, token, "1", ha="center", va="center", color="white", fontsize=9)
            ax[2].text(-0.8, token, f"{position}", ha="right", va="center", fontsize=9)
        for position in range(rows):
            colour = INK if one_hot[:, position].any() else GREY
            options = {"ha": "center", "va": "center", "fontsize": 9, "color": colour}
            ax[0].text(position, -0.95, f"{position}", **options)
            ax[1].text(-1.0, position, f"{position}", **options)
    return ax


def pattern_fits(pattern, fits: Mapping[str, object], ax=None):
    """An irregular pattern over positions, and what linear readouts make of it.

    Args:
        pattern: ``(positions,)``, zeros and ones.
        fits: name to ``(positions,)``; one panel each.
        ax: as many axes as fits, or None for a new figure.

    Returns:
        Array of axes, one for each fit.
    """
    pattern = np.asarray(pattern, dtype=float)
    positions = np.arange(len(pattern))
    with style():
        ax = new_axes(
            ax, figsize=(6.4, 1.5 * len(fits) + 0.4), nrows=len(fits), sharex=True, sharey=True
        )
        ax = np.atleast_1d(ax)
        colours = (BLUE, RED, ORANGE, GREEN)
        for axes, (name, fit), colour in zip(ax, fits.items(), colours, strict=False):
            axes.bar(positions, pattern, width=0.9, color="#d9d9d9")
            axes.plot(positions, np.asarray(fit), color=colour, marker="o", ms=2.5, lw=1.2)
            axes.set_ylabel(name, color=colour)
            axes.set_yticks([0, 1])
        ax[-1].set_xlabel("position")
        ax[-1].set_xlim(-1, len(pattern))
    return ax


def rows_and_loss(moved, loss, *, trained: int, ax=None):
    """How far each row moved in training, and the loss at its position.

    Args:
        moved: ``(positions,)``, distance between a row before and after training.
        loss: ``(positions,)``, nats per byte.
        trained: length of the training windows.
        ax: two axes to draw on, or None for a new figure.

    Returns:
        Array of two axes.
    """
    moved, loss = np.asarray(moved, dtype=float), np.asarray(loss, dtype=float)
    positions = np.arange(len(moved))
    with style():
        ax = new_axes(ax, figsize=(6.4, 4.0), nrows=2, sharex=True)
        for axes, values, name, colour in (
            (ax[0], moved, "row moved by", BLUE),
            (ax[1], loss, "loss, nats per byte", RED),
        ):
            axes.plot(positions, values, color=colour)
            axes.axvline(trained - 0.5, color=GREY, lw=1, ls="--")
            axes.set_ylabel(name)
            axes.set_ylim(0, 1.12 * values.max())
        ax[0].text(trained - 2, 1.04 * moved.max(), "trained", ha="right", color=GREY)
        ax[0].text(trained + 1, 1.04 * moved.max(), "never used in training", color=GREY)
        ax[1].set_xlabel("position")
        ax[1].set_xlim(-1, len(moved))
    return ax


def similarity(cosines, *, zoom: tuple[int, int], ax=None):
    """Cosine of every row with every other, and a part of the same picture enlarged.

    Args:
        cosines: ``(positions, positions)``.
        zoom: first and last position of the enlarged part.
        ax: two axes to draw on, or None for a new figure.

    Returns:
        Array of two axes.
    """
    cosines = np.asarray(cosines, dtype=float)
    low, high = zoom
    with style():
        ax = new_axes(ax, figsize=(7.0, 4.2), ncols=2)
        # More rows than pixels on the left: averaging them keeps stripes from turning into moiré.
        for axes, smoothing in ((ax[0], "antialiased"), (ax[1], "nearest")):
            image = axes.imshow(cosines, cmap=DIVERGING, vmin=-1, vmax=1, interpolation=smoothing)
            axes.set_xlabel("position")
        ax[0].set_ylabel("position")
        ticks = np.arange(0, len(cosines), 128)
        ax[0].set_xticks(ticks)
        ax[0].set_yticks(ticks)
        ax[0].add_patch(
            Rectangle((low - 0.5, low - 0.5), high - low + 1, high - low + 1, fill=False, lw=1.2)
        )
        ax[1].set_xlim(low - 0.5, high + 0.5)
        ax[1].set_ylim(high + 0.5, low - 0.5)
        ax[1].spines[["top", "right"]].set_visible(True)
        bar = ax[0].figure.colorbar(image, ax=list(ax), location="bottom", shrink=0.5, aspect=30)
        bar.set_label("cosine of two rows")
    return ax


def spectrum(share, *, peaks, ax=None):
    """How much of a table is made of waves with so many periods from its first row to its last.

    Args:
        share: ``(frequencies,)``, share of the variance with 0, 1, 2, … periods over the table.
        peaks: the frequencies to label, with their period in rows.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    share = np.asarray(share, dtype=float)
    rows = 2 * (len(share) - 1)
    waves = np.arange(1, len(share))
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.2))
        ax.fill_between(waves, 100 * share[1:], color=BLUE, alpha=0.2, lw=0)
        ax.plot(waves, 100 * share[1:], color=BLUE, lw=1.3)
        ax.set_xscale("log")
        ax.set_xlim(0.7, len(share))
        ax.set_ylim(0, 118 * share[1:].max())
        for k in peaks:
            ax.annotate(
                f"{rows / k:.0f} rows", (k, 100 * share[k]), xytext=(0, 6),
                textcoords="offset points", ha="center", fontsize=9,
            )  # fmt: skip
        ticks = [1, 3, 10, 30, 100]
        ax.xaxis.set_major_locator(FixedLocator(ticks))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xticks(ticks, [f"{tick}" for tick in ticks])
        ax.set_xlabel("periods from the first row to the last")
        ax.set_ylabel("share of the variance, %")
    return ax


def by_offset(
    offsets: Mapping[str, object], values: Mapping[str, object], *, rows: int, ylabel: str, ax=None
):
    """What becomes of something that a model has learned, further and further to the right.

    Args:
        offsets: name of a table to ``(k,)``, positions. The first is the published table, drawn
            broad beneath the others; at most four others.
        values: name of a table to ``(k,)``.
        rows: where the published table ends.
        ylabel: what the values are.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    looks = ((BLUE, "-"), (ORANGE, "--"), (RED, ":"), (PURPLE, "-."))
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.7))
        first, *others = offsets
        x, y = (np.asarray(given[first], dtype=float) for given in (offsets, values))
        # Other tables repeat the published one inside its length, so it lies beneath them, broad.
        ax.plot(x, y, color="#c4c4c4", lw=7, label=first)
        label_line(ax, x[0], y[0], first, colour="#777777", xytext=(12, 4))
        for name, (colour, dashes) in zip(others, looks, strict=False):
            x, y = (np.asarray(given[name], dtype=float) for given in (offsets, values))
            ax.plot(x, y, color=colour, ls=dashes, marker="o", ms=3, label=name)
        everything = np.concatenate([np.asarray(given, dtype=float) for given in values.values()])
        low, high = everything.min(), everything.max()
        gap, below = 0.06 * (high - low), np.inf
        for name, (colour, _) in sorted(
            zip(others, looks, strict=False), key=lambda pair: -values[pair[0]][-1]
        ):
            below = min(below - gap, values[name][-1])  # keep the labels apart
            label_line(ax, offsets[name][-1], below, name, colour=colour, xytext=(6, 0))
        ax.axvline(rows, color=GREY, lw=1, ls="--")
        top = high + 0.08 * (high - low)
        ax.text(rows + 8, top, f"end of the table, {rows}", color=GREY, fontsize=9, va="center")
        ax.set_xlabel("words moved by (positions)")
        ax.set_ylabel(ylabel)
        ax.set_ylim(low - 0.08 * (high - low), high + 0.14 * (high - low))
        ax.set_xlim(-20, 1.16 * max(np.max(x) for x in offsets.values()))
    return ax
