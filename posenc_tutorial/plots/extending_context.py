"""Figures of chapter 10, extending the context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ._style import BLUE, COLOURS, GREY, INK, RED, label_line, new_axes, style

_MARKERS = "osD^v*"


def seen_angles(
    rows: Mapping[str, Sequence[tuple[float, float]]], columns: Sequence[str], *, axes=None
):
    """A dial for every method and pair: the angles of training, and those of the longer text.

    The inner arc is what training has shown, from 0 on; the outer one what the longer text shows,
    and the part of it that training has not shown is orange. The angle 0 points to the right, arcs
    run anticlockwise, and both stop at a full circle.

    Args:
        rows: name of a method to one ``(trained, extended)`` for every column, radians.
        columns: what stands above each column.
        axes: ``(rows, columns)`` axes, or None for a new figure.

    Returns:
        The array of axes.
    """
    full = 2 * np.pi
    with style():
        shape = {"nrows": len(rows), "ncols": len(columns)}
        axes = new_axes(axes, figsize=(1.35 * len(columns) + 1.2, 1.4 * len(rows) + 0.3),
                        squeeze=False, **shape)  # fmt: skip
        for line, (name, dials) in zip(axes, rows.items(), strict=True):
            for ax, (trained, extended) in zip(line, dials, strict=True):
                trained, extended = min(trained, full), min(extended, full)
                ax.add_patch(_circle(0.62))
                for radius, start, end, colour in (
                    (0.72, 0.0, trained, BLUE),
                    (0.96, 0.0, min(trained, extended), BLUE),
                    (0.96, trained, extended, RED),
                ):
                    if end > start + 1e-9:
                        turn = np.linspace(start, end, 100)
                        ax.plot(radius * np.cos(turn), radius * np.sin(turn), color=colour, lw=4,
                                solid_capstyle="butt")  # fmt: skip
                share = max(0.0, extended - trained) / full
                ax.text(0, 0, f"{100 * share:.0f} %" if share > 0.005 else "0", ha="center",
                        va="center", fontsize=9, color=RED if share > 0.005 else GREY)  # fmt: skip
                ax.set_xlim(-1.15, 1.15)
                ax.set_ylim(-1.15, 1.15)
                ax.set_aspect("equal")
                ax.set_xticks([])
                ax.set_yticks([])
                for spine in ax.spines.values():
                    spine.set_visible(False)
            line[0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8)
        for ax, label in zip(axes[0], columns, strict=True):
            ax.annotate(label, (0.5, 1.02), xycoords="axes fraction", ha="center", va="bottom",
                        fontsize=9)  # fmt: skip
    return axes


def _circle(radius):
    from matplotlib.patches import Circle

    return Circle((0, 0), radius, facecolor="none", edgecolor=GREY, lw=0.6)


def slowing(
    divisors: Mapping[str, Sequence[float]],
    *,
    critical: int,
    factor: float,
    ax=None,
):
    """By how much every method slows every pair.

    Args:
        divisors: name of a method to one number for every pair, 1 for a pair that is left alone.
        critical: the first pair that does not complete a turn within the trained length.
        factor: how many times longer the texts become; a thin line.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(7.4, 4.0))
        pairs = len(next(iter(divisors.values())))
        styles = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)))
        ax.axvspan(critical - 0.5, pairs - 0.5, color="#f0f0f0", zorder=0)
        ax.axhline(factor, color=GREY, lw=0.8)
        for number, (name, values) in enumerate(divisors.items()):
            colour = (*COLOURS, INK)[number % (len(COLOURS) + 1)]
            dash = styles[number % len(styles)]
            ax.plot(range(pairs), values, color=colour, ls=dash, lw=1.9, label=name)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9, handlelength=2.6)
        ax.set_yscale("log", base=2)
        top = max(max(values) for values in divisors.values())
        ticks = [2**k for k in range(int(np.ceil(np.log2(top))) + 1)]
        ax.set_yticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        ax.set_ylim(0.85, top * 1.5)
        ax.set_xlim(-0.5, pairs - 0.5)
        ax.text(critical + 0.5, 0.9, "no full turn in training", fontsize=8.5, color=INK)
        ax.set_xlabel("pair, the fastest first")
        ax.set_ylabel("slowed by")
    return ax


def two_ramps(turns, shares: Mapping[str, Sequence[float]], *, axes=None):
    """Two ways to blend between the same two ends, over the pairs and over their turns.

    Args:
        turns: ``(pairs,)``, turns of each pair within the trained length.
        shares: name to ``(pairs,)``: how much of a pair's speed is left alone, 1 to 0.
        axes: two axes, or None for a new figure.

    Returns:
        The array of axes.
    """
    with style():
        axes = np.ravel(new_axes(axes, figsize=(7.0, 3.2), ncols=2, sharey=True))
        for number, (name, share) in enumerate(shares.items()):
            colour, marker = COLOURS[number], _MARKERS[number]
            options = {"color": colour, "marker": marker, "ms": 3, "lw": 1.2}
            axes[0].plot(range(len(share)), share, **options)
            axes[1].plot(turns, share, label=name, **options)
        axes[0].set_xlabel("pair")
        axes[0].set_ylabel("left alone")
        axes[1].set_xlabel("turns within the trained length")
        axes[1].set_xlim(0, 40)
        axes[1].legend(loc="lower right", fontsize=9)
    return axes


def scales_by_length(lengths, scales: Mapping[str, Sequence[float]], *, ax=None):
    """The scale of dynamic formulas at every length.

    Args:
        lengths: ``(n,)``, in units of the trained length.
        scales: name to ``(n,)``.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.4))
        dashes, ends = ("-", "--", "-.", ":"), []
        for (name, values), colour, dash in zip(
            scales.items(), (BLUE, INK, RED, GREY), dashes, strict=False
        ):
            ax.plot(lengths, values, color=colour, ls=dash)
            ends.append((values[-1], name, colour))
        lowest, step = -np.inf, 0.07 * max(end[0] for end in ends)
        for value, name, colour in sorted(ends, key=lambda end: end[0]):
            lowest = max(value, lowest + step)  # labels do not lie on each other
            label_line(ax, lengths[-1], lowest, name, colour=colour)
        ax.set_xlim(0, lengths[-1] * 1.3)
        ax.set_xticks(range(int(lengths[-1]) + 1))
        ax.set_ylim(0, lowest + step)
        ax.set_xlabel("length of the text, in trained lengths")
        ax.set_ylabel("scale")
    return ax


def key_errors(errors: Mapping[str, Sequence[float]], *, trained: int, ax=None):
    """How wrong the newest query's score with every key is.

    Args:
        errors: name to ``(n,)``, one for each key.
        trained: the trained length; a thin line.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.4, 3.0))
        for number, (name, values) in enumerate(errors.items()):
            # Keys have nothing to do with each other: points, and no line from one to the next.
            ax.plot(range(len(values)), values, color=COLOURS[(3, 0)[number % 2]], ls="none",
                    marker=_MARKERS[number], ms=4, label=name)  # fmt: skip
        ax.set_ylim(0, 1.2 * max(max(values) for values in errors.values()))
        ax.axvline(trained - 0.5, color=GREY, lw=0.8, ls=":")
        ax.text(trained + 1, ax.get_ylim()[1], "first token beyond L", fontsize=8.5, va="top",
                color=INK)  # fmt: skip
        ax.legend(loc="upper left", fontsize=9)
        ax.set_xlabel("position of the key")
        ax.set_ylabel("error of its score")
    return ax


def loss_curves(
    x,
    curves: Mapping[str, Sequence[float]],
    *,
    xlabel: str,
    spread: Mapping[str, Sequence[float]] | None = None,
    mark: tuple[float, str] | None = None,
    log: bool = False,
    ax=None,
):
    """Losses against a setting, labelled at their right ends.

    Args:
        x: ``(n,)``, the setting.
        curves: name to ``(n,)``, nats per byte.
        xlabel: what the setting is.
        spread: name to ``(n,)``, standard deviation over seeds, drawn as a band.
        mark: a place on the axis and what it is: a dotted line.
        log: a logarithmic axis, to base 2.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.6, 3.5))
        x = np.asarray(x, dtype=float)
        for number, (name, values) in enumerate(curves.items()):
            colour = (BLUE, RED, COLOURS[2], INK)[number % 4]
            ax.plot(x, values, color=colour, marker=_MARKERS[number], ms=4)
            if spread and name in spread:
                low = np.asarray(values) - np.asarray(spread[name])
                high = np.asarray(values) + np.asarray(spread[name])
                ax.fill_between(x, low, high, color=colour, alpha=0.18, lw=0)
            label_line(ax, x[-1], values[-1], name, colour=colour)
        if log:
            ax.set_xscale("log", base=2)
            ticks = sorted({2 ** round(np.log2(value)) for value in x})
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
            ax.set_xlim(x[0] / 1.15, x[-1] * (x[-1] / x[0]) ** 0.3)
        else:
            room = x[-1] - x[0]
            ax.set_xlim(x[0] - 0.03 * room, x[-1] + 0.25 * room)
            ax.set_xticks(x, [f"{value:.3g}" for value in x])
        if mark is not None:
            place, text = mark
            ax.axvline(place, color=GREY, lw=0.9, ls=":")
            ax.annotate(text, (place, 1), xycoords=("data", "axes fraction"), xytext=(4, -3),
                        textcoords="offset points", va="top", fontsize=8.5)  # fmt: skip
        ax.set_xlabel(xlabel)
        ax.set_ylabel("loss (nats per byte)")
    return ax


def short_and_long(
    losses: Mapping[str, tuple[float, float]],
    *,
    names: tuple[str, str],
    spread: Mapping[str, tuple[float, float]] | None = None,
    reference: float | None = None,
    ax=None,
):
    """Two losses for every method, joined by a line: short texts and long ones.

    Args:
        losses: method to ``(short, long)``, nats per byte, drawn from top to bottom.
        names: what the two are.
        spread: method to their standard deviations over seeds, drawn as bars.
        reference: a thin line, such as the loss of the model at its trained length.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(6.6, 0.36 * len(losses) + 1.0))
        levels = range(len(losses))[::-1]
        for level, (method, pair) in zip(levels, losses.items(), strict=True):
            ax.plot(pair, [level, level], color=GREY, lw=1, zorder=1)
            for value, deviation, colour, marker in zip(
                pair, (spread or {}).get(method, (0, 0)), (BLUE, RED), "os", strict=True
            ):
                ax.errorbar(value, level, xerr=deviation or None, color=colour, marker=marker,
                            ms=6, lw=1.2, zorder=2)  # fmt: skip
        for value, name, colour, side in zip(
            next(iter(losses.values())), names, (BLUE, RED), ("right", "left"), strict=True
        ):
            ax.annotate(name, (value, len(losses) - 1), xytext=(0, 9), color=colour, fontsize=9,
                        textcoords="offset points", ha=side)  # fmt: skip
        if reference is not None:
            ax.axvline(reference, color=GREY, lw=0.8, ls=":")
        ax.set_yticks(list(levels), list(losses))
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_ylim(-0.5, len(losses) - 0.1)
        ax.set_xlabel("loss (nats per byte)")
    return ax
