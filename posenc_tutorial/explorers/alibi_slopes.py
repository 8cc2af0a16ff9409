"""ALiBi's slopes, and how far a head looks with each."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from posenc_tutorial import alibi
from posenc_tutorial.plots._style import GREY, INK, RED

from ._explorer import Explorer, Slider, number

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)


def alibi_slopes(*, heads: int = 8, head: int = 3, length: int = 1024) -> Explorer:
    """The slope of every head, and how the attention of one falls with distance.

    The slopes are those of :func:`posenc_tutorial.alibi_slopes`; the attention is what is left
    when all other parts of the score are equal.

    Args:
        heads: number of heads, 1 … 32.
        head: the one to look at, counted from 1.
        length: tokens of the text, the query being the last one: 64, 128, … 4096.

    Raises:
        ValueError: a setting that the controls do not have.
    """
    controls = (
        Slider("heads", "heads", range(1, 33), heads),
        Slider("head", "head to look at", range(1, heads + 1), head),
        Slider("length", "tokens in the text", LENGTHS, length),
    )
    slopes = alibi.alibi_slopes(heads)
    slope = float(slopes[head - 1])

    def shares(slope: float) -> torch.Tensor:
        """``(length,)``: what the nearest 1, 2, … keys get together."""
        scores = -slope * torch.arange(length, dtype=torch.float64)
        return torch.softmax(scores, 0).cumsum(0)

    half = int((shares(slope) < 0.5).sum()) + 1

    def draw(figure: Figure) -> None:
        dots, curves = figure.subplots(1, 2, width_ratios=(1, 1.6))
        numbers = torch.arange(1, heads + 1)
        dots.semilogy(numbers, slopes, "o", color=INK, markersize=4, base=2)
        dots.plot(head, slope, "o", color=RED, markersize=8)
        dots.set(xlabel="head", ylabel="slope")
        nearest = torch.arange(1, length + 1)
        for other in slopes.tolist():
            curves.semilogx(nearest, 100 * shares(other), color=GREY, linewidth=0.8, base=2)
        curves.plot(nearest, 100 * shares(slope), color=RED)
        curves.plot(half, 100 * shares(slope)[half - 1], "o", color=RED, markersize=8)
        curves.set(xlabel="number of nearest keys", ylabel="their share of attention, %")

    reach = (
        "the token itself gets half of its attention or more"
        if half == 1
        else f"the nearest {number(half)} of {number(length)} keys get half of its attention"
    )
    return Explorer(
        name="alibi_slopes",
        alt="The slope of every head as a dot on a logarithmic scale; beside it the share of "
        "attention that the nearest keys get together, one rising curve for each head, with the "
        "chosen head's curve drawn thick",
        controls=controls,
        sentence=(
            f"Head {head} of {heads} takes {number(float(f'{slope:.4g}'))} off the score for "
            f"every token of distance. If nothing else decides, {reach}."
        ),
        draw=draw,
    )
