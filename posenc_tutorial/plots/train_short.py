"""Figures of chapter 09, train short, test long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ._style import BLUE, COLOURS, GREY, INK, RED, label_line, new_axes, style

_LOOK = (
    ("o", "-"), ("s", "--"), ("D", "-"), ("^", "-."), ("v", "-"), ("*", ":"), ("P", "--"),
)  # fmt: skip


def _colour(number: int) -> str:
    return (*COLOURS, INK)[number % (len(COLOURS) + 1)]


def _spread_out(values: Sequence[float], gap: float) -> list[float]:
    """Heights for labels: as near to the values as they can be without lying on each other."""
    order = np.argsort(values)
    placed = np.array(values, dtype=float)
    for _ in range(200):
        for low, high in zip(order[:-1], order[1:], strict=True):
            missing = gap - (placed[high] - placed[low])
            if missing > 1e-9:
                placed[low] -= missing / 2
                placed[high] += missing / 2
    return placed.tolist()


def loss_by_length(
    lengths: Sequence[int],
    losses: Mapping[str, Sequence[float]],
    *,
    trained: int,
    spread: Mapping[str, Sequence[float]] | None = None,
    ax=None,
):
    """Loss at every length, one curve an encoding, labelled at its right end.

    Args:
        lengths: ``(n,)``, bytes.
        losses: name to ``(n,)``, nats per byte.
        trained: the trained length, a dotted line.
        spread: name to ``(n,)``, standard deviation over seeds, drawn as bars.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(7.2, 4.4))
        for number, (name, values) in enumerate(losses.items()):
            marker, dash = _LOOK[number % len(_LOOK)]
            ax.errorbar(lengths, values, yerr=(spread or {}).get(name), color=_colour(number),
                        marker=marker, ls=dash, ms=5, capsize=3, label=name)  # fmt: skip
        ends = [values[-1] for values in losses.values()]
        bottom, top = (f(f(v) for v in losses.values()) for f in (min, max))
        heights = _spread_out(ends, 0.055 * (top - bottom))
        for name, height in zip(losses, heights, strict=True):
            label_line(ax, lengths[-1], height, name, xytext=(8, 0))
        ax.axvline(trained, color=GREY, ls=":", lw=1)
        ax.set_xscale("log", base=2)
        ax.set_xticks(lengths, [f"{n:,}" for n in lengths])
        ax.minorticks_off()
        ax.set_xlim(lengths[0] / 1.15, lengths[-1] * 2.1)
        ax.set_xlabel("bytes in a window (trained at the dotted line)")
        ax.set_ylabel("loss, nats per byte")
    return ax


def loss_along(
    centres: Sequence[float],
    losses: Mapping[str, Sequence[float]],
    *,
    trained: int,
    axes=None,
):
    """Loss along a long window, one small panel an encoding, the others grey behind it.

    Args:
        centres: ``(n,)``, where in the window, bytes.
        losses: name to ``(n,)``, nats per byte.
        trained: the trained length, a dotted line.
        axes: as many axes as encodings, or None for a new figure.

    Returns:
        The array of axes.
    """
    with style():
        columns = min(4, len(losses))
        rows = -(-len(losses) // columns)
        axes = new_axes(axes, figsize=(2.0 * columns, 2.0 * rows), nrows=rows, ncols=columns,
                        sharex=True, sharey=True, squeeze=False)  # fmt: skip
        flat = np.ravel(axes)
        for number, (ax, name) in enumerate(zip(flat, losses, strict=False)):
            for other, values in losses.items():
                if other != name:
                    ax.plot(centres, values, color="#d0d0d0", lw=0.8, zorder=1)
            ax.plot(centres, losses[name], color=_colour(number), lw=2, zorder=3, label=name)
            ax.axvline(trained, color=GREY, ls=":", lw=1)
            ax.set_xscale("log", base=2)
            ax.set_xticks([16, 64, 256, 1024], ["16", "64", "256", "1024"])
            ax.minorticks_off()
            ax.text(0.04, 0.97, name, transform=ax.transAxes, va="top", fontsize=9)
        for ax in flat[len(losses) :]:
            ax.set_visible(False)
        for row in np.atleast_2d(axes):
            row[0].set_ylabel("nats per byte")
        for number, ax in enumerate(flat[: len(losses)]):
            if number + columns >= len(losses):
                ax.set_xlabel("place in the window")
                ax.xaxis.set_tick_params(labelbottom=True)
    return axes


def gain_by_place(gains: Mapping[str, Sequence[float]], *, ax=None):
    """What a longer window gains, byte by byte, by the place of the byte in the short window.

    Args:
        gains: name to ``(n,)``, loss in short windows minus loss in long ones.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.6, 3.2))
        for number, (name, values) in enumerate(gains.items()):
            marker, dash = _LOOK[number]
            colour = (RED, BLUE, INK)[number % 3]
            ax.plot(range(len(values)), values, color=colour, ls=dash, marker=marker, ms=3, lw=1.2,
                    label=name)  # fmt: skip
        ax.axhline(0, color=GREY, lw=0.8)
        ax.legend(loc="upper right", fontsize=9)
        ax.set_xlabel("place of the byte in its window of the trained length")
        ax.set_ylabel("nats gained in a longer one")
    return ax


def mass_beyond(shares: Mapping[str, float], *, uniform: float, ax=None):
    """How much attention goes to distances that training never showed.

    Args:
        shares: name to a share, 0 to 1.
        uniform: what equal attention to all tokens would give; a dotted line.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.6, 3.0))
        names = list(shares)
        bars = ax.barh(names, [shares[name] for name in names], color=BLUE, height=0.6)
        ax.bar_label(bars, [f"{100 * shares[name]:.0f} %" for name in names], padding=3, fontsize=9)
        ax.axvline(uniform, color=GREY, ls=":", lw=1.2)
        ax.invert_yaxis()
        ax.set_xlim(0, 1.05)
        ax.set_xlabel("attention to distances that training never showed (dotted: if uniform)")
    return ax


def drift(
    offsets: Sequence[int],
    entropy: Sequence[float],
    near: Sequence[float],
    *,
    trained: int,
    axes=None,
):
    """Entropy and nearness of the attention of one text, by where the text stands.

    Args:
        offsets: ``(n,)``, where the text begins.
        entropy: ``(n,)``, nats.
        near: ``(n,)``, mass on the nearest tokens.
        trained: the trained length, a dotted line.
        axes: two axes, or None for a new figure.

    Returns:
        The array of axes.
    """
    with style():
        axes = np.ravel(new_axes(axes, figsize=(7.0, 2.9), ncols=2))
        for ax, values, colour, marker, label in (
            (axes[0], entropy, BLUE, "o", "entropy, nats"),
            (axes[1], near, RED, "s", "mass on the nearest four"),
        ):
            ax.plot(range(len(offsets)), values, color=colour, marker=marker, ms=5)
            edge = sum(offset < trained for offset in offsets) - 0.5
            ax.axvline(edge, color=GREY, ls=":", lw=1.2)
            ax.set_xticks(range(len(offsets)), [str(offset) for offset in offsets])
            ax.set_xlabel("the text begins at")
            ax.set_ylabel(label)
    return axes


def recall(
    distances: Sequence[int], scores: Mapping[str, Sequence[float]], *, trained: int, ax=None
):
    """How clearly a model remembers which of two marks it saw, by how far back that was.

    Args:
        distances: ``(n,)``, bytes.
        scores: name to ``(n,)``, nats.
        trained: the trained length, a dotted line.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(7.0, 3.8))
        for number, (name, values) in enumerate(scores.items()):
            marker, dash = _LOOK[number % len(_LOOK)]
            ax.plot(distances, values, color=_colour(number), marker=marker, ls=dash, ms=5,
                    label=name)  # fmt: skip
        ax.axhline(0, color=GREY, lw=0.8)
        ax.axvline(trained, color=GREY, ls=":", lw=1)
        ax.set_xscale("log", base=2)
        ax.set_xticks(distances, [str(d) for d in distances])
        ax.minorticks_off()
        ax.legend(loc="upper right", fontsize=9, ncols=2)
        ax.set_xlabel("bytes since the opening quote")
        ax.set_ylabel("what it adds to the right quote, nats")
    return ax
