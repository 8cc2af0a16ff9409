"""Door 1, fixed: every position is the reading of a wall of clocks."""

from __future__ import annotations

from functools import partial

import torch

from .encoding import PositionalEncoding, check_input
from .frequencies import (
    PositionTable,
    angles,
    inverse_frequencies,
    scalar_position,
    token_positions,
)

_LAYOUTS = ("interleaved", "concatenated")


def sinusoidal_table(
    positions: torch.Tensor | int,
    dim: int,
    *,
    base: float = 10000.0,
    layout: str = "interleaved",
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Sine and cosine of every clock at every position.

    ``PE(p, 2i) = sin(p * base^(-2i/dim))`` and ``PE(p, 2i+1) = cos(p * base^(-2i/dim))``.
    Source: Vaswani et al. 2017, section 3.5.

    Args:
        positions: integers of any shape (or float32/float64), or an int ``n`` for ``0 … n-1``.
        dim: width, even.
        base: see :func:`~posenc_tutorial.frequencies.inverse_frequencies`.
        layout: ``"interleaved"`` puts the sine of pair ``i`` in channel ``2i`` and its cosine in
            ``2i + 1``, as the paper writes it; ``"concatenated"`` puts all sines first and then
            all cosines, as much code does. They differ by a fixed permutation of the channels,
            which matters for loaded weights and for nothing else.
        dtype: sines and cosines are computed in float64 and rounded to this once.

    Returns:
        ``(*positions.shape, dim)``, or ``(n, dim)``; on the positions' device.

    Raises:
        TypeError: positions or ``dim`` of a wrong type; an integer ``dtype``.
        ValueError: ``dim`` odd, ``base`` not above 0, an unknown layout, a negative count.
    """
    if layout not in _LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(_LAYOUTS)}, got {layout!r}")
    if not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point dtype, got {dtype}")
    inv_freq = inverse_frequencies(dim, base)
    if isinstance(positions, int) and not isinstance(positions, bool):
        if positions < 0:
            raise ValueError(f"the number of positions must be >= 0, got {positions}")
        positions = torch.arange(positions)
    theta = angles(positions, inv_freq)  # (..., dim/2)
    sin, cos = theta.sin(), theta.cos()
    if layout == "interleaved":
        table = torch.stack([sin, cos], dim=-1).flatten(-2)  # (..., dim)
    else:
        table = torch.cat([sin, cos], dim=-1)
    return table.to(dtype).to(positions.device)


def shift_matrix(offset: int, dim: int, *, base: float = 10000.0) -> torch.Tensor:
    """The matrix that moves any position by ``offset``: ``PE(p + offset) = M @ PE(p)``.

    ``M`` does not depend on ``p``. It is made of ``dim/2`` blocks of two by two, one per pair,
    for the interleaved layout. Source: the remark in Vaswani et al. 2017, section 3.5.

    Args:
        offset: tokens, negative for a move to the left; may be fractional.
        dim: width, even.
        base: see :func:`~posenc_tutorial.frequencies.inverse_frequencies`.

    Returns:
        ``(dim, dim)``, float64, on the CPU; orthogonal.

    Raises:
        TypeError: ``dim`` is not an integer, or ``offset`` not a number.
        ValueError: ``dim`` odd or ``base`` not above 0; more than one offset.
    """
    theta = angles(scalar_position(offset, "offset"), inverse_frequencies(dim, base))  # (dim/2,)
    cos, sin = theta.cos(), theta.sin()
    blocks = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
    return torch.block_diag(*blocks)  # (dim, dim) from dim/2 blocks [[cos, sin], [-sin, cos]]


class SinusoidalEncoding(PositionalEncoding):
    """Adds the sinusoidal table to the token embeddings. Nothing is trained, nothing is saved.

    Args:
        dim: model width, even.
        base: see :func:`~posenc_tutorial.frequencies.inverse_frequencies`.
        layout: see :func:`sinusoidal_table`.
        scale: the table is multiplied by this. Its entries have a root mean square of 0.71, and
            token embeddings are often much smaller; the paper multiplies those by ``sqrt(dim)``.

    Raises:
        TypeError: ``dim`` is not an integer.
        ValueError: ``dim`` odd, ``base`` not above 0, an unknown layout.
    """

    def __init__(
        self,
        dim: int,
        *,
        base: float = 10000.0,
        layout: str = "interleaved",
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.scale = scale
        self._rows = partial(sinusoidal_table, dim=dim, base=base, layout=layout)
        self.table = PositionTable(self._rows)

    def add_to_input(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Add ``scale`` times the row of each token's position.

        Args:
            x: ``(batch, n, dim)``.
            positions: ``(n,)`` or ``(batch, n)``; any integers, or fractional positions.

        Returns:
            ``(batch, n, dim)``, in the dtype of ``x``; the sum is taken in float32, or in float64
            for a float64 ``x``.

        Raises:
            TypeError: ``x`` is not floating-point.
            ValueError: positions or width that do not fit ``x``.
        """
        check_input(x, self.dim)
        positions = token_positions(positions, x.shape[0], x.shape[1])
        if x.dtype == torch.float64:
            rows = self._rows(positions, dtype=torch.float64)
        else:
            rows = self.table(positions)
        return (x + self.scale * rows.to(x.device)).to(x.dtype)
