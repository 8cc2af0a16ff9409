"""Two arrows that turn with their positions, and the angle between them."""

from __future__ import annotations

import math

import torch
from matplotlib.figure import Figure

from posenc_tutorial.frequencies import inverse_frequencies
from posenc_tutorial.plots._style import BLUE, GREY, INK, RED

from ._explorer import Explorer, Slider, number

DIM = 16
QUERY, KEY = math.pi / 9, math.pi / 3  # directions at position 0: 20 and 60 degrees
BASES = (10, 100, 1000, 10_000, 100_000, 500_000, 1_000_000)


def rotation_dial(
    *, query: int = 2, key: int = 12, shift: int = 0, pair: int = 1, base: float = 10_000
) -> Explorer:
    """One pair of channels of a rotary head of width 16: two tokens' arrows and their angle.

    Both arrows turn by the same speed per token, so moving both tokens turns both arrows and
    leaves the angle between them, whose cosine is what the pair adds to the score.

    Args:
        query: position of the query, 0 … 40.
        key: position of the key, 0 … 40.
        shift: tokens by which both are moved, 0 … 200.
        pair: 0 … 7.
        base: 10, 100, 1000, 10000, 100000, 500000 or 1000000.

    Raises:
        ValueError: a setting that the controls do not have.
    """
    controls = (
        Slider("query", "query position", range(41), query),
        Slider("key", "key position", range(41), key),
        Slider("shift", "move both by", range(201), shift),
        Slider("pair", "pair", range(DIM // 2), pair),
        Slider("base", "base", BASES, base),
    )
    q, k = query + shift, key + shift
    speed = float(inverse_frequencies(DIM, float(base))[pair])
    a, b = QUERY + q * speed, KEY + k * speed
    between = math.remainder(b - a, 2 * math.pi)

    def draw(figure: Figure) -> None:
        dial, curve = figure.subplots(1, 2)
        ring = torch.linspace(0, 2 * math.pi, 200)
        dial.plot(ring.cos(), ring.sin(), color=GREY, linewidth=1)
        arc = torch.linspace(a, a + between, 40)
        dial.plot(0.3 * arc.cos(), 0.3 * arc.sin(), color=INK, linewidth=1)
        for angle, label, colour, dashes in (
            (a, f"query {q}", BLUE, "-"),
            (b, f"key {k}", RED, "--"),
        ):
            tip = (math.cos(angle), math.sin(angle))
            dial.annotate("", tip, (0, 0), arrowprops={
                "arrowstyle": "->", "color": colour, "linestyle": dashes, "linewidth": 1.8,
                "shrinkA": 0, "shrinkB": 0,
            })  # fmt: skip
            dial.text(1.22 * tip[0], 1.22 * tip[1], label, ha="center", va="center")
        dial.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal")
        dial.axis("off")
        distance = torch.linspace(-60, 60, 481)
        curve.plot(distance, torch.cos(KEY - QUERY + distance * speed), color=GREY)
        curve.plot(k - q, math.cos(b - a), "o", color=INK)
        curve.set(
            xlabel="key position minus query position",
            ylabel="cosine of the angle",
            ylim=(-1.1, 1.1),
        )

    return Explorer(
        name="rotation_dial",
        alt="A dial with two arrows, one for the query and one for the key, each turned in "
        "proportion to its position; beside it the cosine of the angle between them for every "
        "distance, with the present distance marked",
        controls=controls,
        sentence=(
            f"Query at {q} has turned by {number(q * speed, 3)} radians, key at {k} by "
            f"{number(k * speed, 3)}. From query to key it is {number(math.degrees(between), 1)} "
            f"degrees, and the cosine of that is {number(math.cos(b - a), 4)}."
        ),
        draw=draw,
    )
