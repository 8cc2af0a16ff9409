"""Door 3 on a grid: some pairs turn with the row, the others with the column.

A picture is cut into patches, and a patch has two coordinates. The axial form gives half of the
pairs of a head to each: a pair of the first half is turned by ``row * speed``, one of the second
half by ``column * speed``, with the same speeds. A score then depends on the difference of the
rows and on the difference of the columns, and on nothing else (Heo et al. 2024, "Rotary Position
Embedding for Vision Transformer", who compare it with speeds that mix both axes).

Which pairs belong to which axis is a convention, as the layout of a pair is: programs also give
the axes turns, pair by pair. Weights fit the one that they were trained with.
"""

from __future__ import annotations

import torch

from .encoding import PositionalEncoding
from .frequencies import as_positions, inverse_frequencies, token_positions
from .rope import rope_cos_sin, rotate


def axial_cos_sin(
    rows: torch.Tensor,
    columns: torch.Tensor,
    inv_freq: torch.Tensor,
    *,
    dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of every pair's angle at every place of a grid.

    Args:
        rows: ``(n,)`` (or any shape), the row of each token.
        columns: the same shape, the column of each token.
        inv_freq: ``(pairs_per_axis,)``, radians per row and per column.
        dtype: everything is computed in float64 on the CPU and rounded to this once.

    Returns:
        ``cos, sin``, each ``(*rows.shape, 2 * pairs_per_axis)``: first the pairs that turn with
        the row, then those that turn with the column. For :func:`~posenc_tutorial.rope.rotate`.

    Raises:
        TypeError: coordinates of a dtype that cannot count, or an integer ``dtype``.
        ValueError: shapes that differ, or frequencies out of range.
    """
    rows, columns = as_positions(rows, "rows"), as_positions(columns, "columns")
    if rows.shape != columns.shape:
        raise ValueError(
            f"rows and columns must have one shape, got {tuple(rows.shape)} and "
            f"{tuple(columns.shape)}"
        )
    by_row = rope_cos_sin(rows, inv_freq, dtype=dtype)
    by_column = rope_cos_sin(columns, inv_freq, dtype=dtype)
    cos, sin = (torch.cat(pair, dim=-1) for pair in zip(by_row, by_column, strict=True))
    return cos, sin


class GridRotaryEmbedding(PositionalEncoding):
    """Axial rotary embedding for tokens that fill a grid row by row.

    Token ``p`` stands in row ``p // columns`` and column ``p % columns``.

    Source: Heo et al. 2024, the axial form. Tested by its property: scores depend on the
    differences of rows and of columns alone.

    Args:
        head_dim: channels of one head, a multiple of 4: pairs for two axes.
        columns: width of the grid, tokens.
        base: see :func:`~posenc_tutorial.frequencies.inverse_frequencies`; the speeds are those of
            a head of half the width.
        layout: ``"half"`` or ``"interleaved"``, see :mod:`posenc_tutorial.rope`.

    Raises:
        TypeError: ``head_dim`` or ``columns`` that are not integers.
        ValueError: ``head_dim`` that is no multiple of 4; no columns.
    """

    def __init__(
        self, head_dim: int, columns: int, *, base: float = 10000.0, layout: str = "half"
    ) -> None:
        super().__init__()
        for name, value in (("head_dim", head_dim), ("columns", columns)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} must be an integer, got {value!r}")
        if head_dim < 4 or head_dim % 4:
            raise ValueError(f"head_dim must be a multiple of 4, got {head_dim}")
        if columns < 1:
            raise ValueError(f"columns must be at least 1, got {columns}")
        if layout not in ("half", "interleaved"):
            raise ValueError(f"layout must be one of half, interleaved, got {layout!r}")
        self.head_dim, self.columns, self.layout = head_dim, columns, layout
        self.inv_freq = inverse_frequencies(head_dim // 2, base)  # (head_dim / 4,), one axis

    def coordinates(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Row and column of each token.

        Args:
            positions: integers, any shape.

        Returns:
            Two tensors of the same shape, int64.

        Raises:
            TypeError: positions that are not integers: between two tokens of a row, and between
                the end of a row and the next, a half means different things.
        """
        if as_positions(positions).is_floating_point():
            raise TypeError(f"positions on a grid must be integers, got {positions.dtype}")
        positions = positions.long()  # in 8 bits the width of the grid itself could wrap
        row = torch.div(positions, self.columns, rounding_mode="floor")
        return row, positions - row * self.columns

    def rotate_query_key(self, q, k, q_positions, k_positions):
        """Rotate queries and keys, each by its own place on the grid.

        Args:
            q: ``(batch, heads, n_q, head_dim)``.
            k: ``(batch, kv_heads, n_k, head_dim)``.
            q_positions: ``(n_q,)`` or ``(batch, n_q)``, integers.
            k_positions: ``(n_k,)`` or ``(batch, n_k)``, integers.

        Returns:
            The rotated pair, same shapes and dtypes.

        Raises:
            TypeError: positions that are not integers.
            ValueError: shapes that do not fit.
        """
        return self._turn(q, q_positions, "q"), self._turn(k, k_positions, "k")

    def _turn(self, x, positions, name):
        if x.dim() != 4 or x.shape[-1] != self.head_dim:
            raise ValueError(
                f"{name} must have shape (batch, heads, n, {self.head_dim}), got {tuple(x.shape)}"
            )
        positions = token_positions(positions, x.shape[0], x.shape[2], f"{name}_positions")
        wide = torch.promote_types(x.dtype, torch.float32)
        cos, sin = axial_cos_sin(*self.coordinates(positions), self.inv_freq, dtype=wide)
        if cos.dim() == 3:
            cos, sin = cos[:, None], sin[:, None]  # (batch, 1, n, pairs): one row, all its heads
        return rotate(x, cos.to(x.device), sin.to(x.device), layout=self.layout)
