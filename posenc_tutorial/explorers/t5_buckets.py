"""Which distances share a bucket of T5."""

from __future__ import annotations

from collections.abc import Callable

import torch
from matplotlib.figure import Figure

from posenc_tutorial.plots._style import BLUE, GREY, RED
from posenc_tutorial.relative import t5_bucket

from ._explorer import Choice, Explorer, Slider, number

DIRECTIONS = ("both (encoder)", "causal (decoder)")
REACH = 160  # tokens shown to either side
FAR = 4096  # from where on the last bucket is taken to go on for ever


def t5_buckets(
    *, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> Explorer:
    """T5's bucket for every relative position, with the number of buckets at hand.

    The formula is that of :func:`posenc_tutorial.t5_bucket`.

    Args:
        num_buckets: 4, 8, … 64.
        max_distance: tokens; 40, 48, … 256.
        bidirectional: the encoder's rule, or the causal decoder's.

    Raises:
        ValueError: a setting that the controls do not have.
    """
    controls = (
        Choice("direction", "directions", DIRECTIONS, DIRECTIONS[0 if bidirectional else 1]),
        Slider("num_buckets", "buckets", range(4, 65, 4), num_buckets),
        Slider("max_distance", "maximal distance", range(40, 257, 8), max_distance),
        Slider("relative", "key minus query", range(-REACH, REACH + 1), -20),
    )

    def buckets(positions: torch.Tensor) -> torch.Tensor:
        return t5_bucket(
            positions,
            bidirectional=bidirectional,
            num_buckets=num_buckets,
            max_distance=max_distance,
        )

    def draw(figure: Figure) -> None:
        positions = torch.arange(-REACH, REACH + 1)
        chosen = int(buckets(torch.tensor(-20)))
        ax = figure.subplots()
        ax.step(positions, buckets(positions), where="mid", color=BLUE)
        ax.axvline(0, color=GREY, linestyle="--", linewidth=1)
        ax.plot(-20, chosen, "o", color=RED)
        ax.annotate(
            f"bucket {chosen}", (-20, chosen), (-6, -12), textcoords="offset points", ha="right"
        )
        ax.set(xlabel="relative position: key minus query, tokens", ylabel="bucket")

    return Explorer(
        name="t5_buckets",
        alt="T5's bucket for every relative position: a staircase with narrow steps near the "
        "query and wide ones far from it",
        controls=controls,
        sentence=_sentence(-20, buckets),
        draw=draw,
    )


def _sentence(relative: int, buckets: Callable[[torch.Tensor], torch.Tensor]) -> str:
    everything = torch.arange(-FAR, 0)  # the chosen key stands before the query
    bucket = int(buckets(torch.tensor(relative)))
    same = everything[buckets(everything) == bucket]
    first, last = int(same.min()), int(same.max())
    if first == last:
        others = "which no other shares"
    elif first == -FAR:
        others = f"shared by all from {number(last)} down"
    else:
        others = f"shared by {number(first)} to {number(last)}"
    return (
        f"Relative position {number(relative)} (a key {-relative} tokens before the query) falls "
        f"into bucket {bucket}, {others}."
    )
