"""Figures of chapter 09, train short, test long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ._style import BLUE, COLOURS, GREY, INK, ORANGE, RED, SKY, label_line, new_axes, style

_LOOK = (
    ("o", "-"), ("s", "--"), ("D", "-"), ("^", "-."), ("v", "-"), ("*", ":"), ("P", "--"),
)  # fmt: skip


_ORDER = ("NoPE", "learned", "sinusoidal", "T5", "ALiBi", "RoPE", "RoPE 500,000")


def _colour(number: int) -> str:
    return (*COLOURS, INK)[number % (len(COLOURS) + 1)]


def _number(name: str, number: int) -> int:
    """An encoding of the chapter looks the same in every figure; others go by their order."""
    return _ORDER.index(name) if name in _ORDER else number


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


def difference_along(
    edges: Sequence[int],
    differences: Mapping[str, Sequence[float]],
    *,
    trained: int,
    axes=None,
):
    """What a long window costs the same bytes, one small panel an encoding, the others grey.

    Args:
        edges: ``(n + 1,)``, where the stretches of the window begin and end, bytes.
        differences: name to ``(n,)``, nats per byte, 0 where a short window does as well.
        trained: the trained length, a dotted line.
        axes: as many axes as encodings, or None for a new figure.

    Returns:
        The array of axes.
    """
    with style():
        columns = min(4, len(differences))
        rows = -(-len(differences) // columns)
        axes = new_axes(axes, figsize=(2.0 * columns, 2.0 * rows), nrows=rows, ncols=columns,
                        sharex=True, sharey=True, squeeze=False)  # fmt: skip
        flat = np.ravel(axes)
        for number, (ax, name) in enumerate(zip(flat, differences, strict=False)):
            for other, values in differences.items():
                if other != name:
                    ax.stairs(values, edges, baseline=None, color="#d0d0d0", lw=0.8, zorder=1)
            ax.stairs(differences[name], edges, baseline=None, lw=2, zorder=3, label=name,
                      color=_colour(_number(name, number)))  # fmt: skip
            ax.axvline(trained, color=GREY, ls=":", lw=1)
            ax.set_xscale("log", base=2)
            ax.set_xlim(trained / 2, edges[-1])
            ax.set_xticks([64, 256, 1024], ["64", "256", "1024"])
            ax.minorticks_off()
            ax.text(0.04, 0.97, name, transform=ax.transAxes, va="top", fontsize=9)
        for ax in flat[len(differences) :]:
            ax.set_visible(False)
        for row in np.atleast_2d(axes):
            row[0].set_ylabel("nats more")
        for number, ax in enumerate(flat[: len(differences)]):
            if number + columns >= len(differences):
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
            look = _number(name, number)
            marker, dash = _LOOK[look % len(_LOOK)]
            ax.plot(range(len(values)), values, color=_colour(look), ls=dash, marker=marker, ms=3,
                    lw=1.2, label=name)  # fmt: skip
        ax.axhline(0, color=GREY, lw=0.8)
        ax.legend(loc="upper right", fontsize=9)
        ax.set_xlabel("place of the byte in its window of the trained length")
        ax.set_ylabel("nats gained in a longer one")
    return ax


def new_pairs(trained: int, *, begins: int, moved: int, longest: int, axes=None):
    """Pairs of a query and an earlier key: a text that is moved, and a text that is longer.

    Left, a short text far out, whose places are new and whose distances are not; right, a long
    text from place 0 on, in which both occur. The trained pairs are grey in both.

    Args:
        trained: the trained length, ``L``.
        begins: where the moved text begins.
        moved: how long it is, no longer than ``trained``.
        longest: how long the long text is.
        axes: two axes, or None for a new figure.

    Returns:
        The array of axes.
    """

    def region(ax, corners, colour, **kwargs):
        ax.fill(*zip(*corners, strict=True), facecolor=colour, **kwargs)

    with style():
        axes = np.ravel(new_axes(axes, figsize=(6.6, 3.1), ncols=2, sharex=True, sharey=True))
        left, right = axes
        b, m, n = begins, moved, longest
        region(left, [(b, b), (b, b + m), (b + m, b + m)], SKY, label="moved")
        left.annotate("new places,\nold distances", (b, b + m / 2), xytext=(-6, 0), ha="right",
                      va="center", textcoords="offset points", fontsize=9)  # fmt: skip
        region(right, [(0, trained), (0, n), (n - trained, n)], ORANGE, label="new distances",
               hatch="//", edgecolor="white", lw=0)  # fmt: skip
        region(right, [(trained, trained), (0, trained), (n - trained, n), (n, n)], SKY,
               label="old distances")  # fmt: skip
        right.text(0.2 * n, 0.8 * n, "new\ndistances", ha="center", va="center", fontsize=9,
                   bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})  # fmt: skip
        for ax in axes:
            region(ax, [(0, 0), (0, trained), (trained, trained)], GREY, label="trained")
            ax.annotate("trained", (trained, trained / 2), xytext=(2, 0), va="center", fontsize=9,
                        textcoords="offset points")  # fmt: skip
            ax.set_aspect("equal")
            ax.set_xlim(0, n)
            ax.set_ylim(n, 0)
            ticks = range(0, n + 1, trained)
            ax.set_xticks(ticks)
            ax.set_yticks(ticks)
            ax.set_xlabel("place of the key")
        left.set_ylabel("place of the query")
    return axes


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
        ax.barh(names, [shares[name] for name in names], color=BLUE, height=0.6)
        ax.axvline(uniform, color=GREY, ls=":", lw=1.2)
        for name, value in shares.items():  # inside the bar, so that no label meets the dotted line
            side, colour = ("right", "white") if value > 0.15 else ("left", INK)
            ax.annotate(f"{100 * value:.0f} %", (value, name), fontsize=9, color=colour,
                        va="center", ha=side, textcoords="offset points",
                        xytext=(-4 if side == "right" else 4, 0))  # fmt: skip
        ax.invert_yaxis()
        ax.set_xlim(0, 1.08)
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
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
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=9, ncols=4)
        ax.set_xlabel("bytes since the opening quote")
        ax.set_ylabel("what it adds to the right quote, nats")
    return ax
