"""Figures of chapter 03: clocks, tables, wavelengths, similarity and rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.patches import Circle, Wedge

from ._style import (
    BLUE,
    COLOURS,
    DIVERGING,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    RED,
    SEQUENTIAL,
    SKY,
    label_line,
    new_axes,
    style,
)

_HAND = 0.40  # length of a hand; clocks stand one unit apart


def clock_wall(
    hands,
    *,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    moved=None,
    ax=None,
):
    """A row of clocks for each position; every hand starts at twelve and turns clockwise.

    A hand at the angle ``a`` ends in ``(sin a, cos a)``, which are the two channels of its pair.

    Args:
        hands: ``(rows, clocks)``, angles in radians.
        row_labels: one for each row, written to its left.
        column_labels: one for each clock, written above the first row.
        moved: ``(rows, clocks)``, angles after a move, or None. If given, the first hands are
            grey and the turn from one to the other is a shaded sector (the turn modulo 2 pi).
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    hands = np.asarray(hands, dtype=float)
    rows, clocks = hands.shape
    with style():
        ax = new_axes(ax, figsize=(0.9 + 1.15 * clocks, 0.5 + 1.12 * rows))
        for row in range(rows):
            for clock in range(clocks):
                x, y = clock, -row
                ax.add_patch(Circle((x, y), 0.45, facecolor="white", edgecolor=INK, lw=1.0))
                ax.plot([x, x], [y + 0.39, y + 0.45], color=GREY, lw=1.0)  # twelve o'clock
                if moved is not None:
                    start, end = hands[row, clock], np.asarray(moved)[row, clock]
                    # matplotlib counts degrees anticlockwise from the right-hand side.
                    turn = np.degrees((end - start) % (2 * np.pi))
                    first = 90 - np.degrees(start)
                    sector = Wedge((x, y), 0.30, first - turn, first, color=ORANGE, alpha=0.45)
                    ax.add_patch(sector)
                    _hand(ax, x, y, start, GREY)
                    _hand(ax, x, y, end, BLUE)
                else:
                    _hand(ax, x, y, hands[row, clock], BLUE)
            ax.text(-0.62, -row, row_labels[row], ha="right", va="center")
        for clock in range(clocks):
            ax.text(clock, 0.56, column_labels[clock], ha="center", va="bottom", fontsize=9)
        ax.set_xlim(-1.5, clocks - 0.45)
        ax.set_ylim(-rows + 0.45, 0.95)
        ax.set_aspect("equal")
        ax.axis("off")
    return ax


def _hand(ax, x: float, y: float, angle: float, colour: str) -> None:
    tip = (x + _HAND * np.sin(angle), y + _HAND * np.cos(angle))
    ax.plot([x, tip[0]], [y, tip[1]], color=colour, lw=2.2, solid_capstyle="round")
    ax.plot([x], [y], color=colour, marker="o", markersize=3)


def counter_and_waves(bits, waves, *, axes=None):
    """A binary counter beside a table of sines: the same picture with hard and with soft edges.

    Args:
        bits: ``(positions, digits)`` of 0 and 1, the fastest digit first.
        waves: ``(positions, digits)``, values from -1 to 1, the fastest wave first.
        axes: two axes, or None for a new figure.

    Returns:
        The two axes.
    """
    with style():
        axes = new_axes(axes, figsize=(6.4, 4.6), ncols=2, sharey=True)
        axes[0].imshow(bits, aspect="auto", cmap=SEQUENTIAL, vmin=0, vmax=1)
        axes[0].set_xlabel("binary digit")
        image = axes[1].imshow(waves, aspect="auto", cmap=SEQUENTIAL, vmin=-1, vmax=1)
        axes[1].set_xlabel("sine of pair")
        axes[0].set_ylabel("position")
        for ax, table in zip(axes, (bits, waves), strict=True):
            ax.set_xticks(range(np.shape(table)[1]))
            ax.set_yticks(range(0, np.shape(table)[0], 4))
        axes[1].figure.colorbar(image, ax=axes[1], shrink=0.6)
    return axes


def heat_map(values, *, ax=None):
    """Tokens down, pairs across, colour for the sine of each pair.

    Args:
        values: ``(positions, pairs)``, from -1 to 1.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 4.4))
        image = ax.imshow(values, aspect="auto", cmap=SEQUENTIAL, vmin=-1, vmax=1)
        ax.set_xlabel("pair $i$   (fast hands left, slow hands right)")
        ax.set_ylabel("position $p$")
        ax.figure.colorbar(image, ax=ax, label="sine of the pair", shrink=0.8)
    return ax


def wavelength_chart(waves: Mapping[str, Sequence[float]], *, lengths: Sequence[int] = (), ax=None):
    """Wavelength of every pair on a logarithmic axis, with lines at some text lengths.

    Args:
        waves: label to wavelengths in tokens, one for each pair.
        lengths: text lengths in tokens to mark with a horizontal line.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.8))
        last = max(len(values) for values in waves.values()) - 1
        for length in lengths:
            ax.axhline(length, color=GREY, lw=1.0, ls="--")
            text = f"{length:,} tokens"
            label_line(ax, last * 1.22, length, text, colour=INK, xytext=(0, 6), ha="right")
        for (label, values), colour in zip(waves.items(), COLOURS, strict=False):
            values = np.asarray(values, dtype=float)
            ax.plot(range(len(values)), values, marker="o", markersize=3, lw=1.0, color=colour)
            label_line(ax, len(values) - 1, values[-1], label, colour=colour, xytext=(6, 0))
        ax.set_yscale("log")
        ax.set_xlim(-0.5, last * 1.22)
        ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= last])
        ax.set_xlabel("pair $i$")
        ax.set_ylabel("wavelength (tokens)")
    return ax


def matrix_row(matrices: Mapping[str, Sequence], *, axes=None):
    """Square matrices with entries from -1 to 1, side by side on one colour scale.

    Args:
        matrices: label to ``(d, d)``; the label stands above its panel.
        axes: one axes for each matrix, or None for a new figure.

    Returns:
        The array of axes.
    """
    with style():
        n = len(matrices)
        axes = new_axes(axes, figsize=(2.3 * n + 0.6, 2.7), ncols=n, sharey=True, squeeze=False)
        axes = np.ravel(axes)
        for ax, (label, matrix) in zip(axes, matrices.items(), strict=True):
            image = ax.imshow(matrix, cmap=DIVERGING, vmin=-1, vmax=1)
            size = np.shape(matrix)[0]
            # White lines between the blocks of two, so that the zeros can be told apart.
            for edge in range(2, size, 2):
                ax.axhline(edge - 0.5, color=GREY, lw=0.3)
                ax.axvline(edge - 0.5, color=GREY, lw=0.3)
            ax.set_xticks([0, size - 1])
            ax.set_yticks([0, size - 1])
            ax.set_xlabel(label)
        axes[0].set_ylabel("channel of $PE(p+k)$")
        axes[-1].figure.colorbar(image, ax=list(axes), shrink=0.75)
    return axes


def similarity_curves(
    distances,
    curves: Mapping[str, Sequence],
    *,
    trends: Mapping[str, Sequence] | None = None,
    ax=None,
):
    """Similarity of two positions against their distance, on a logarithmic distance axis.

    Args:
        distances: ``(n,)``, tokens, at least 1.
        curves: label to ``(n,)``, the dot product divided by its largest value.
        trends: label of a curve to ``(n,)``, a smooth trend through it, dashed.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.9))
        ax.axhline(0, color=GREY, lw=0.8)
        # From light to dark, so that the curves can be told apart without colour.
        for (label, values), colour in zip(curves.items(), (SKY, BLUE, RED, PURPLE), strict=False):
            ax.plot(distances, values, color=colour, lw=1.1, label=label)
        for label, values in (trends or {}).items():
            if label not in curves:
                raise ValueError(f"a trend for {label!r}, but the curves are {', '.join(curves)}")
            ax.plot(distances, values, color=INK, lw=1.4, ls=(0, (4, 3)))
        ax.set_xscale("log")
        ax.set_xlim(distances[0], distances[-1])
        ax.set_ylim(-0.35, 1.03)
        ax.legend(loc="upper right", fontsize=9)
        ax.set_xlabel("distance $k$ (tokens)")
        ax.set_ylabel("dot product / its maximum")
    return ax


def score_panels(scores: Mapping[str, Sequence], *, axes=None):
    """Scores of every query and key, side by side, each on a colour scale of its own.

    Args:
        scores: label to ``(n, n)``; query positions run down, key positions across.
        axes: one axes for each matrix, or None for a new figure.

    Returns:
        The array of axes.
    """
    with style():
        n = len(scores)
        axes = new_axes(axes, figsize=(2.4 * n + 0.4, 2.9), ncols=n, sharey=True, squeeze=False)
        axes = np.ravel(axes)
        for ax, (label, values) in zip(axes, scores.items(), strict=True):
            ax.imshow(values, cmap=SEQUENTIAL)
            ax.set_xlabel(f"key position\n\n{label}")
        axes[0].set_ylabel("query position")
    return axes


def error_curves(
    positions,
    errors: Mapping[str, Sequence],
    *,
    labels_at: Mapping[str, tuple[float, float]],
    ax=None,
):
    """Largest error near each position, both axes logarithmic.

    Args:
        positions: ``(n,)``, tokens, at least 1.
        errors: label to ``(n,)``; zeros and non-finite values are left out of the line.
        labels_at: label to the point where it is written, in data coordinates.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.9))
        positions = np.asarray(positions, dtype=float)
        looks = zip(COLOURS, "osD^v", strict=False)
        for (label, values), (colour, marker) in zip(errors.items(), looks, strict=False):
            values = np.asarray(values, dtype=float)
            shown = np.isfinite(values) & (values > 0)
            line = {"color": colour, "marker": marker, "markersize": 4, "lw": 1.2}
            ax.plot(positions[shown], values[shown], **line)
            label_line(ax, *labels_at[label], label, colour=INK, xytext=(8, 0))
            # The marker again, so that the label finds its line without colour.
            ax.plot(*labels_at[label], color=colour, marker=marker, markersize=5)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_ylim(1e-8, 1e1)
        ax.set_xlabel("position")
        ax.set_ylabel("largest error of a sine or cosine")
    return ax
