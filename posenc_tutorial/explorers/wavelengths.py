"""What the methods for longer texts do to the wavelength of every pair."""

from __future__ import annotations

from matplotlib.figure import Figure

from posenc_tutorial import frequencies
from posenc_tutorial.context_extension import (
    RopeParameters,
    default_rope,
    ntk_aware,
    position_interpolation,
    yarn,
)
from posenc_tutorial.plots._style import BLUE, GREY, RED

from ._explorer import Choice, Explorer, Slider, number

METHODS = ("none", "PI", "NTK-aware", "YaRN")
BASES = (1000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 10_000_000)
DIMS = (32, 64, 80, 96, 128, 192, 256)
FACTORS = (1, 1.5, 2, 4, 8, 16, 32, 64)
LENGTHS = tuple(2**k for k in range(9, 18))


def wavelengths(
    *, method: str = "YaRN", base: float = 10_000, dim: int = 128, length: int = 4096,
    factor: float = 8,
) -> Explorer:  # fmt: skip
    """The wavelength of every rotary pair, before and after an extension of the context.

    The formulas are those of :mod:`posenc_tutorial.context_extension`, with YaRN's usual 32 turns
    and 1 turn as the ends of the blend.

    Args:
        method: ``"none"``, ``"PI"``, ``"NTK-aware"`` or ``"YaRN"``.
        base: 1000, 10000, 50000, 100000, 500000, 1000000 or 10000000.
        dim: rotated channels of a head: 32, 64, 80, 96, 128, 192 or 256.
        length: tokens that the model was trained on: 512, 1024, … 131072.
        factor: by which the context grows: 1, 1.5, 2, 4, … 64.

    Raises:
        ValueError: a setting that the controls do not have.
    """
    controls = (
        Choice("method", "method", METHODS, method),
        Slider("factor", "factor", FACTORS, factor),
        Slider("length", "original length", LENGTHS, length),
        Slider("base", "base", BASES, base),
        Slider("dim", "head dimension", DIMS, dim),
    )
    before = default_rope(dim, float(base)).inv_freq
    after = _extended(method, dim, float(base), float(factor), length).inv_freq
    waves = frequencies.wavelengths(after)

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        ax.semilogy(frequencies.wavelengths(before), color=GREY, linestyle="--")
        ax.semilogy(waves, color=BLUE)
        for tokens, label, up in (
            (length, "original length", -12),
            (length * factor, "extended to", 4),
        ):
            ax.axhline(tokens, color=RED, linestyle="--", linewidth=1)
            ax.annotate(
                f"{label} {number(tokens)}", (0, tokens), (2, up), textcoords="offset points"
            )
        ax.set(xlabel="pair", ylabel="wavelength, tokens")

    pairs = dim // 2
    kept = int(((after / before - 1).abs() < 1e-9).sum())
    turning = int((waves <= length).sum())
    named = "Without a method" if method == "none" else f"With {method}"
    return Explorer(
        name="wavelengths",
        alt="The wavelength of every rotary pair on a logarithmic scale, rising with the pair: "
        "dashed before the extension, solid after it, with the original and the extended length "
        "as horizontal lines",
        controls=controls,
        sentence=(
            f"{named}, {kept} of {pairs} pairs keep their speed and {turning} complete a turn "
            f"within {number(length)} tokens; the slowest needs {number(float(waves[-1]), 0)}."
        ),
        draw=draw,
    )


def _extended(method: str, dim: int, base: float, factor: float, length: int) -> RopeParameters:
    if method == "PI":
        return position_interpolation(dim, base, factor)
    if method == "NTK-aware":
        return ntk_aware(dim, base, factor)
    if method == "YaRN":
        return yarn(dim, base, factor, length)
    return default_rope(dim, base)
