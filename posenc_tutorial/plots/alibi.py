"""Figures of chapter 8, ALiBi."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ._style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    label_line,
    new_axes,
    style,
)

_LOOKS = ((BLUE, "o"), (ORANGE, "s"), (RED, "D"), (GREEN, "^"), (INK, "v"))


def fading(slopes: Sequence[float], *, farthest: int = 1024, ax=None):
    """What is left of a weight at each distance, a curve for each slope.

    Args:
        slopes: score units per token, one for each head.
        farthest: distances 1 to this are drawn, on a logarithmic axis.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    distance = np.geomspace(1, farthest, 300)
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.6))
        shades = np.linspace(0.75, 0.0, len(slopes))
        for number, (slope, shade) in enumerate(zip(slopes, shades, strict=True), start=1):
            colour = str(round(float(shade) * 0.75, 3)) if number > 1 else BLUE
            colour = RED if number == len(slopes) else colour
            ax.plot(distance, np.exp(-slope * distance), color=colour, lw=1.5)
            half = np.log(2) / slope
            if 1 <= half <= farthest:
                ax.plot(half, 0.5, marker="o", color=colour, markersize=5)
                above = {"xytext": (3, 6), "ha": "left"}
                label_line(ax, half, 0.5, f"1/{round(1 / slope)}", colour=colour, **above)
        ax.set_xscale("log", base=2)
        ticks = [2**i for i in range(int(np.log2(farthest)) + 1)]
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        ax.set_ylim(0, 1.02)
        ax.set_xlabel("distance (tokens)")
        ax.set_ylabel("share of the weight that is left")
    return ax


def slope_ladders(ladders: Mapping[int, Sequence[float]], *, ax=None):
    """The slopes of each number of heads on a logarithmic axis, numbered by head.

    Heads up to the largest power of two are filled, the extra ones are open.

    Args:
        ladders: number of heads to its slopes, in the order of the heads.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 0.62 * len(ladders) + 1.1))
        rows = range(len(ladders))[::-1]
        for row, (heads, slopes) in zip(rows, ladders.items(), strict=True):
            power = 2 ** (int(heads).bit_length() - 1)
            ax.axhline(row, color=GREY, lw=0.6, zorder=0)
            for head, slope in enumerate(slopes, start=1):
                face, edge = (BLUE, BLUE) if head <= power else ("white", RED)
                ax.plot(slope, row, "o", markersize=13, mfc=face, mec=edge, mew=1.4)
                ink = "white" if head <= power else RED
                ax.text(slope, row, str(head), color=ink, ha="center", va="center", fontsize=8)
        ax.set_xscale("log", base=2)
        ticks = [2.0**-i for i in range(9)]
        names = ["1", *(f"1/{2**i}" for i in range(1, 9))]
        ax.set_xticks(ticks, names)
        ax.minorticks_off()
        ax.set_xlim(2**-8.6, 2**-0.05)
        ax.invert_xaxis()
        ax.set_ylim(-0.6, len(ladders) - 0.4)
        ax.set_yticks(list(rows), [f"{heads} heads" for heads in ladders])
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("slope")
    return ax


def two_matrices(matrices: Mapping[str, Sequence], *, axes=None):
    """Bias matrices with their numbers written in; what a causal mask hides is white.

    Args:
        matrices: label to ``(n, n)``, queries down and keys across.
        axes: one axes for each matrix, or None for a new figure.

    Returns:
        The array of axes.
    """
    with style():
        axes = new_axes(axes, figsize=(6.2, 3.0), ncols=len(matrices), squeeze=False)
        axes = np.ravel(axes)
        for ax, (label, values) in zip(axes, matrices.items(), strict=True):
            values = np.array(values, dtype=float)
            n = len(values)
            shown = values.copy()
            shown[np.triu_indices(n, 1)] = np.nan
            limit = max(np.nanmax(np.abs(shown)), 1e-9)
            ax.imshow(shown, cmap="RdBu_r", vmin=-1.5 * limit, vmax=1.5 * limit)
            for row in range(n):
                for column in range(n):
                    hidden = column > row
                    ax.text(
                        column,
                        row,
                        f"{values[row, column] + 0.0:g}",
                        color=GREY if hidden else INK,
                        ha="center",
                        va="center",
                        fontsize=8,
                    )
            ax.set_xlabel(f"key\n{label}")
            ax.set_ylabel("query")
            ax.set_xticks(range(n))
            ax.set_yticks(range(n))
    return axes


def rounding_growth(errors: Mapping[str, Mapping[int, float]], *, ax=None):
    """Error of a weight against the position of the query, both logarithmic.

    Args:
        errors: label to a mapping from position to error; nan and infinite errors are left out.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.6))
        for (label, points), (colour, marker) in zip(errors.items(), _LOOKS, strict=False):
            good = {p: e for p, e in points.items() if np.isfinite(e) and e > 0}
            ax.plot(
                list(good), list(good.values()), color=colour, marker=marker, markersize=4, lw=1.3
            )
            place, error = list(good.items())[-1]
            last = place == max(max(row) for row in errors.values())
            where = {"xytext": (7, 0)} if last else {"xytext": (0, -13), "ha": "right"}
            label_line(ax, place, error, label, colour=colour, **where)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        places = sorted({place for row in errors.values() for place in row})
        ticks = places[::-1][::3][::-1]
        ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.minorticks_off()
        ax.set_xlim(places[0] * 0.7, places[-1] * 48)
        ax.set_xlabel("position of the query (tokens)")
        ax.set_ylabel("largest error of a weight")
    return ax


def mass_within(
    curves: Mapping[str, Mapping[str, Sequence]], *, trained: int | None = None, axes=None
):
    """Share of the weight on the nearest tokens, a panel for each head and a line for each length.

    Args:
        curves: panel to label to cumulative weight: entry ``t`` is what distances ``0 … t`` hold.
        trained: marks the trained length, if given.
        axes: one axes for each panel, or None for a new figure.

    Returns:
        The array of axes.
    """
    with style():
        rows = -(-len(curves) // 2)
        axes = new_axes(
            axes,
            figsize=(6.4, 2.5 * rows),
            nrows=rows,
            ncols=2,
            sharex=True,
            sharey=True,
            squeeze=False,
        )
        axes = np.ravel(axes)[: len(curves)]
        dashes = ("-", "--", ":", "-.")
        for ax, (panel, lines) in zip(axes, curves.items(), strict=True):
            for (label, values), colour, dash in zip(
                lines.items(), (INK, BLUE, RED), dashes, strict=False
            ):
                ax.plot(range(1, len(values) + 1), values, color=colour, ls=dash, label=label)
            if trained is not None:
                ax.axvline(trained, color=GREY, lw=0.8)
            ax.set_xscale("log", base=2)
            longest = max(len(values) for values in lines.values())
            ticks = [4**i for i in range(12) if 4**i <= longest]
            ax.set_xticks(ticks, [str(tick) for tick in ticks])
            ax.minorticks_off()
            ax.set_ylim(0, 1.03)
            ax.text(0.97, 0.06, panel, transform=ax.transAxes, ha="right", va="bottom")
        axes[0].legend(fontsize=8, loc="center right")
        for ax in axes[-2:]:
            ax.set_xlabel("nearest tokens")
        for ax in axes[::2]:
            ax.set_ylabel("share of weight")
    return axes


def losses_and_windows(
    losses: Mapping[str, Mapping[int, float]],
    windows: Mapping[str, Mapping[int, float]],
    *,
    trained: int,
    axes=None,
):
    """Loss against the length of the text, and against the width of a window.

    Args:
        losses: encoding to length to loss.
        windows: encoding to width of the window to loss, at the largest length.
        trained: the trained length; longer texts are shaded.
        axes: two axes, or None for a new figure.

    Returns:
        The two axes.
    """
    with style():
        axes = new_axes(axes, figsize=(6.0, 6.2), nrows=2)
        names = list(losses)
        for ax, lines in zip(axes, (losses, windows), strict=True):
            ends = []
            for name, points in lines.items():
                colour, marker = _LOOKS[names.index(name)]
                ax.plot(
                    list(points),
                    list(points.values()),
                    color=colour,
                    marker=marker,
                    markersize=4,
                    lw=1.3,
                )
                ends.append((list(points.values())[-1], max(points), name, colour))
            low, high = ax.get_ylim()
            below = np.inf  # labels from the top down, so far apart that they can be read
            for value, place, name, colour in sorted(ends, reverse=True):
                below = min(value, below - 0.085 * (high - low))
                label_line(ax, place, below, name, colour=colour, xytext=(8, 0))
            ax.set_xscale("log", base=2)
            ticks = sorted({tick for points in lines.values() for tick in points})
            ax.set_xticks(ticks, [str(tick) for tick in ticks])
            ax.minorticks_off()
            ax.set_xlim(ticks[0] * 0.85, ticks[-1] * 3.6)
            ax.set_ylabel("loss (nats per byte)")
        longest = max(max(points) for points in losses.values())
        axes[0].axvspan(trained * 1.2, longest * 1.2, color=GREY, alpha=0.15, lw=0)
        axes[0].set_xlabel("length of the text (bytes)")
        axes[1].set_xlabel("tokens that a token may see")
    return axes


def retrieval(accuracy: Mapping[str, Mapping[int, float]], *, trained: int, chance: float, ax=None):
    """Share of facts that are found again, against how far back they stand.

    Args:
        accuracy: encoding to distance to accuracy, from 0 to 1.
        trained: the trained length; farther facts are shaded.
        chance: accuracy of a guess.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.6))
        farthest = max(max(points) for points in accuracy.values())
        ax.axvspan(trained, farthest * 1.1, color=GREY, alpha=0.15, lw=0)
        ax.plot([1, farthest], [chance, chance], color=GREY, lw=1.0, ls="--")
        label_line(ax, 1, chance, "a guess", colour=GREY, xytext=(0, 7), ha="left")
        below = np.inf
        ends = []
        for (name, points), (colour, marker) in zip(accuracy.items(), _LOOKS, strict=False):
            ax.plot(
                list(points),
                list(points.values()),
                color=colour,
                marker=marker,
                markersize=5,
                lw=1.4,
            )
            ends.append((list(points.values())[-1], name, colour))
        for value, name, colour in sorted(ends, reverse=True):
            below = min(value, below - 0.08)
            label_line(ax, farthest, below, name, colour=colour, xytext=(8, 0))
        ax.set_xscale("log", base=2)
        ticks = sorted({tick for points in accuracy.values() for tick in points})
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        ax.set_xlim(0.9, farthest * 5)
        ax.set_ylim(0, 1.05)
        ax.set_xlabel("distance to the fact (tokens)")
        ax.set_ylabel("found")
    return ax
