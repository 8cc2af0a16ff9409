"""Figures of chapter 11, long context on a real model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import ListedColormap

from ._style import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    label_line,
    new_axes,
    style,
)

MARKERS = "osD^v<>"
#: One colour and marker for each method, the same in every figure of the chapter.
METHODS = {
    "plain": (INK, "o"),
    "PI": (RED, "s"),
    "NTK": (ORANGE, "^"),
    "dynamic": (PURPLE, "v"),
    "YaRN": (BLUE, "D"),
    "YaRN, paper": (SKY, "P"),
}


def clocks(plain, scaled, *, trained: int | None = None, extended: int | None = None, ax=None):
    """Wavelength of every pair, without and with a rule, against the two lengths.

    Args:
        plain: ``(pairs,)``, wavelengths in tokens.
        scaled: ``(pairs,)``, wavelengths with the rule; infinite ones are left out.
        trained: tokens, drawn as a line; None for no line.
        extended: tokens, drawn as a dashed line; None for no line.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    plain, scaled = np.asarray(plain), np.asarray(scaled)
    pairs = np.arange(len(plain))
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.8))
        ax.plot(pairs, plain, color=GREY, lw=1.4, label="plain")
        turning = np.isfinite(scaled)
        ax.plot(
            pairs[turning],
            scaled[turning],
            color=BLUE,
            marker="o",
            markersize=3,
            lw=0.9,
            label="as configured",
        )
        if not np.allclose(plain, scaled):
            last = pairs[turning][-1]
            label_line(ax, pairs[-1], plain[-1], "plain", colour=GREY)
            label_line(ax, last, scaled[turning][-1], "as configured", colour=BLUE)
        for length, dash, word in ((trained, "-", "trained"), (extended, "--", "extended")):
            if length is not None:
                ax.axhline(length, color=INK, lw=1.0, ls=dash)
                label_line(ax, 0, length, f"{word}: {length:,} tokens", xytext=(2, 4), va="bottom")
        ax.set_yscale("log")
        ax.set_xlim(-0.5, len(plain) * 1.22)
        ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick < len(plain)])
        ax.set_xlabel("pair of channels")
        ax.set_ylabel("wavelength (tokens)")
    return ax


def published_clocks(models: Mapping[str, tuple[Sequence, int | None, int | None]], *, ax=None):
    """Every clock of many models, a row for each, against trained and extended length.

    Args:
        models: label to wavelengths (tokens), trained length and extended length; None where the
            file does not say it or there is none.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes, first model on top.
    """
    with style():
        ax = new_axes(ax, figsize=(6.8, 0.36 * len(models) + 1.1))
        rows = range(len(models))[::-1]
        for row, (waves, trained, extended) in zip(rows, models.values(), strict=True):
            waves = np.asarray(waves)
            ends = [length for length in (trained, extended) if length is not None]
            seen = waves <= max(ends) if ends else np.zeros(len(waves), bool)
            ax.plot(waves[seen], np.full(seen.sum(), row), ls="none", marker="|", color=BLUE, ms=7)
            ax.plot(
                waves[~seen], np.full((~seen).sum(), row), ls="none", marker="|", color=RED, ms=7
            )
            for length, marker in ((trained, "o"), (extended, ">")):
                if length is not None:
                    ax.plot(length, row, marker=marker, color=INK, ms=5.5, ls="none", zorder=3)
        ax.set_yticks(list(rows), list(models))
        ax.set_xscale("log")
        ax.set_ylim(-0.7, len(models) - 0.3)
        ax.set_xlabel("wavelength (tokens)")
        handles = [
            ax.plot([], [], ls="none", marker="o", color=INK, ms=5.5)[0],
            ax.plot([], [], ls="none", marker=">", color=INK, ms=5.5)[0],
        ]
        ax.legend(
            handles,
            ["trained length", "extended length"],
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=2,
            fontsize=9,
        )
    return ax


def census(table: Mapping[str, Mapping[str, int]], *, ax=None):
    """How many models of each year rotate, and what the others do.

    Args:
        table: year to counts by kind, with the kinds of
            :mod:`posenc_tutorial.published_configs.census`.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    looks = {
        "rotary": (BLUE, ""),
        "table": (ORANGE, "//"),
        "buckets": (GREEN, ".."),
        "slope": (PURPLE, "xx"),
        "other": (SKY, "\\\\"),
        "none": ("white", ""),
    }
    names = {"rotary": "RoPE", "table": "added table", "slope": "ALiBi", "none": "no positions"}
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.6))
        places = np.arange(len(table))
        bottom = np.zeros(len(table))
        for kind, (colour, hatch) in looks.items():
            counts = np.array([kinds.get(kind, 0) for kinds in table.values()])
            ax.bar(
                places,
                counts,
                bottom=bottom,
                color=colour,
                edgecolor=INK,
                linewidth=0.6,
                hatch=hatch,
                label=names.get(kind, kind),
            )
            bottom += counts
        ax.set_xticks(places, list(table))
        ax.set_xlabel("year in the file's copyright line")
        ax.set_ylabel("model folders")
        ax.legend(fontsize=9)
    return ax


def gap_curves(
    gaps: Sequence[int],
    shares: Mapping[str, Sequence],
    *,
    trained: int,
    ax=None,
):
    """What a second copy costs against the gap, a line for each method and a bar for the range.

    Args:
        gaps: ``(n,)``, tokens.
        shares: method to ``(n, sequences)``, loss on the second copy as a share of the loss that
            the same method has on the first; 1, where nothing is copied, is drawn as a dotted line.
        trained: the trained length, drawn as a vertical line.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    places = np.arange(len(gaps))
    with style():
        ax = new_axes(ax, figsize=(6.6, 4.0))
        ends, top = [], 1.0
        for number, (name, values) in enumerate(shares.items()):
            values = np.asarray(values)
            top = max(top, values.max())
            colour, marker = METHODS.get(name, (COLOURS[number % 6], MARKERS[number % 7]))
            mean = values.mean(1)
            spread = np.stack([mean - values.min(1), values.max(1) - mean])
            shift = 0.06 * (number - (len(shares) - 1) / 2)
            ax.errorbar(
                places + shift,
                mean,
                yerr=spread,
                color=colour,
                marker=marker,
                markersize=5,
                lw=1.2,
                elinewidth=0.9,
                capsize=2,
            )
            ends.append((mean[-1], name, colour))
        below = np.inf
        for end, name, colour in sorted(ends, reverse=True):
            below = min(end, below - 0.055 * top)
            label_line(ax, places[-1] + 0.15, below, name, colour=colour)
        ax.axhline(1.0, color=GREY, lw=1.0, ls=":")
        label_line(ax, 0, 1.0, "nothing copied", colour=GREY, xytext=(0, 4), va="bottom")
        inside = sum(gap < trained for gap in gaps) - 0.5
        ax.axvline(inside, color=GREY, lw=1.0, ls="--")
        label_line(ax, inside, top, f"{trained:,}", colour=GREY)
        ax.set_xticks(places, [f"{gap:,}" for gap in gaps])
        ax.set_xlim(-0.4, len(gaps) - 0.1)
        ax.set_ylim(0, top * 1.06)
        ax.set_xlabel("gap between the copies (tokens)")
        ax.set_ylabel("loss on the second copy,\nas a share of the first")
    return ax


def short_cost(costs: Mapping[str, Sequence], *, ax=None):
    """What each method costs on a short text: mean difference and its standard error.

    Args:
        costs: method to differences from the plain model, token by token, nats.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes, first method on top.
    """
    with style():
        ax = new_axes(ax, figsize=(6.0, 0.5 * len(costs) + 1.0))
        rows = range(len(costs))[::-1]
        for row, (name, values) in zip(rows, costs.items(), strict=True):
            values = np.asarray(values)
            error = values.std(ddof=1) / np.sqrt(len(values))
            colour, marker = METHODS.get(name, (INK, "o"))
            ax.errorbar(
                values.mean(),
                row,
                xerr=2 * error,
                color=colour,
                marker=marker,
                markersize=6,
                capsize=3,
                ls="none",
            )
        ax.axvline(0, color=INK, lw=1.0)
        ax.set_yticks(list(rows), list(costs))
        ax.set_ylim(-0.6, len(costs) - 0.4)
        ax.set_xscale("symlog", linthresh=0.1)
        ax.set_xlabel("loss above the plain model (nats per token)")
    return ax


def loss_by_length(losses: Mapping[str, Mapping[int, Sequence[float]]], *, trained: int, ax=None):
    """Loss on the same last tokens against the length of the text before them.

    Args:
        losses: method to a mapping from length to one loss for each span of text.
        trained: the trained length, drawn as a vertical line.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    lengths = sorted({length for points in losses.values() for length in points})
    place = {length: number for number, length in enumerate(lengths)}
    with style():
        ax = new_axes(ax, figsize=(6.6, 4.0))
        ends = []
        for number, (name, points) in enumerate(losses.items()):
            if not points:
                continue
            known = sorted(points)
            colour, marker = METHODS.get(name, (COLOURS[number % 6], MARKERS[number % 7]))
            means = [np.mean(points[length]) for length in known]
            places = [place[length] for length in known]
            ax.plot(places, means, color=colour, lw=1.3, marker=marker, markersize=5)
            for x, length in zip(places, known, strict=True):
                values = points[length]
                ax.plot(
                    [x] * len(values), values, color=colour, marker="_", ls="none", markersize=9
                )
            ends.append((means[-1], places[-1], name, colour))
        below: dict[int, float] = {}
        low, high = ax.get_ylim()
        for end, x, name, colour in sorted(ends, reverse=True):
            height = min(end, below.get(x, np.inf) - 0.05 * (high - low))
            below[x] = height
            label_line(ax, x + 0.06, height, name, colour=colour)
        ax.axvline(place.get(trained, 0), color=GREY, lw=1.0, ls="--")
        ax.set_xticks(range(len(lengths)), [f"{length:,}" for length in lengths])
        ax.set_xlim(-0.25, len(lengths) - 0.35)
        ax.set_xlabel("tokens of text")
        ax.set_ylabel("loss on the last tokens\n(nats per token)")
    return ax


def shards(owners: Mapping[str, Sequence[int]], *, axes=None):
    """Who computes which score of a causal mask, for several ways to cut a text.

    Args:
        owners: name of the cut to the rank of each token, in the order of the text.
        axes: one axes for each cut, or None for a new figure.

    Returns:
        The array of axes. White is hidden by the mask.
    """
    with style():
        axes = new_axes(axes, figsize=(6.4, 3.3), ncols=len(owners), squeeze=False)
        axes = np.ravel(axes)
        for ax, (name, ranks) in zip(axes, owners.items(), strict=True):
            ranks = np.asarray(ranks)
            n, world_size = len(ranks), int(ranks.max()) + 1
            grid = np.repeat(ranks[:, None], n, axis=1).astype(float)
            grid[np.triu_indices(n, 1)] = np.nan
            colours = ListedColormap([BLUE, ORANGE, GREEN, PURPLE, SKY, RED][:world_size])
            ax.imshow(grid, cmap=colours, vmin=-0.5, vmax=world_size - 0.5)
            for rank in range(world_size):
                rows = np.flatnonzero(ranks == rank)
                pieces = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
                for piece in pieces:
                    middle = piece.mean()
                    ax.text(n - 0.2, middle, f"rank {rank}", va="center", fontsize=9)
            ax.set_xlabel(f"key position\n{name}")
            ax.set_xticks([0, n - 1])
            ax.set_yticks([0, n - 1])
        axes[0].set_ylabel("query position")
    return axes
