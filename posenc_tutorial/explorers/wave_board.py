"""The waves of a sinusoidal table, read at two positions."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from posenc_tutorial.frequencies import angles, inverse_frequencies
from posenc_tutorial.plots._style import BLUE, GREY, INK, RED
from posenc_tutorial.sinusoidal import sinusoidal_table

from ._explorer import Explorer, Slider, number

LENGTH = 100
DIMS = (4, 8, 12, 16, 24, 32)
BASES = (2, 10, 100, 1000, 10_000, 100_000)


def wave_board(
    *, first: int = 10, second: int = 24, dim: int = 16, base: float = 10_000
) -> Explorer:
    """One wave a pair, two positions on them, and the dot product of their rows.

    The rows are those of :func:`posenc_tutorial.sinusoidal_table`.

    Args:
        first: a position, 0 … 100.
        second: another one.
        dim: width: 4, 8, 12, 16, 24 or 32.
        base: 2, 10, 100, 1000, 10000 or 100000.

    Raises:
        ValueError: a setting that the controls do not have.
    """
    controls = (
        Slider("first", "first position", range(LENGTH + 1), first),
        Slider("second", "second position", range(LENGTH + 1), second),
        Slider("dim", "width", DIMS, dim),
        Slider("base", "base", BASES, base),
    )

    def rows(positions: torch.Tensor) -> torch.Tensor:
        return sinusoidal_table(positions, dim, base=float(base), dtype=torch.float64)

    left, right = rows(torch.tensor([first, second]))
    product = float(left @ right)

    def draw(figure: Figure) -> None:
        waves, products = figure.subplots(2, 1, height_ratios=(3, 2))
        figure.set_size_inches(6.4, 4.6)
        positions = torch.linspace(0, LENGTH, 401, dtype=torch.float64)
        hands = angles(positions, inverse_frequencies(dim, float(base)))
        at = angles(torch.tensor([first, second]), inverse_frequencies(dim, float(base)))
        for i in range(dim // 2):
            waves.plot(positions, 0.42 * hands[:, i].sin() - i, color=GREY, linewidth=1)
            waves.plot(first, 0.42 * at[0, i].sin() - i, "o", color=BLUE, markersize=4)
            waves.plot(second, 0.42 * at[1, i].sin() - i, "s", color=RED, markersize=4)
        waves.axvline(first, color=BLUE)
        waves.axvline(second, color=RED, linestyle="--")
        waves.set(xlabel="position", ylabel="pair", yticks=range(0, -(dim // 2), -1))
        waves.set_yticklabels(range(dim // 2))
        distance = torch.arange(-LENGTH, LENGTH + 1)
        zero = rows(torch.tensor([0]))[0]
        products.plot(distance, rows(distance) @ zero, color=GREY)
        products.plot(second - first, product, "o", color=INK)
        products.set(xlabel="second position minus first", ylabel="dot product")

    apart = abs(second - first)
    return Explorer(
        name="wave_board",
        alt="One sine wave for each pair, the next always slower than the one before, with two "
        "positions marked on all of them; below, the dot product of two rows for every distance, "
        "with the present distance marked",
        controls=controls,
        sentence=(
            f"The dot product of the rows of positions {first} and {second} is "
            f"{number(product, 4)} of at most {dim // 2}; they are {apart} "
            f"{'token' if apart == 1 else 'tokens'} apart."
        ),
        draw=draw,
    )
