"""Door 2: the score depends on how far apart two tokens are (Shaw's term, T5's buckets)."""

from __future__ import annotations

import math

import torch
from torch import nn

from .encoding import PositionalEncoding
from .frequencies import as_positions, check_count


def relative_positions(q_positions: torch.Tensor, k_positions: torch.Tensor) -> torch.Tensor:
    """Key position minus query position, for every pair: negative looks back, positive ahead.

    Args:
        q_positions: ``(n_q,)`` or ``(batch, n_q)``, integers.
        k_positions: ``(n_k,)`` or ``(batch, n_k)``, integers.

    Returns:
        ``(n_q, n_k)``, or ``(batch, n_q, n_k)`` if either is batched; tokens, int64 (unsigned
        positions do not wrap), or float32/float64 for fractional positions.

    Raises:
        TypeError: a dtype that cannot hold positions.
        ValueError: positions with more than two axes, or two batches of different size.
    """
    pair = [as_positions(q_positions, "q_positions"), as_positions(k_positions, "k_positions")]
    shapes = [tuple(p.shape) for p in pair]
    batches = {p.shape[0] for p in pair if p.dim() == 2}
    if any(p.dim() not in (1, 2) for p in pair) or len(batches) > 1:
        raise ValueError(
            "positions must have shape (n,) or (batch, n) with one batch size, "
            f"got {shapes[0]} and {shapes[1]}"
        )
    q, k = (p if p.is_floating_point() else p.long() for p in pair)
    return k[..., None, :] - q[..., :, None]


class ShawRelative(PositionalEncoding):
    """A learned vector for every relative position, compared with the query.

    The score of query ``i`` and key ``j`` becomes ``q_i · (k_j + a_{j-i}) / sqrt(head_dim)``; this
    encoding supplies the second part. Distances beyond ``max_distance`` share the last vector.
    The layer's heads share the vectors, as in the paper. Shaw et al. also add a second set of
    vectors to the *values*; that touches V, which none of the three doors does, and is left out.

    Source: Shaw et al. 2018, eqs. 2 and 4.

    Args:
        head_dim: channels of one head.
        max_distance: relative positions are clipped to ``-max_distance … max_distance``.

    Attributes:
        weight: ``(2 * max_distance + 1, head_dim)``; row ``max_distance + r`` belongs to the
            relative position ``r``.

    Raises:
        TypeError: ``head_dim`` or ``max_distance`` that are not integers.
        ValueError: ``head_dim`` or ``max_distance`` below 1.
    """

    def __init__(self, head_dim: int, max_distance: int) -> None:
        super().__init__()
        check_count(head_dim, "head_dim")
        check_count(max_distance, "max_distance")
        self.max_distance = max_distance
        self.weight = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        nn.init.xavier_uniform_(self.weight)

    def score_bias(
        self,
        q_positions: torch.Tensor,
        k_positions: torch.Tensor,
        *,
        q: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """``q_i · a_{clip(j-i)} / sqrt(head_dim)`` for every query and key.

        Args:
            q_positions: ``(n_q,)`` or ``(batch, n_q)``, integers.
            k_positions: ``(n_k,)`` or ``(batch, n_k)``, integers.
            q: ``(batch, heads, n_q, head_dim)``, needed.

        Returns:
            ``(batch, heads, n_q, n_k)``.

        Raises:
            TypeError: fractional positions.
            ValueError: ``q`` is missing or does not fit the positions or ``head_dim``.
        """
        if q is None:
            raise ValueError("Shaw's bias compares with the queries: give q")
        distance = relative_positions(q_positions, k_positions)
        if distance.is_floating_point():
            raise TypeError("positions must be integers: there is one vector per whole distance")
        head_dim, n_q = self.weight.shape[1], distance.shape[-2]
        batched = distance.dim() == 3
        fits = q.dim() == 4 and tuple(q.shape[-2:]) == (n_q, head_dim)
        if not fits or (batched and q.shape[0] != distance.shape[0]):
            batch = distance.shape[0] if batched else "batch"
            raise ValueError(
                f"q must have shape ({batch}, heads, {n_q}, {head_dim}), got {tuple(q.shape)}"
            )
        row = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        # q · a for every row of the small table, then pick: (batch, heads, n_q, 2 * max + 1)
        scores = q @ self.weight.to(q.dtype).T / math.sqrt(head_dim)
        row = row[:, None] if batched else row  # a heads axis
        return scores.gather(-1, row.expand(*q.shape[:3], row.shape[-1]))


def t5_bucket(
    relative_position: torch.Tensor,
    *,
    bidirectional: bool,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> torch.Tensor:
    """Which of T5's buckets a relative position falls into.

    Small distances have a bucket each. Larger ones share buckets whose widths grow by a constant
    ratio, up to ``max_distance``; everything farther away shares the last bucket.
    Source: Raffel et al. 2020, section 2.1. Equal to transformers'
    ``T5Attention._relative_position_bucket`` on every distance tried (-5000 … 5000).

    Args:
        relative_position: any shape, integers, key minus query
            (:func:`relative_positions`).
        bidirectional: True (encoder): keys after the query use the upper half of the buckets.
            False (causal decoder): keys after the query all fall into bucket 0.
        num_buckets: number of buckets, even if ``bidirectional``.
        max_distance: tokens; from here on all share the last bucket, which begins a little
            earlier (at 91 for an encoder with 32 buckets and 128).

    Returns:
        int64, same shape, values ``0 … num_buckets - 1``.

    Raises:
        TypeError: relative positions or ``num_buckets`` that are not integers; a
            ``max_distance`` that is not a number.
        ValueError: too few buckets, an odd number of them in both directions, or a
            ``max_distance`` that leaves no room for the logarithmic part.
    """
    if as_positions(relative_position, "relative_position").is_floating_point():
        raise TypeError("relative_position must be a tensor of integers, key minus query")
    if not isinstance(num_buckets, int):
        raise TypeError(f"num_buckets must be an integer, got {num_buckets!r}")
    directions = 2 if bidirectional else 1
    if num_buckets < 2 * directions or num_buckets % directions:
        raise ValueError(
            f"num_buckets must be >= {2 * directions}"
            f"{' and even' if bidirectional else ''}, got {num_buckets}"
        )
    buckets = num_buckets // directions
    exact = buckets // 2
    if isinstance(max_distance, bool) or not hasattr(max_distance, "__float__"):
        raise TypeError(f"max_distance must be a number > {exact}, got {max_distance!r}")
    if not exact < max_distance < math.inf:
        raise ValueError(f"max_distance must be finite and > {exact}, got {max_distance}")
    relative_position = relative_position.long()
    if bidirectional:
        offset = buckets * (relative_position > 0).long()
        distance = relative_position.abs()
    else:
        offset = 0
        distance = (-relative_position).clamp(min=0)
    # Distances exact … max_distance are spread over the remaining buckets by their logarithm.
    # float32 and this order of operations, as in T5: at a bucket's edge the last bit decides.
    ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = exact + (ratio * (buckets - exact)).long()
    return offset + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))


class T5Bias(PositionalEncoding):
    """One learned number per bucket and head, added to the score.

    T5 keeps one such table for a whole stack of layers: pass the same instance to every layer.
    It adds no bias in cross-attention. Note that T5 itself does not scale its scores by
    ``1 / sqrt(head_dim)``; in a model that does, the table simply learns other numbers.

    Source: Raffel et al. 2020, section 2.1.

    Args:
        num_heads: number of heads.
        bidirectional: see :func:`t5_bucket`.
        num_buckets: see :func:`t5_bucket`.
        max_distance: see :func:`t5_bucket`. Buckets for distances that training never shows are
            never trained: keep it at or below the training length.

    Attributes:
        weight: ``(num_buckets, num_heads)``, as in published checkpoints; zero at first, so that
            training starts without a preference.

    Raises:
        TypeError: see :func:`t5_bucket`; ``num_heads`` is not an integer.
        ValueError: see :func:`t5_bucket`; ``num_heads`` below 1.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        bidirectional: bool,
        num_buckets: int = 32,
        max_distance: int = 128,
    ) -> None:
        super().__init__()
        check_count(num_heads, "num_heads")
        self.bucket_settings = {
            "bidirectional": bidirectional,
            "num_buckets": num_buckets,
            "max_distance": max_distance,
        }
        t5_bucket(torch.zeros(1, dtype=torch.long, device="cpu"), **self.bucket_settings)
        self.weight = nn.Parameter(torch.zeros(num_buckets, num_heads))

    def score_bias(
        self,
        q_positions: torch.Tensor,
        k_positions: torch.Tensor,
        *,
        q: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The bias of every query and key, from their distance alone.

        Args:
            q_positions: ``(n_q,)`` or ``(batch, n_q)``, integers.
            k_positions: ``(n_k,)`` or ``(batch, n_k)``, integers.
            q: not used.

        Returns:
            ``(heads, n_q, n_k)``, or ``(batch, heads, n_q, n_k)`` for batched positions.
        """
        bucket = t5_bucket(relative_positions(q_positions, k_positions), **self.bucket_settings)
        return self.weight[bucket].movedim(-1, -3)  # heads from the last axis to before n_q
