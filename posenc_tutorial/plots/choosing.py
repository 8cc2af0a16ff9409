"""Figures of chapter 13, choosing an encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np

from ._style import BLUE, COLOURS, GREY, INK, RED, SEQUENTIAL, label_line, new_axes, style

_MARKERS = "osD^v*P"


def decision_guide(steps: Sequence[tuple[str, str, str]], last: str, *, otherwise="no", ax=None):
    """Questions from top to bottom; an answer leads to the right, the other to the next question.

    Drawn narrow, so that it can be read on a phone.

    Args:
        steps: ``(question, answer, advice)``, in the order in which they are asked.
        last: the advice that is left when no question applied.
        otherwise: the answer that leads down, written beside each arrow.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(4.4, 1.12 * len(steps) + 0.8))
        ax.axis("off")
        ax.set_xlim(0, 10)
        ax.set_ylim(-len(steps) - 0.4, 0.5)
        for row, (question, answer, advice) in enumerate(steps):
            box = {"boxstyle": "round,pad=0.4", "fc": "#e8f1f8", "ec": BLUE, "lw": 1.3}
            ax.text(2.3, -row, f"{row + 1}. {fill(question, 17)}", ha="center", va="center",
                    fontsize=9.5, bbox=box)  # fmt: skip
            ax.annotate("", (5.75, -row), (4.6, -row),
                        arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.2})  # fmt: skip
            ax.text(5.15, -row + 0.09, answer, ha="center", va="bottom", fontsize=9, style="italic")
            ax.text(5.95, -row, fill(advice, 21), ha="left", va="center", fontsize=9.5)
            ax.annotate("", (2.3, -row - 0.69), (2.3, -row - 0.31),
                        arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.2})  # fmt: skip
            ax.text(2.5, -row - 0.5, otherwise, ha="left", va="center", fontsize=9, style="italic")
        box = {"boxstyle": "square,pad=0.4", "fc": "white", "ec": INK, "lw": 1.3}
        ax.text(2.3, -len(steps), fill(last, 22), ha="center", va="center", fontsize=9.5, bbox=box)
    return ax


def near_and_far(losses: Mapping[str, tuple[float, float]], *, names: tuple[str, str], ax=None):
    """Loss at the trained length against loss on long texts, one point an encoding.

    On the diagonal a loss is kept.

    Args:
        losses: name to the two losses, nats per byte.
        names: what the two lengths are called, such as ``("64 bytes", "1,024 bytes")``.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(5.2, 4.2))
        points = np.array(list(losses.values()))
        low, high = float(points.min()) - 0.15, float(points.max()) + 0.25
        ax.plot([low, high], [low, high], color=GREY, ls=":", lw=1)
        right = float(points[:, 0].max()) + 0.55
        ax.annotate("kept", (right - 0.42, right - 0.42), xytext=(0, -12), color=GREY,
                    textcoords="offset points", fontsize=9)  # fmt: skip
        for number, (name, (near, far)) in enumerate(losses.items()):
            colour = (*COLOURS, INK)[number % 7]
            ax.plot(near, far, _MARKERS[number % 7], color=colour, ms=8, label=name)
            label_line(ax, near, far, name, xytext=(9, 0))
        ax.set_xlim(low, right)
        ax.set_ylim(low, high)
        ax.set_xlabel(f"loss at {names[0]}, nats per byte")
        ax.set_ylabel(f"loss at {names[1]}")
    return ax


def change_costs(losses: Mapping[str, float], *, reference: float, ax=None):
    """Loss of one trained model after each change of its encoding, a bar a change.

    Args:
        losses: what was changed, to the loss, nats per byte.
        reference: loss of the model as it was trained, a dotted line.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(5.2, 0.42 * len(losses) + 0.9))
        for row, (_, value) in enumerate(losses.items()):
            colour = BLUE if value < reference + 0.05 else RED
            ax.barh(row, value, height=0.6, color=colour)
            ax.text(value + 0.03, row, f"{value:.2f}", va="center", fontsize=9)
        ax.axvline(reference, color=INK, ls=":", lw=1.2)
        ax.set_yticks(range(len(losses)), list(losses))
        ax.set_ylim(len(losses) - 0.5, -0.5)
        ax.set_xlim(0, max(losses.values()) * 1.12)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel("nats per byte (dotted: as trained)")
    return ax


def fingerprints(seen: Mapping[str, Sequence[bool]], tests: Sequence[str], *, ax=None):
    """Which test notices which fault: a filled mark where it does.

    Args:
        seen: fault to one truth value for each test.
        tests: their names.
        ax: axes to draw on, or None for a new figure.

    Returns:
        The axes.
    """
    with style():
        ax = new_axes(ax, figsize=(5.2, 0.42 * len(seen) + 1.5))
        for row, values in enumerate(seen.values()):
            for column, value in enumerate(values):
                face = RED if value else "white"
                ax.plot(column, row, "o", ms=12, mfc=face, mec=RED if value else GREY, mew=1.2)
                if value:
                    ax.text(column, row, "!", ha="center", va="center", color="white",
                            fontsize=9, fontweight="bold")  # fmt: skip
        ax.set_xticks(range(len(tests)), [fill(test, 12) for test in tests], fontsize=8.5)
        ax.xaxis.tick_top()
        ax.set_yticks(range(len(seen)), list(seen))
        ax.set_xlim(-0.6, len(tests) - 0.4)
        ax.set_ylim(len(seen) - 0.5, -0.6)
        ax.tick_params(length=0)
        for side in ax.spines.values():
            side.set_visible(False)
    return ax


def score_maps(
    maps: Mapping[str, Sequence[Sequence[float]]],
    *,
    query: tuple[int, int],
    wanted: tuple[int, int],
    axes=None,
):
    """Scores of one query with every place of a grid, one panel for each encoding.

    Args:
        maps: name to scores ``(rows, columns)``.
        query: row and column of the query, marked Q.
        wanted: row and column of the key that it looks for, marked with a frame.
        axes: as many axes as maps, or None for a new figure.

    Returns:
        The array of axes.
    """
    with style():
        axes = new_axes(axes, figsize=(5.2, 3.9), nrows=len(maps), ncols=1, squeeze=False)
        for ax, (name, values) in zip(np.ravel(axes), maps.items(), strict=True):
            values = np.asarray(values)
            ax.imshow(values, cmap=SEQUENTIAL, aspect="equal")
            best = np.unravel_index(values.argmax(), values.shape)
            ax.text(query[1], query[0], "Q", ha="center", va="center", color=INK, fontsize=9,
                    fontweight="bold", bbox={"boxstyle": "circle,pad=0.15", "fc": "white",
                                             "ec": "none"})  # fmt: skip
            ax.plot(best[1], best[0], "*", color=INK, ms=11, mec="white", mew=0.6)
            frame = [(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5)]
            ax.plot([wanted[1] + x for x, _ in frame], [wanted[0] + y for _, y in frame],
                    color=RED, lw=2)  # fmt: skip
            ax.set_ylabel(name)
            ax.set_xticks([])
            ax.set_yticks([])
    return axes
