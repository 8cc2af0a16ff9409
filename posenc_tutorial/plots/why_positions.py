"""Figures of chapter 1, why positions: attention as an operation on a set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from ._style import (
    BLUE,
    DIVERGING,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    SEQUENTIAL,
    label_line,
    new_axes,
    style,
)


def attention_shapes(n: int, dim: int, key_dim: int, value_dim: int, ax: Axes | None = None):
    """The matrices of one attention head as boxes whose sides are their shapes.

    Args:
        n: number of tokens.
        dim: width of the input.
        key_dim: width of queries and keys.
        value_dim: width of values.
        ax: where to draw.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.8, 3.9))
        unit = 0.3
        boxes = {
            "X": (1.0, 2.4, n, dim, GREY, f"{n} × {dim}"),
            "Q": (3.2, 4.3, n, key_dim, BLUE, f"{n} × {key_dim}"),
            "K": (3.2, 2.4, n, key_dim, GREEN, f"{n} × {key_dim}"),
            "V": (3.2, 0.5, n, value_dim, ORANGE, f"{n} × {value_dim}"),
            "S": (5.3, 3.25, n, n, BLUE, f"{n} × {n}"),
            "A": (7.7, 3.25, n, n, BLUE, f"{n} × {n}"),
            "Y": (9.9, 2.4, n, value_dim, ORANGE, f"{n} × {value_dim}"),
        }
        size = {}
        for name, (x, y, rows, columns, colour, shape) in boxes.items():
            width, height = columns * unit, rows * unit
            size[name] = (x, y, width, height)
            ax.add_patch(
                Rectangle(
                    (x - width / 2, y - height / 2),
                    width,
                    height,
                    facecolor=colour,
                    alpha=0.28,
                    edgecolor="none",
                )
            )
            for row in range(rows + 1):
                level = y - height / 2 + row * unit
                ax.plot([x - width / 2, x + width / 2], [level, level], color=INK, lw=0.7)
            for column in range(columns + 1):
                edge = x - width / 2 + column * unit
                heavy = 0.7 if column in (0, columns) else 0.25
                ax.plot([edge, edge], [y - height / 2, y + height / 2], color=INK, lw=heavy)
            ax.text(x, y + height / 2 + 0.1, name, ha="center", va="bottom", weight="bold")
            ax.text(x, y - height / 2 - 0.1, shape, ha="center", va="top", fontsize=8.5)
        arrows = [
            ("X", "Q", "$W_Q$", 0.16),
            ("X", "K", "$W_K$", 0.16),
            ("X", "V", "$W_V$", 0.16),
            ("Q", "S", "", 0.16),
            ("K", "S", "", 0.16),
            ("S", "A", "softmax\nof each row", 0.2),
            ("A", "Y", "", 0.16),
            ("V", "Y", "", 0.16),
        ]
        for start, end, text, lift in arrows:
            x0, y0, w0, _ = size[start]
            x1, y1, w1, _ = size[end]
            a, b = (x0 + w0 / 2 + 0.1, y0), (x1 - w1 / 2 - 0.1, y1)
            ax.add_patch(
                FancyArrowPatch(
                    a,
                    b,
                    arrowstyle="-|>",
                    mutation_scale=10,
                    color=INK,
                    lw=1.1,
                    shrinkA=0,
                    shrinkB=0,
                )
            )
            ax.text(
                (a[0] + b[0]) / 2,
                (a[1] + b[1]) / 2 + lift,
                text,
                ha="center",
                va="bottom",
                fontsize=8.5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
        ax.text(5.3, 4.35, "every query meets\nevery key", ha="center", va="bottom", fontsize=8.5)
        ax.text(9.9, 3.4, "weighted sums\nof values", ha="center", va="bottom", fontsize=8.5)
        ax.set(xlim=(0.1, 10.9), ylim=(-0.4, 5.3))
        ax.set_aspect("equal")
        ax.axis("off")
    return ax


def weight_tables(
    tables: Sequence[np.ndarray], words: Sequence[Sequence[str]], axes: Sequence[Axes] | None = None
):
    """Attention weights of several sentences side by side, with the numbers in the cells.

    Args:
        tables: each ``(n, n)``, rows are queries, entries from 0 to 1.
        words: for each table its ``n`` words, in order.
        axes: one for each table.

    Returns:
        Array of axes.
    """
    with style():
        if axes is None:
            _, axes = plt.subplots(1, len(tables), figsize=(2.9 * len(tables), 2.7))
        axes = np.atleast_1d(axes)
        for ax, table, names in zip(axes, tables, words, strict=True):
            _numbered(ax, np.asarray(table), SEQUENTIAL, 0.0, 1.0)
            ax.set_xticks(range(len(names)), names)
            ax.set_yticks(range(len(names)), names)
            ax.set_xlabel("looked at (key)")
        axes[0].set_ylabel("looking (query)")
    return axes


def equivariance_square(
    x: np.ndarray,
    y: np.ndarray,
    order: Sequence[int],
    words: Sequence[str],
    y_of_shuffled: np.ndarray,
    axes: np.ndarray | None = None,
):
    """Four heat maps: first shuffle, then attend, or first attend, then shuffle.

    Args:
        x: input, ``(n, d)``.
        y: output for it, ``(n, d_out)``.
        order: the shuffled input is ``x[order]``.
        words: the ``n`` words of the input, in order.
        y_of_shuffled: output for the shuffled input, ``(n, d_out)``.
        axes: ``(2, 2)`` axes.

    Returns:
        The ``(2, 2)`` axes: input and output above, the same for the shuffled input below.
    """
    with style():
        if axes is None:
            figure, axes = plt.subplots(2, 2, figsize=(6.4, 4.5))
            figure.get_layout_engine().set(wspace=0.16, hspace=0.12)
        order = list(order)
        limit = max(np.abs(a).max() for a in (x, y, y_of_shuffled))
        shuffled = [words[i] for i in order]
        panels = [(x, words, "X"), (y, words, "Attention(X)"), (x[order], shuffled, "P X")]
        panels.append((y_of_shuffled, shuffled, "Attention(P X)"))
        for ax, (values, names, title) in zip(axes.flat, panels, strict=True):
            _numbered(ax, np.asarray(values), DIVERGING, -limit, limit)
            ax.set_yticks(range(len(names)), names)
            ax.set_xticks([])
            ax.set_xlabel(title)
        for row in axes:
            _arrow(row[0], "attend", (1.04, 0.5), (1.22, 0.5))
        for column in (0, 1):
            _arrow(axes[0, column], "shuffle", (0.5, -0.17), (0.5, -0.36))
    return axes


def identical_tokens(profiles: Mapping[str, np.ndarray], ax: Axes | None = None):
    """What each place gets when all tokens are the same, one line for each layer.

    Args:
        profiles: by name of the layer, ``(n,)``: how far the output at each place is from the
            output in the middle.
        ax: where to draw.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.6, 3.4))
        markers = "os^Dv"
        colours = (BLUE, RED, GREEN, GREY, ORANGE)
        n = len(next(iter(profiles.values())))
        for number, (name, values) in enumerate(profiles.items()):
            values = np.asarray(values)
            ax.plot(
                range(n),
                values,
                marker=markers[number % 5],
                ms=4.5,
                color=colours[number % 5],
                label=name,
                lw=1.3,
                alpha=0.9,
            )
        ax.set(
            xlabel="place of the token",
            ylabel="distance from the\noutput in the middle",
            xlim=(-0.5, n - 0.5),
        )
        ax.legend(fontsize=8.5, loc="upper center", ncols=2)
        ax.set_ylim(top=ax.get_ylim()[1] * 1.35)
    return ax


def causal_counter(
    weights: np.ndarray, share: np.ndarray, names: Sequence[str], axes: Sequence[Axes] | None = None
):
    """A causal mask at work, and the number that it lets a token read off.

    Args:
        weights: attention weights under the mask, ``(n, n)``, the first token a start token.
        share: ``(m,)``: weight on the start token, for the tokens at places ``0 … m-1``.
        names: the ``n`` tokens.
        axes: two axes.

    Returns:
        Array of two axes.
    """
    with style():
        if axes is None:
            _, axes = plt.subplots(
                1, 2, figsize=(6.6, 3.0), gridspec_kw={"width_ratios": [1, 1.25]}
            )
        left, right = axes
        hidden = np.triu(np.ones_like(weights, dtype=bool), k=1)
        _numbered(left, np.ma.array(weights, mask=hidden), SEQUENTIAL, 0.0, 1.0)
        for row, column in zip(*np.nonzero(hidden), strict=True):
            left.add_patch(
                Rectangle(
                    (column - 0.5, row - 0.5),
                    1,
                    1,
                    facecolor="white",
                    edgecolor=GREY,
                    hatch="///",
                    lw=0,
                )
            )
        left.set_xticks(range(len(names)), names)
        left.set_yticks(range(len(names)), names)
        left.set(xlabel="looked at (key)", ylabel="looking (query)")
        right.plot(range(len(share)), share, color=BLUE, marker="o", ms=4)
        right.set(
            xlabel="place of the token",
            ylabel="weight on the start token",
            ylim=(0, 1.08),
            xlim=(-0.6, len(share) - 0.4),
        )
        right.xaxis.get_major_locator().set_params(integer=True)
        label_line(right, 0, share[0], "sees only itself", xytext=(8, 0))
    return np.array([left, right])


def order_accuracy(accuracies: Mapping[str, float], ax: Axes | None = None):
    """Accuracy on the order task as bars, with the line of chance.

    Args:
        accuracies: by name; every value between 0 and 1. Rounded to two digits.
        ax: where to draw.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.6, 3.2))
        names = list(accuracies)
        values = [round(float(value), 2) for value in accuracies.values()]
        colours = [BLUE if value > 0.75 else GREY for value in values]
        bars = ax.barh(range(len(names)), values, color=colours, height=0.66)
        for bar, value in zip(bars, values, strict=True):
            ax.text(
                value + 0.012,
                bar.get_y() + bar.get_height() / 2,
                f"{value:.2f}",
                va="center",
                fontsize=9,
            )
        ax.axvline(0.5, color=INK, lw=1, ls="--")
        ax.text(0.5, -0.72, "chance", ha="center", va="bottom", fontsize=9)
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set(xlim=(0, 1.1), xlabel="accuracy: does A come before B?")
    return ax


def _numbered(ax, values, cmap, low, high):
    """A heat map with each number written in its cell, dark on light or light on dark."""
    image = ax.imshow(values, cmap=cmap, vmin=low, vmax=high, aspect="auto")
    for row, column in np.ndindex(values.shape):
        if np.ma.is_masked(values[row, column]):
            continue
        red, green, blue, _ = image.cmap(image.norm(values[row, column]))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        ax.text(
            column,
            row,
            f"{values[row, column]:.2f}",
            ha="center",
            va="center",
            fontsize=8.5,
            color="white" if dark else INK,
        )
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return image


def _arrow(ax, text, start, end):
    """An arrow in the coordinates of the axes, with a word beside it."""
    ax.annotate(
        "",
        xy=end,
        xytext=start,
        xycoords="axes fraction",
        textcoords="axes fraction",
        arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.4},
        annotation_clip=False,
    )
    across = start[1] == end[1]
    ax.text(
        (start[0] + end[0]) / 2 + (0 if across else 0.03),
        (start[1] + end[1]) / 2 + (0.04 if across else 0),
        text,
        transform=ax.transAxes,
        ha="center" if across else "left",
        va="bottom" if across else "center",
        fontsize=9,
    )
