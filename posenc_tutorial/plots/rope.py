"""Figures of chapter 06: turning hands, pairs of channels, scores by distance, rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.patches import Arc, Circle, Wedge

from ._style import BLUE, COLOURS, GREY, INK, ORANGE, RED, SEQUENTIAL, label_line, new_axes, style

_MARKERS = "os^Dv*"


def hand_pairs(queries, keys, *, labels: Sequence[str], start=None, ax=None):
    """Dials with a query hand and a key hand each, and the angle between them shaded.

    Angles run anticlockwise from the right, as in a textbook: a hand at the angle ``a`` ends in
    ``(cos a, sin a)``, the two channels of its pair.

    Args:
        queries: ``(dials,)``, angle of the query in radians.
        keys: ``(dials,)``, angle of the key in radians.
        labels: one for each dial, written below it.
        start: angles of query and key before they were turned, drawn in grey, or None.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    queries, keys = np.asarray(queries, dtype=float), np.asarray(keys, dtype=float)
    dials = len(queries)
    with style():
        ax = new_axes(ax, figsize=(1.75 * dials + 0.3, 2.3))
        for dial, (query, key, label) in enumerate(zip(queries, keys, labels, strict=True)):
            x = float(dial)
            ax.add_patch(Circle((x, 0), 0.42, facecolor="white", edgecolor=GREY, lw=0.9))
            between = np.degrees((key - query) % (2 * np.pi))
            first, last = (query, between) if between <= 180 else (key, 360 - between)
            first = np.degrees(first)
            ax.add_patch(Wedge((x, 0), 0.2, first, first + last, color=ORANGE, alpha=0.35))
            for angle in start if start is not None else ():
                _hand(ax, x, angle, GREY, 1.4)
            for angle, colour, name in ((query, BLUE, "q"), (key, RED, "k")):
                _hand(ax, x, angle, colour, 2.2)
                place = (x + 0.5 * np.cos(angle), 0.5 * np.sin(angle))
                ax.text(*place, name, color=colour, ha="center", va="center", fontsize=10)
            ax.text(x, -0.68, label, ha="center", va="top", fontsize=9)
        ax.set_xlim(-0.6, dials - 0.4)
        ax.set_ylim(-0.95, 0.62)
        ax.set_aspect("equal")
        ax.axis("off")
    return ax


def _hand(ax, x: float, angle: float, colour: str, width: float) -> None:
    tip = (x + 0.4 * np.cos(angle), 0.4 * np.sin(angle))
    ax.plot([x, tip[0]], [0, tip[1]], color=colour, lw=width, solid_capstyle="round")


def pair_map(
    schemes: Mapping[str, tuple[Sequence[tuple[int, int]], Sequence[float]]], *, dim, ax=None
):
    """Which channels turn together, and how fast: a row of channels for each scheme.

    Args:
        schemes: name to the pairs of channels and their frequencies in radians per token; a pair
            with frequency 0 stands still, as does a channel in no pair.
        dim: number of channels.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.6, 1.25 * len(schemes) + 0.3))
        colours = mpl.colormaps[SEQUENTIAL]
        for row, (name, (pairs, speeds)) in enumerate(schemes.items()):
            y = -1.6 * row
            turning = {}
            for (a, b), speed in zip(pairs, speeds, strict=True):
                if speed > 0:
                    turning[a] = turning[b] = speed
                    arc = Arc(((a + b) / 2, y + 0.3), b - a, 0.35 + 0.12 * (b - a), theta2=180)
                    ax.add_patch(arc)
                    text = f"{speed:.3g}"
                    top = y + 0.3 + (0.35 + 0.12 * (b - a)) / 2
                    ax.text((a + b) / 2, top + 0.03, text, ha="center", va="bottom", fontsize=8)
            for channel in range(dim):
                speed = turning.get(channel, 0.0)
                shade = 1 + np.log10(speed) / 4 if speed else 0.0
                face = colours(shade) if speed else "white"
                ax.add_patch(Circle((channel, y), 0.3, facecolor=face, edgecolor=INK, lw=0.9))
                dark = bool(speed) and shade < 0.55
                ax.text(channel, y, str(channel), color="white" if dark else INK, ha="center",
                        va="center", fontsize=9)  # fmt: skip
            ax.text(-0.7, y, name, ha="right", va="center", fontsize=9)
        ax.set_xlim(-3.9, dim - 0.4)
        ax.set_ylim(-1.6 * (len(schemes) - 1) - 0.45, 1.05)
        ax.set_aspect("equal")
        ax.axis("off")
    return ax


def shift_errors(positions, errors: Mapping[str, Sequence], *, ax=None):
    """How much a score changes when query and key both move on by the same number of tokens.

    Args:
        positions: ``(n,)``, tokens moved, at least 1.
        errors: label to ``(n,)``; zeros are left out of the line.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.9))
        positions = np.asarray(positions, dtype=float)
        looks = zip(COLOURS, _MARKERS, strict=True)
        for (label, values), (colour, marker) in zip(errors.items(), looks, strict=False):
            values = np.asarray(values, dtype=float)
            shown = values > 0
            ax.plot(positions[shown], values[shown], color=colour, marker=marker, markersize=4,
                    lw=1.2, label=label)  # fmt: skip
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(1e-17, 1e2)
        ax.set_xlabel("both tokens moved on by (tokens)")
        ax.set_ylabel("largest change of a score")
        ax.legend(loc="center left", bbox_to_anchor=(0.0, 0.34), fontsize=9)
    return ax


def wave_sum(distances, waves, *, labels: Sequence[str], axes=None):
    """The score of one query and one key by distance: the wave of each pair, and their sum.

    Args:
        distances: ``(n,)``, tokens.
        waves: ``(pairs, n)``, what each pair contributes to the score.
        labels: one for each pair.
        axes: one axes for each pair and one more, or None for a new figure.

    Returns:
        The array of axes, the sum in the last one.
    """
    waves = np.asarray(waves, dtype=float)
    rows = [*waves, waves.sum(0)]
    with style():
        ratios = [1.0] * len(waves) + [1.9]
        axes = new_axes(
            axes, figsize=(6.4, 4.6), nrows=len(rows), sharex=True, height_ratios=ratios
        )
        axes = np.ravel(axes)
        most = 1.15 * np.abs(waves).max()
        for ax, wave, label in zip(axes, rows, [*labels, "score"], strict=True):
            last = ax is axes[-1]
            ax.axhline(0, color=GREY, lw=0.8)
            ax.axvline(0, color=GREY, lw=0.8, ls=(0, (2, 2)))
            ax.plot(distances, wave, color=INK if last else BLUE, lw=2.0 if last else 1.4)
            label_line(ax, distances[-1], 0, label, xytext=(6, 0))
            if not last:
                ax.set_ylim(-most, most)
        top = int(rows[-1].argmax())
        axes[-1].plot(distances[top], rows[-1][top], color=RED, marker="o", markersize=5)
        axes[-1].set_xlim(distances[0], distances[-1])
        axes[-1].set_xlabel("key position minus query position (tokens)")
    return axes


def score_by_distance(
    distances,
    bands: Mapping[str, tuple[Sequence, Sequence]],
    curves: Mapping[str, Sequence],
    *,
    axes=None,
):
    """Scores by distance: averages with their spread above, single queries below.

    Args:
        distances: ``(n,)``, tokens, at least 1; drawn on a logarithmic axis.
        bands: label to mean and standard deviation, ``(n,)`` each.
        curves: label to ``(n,)``, the scores of one query.
        axes: two axes, or None for a new figure.

    Returns:
        The two axes.
    """
    with style():
        axes = new_axes(axes, figsize=(6.4, 5.4), nrows=2, sharex=True)
        for ax in axes:
            ax.axhline(0, color=GREY, lw=0.8)
        for (label, (mean, spread)), colour in zip(bands.items(), (BLUE, ORANGE), strict=False):
            mean, spread = np.asarray(mean, dtype=float), np.asarray(spread, dtype=float)
            axes[0].fill_between(distances, mean - spread, mean + spread, color=colour, alpha=0.25)
            axes[0].plot(distances, mean, color=colour, lw=1.6, label=label)
        for (label, values), colour in zip(curves.items(), COLOURS, strict=False):
            values = np.asarray(values, dtype=float)
            axes[1].plot(distances, values, color=colour, lw=0.9)
            top = int(values.argmax())
            axes[1].plot(distances[top], values[top], color=colour, marker="o", markersize=5)
            side = {"xytext": (-6, 2), "ha": "right"} if top else {"xytext": (7, 2), "ha": "left"}
            label_line(axes[1], distances[top], values[top], label, colour=INK, **side)
        axes[1].margins(y=0.12)
        axes[0].legend(loc="upper right", fontsize=9)
        axes[0].set_ylabel("score, average and spread")
        axes[1].set_ylabel("score of one query")
        axes[1].set_xlabel("distance back (tokens)")
        axes[1].set_xscale("log")
        axes[1].set_xlim(distances[0], distances[-1])
    return axes


def bound_curves(distances, scores, bounds: Mapping[str, Sequence], *, ax=None):
    """Scores as dots under the bounds that are to hold them, both axes logarithmic.

    Args:
        distances: ``(n,)``, tokens, at least 1.
        scores: ``(draws, n)``, absolute scores.
        bounds: label to ``(n,)``.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.9))
        for row in np.asarray(scores, dtype=float):
            ax.plot(distances, row, color=GREY, marker=".", markersize=2, lw=0, alpha=0.5)
        for (label, values), colour in zip(bounds.items(), (RED, BLUE), strict=False):
            ax.plot(distances, values, color=colour, lw=1.8)
            label_line(ax, distances[0], values[0], label, colour=colour, xytext=(4, 9))
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(distances[0], distances[-1])
        ax.set_ylim(bottom=0.05)
        ax.set_xlabel("distance (tokens)")
        ax.set_ylabel("|score|")
    return ax
