"""Door 3: queries and keys are rotated by an angle that grows with their position.

A head's channels are taken in pairs, and pair ``i`` of the token at position ``p`` is turned by
``p * inv_freq[i]``. The score of a query at ``m`` and a key at ``n`` then depends on ``n - m``
alone, although each was turned by its own absolute position (Su et al. 2021, section 3.2).

Which channels form pair ``i`` is a convention, called the layout here:

- ``"half"``: channels ``i`` and ``i + rotary_dim/2`` (GPT-NeoX, Llama as transformers stores it);
- ``"interleaved"``: channels ``2i`` and ``2i + 1`` (the RoFormer paper, GPT-J, Llama as Meta
  stores it).

A checkpoint works with the layout it was trained with and with no other.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .encoding import PositionalEncoding
from .frequencies import (
    PositionTable,
    RopeParameters,
    angles,
    check_count,
    check_even_dim,
    inverse_frequencies,
    scalar_position,
    token_positions,
)

_LAYOUTS = ("half", "interleaved")


def _check_layout(layout: str) -> None:
    if layout not in _LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(_LAYOUTS)}, got {layout!r}")


def rope_cos_sin(
    positions: torch.Tensor,
    inv_freq: torch.Tensor,
    *,
    attention_factor: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of every pair's angle at every position, one column per pair.

    Args:
        positions: ``(n,)`` or ``(batch, n)`` (or any shape); integers, negative ones included.
        inv_freq: ``(rotary_dim/2,)``, radians per token.
        attention_factor: multiplies both tables (1 for plain RoPE).
        dtype: everything is computed in float64 on the CPU and rounded to this once.

    Returns:
        ``cos, sin``, each ``(*positions.shape, rotary_dim/2)``, on the positions' device.

    Raises:
        TypeError: positions of a dtype that cannot count tokens; an integer ``dtype``.
        ValueError: ``inv_freq`` or ``attention_factor`` out of range.
    """
    if not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point dtype, got {dtype}")
    parameters = RopeParameters(inv_freq, attention_factor)
    theta = angles(positions, parameters.inv_freq)
    factor = parameters.attention_factor
    cos, sin = (factor * theta.cos()).to(dtype), (factor * theta.sin()).to(dtype)
    return cos.to(positions.device), sin.to(positions.device)


def rotate(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, layout: str = "half"
) -> torch.Tensor:
    """Turn each pair of channels by its angle: ``(a, b) -> (a cos - b sin, a sin + b cos)``.

    Queries and keys are turned the same way. The first ``2 * cos.shape[-1]`` channels are
    rotated, the rest pass through unchanged (partial rotary).
    Source: Su et al. 2021, eq. 34, for the interleaved layout.

    Args:
        x: ``(..., n, head_dim)``.
        cos: ``(n, rotary_dim/2)``, or with as many axes as ``x`` and broadcastable to it: batched
            tables ``(batch, n, rotary_dim/2)`` need a heads axis, ``cos[:, None]``.
        sin: like ``cos``.
        layout: ``"half"`` or ``"interleaved"``, see the top of this module.

    Returns:
        Same shape and dtype as ``x``. Half-precision ``x`` is rotated in float32 and rounded once.

    Raises:
        TypeError: ``x`` is not floating-point.
        ValueError: an unknown layout; tables that do not fit each other or ``x``.
    """
    _check_layout(layout)
    if not x.is_floating_point():
        raise TypeError(f"x must be floating-point, got {x.dtype}: a rotation has no whole numbers")
    _check_tables(x, cos, sin)
    pairs = cos.shape[-1]
    turning, still = x[..., : 2 * pairs], x[..., 2 * pairs :]
    wide = torch.promote_types(x.dtype, torch.float32)
    cos, sin = cos.to(wide), sin.to(wide)
    if layout == "half":
        a, b = turning[..., :pairs].to(wide), turning[..., pairs:].to(wide)
    else:
        a, b = turning[..., 0::2].to(wide), turning[..., 1::2].to(wide)
    turned = (a * cos - b * sin).to(x.dtype), (a * sin + b * cos).to(x.dtype)
    if layout == "half":
        return torch.cat([*turned, still], dim=-1)
    return torch.cat([torch.stack(turned, dim=-1).flatten(-2), still], dim=-1)


def _check_tables(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    if cos.shape != sin.shape:
        raise ValueError(f"cos and sin differ: {tuple(cos.shape)} and {tuple(sin.shape)}")
    if x.dim() < 2 or cos.dim() < 2:
        raise ValueError(
            "x must have shape (..., n, head_dim) and cos (n, rotary_dim/2), "
            f"got {tuple(x.shape)} and {tuple(cos.shape)}"
        )
    if 2 * cos.shape[-1] > x.shape[-1]:
        raise ValueError(
            f"cos has {cos.shape[-1]} columns, one per pair, and so turns {2 * cos.shape[-1]} "
            f"channels, but x has only {x.shape[-1]}; the tables must not repeat each angle"
        )
    if cos.dim() not in (2, x.dim()):
        raise ValueError(
            f"cos of shape {tuple(cos.shape)} does not line up with x of shape {tuple(x.shape)}: "
            "give it a heads axis, cos[:, None]"
        )
    leading = zip(cos.shape[:-2], x.shape[-cos.dim() : -2], strict=True)
    if cos.shape[-2] != x.shape[-2] or any(c not in (1, s) for c, s in leading):
        raise ValueError(f"cos of shape {tuple(cos.shape)} does not fit x of {tuple(x.shape)}")


def rotation_matrix(position: int, inv_freq: torch.Tensor, *, layout: str) -> torch.Tensor:
    """The rotation of one position as a matrix: ``rotate(x) == R @ x``.

    Source: Su et al. 2021, eq. 15, for the interleaved layout, where it is block-diagonal.

    Args:
        position: tokens, may be negative or fractional.
        inv_freq: ``(rotary_dim/2,)``, radians per token.
        layout: ``"half"`` or ``"interleaved"``.

    Returns:
        ``(rotary_dim, rotary_dim)``, float64, on the CPU; orthogonal.

    Raises:
        TypeError: ``position`` is not a number.
        ValueError: an unknown layout, frequencies out of range, or more than one position.
    """
    _check_layout(layout)
    theta = angles(scalar_position(position, "position"), inv_freq)  # (pairs,)
    cos, sin = theta.cos(), theta.sin()
    if layout == "half":
        top, bottom = (
            torch.cat([cos.diag(), -sin.diag()], 1),
            torch.cat([sin.diag(), cos.diag()], 1),
        )
        return torch.cat([top, bottom], 0)
    blocks = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    return torch.block_diag(*blocks)


def interleaved_to_half(x: torch.Tensor) -> torch.Tensor:
    """Reorder the last axis: ``(a0, b0, a1, b1, …)`` becomes ``(a0, a1, …, b0, b1, …)``.

    Args:
        x: ``(..., rotary_dim)``, even.

    Returns:
        Same shape. Rotating in the interleaved layout and then reordering is the same as
        reordering and then rotating in the half layout.

    Raises:
        ValueError: an odd last axis.
    """
    check_even_dim(x.shape[-1], "the last axis of x")
    return torch.cat([x[..., 0::2], x[..., 1::2]], dim=-1)


def half_to_interleaved(x: torch.Tensor) -> torch.Tensor:
    """Reorder the last axis back: the inverse of :func:`interleaved_to_half`.

    Args:
        x: ``(..., rotary_dim)``, even.

    Returns:
        Same shape.

    Raises:
        ValueError: an odd last axis.
    """
    check_even_dim(x.shape[-1], "the last axis of x")
    return torch.stack(x.chunk(2, dim=-1), dim=-1).flatten(-2)


def convert_projection(
    weight: torch.Tensor, num_heads: int, *, to: str, rotary_dim: int | None = None
) -> torch.Tensor:
    """Convert W_q or W_k of a checkpoint from one pair layout to the other.

    The *output* rows are permuted, within each head. Queries and keys come out permuted alike, so
    every score stays the same, and W_v and W_o are left as they are.

    Args:
        weight: ``(num_heads * head_dim, dim_in)``, or a bias ``(num_heads * head_dim,)``. With
            grouped queries, W_k has its own, smaller ``num_heads``.
        num_heads: heads of *this* projection.
        to: ``"half"`` (from interleaved) or ``"interleaved"`` (from half).
        rotary_dim: only the first ``rotary_dim`` rows of each head turn; default the whole head.

    Returns:
        Same shape and dtype; converting back restores it exactly.

    Raises:
        TypeError: ``num_heads`` or ``rotary_dim`` that are not integers.
        ValueError: an unknown layout; rows that ``num_heads`` does not divide; a ``rotary_dim``
            that is odd or wider than the head.
    """
    _check_layout(to)
    if weight.dim() not in (1, 2):
        raise ValueError(f"weight must have one or two axes, got shape {tuple(weight.shape)}")
    check_count(num_heads, "num_heads")
    if weight.shape[0] % num_heads:
        raise ValueError(f"num_heads must divide the {weight.shape[0]} rows, got {num_heads}")
    head_dim = weight.shape[0] // num_heads
    rotary_dim = head_dim if rotary_dim is None else rotary_dim
    check_even_dim(rotary_dim, "rotary_dim")
    if rotary_dim > head_dim:
        raise ValueError(f"rotary_dim must be <= head_dim = {head_dim}, got {rotary_dim}")
    reorder = interleaved_to_half if to == "half" else half_to_interleaved
    order = torch.arange(head_dim, device=weight.device)
    order = torch.cat([reorder(order[:rotary_dim]), order[rotary_dim:]])
    return weight.unflatten(0, (num_heads, head_dim))[:, order].flatten(0, 1)


class RotaryEmbedding(PositionalEncoding):
    """Rotary position embedding for one attention head width.

    Source: Su et al. 2021. Tested against transformers' Llama (half), GPT-J (interleaved) and
    GPT-NeoX (partial).

    Args:
        head_dim: channels of one head.
        base: see :func:`~posenc_tutorial.frequencies.inverse_frequencies`.
        rotary_dim: the first so many channels turn, with the frequencies of a head of that width
            (GPT-NeoX, Phi); default all of them.
        layout: ``"half"`` or ``"interleaved"``, see the top of this module.
        parameters: frequencies and attention factor from
            :mod:`~posenc_tutorial.context_extension` in place of ``base``; or a function from the
            sequence length to them, for dynamic NTK and longrope. The length is the largest
            position of a row plus one (at least 1), so rows of a left-padded batch have their
            own. Documents packed into one row share one length.

    Raises:
        TypeError: arguments of a wrong type.
        ValueError: an odd width; a ``rotary_dim`` wider than the head or at odds with
            ``parameters``; a ``base`` beside ``parameters``; an unknown layout.
    """

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        layout: str = "half",
        parameters: RopeParameters | Callable[[int], RopeParameters] | None = None,
    ) -> None:
        super().__init__()
        check_even_dim(head_dim, "head_dim")
        _check_layout(layout)
        if rotary_dim is not None:
            check_even_dim(rotary_dim, "rotary_dim")
        if parameters is not None and base != 10000.0:
            raise ValueError(f"base has no effect beside parameters, got base {base}")
        if parameters is None:
            parameters = RopeParameters(inverse_frequencies(rotary_dim or head_dim, base))
        elif not isinstance(parameters, RopeParameters) and not callable(parameters):
            raise TypeError(
                "parameters must be RopeParameters or a function from the sequence length to "
                f"them, got {type(parameters).__name__}"
            )
        self.head_dim = head_dim
        self.layout = layout
        self.rotary_dim = rotary_dim
        self._schedule = parameters
        first = self.parameters_at(1)
        if first.rotary_dim > head_dim or rotary_dim not in (None, first.rotary_dim):
            raise ValueError(
                f"the parameters rotate {first.rotary_dim} channels, but rotary_dim is "
                f"{rotary_dim} and head_dim {head_dim}"
            )
        self.rotary_dim = first.rotary_dim
        self.table = None if self.length_dependent else PositionTable(self._fixed_rows)

    @property
    def length_dependent(self) -> bool:
        """Whether the frequencies are re-derived from the length of the sequence."""
        return not isinstance(self._schedule, RopeParameters)

    def parameters_at(self, seq_len: int) -> RopeParameters:
        """Frequencies and attention factor in force for a sequence of ``seq_len`` tokens."""
        if not self.length_dependent:
            return self._schedule
        parameters = self._schedule(seq_len)
        if not isinstance(parameters, RopeParameters):
            raise TypeError(
                f"the function given as parameters must return RopeParameters, but returned "
                f"{type(parameters).__name__} for length {seq_len}"
            )
        if self.rotary_dim not in (None, parameters.rotary_dim):
            raise ValueError(
                f"the function given as parameters must rotate {self.rotary_dim} channels at every "
                f"length, but rotates {parameters.rotary_dim} at length {seq_len}"
            )
        return parameters

    def reserve(self, num_positions: int) -> None:
        """Tabulate positions ``0 … num_positions - 1`` now, before a compiled region needs them."""
        if self.table is not None:
            self.table.reserve(num_positions)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rotate queries and keys of the same tokens.

        Args:
            q: ``(batch, heads, n, head_dim)``.
            k: ``(batch, kv_heads, n, head_dim)``.
            positions: ``(n,)`` or ``(batch, n)``; default ``0 … n - 1``.

        Returns:
            The rotated pair, same shapes and dtypes.

        Raises:
            ValueError: shapes that do not fit; ``q`` and ``k`` of different length (use
                :meth:`rotate_query_key`).
        """
        if q.shape[-2] != k.shape[-2]:
            raise ValueError(
                f"q has {q.shape[-2]} tokens and k {k.shape[-2]}: give both positions to "
                "rotate_query_key"
            )
        if positions is None:
            positions = torch.arange(q.shape[-2], device=q.device)
        return self.rotate_query_key(q, k, positions, positions)

    def rotate_query_key(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        q_positions: torch.Tensor,
        k_positions: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rotate queries and keys, each by its own positions, in the same direction.

        Args:
            q: ``(batch, heads, n_q, head_dim)``.
            k: ``(batch, kv_heads, n_k, head_dim)``.
            q_positions: ``(n_q,)`` or ``(batch, n_q)``.
            k_positions: ``(n_k,)`` or ``(batch, n_k)``.

        Returns:
            The rotated pair, same shapes and dtypes. Arithmetic is float64 for float64 inputs and
            float32 otherwise.

        Raises:
            TypeError: positions of a dtype that cannot count tokens.
            ValueError: shapes that do not fit.
        """
        for name, x in (("q", q), ("k", k)):
            if x.dim() != 4 or x.shape[-1] != self.head_dim:
                raise ValueError(
                    f"{name} must have shape (batch, heads, n, {self.head_dim}), "
                    f"got {tuple(x.shape)}"
                )
        q_positions = token_positions(q_positions, q.shape[0], q.shape[2], "q_positions")
        k_positions = token_positions(k_positions, k.shape[0], k.shape[2], "k_positions")
        if q.numel() == k.numel() == 0:
            return q, k
        lengths = self._lengths(q_positions, k_positions) if self.length_dependent else None
        return self._turn(q, q_positions, lengths), self._turn(k, k_positions, lengths)

    def _lengths(self, q_positions: torch.Tensor, k_positions: torch.Tensor) -> list[int]:
        """Sequence length of each row of the batch, or of the one row that all share."""
        ends = [p.amax(-1) for p in (q_positions, k_positions.to(q_positions.device)) if p.numel()]
        last = torch.maximum(ends[0], ends[-1])
        return [max(1, int(p) + 1) for p in last.reshape(-1)]

    def _turn(self, x: torch.Tensor, positions: torch.Tensor, lengths) -> torch.Tensor:
        cos, sin = self._cos_sin(positions, x.dtype, lengths)
        if cos.dim() == 3:
            cos, sin = cos[:, None], sin[:, None]  # (batch, 1, n, pairs): one row, all its heads
        return rotate(x, cos.to(x.device), sin.to(x.device), layout=self.layout)

    def _cos_sin(self, positions, dtype, lengths) -> tuple[torch.Tensor, torch.Tensor]:
        wide = torch.promote_types(dtype, torch.float32)
        if lengths is None and wide == torch.float32:
            return self.table(positions).chunk(2, dim=-1)
        if lengths is None:
            lengths = [0]  # any length: the parameters do not depend on it
        if len(lengths) == 1:
            rows = self._rows(positions, self.parameters_at(lengths[0]), wide)
        else:
            each = positions.expand(len(lengths), positions.shape[-1])
            at = [self.parameters_at(n) for n in lengths]
            rows = torch.stack([self._rows(p, a, wide) for p, a in zip(each, at, strict=True)])
        return rows.chunk(2, dim=-1)

    def _fixed_rows(self, positions: torch.Tensor) -> torch.Tensor:
        return self._rows(positions, self._schedule, torch.float32)

    @staticmethod
    def _rows(positions, parameters: RopeParameters, dtype: torch.dtype) -> torch.Tensor:
        """cos and sin side by side: (*positions.shape, rotary_dim)"""
        cos, sin = rope_cos_sin(
            positions,
            parameters.inv_freq,
            attention_factor=parameters.attention_factor,
            dtype=dtype,
        )
        return torch.cat([cos, sin], dim=-1)
