"""Figures of chapter 7, RoPE in practice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def pairings(layouts: Mapping[str, Sequence[tuple[int, int]]], *, axes=None):
    """Channels of one head as a row of boxes; an arc joins the two channels of each pair.

    Args:
        layouts: name of a layout to its pairs, two channel numbers each, pair 0 first.
        axes: one axes for each layout, or None for a new figure.

    Returns:
        The array of axes.
    """
    with style():
        axes = np.ravel(new_axes(axes, figsize=(6.6, 3.6), nrows=len(layouts)))
        for ax, (name, pairs) in zip(axes, layouts.items(), strict=True):
            for i, pair in enumerate(pairs):
                colour = COLOURS[i % len(COLOURS)]
                for channel in pair:
                    box = Rectangle((channel - 0.4, -0.4), 0.8, 0.8, facecolor=colour, alpha=0.45)
                    ax.add_patch(box)
                    ax.text(channel, 0, str(channel), ha="center", va="center")
                middle, reach = sum(pair) / 2, abs(pair[1] - pair[0]) / 2
                turn = np.linspace(0, np.pi, 60)
                height = 0.35 + 0.22 * reach
                ax.plot(
                    middle - reach * np.cos(turn), 0.45 + height * np.sin(turn), color=colour, lw=2
                )
                for channel in pair:
                    ax.text(channel, -0.52, f"pair {i}", ha="center", va="top", fontsize=7.5)
            ax.text(-0.9, 0, name, ha="right", va="center")
            ax.set_xlim(-3.0, 2 * len(pairs) - 0.3)
            ax.set_ylim(-0.95, 1.85)
            ax.axis("off")
    return axes


def two_matrices(matrices: Mapping[str, Sequence], *, axes=None):
    """Square matrices side by side as heat maps, on one scale from -1 to 1.

    Args:
        matrices: name to ``(d, d)``; what comes in runs across, what comes out runs down.
        axes: one axes for each, or None for a new figure.

    Returns:
        The array of axes.
    """
    with style():
        axes = np.ravel(new_axes(axes, figsize=(2.6 * len(matrices) + 0.8, 2.9),
                                 ncols=len(matrices)))  # fmt: skip
        for ax, (name, matrix) in zip(axes, matrices.items(), strict=True):
            matrix = np.asarray(matrix)
            image = ax.imshow(matrix, cmap=DIVERGING, vmin=-1, vmax=1)
            ax.set_xlabel(name)
            ticks = np.arange(len(matrix))
            ax.set_xticks(ticks)
            ax.set_yticks(ticks)
            ax.tick_params(length=0)
        axes[0].set_ylabel("channel that comes out")
        axes[-1].figure.colorbar(image, ax=list(axes), shrink=0.8)
    return axes


def error_by_position(positions, errors: Mapping[str, Sequence], *, ax=None):
    """Largest error of a score against the position of the newest token.

    Args:
        positions: ``(n,)``.
        errors: name to ``(n,)``.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.2))
        for (name, values), colour in zip(errors.items(), COLOURS, strict=False):
            ax.plot(positions, values, color=colour, marker="o", ms=3.5)
            label_line(ax, positions[-1], values[-1], name, colour=colour)
        ax.set_xlim(-0.5, positions[-1] * 1.28)
        ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= positions[-1]])
        ax.set_ylim(bottom=0)
        ax.set_xlabel("position of the query")
        ax.set_ylabel("error of its scores")
    return ax


def moved_scores(starts, scores: Mapping[str, Sequence], *, ax=None):
    """One score while query and key move along together; a flat line depends on distance alone.

    Args:
        starts: ``(n,)``, position of the key.
        scores: name to ``(n,)``.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.2))
        for (name, values), colour in zip(scores.items(), (BLUE, GREEN, RED), strict=False):
            ax.plot(starts, values, color=colour)
            label_line(ax, starts[-1], values[-1], name, colour=colour)
        ax.set_xlim(starts[0], starts[-1] * 1.38)
        ax.set_xticks([tick for tick in ax.get_xticks() if tick <= starts[-1]])
        ax.set_xlabel("position of the key; the query is 3 further on")
        ax.set_ylabel("score")
    return ax


def rounding_curves(positions, errors: Mapping[str, Sequence], *, limit=None, ax=None):
    """Largest error of a cosine up to each position, both axes logarithmic.

    Args:
        positions: ``(n,)``, from 1.
        errors: name to ``(n,)``, above 0.
        limit: draw a thin line here: what rounding the result once may cost.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.6, 3.6))
        ends = []
        for (name, values), colour in zip(errors.items(), COLOURS, strict=False):
            ax.plot(positions, values, color=colour)
            ends.append((values[-1], name, colour))
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_ylim(min(min(v) for v in errors.values()) / 3, 6)
        ends.sort(key=lambda end: end[0])
        lowest = -np.inf
        for value, name, colour in ends:  # labels at least a quarter of a decade apart
            lowest = max(np.log10(value), lowest + 0.42)
            ax.annotate(name, (positions[-1], 10**lowest), xytext=(5, 0), va="center",
                        textcoords="offset points", color=colour, fontsize=9,
                        annotation_clip=False)  # fmt: skip
        if limit is not None:
            ax.axhline(limit, color=GREY, lw=0.8, ls=":")
        ax.set_xlim(positions[0], positions[-1] * 1.02)
        ax.set_xlabel("position")
        ax.set_ylabel("largest error of a cosine so far")
    return ax


def position_strips(rows: Sequence[tuple[str, Sequence[str], Sequence[int | None]]], *, ax=None):
    """Rows of tokens: a letter says which text a token belongs to, a number where it stands.

    Args:
        rows: for each row its name, a letter per slot (``""`` for padding), and a position per
            slot (None for padding).
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.8, 0.62 * len(rows) + 0.3))
        letters = sorted({letter for _, text, _ in rows for letter in text if letter})
        colours = dict(zip(letters, COLOURS, strict=False))
        for level, (name, text, places) in enumerate(rows):
            for slot, (letter, place) in enumerate(zip(text, places, strict=True)):
                face = colours[letter] if letter else "white"
                box = Rectangle(
                    (slot - 0.44, -level - 0.36), 0.88, 0.72, facecolor=face, edgecolor=GREY
                )
                box.set_alpha(0.5 if letter else 1)
                ax.add_patch(box)
                label = "–" if place is None else f"{letter}{place}"
                ax.text(slot, -level, label, ha="center", va="center", fontsize=9)
            ax.text(-0.8, -level, name, ha="right", va="center", fontsize=9)
        widest = max(len(text) for _, text, _ in rows)
        ax.set_xlim(-4.2, widest - 0.4)
        ax.set_ylim(-len(rows) + 0.5, 0.5)
        ax.axis("off")
    return ax


def loss_bars(losses: Mapping[str, float], *, right: Sequence[str] = (), ax=None):
    """Losses as horizontal bars, the number at the end of each.

    Args:
        losses: name to nats per token, top to bottom.
        right: names whose bar is drawn as right; the others are drawn as wrong.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 0.34 * len(losses) + 0.7))
        places = -np.arange(len(losses))
        colours = [BLUE if name in right else ORANGE for name in losses]
        ax.barh(places, list(losses.values()), color=colours, height=0.66)
        for place, value in zip(places, losses.values(), strict=True):
            ax.text(value, place, f" {value:.2f}", va="center", ha="left", fontsize=9)
        ax.set_yticks(places, list(losses))
        ax.tick_params(axis="y", length=0)
        ax.set_xlim(0, 1.12 * max(losses.values()))
        ax.set_xlabel("loss, nats per token")
    return ax


def loss_by_base(bases, losses, *, own, ax=None):
    """Loss against the base of the rotation, the checkpoint's own base marked.

    Args:
        bases: ``(n,)``, increasing.
        losses: ``(n,)``, nats per token.
        own: the base that the checkpoint was trained with.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.0))
        ax.plot(bases, losses, color=BLUE, marker="o", ms=4)
        ax.axvline(own, color=GREY, lw=1, ls=":")
        ax.set_xscale("log")
        ax.annotate("trained with", (own, max(losses)), xytext=(5, -2), fontsize=9,
                    textcoords="offset points", va="top", color=INK)  # fmt: skip
        ax.set_xlabel("base of the rotation")
        ax.set_ylabel("loss, nats per token")
    return ax


def loss_by_offset(offsets, losses: Mapping[str, Sequence], *, ax=None):
    """Loss of one text against the position at which it starts, a line for each rounding.

    Args:
        offsets: ``(n,)``.
        losses: name to ``(n,)``, nats per token. Lines that agree within 0.02 share one label.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.8, 3.4))
        groups: list[tuple[list[str], Sequence, str]] = []
        colours = iter((BLUE, RED, ORANGE, GREEN, *COLOURS))
        for name, values in losses.items():
            near = [g for g in groups if np.abs(np.subtract(g[1], values)).max() < 0.02]
            if near:
                near[0][0].append(name)
                continue
            colour = next(colours)
            ax.plot(offsets, values, color=colour, marker="o", ms=4)
            groups.append(([name], values, colour))
        for names, values, colour in groups:
            label_line(ax, offsets[-1], values[-1], "\n".join(names), colour=colour, va="bottom",
                       xytext=(4, -5))  # fmt: skip
        ax.set_xlim(-0.02 * offsets[-1], offsets[-1] * 1.42)
        ax.set_xticks(list(offsets))
        ax.set_xlabel("position of the first token")
        ax.set_ylabel("loss, nats per token")
    return ax
