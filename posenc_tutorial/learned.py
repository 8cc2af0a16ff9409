"""Door 1, learned: one trainable vector for every position, up to a last one."""

from __future__ import annotations

import torch
from torch import nn

from .encoding import PositionalEncoding, check_input
from .frequencies import check_count, token_positions

_MODES = ("linear", "half_pixel", "random", "tile")


class LearnedEncoding(PositionalEncoding):
    """A table of position vectors, trained with the rest of the model and added to the input.

    Row ``p`` serves position ``p``, starting at 0. (Some libraries start at ``padding_idx + 1``;
    this table does not.) There is no row for a position past the end, and asking for one is an
    error that says so, before the lookup and on every device: a GPU would otherwise report it as
    an assertion in some later kernel.

    Source: Gehring et al. 2017, section 3.1; Devlin et al. 2019.

    Args:
        max_positions: number of rows: positions ``0 … max_positions - 1`` can be used.
        dim: model width.

    Attributes:
        weight: ``(max_positions, dim)``, drawn from a normal distribution of standard deviation
            0.02 as in BERT and GPT-2.

    Raises:
        TypeError: ``max_positions`` or ``dim`` that are not integers.
        ValueError: ``max_positions`` or ``dim`` below 1.
    """

    def __init__(self, max_positions: int, dim: int) -> None:
        super().__init__()
        check_count(max_positions, "max_positions")
        check_count(dim, "dim")
        self.weight = nn.Parameter(torch.empty(max_positions, dim))
        nn.init.normal_(self.weight, std=0.02)

    @property
    def max_positions(self) -> int:
        """Number of rows in the table."""
        return self.weight.shape[0]

    def add_to_input(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Add the row of each token's position.

        Args:
            x: ``(batch, n, dim)``.
            positions: ``(n,)`` or ``(batch, n)``, integers.

        Returns:
            ``(batch, n, dim)``, in the dtype of ``x``.

        Raises:
            IndexError: a position below 0 or past the end of the table. (In a compiled region
                a RuntimeError, since the positions have no Python values there.)
            TypeError: positions that are not integers; ``x`` that is not floating-point.
            ValueError: positions or width that do not fit ``x``.
        """
        check_input(x, self.weight.shape[1])
        positions = token_positions(positions, x.shape[0], x.shape[1])
        if positions.is_floating_point():
            raise TypeError(f"a table needs integer positions, got {positions.dtype}")
        if torch.compiler.is_compiling():
            inside = (positions >= 0) & (positions < self.max_positions)
            torch._assert_async(
                inside.all(), f"a position lies outside the table of {self.max_positions} positions"
            )
        elif positions.numel() and not positions.is_meta:
            low, high = int(positions.min()), int(positions.max())
            if low < 0 or high >= self.max_positions:
                wrong = low if low < 0 else high
                raise IndexError(
                    f"position {wrong} is outside the table of {self.max_positions} positions "
                    f"(0 to {self.max_positions - 1}); resized() makes a longer table"
                )
        return x + self.weight[positions].to(x.dtype)

    def resized(self, new_max_positions: int, mode: str = "linear") -> LearnedEncoding:
        """A new encoding with a table of another length. This one stays as it is.

        The new table is a new parameter: build the optimiser after resizing, or it will not
        train it.

        Args:
            new_max_positions: number of rows of the new table.
            mode: where its rows come from.

                - ``"linear"``: the old curve sampled at the new number of points, the first and
                  the last row kept (interpolation with aligned corners).
                - ``"half_pixel"``: the same with rows seen as cells of equal width, as image
                  libraries do; the ends are not kept.
                - ``"random"``: old rows unchanged, new ones drawn at random with the standard
                  deviation of the old table. They are untrained.
                - ``"tile"``: old rows unchanged, then the table from its start again
                  (Beltagy et al. 2020, section 5).

        Returns:
            A :class:`LearnedEncoding` with dtype, device and ``requires_grad`` of this one.
            With the same number of rows every mode is the identity.

        Raises:
            TypeError: ``new_max_positions`` is not an integer.
            ValueError: an unknown mode, or fewer than one row.
        """
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
        check_count(new_max_positions, "new_max_positions")
        old, size = self.weight.detach(), self.max_positions
        if new_max_positions == size:
            new = old.clone()
        elif mode in ("linear", "half_pixel"):
            wide = torch.promote_types(old.dtype, torch.float32)
            new = nn.functional.interpolate(
                old.to(wide).T[None],  # (1, dim, rows): interpolate runs along the last axis
                size=new_max_positions,
                mode="linear",
                align_corners=mode == "linear",
            )[0].T.to(old.dtype)
        elif mode == "random":
            fresh = torch.randn(max(new_max_positions - size, 0), old.shape[1]).to(old)
            new = torch.cat([old[:new_max_positions], fresh * old.std(correction=0)])
        else:
            new = old[torch.arange(new_max_positions, device=old.device) % size]
        resized = LearnedEncoding(new_max_positions, old.shape[1])
        resized.weight = nn.Parameter(new.contiguous(), requires_grad=self.weight.requires_grad)
        return resized
