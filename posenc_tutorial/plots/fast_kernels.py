"""Figures of chapter 12, fast kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ._style import BLUE, COLOURS, GREY, INK, ORANGE, RED, label_line, new_axes, style


def pass_bars(ways: Mapping[str, Sequence[tuple[str, float, float]]], *, limit: float = 2, ax=None):
    """What each operation reads and writes, laid end to end.

    Args:
        ways: name of a way of computing -> its passes ``(operation, read, written)``, in units of
            the tensor's size.
        limit: where the line stands that nothing can beat.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 0.75 * len(ways) + 1.0))
        for row, passes in enumerate(ways.values()):
            end = 0.0
            for name, read, written in passes:
                ax.barh(row, read, left=end, height=0.5, color=BLUE, edgecolor="white")
                ax.barh(
                    row, written, left=end + read, height=0.5, color=ORANGE, edgecolor="white",
                    hatch="//",
                )  # fmt: skip
                middle = end + (read + written) / 2
                if read + written > 0.6:
                    ax.text(middle, row - 0.3, name, ha="center", va="bottom", fontsize=8)
                end += read + written
            ax.text(end + 0.1, row, f"{end:.1f}", va="center")
        ax.axvline(limit, color=INK, linewidth=1, linestyle="--")
        ax.set_yticks(range(len(ways)), list(ways))
        ax.set_ylim(len(ways) - 0.5, -0.8)
        ax.set_xlabel("bytes moved, in sizes of x  (plain: read, hatched: written)")
        ax.set_xlim(0, None)
        ax.tick_params(axis="y", length=0)
    return ax


def roofline(copy_speed: float, peak: float, points: Mapping[str, float], *, ax=None):
    """How fast a machine can be, by the number of operations it does for each byte it moves.

    Args:
        copy_speed: bytes a second, in 10^9.
        peak: operations a second, in 10^9.
        points: name of a computation -> operations for each byte.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.4))
        x = np.geomspace(0.05, 2000, 200)
        ax.loglog(x, np.minimum(copy_speed * x, peak), color=INK)
        corner = peak / copy_speed
        ax.axvline(corner, color=GREY, linewidth=1, linestyle=":")
        for i, (name, intensity) in enumerate(points.items()):
            height = min(copy_speed * intensity, peak)
            ax.plot(intensity, height, "o", color=COLOURS[i % len(COLOURS)])
            below = intensity < corner
            ax.annotate(
                name, (intensity, height), xytext=(8, -4 if below else -16),
                textcoords="offset points", va="top" if not below else "center",
                ha="left" if below else "center",
            )  # fmt: skip
        ax.set_xlabel("operations for each byte moved")
        ax.set_ylabel("10⁹ operations a second")
        ax.set_xlim(x[0], x[-1])
    return ax


def ratio_dots(panels: Mapping[str, Mapping[str, Mapping[str, float]]], *, target=None, axes=None):
    """Times of several ways as multiples of ``copy_``, one panel for every dtype.

    Args:
        panels: title of a panel -> way -> layout -> ratio.
        target: where to draw a second line, or None.
        axes: one axes for each panel, or None for a new figure.

    Returns:
        The array of axes.
    """
    marks = {"half": ("o", BLUE), "interleaved": ("D", ORANGE)}
    with style():
        if axes is None:
            height = 0.32 * max(map(len, panels.values())) + 1.2
            axes = new_axes(None, figsize=(7.2, height), ncols=len(panels), sharey=True)
        axes = np.atleast_1d(axes)
        names = list(dict.fromkeys(way for panel in panels.values() for way in panel))
        for ax, (title, ways) in zip(axes, panels.items(), strict=True):
            for way, layouts in ways.items():
                for layout, ratio in layouts.items():
                    mark, colour = marks[layout]
                    ax.plot(ratio, names.index(way), mark, color=colour, markersize=6)
            ax.axvline(1, color=INK, linewidth=1, linestyle="--")
            if target is not None:
                ax.axvline(target, color=GREY, linewidth=1, linestyle=":")
            ax.set_xscale("log")
            ticks = [1, 2, 5, 10, 20, 50]
            ax.set_xticks(ticks, [str(t) for t in ticks])
            ax.minorticks_off()
            ax.set_xlabel(f"{title}: time ÷ copy_")
            ax.grid(axis="y", color="#dddddd", linewidth=0.8)
            ax.set_axisbelow(True)
        axes[0].set_yticks(range(len(names)), names)
        axes[0].set_ylim(len(names) - 0.5, -0.5)
    return axes


def drift(first: Sequence[float], second: Sequence[float], *, names, in_turn: bool, ax=None):
    """Times of two versions in the order in which they were measured.

    Args:
        first: times of the first version.
        second: times of the second one.
        names: of the two.
        in_turn: whether they were measured in turn, or one after the other.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 2.2))
        n = len(first)
        places = np.arange(2 * n)
        at = (places[0::2], places[1::2]) if in_turn else (places[:n], places[n:])
        for x, y, name, colour, mark in zip(
            at, (first, second), names, (BLUE, RED), ("o", "D"), strict=True
        ):
            ax.plot(x, y, mark, color=colour, markersize=3)
            ax.axhline(np.median(y), color=colour, linewidth=1, linestyle="--")
            ax.text(2 * n + 1, np.median(y), name, color=colour, va="center")
        ax.set_xlabel("measured one after the other" if not in_turn else "measured in turn")
        ax.set_ylabel("time")
        ax.set_xlim(-1, 2 * n)
        ax.set_ylim(0, None)
    return ax


def memory_growth(lengths: Sequence[int], curves: Mapping[str, Sequence[float]], *, ax=None):
    """The largest tensor by the length of the text, both on logarithmic scales.

    Args:
        lengths: tokens.
        curves: name -> bytes at each length.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.2))
        for (name, values), colour in zip(curves.items(), (RED, BLUE), strict=False):
            sizes = np.asarray(values) / 2**20
            ax.loglog(lengths, sizes, "o-", color=colour)
            label_line(ax, lengths[-1], sizes[-1], name, colour=colour)
        ax.set_xticks(lengths, [str(n) for n in lengths])
        ax.minorticks_off()
        ax.set_xlabel("tokens")
        ax.set_ylabel("largest tensor, MiB")
    return ax
