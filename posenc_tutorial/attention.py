"""Attention written out, and a multi-head layer that asks an encoding for doors 2 and 3."""

from __future__ import annotations

import math

import torch
from torch import nn

from .encoding import PositionalEncoding
from .frequencies import check_count, token_positions


def attention_scores(
    q: torch.Tensor,
    k: torch.Tensor,
    *,
    scale: float | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Scaled dot products of all queries with all keys, plus a bias: ``scale * q kᵀ + bias``.

    Source: Vaswani et al. 2017, eq. 1, before the softmax.

    Args:
        q: ``(batch, heads, n_q, head_dim)``.
        k: ``(batch, heads, n_k, head_dim)``.
        scale: default ``1 / sqrt(head_dim)``.
        bias: ``(heads, n_q, n_k)`` or ``(batch, heads, n_q, n_k)``; axes of size 1 broadcast.

    Returns:
        ``(batch, heads, n_q, n_k)``. A float32 bias makes the scores of half-precision queries
        float32, so a far token's bias is not rounded away.

    Raises:
        TypeError: queries, keys or a bias that are not floating-point (a bool mask added to the
            scores would be a preference for 1 over 0, and would hide nothing); queries and keys of
            two dtypes, outside autocast.
        ValueError: shapes that do not fit, with both shapes; heads without channels.
    """
    if q.dim() != 4 or k.dim() != 4:
        raise ValueError(
            "q and k must have shape (batch, heads, n, head_dim), "
            f"got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    if q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3]:
        raise ValueError(
            "q and k must agree in batch, heads and head_dim, "
            f"got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    if q.shape[3] == 0:
        raise ValueError(f"head_dim must be at least 1, got q of shape {tuple(q.shape)}")
    if not (q.is_floating_point() and k.is_floating_point()):
        raise TypeError(f"q and k must be floating-point, got {q.dtype} and {k.dtype}")
    if q.dtype != k.dtype and not torch.is_autocast_enabled(q.device.type):
        raise TypeError(f"q and k must have one dtype, got {q.dtype} and {k.dtype}")
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    # The queries are scaled first: in float16 the unscaled products can pass 65504 and be inf.
    scores = (scale * q) @ k.transpose(-2, -1)  # (batch, heads, n_q, n_k)
    if bias is not None:
        if not bias.is_floating_point():
            raise TypeError(f"bias must be floating-point (a bool is a mask), got {bias.dtype}")
        if bias.dim() not in (3, 4) or not _broadcasts(bias.shape, scores.shape):
            raise ValueError(
                f"bias must have shape (heads, n_q, n_k) or (batch, heads, n_q, n_k) and fit "
                f"scores of shape {tuple(scores.shape)}, got {tuple(bias.shape)}"
            )
        scores = scores + bias
    return scores


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    causal: bool = False,
    q_positions: torch.Tensor | None = None,
    k_positions: torch.Tensor | None = None,
    scale: float | None = None,
    return_weights: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Scaled dot-product attention, every step visible.

    Source: Vaswani et al. 2017, eq. 1. Tested against PyTorch's own
    ``scaled_dot_product_attention``.

    Args:
        q: ``(batch, heads, n_q, head_dim)``.
        k: ``(batch, heads, n_k, head_dim)``.
        v: ``(batch, heads, n_k, value_dim)``.
        bias: added to the scores, see :func:`attention_scores`.
        mask: bool, True = may attend; ``(n_q, n_k)``, ``(batch, n_q, n_k)`` or
            ``(batch, heads, n_q, n_k)``; axes of size 1 broadcast. A padding mask over keys is
            ``keep[:, None, :]``.
        causal: a query sees only keys whose position is not greater than its own.
        q_positions: ``(n_q,)`` or ``(batch, n_q)``; used by ``causal``.
        k_positions: ``(n_k,)`` or ``(batch, n_k)``; used by ``causal``. Without positions, indices
            count, and then ``n_q`` must equal ``n_k``: two lengths could be aligned at either end.
        scale: default ``1 / sqrt(head_dim)``.
        return_weights: also return the attention weights.

    Returns:
        ``(batch, heads, n_q, value_dim)``; with ``return_weights`` also the weights
        ``(batch, heads, n_q, n_k)``. A query that may attend to nothing gets zeros, not nan, so
        a padded slot cannot poison the layers above it. The softmax of half-precision scores is
        taken in float32.

    Raises:
        TypeError: a mask that is not bool; anything else that is not floating-point.
        ValueError: shapes that do not fit; only one kind of positions; ``causal`` with different
            lengths and no positions.
    """
    scores = attention_scores(q, k, scale=scale, bias=bias)
    if v.dim() != 4 or v.shape[:3] != k.shape[:3]:
        raise ValueError(
            "v must agree with k in batch, heads and length, "
            f"got {tuple(v.shape)} and {tuple(k.shape)}"
        )
    if not v.is_floating_point():
        raise TypeError(f"v must be floating-point, got {v.dtype}: weights are no whole numbers")
    visible = _visible(scores, mask, causal, q_positions, k_positions)
    wide = torch.promote_types(scores.dtype, torch.float32)
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    # A row with nothing to see would be a softmax over -inf only: nan. Such rows are computed
    # as if all were visible and equal, and then set to zero.
    blind = (scores == -math.inf).all(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(blind, 0.0), dim=-1, dtype=wide)
    weights = weights.masked_fill(blind, 0.0)
    out = weights.to(v.dtype) @ v
    return (out, weights) if return_weights else out


def _visible(scores, mask, causal, q_positions, k_positions) -> torch.Tensor | None:
    """Which key each query may see, broadcastable to the scores; None if all of them."""
    batch, _, n_q, n_k = scores.shape
    if (q_positions is None) != (k_positions is None):
        raise ValueError("give both q_positions and k_positions, or neither")
    visible = None if mask is None else _with_heads_axis(mask, scores.shape)
    if causal:
        if q_positions is None:
            if n_q != n_k:
                raise ValueError(
                    f"causal attention of {n_q} queries over {n_k} keys needs q_positions and "
                    "k_positions: without them it is not known which end is aligned"
                )
            q_positions = k_positions = torch.arange(n_k, device=scores.device)
        q_positions = token_positions(q_positions, batch, n_q, "q_positions")
        k_positions = token_positions(k_positions, batch, n_k, "k_positions")
        past = q_positions[..., :, None] >= k_positions[..., None, :]  # ([batch,] n_q, n_k)
        if past.dim() == 3:
            past = past[:, None]
        visible = past if visible is None else visible & past
    return visible


def _with_heads_axis(mask: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Check that a mask fits scores of ``shape``, and return it ready to broadcast to them."""
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be bool (True = may attend), got {mask.dtype}")
    wide = mask[:, None] if mask.dim() == 3 else mask  # (batch, 1, n_q, n_k)
    if wide.dim() not in (2, 4) or not _broadcasts(wide.shape, shape):
        raise ValueError(
            "mask must have shape (n_q, n_k), (batch, n_q, n_k) or (batch, heads, n_q, n_k) "
            f"and fit scores of shape {tuple(shape)}, got {tuple(mask.shape)}"
        )
    return wide


def _broadcasts(shape: torch.Size, to: torch.Size) -> bool:
    """Whether a tensor of ``shape`` broadcasts to the shape ``to`` without enlarging it."""
    to = to[len(to) - len(shape) :]
    return all(size in (1, full) for size, full in zip(shape, to, strict=True))


class KeyValueCache:
    """Keys, values and positions that one attention layer has already seen.

    One cache per layer. Each layer keeps the positions it was given, so no layer can run ahead
    of another.

    Attributes:
        keys: ``(batch, heads, n_seen, head_dim)``, or None while empty. Rotated already, unless
            the layer's encoding is ``length_dependent``.
        values: ``(batch, heads, n_seen, head_dim)``, or None.
        positions: ``(batch, n_seen)``, or None.
    """

    def __init__(self) -> None:
        self.keys: torch.Tensor | None = None
        self.values: torch.Tensor | None = None
        self.positions: torch.Tensor | None = None

    def __len__(self) -> int:
        """Number of tokens seen."""
        return 0 if self.keys is None else self.keys.shape[2]

    def next_positions(self, n: int) -> torch.Tensor:
        """Positions of the next ``n`` tokens of every row: each row counts on from its own end.

        Returns:
            ``(batch, n)``.

        Raises:
            TypeError: ``n`` is not an integer.
            ValueError: the cache is empty, so there is nothing to count on from; ``n`` below 0.
        """
        check_count(n, "n", at_least=0)
        if self.positions is None:
            raise ValueError("an empty cache has no next position; give positions")
        last = self.positions.max(dim=-1, keepdim=True).values  # (batch, 1)
        return last + torch.arange(1, n + 1, device=last.device)

    def append(self, keys: torch.Tensor, values: torch.Tensor, positions: torch.Tensor) -> None:
        """Add the keys, values and positions of new tokens at the end.

        Args:
            keys: ``(batch, heads, n_new, head_dim)``.
            values: ``(batch, heads, n_new, head_dim)``.
            positions: ``(n_new,)`` or ``(batch, n_new)``.

        Raises:
            TypeError: positions of a dtype that cannot count tokens.
            ValueError: values or positions that do not fit the keys; keys that do not fit the
                cache's in batch, heads or head_dim.
        """
        if keys.dim() != 4 or values.shape[:3] != keys.shape[:3]:
            raise ValueError(
                "keys and values must have shape (batch, heads, n_new, …) and agree in all three, "
                f"got {tuple(keys.shape)} and {tuple(values.shape)}"
            )
        positions = token_positions(positions, keys.shape[0], keys.shape[2])
        # A copy: a decoding loop may count its own tensor up in place.
        positions = positions.expand(keys.shape[0], -1).clone()
        if self.keys is None:
            self.keys, self.values, self.positions = keys, values, positions
            return
        if keys.shape[0] != self.keys.shape[0]:
            raise ValueError(
                f"the cache holds a batch of {self.keys.shape[0]}, got {keys.shape[0]}"
            )
        if keys.shape[1] != self.keys.shape[1] or keys.shape[3] != self.keys.shape[3]:
            raise ValueError(
                f"the cache holds keys of {self.keys.shape[1]} heads and {self.keys.shape[3]} "
                f"channels, got shape {tuple(keys.shape)}"
            )
        self.keys = torch.cat([self.keys, keys], dim=2)
        self.values = torch.cat([self.values, values], dim=2)
        self.positions = torch.cat([self.positions, positions], dim=1)


class MultiHeadAttention(nn.Module):
    """Multi-head attention that asks its encoding for doors 2 and 3.

    Door 1 is not opened here: the model adds to its embeddings once, before the first layer
    (``x = encoding.add_to_input(x, positions)``), and not again in every layer.

    Source: Vaswani et al. 2017, section 3.2.2, without projection biases.

    Args:
        dim: model width.
        num_heads: number of heads; must divide ``dim``.
        encoding: any :class:`~posenc_tutorial.encoding.PositionalEncoding`. Several layers may
            share one, as T5's do.
        causal: whether a token may only attend to tokens at its own or earlier positions.

    Raises:
        TypeError: ``encoding`` is not a PositionalEncoding (use ``NoPE()`` for none); ``dim`` or
            ``num_heads`` that are not integers.
        ValueError: ``num_heads`` does not divide ``dim``; one of them below 1.
    """

    def __init__(
        self, dim: int, num_heads: int, encoding: PositionalEncoding, *, causal: bool
    ) -> None:
        super().__init__()
        if not isinstance(encoding, PositionalEncoding):
            raise TypeError(
                f"encoding must be a PositionalEncoding (NoPE() for none), got {encoding!r}"
            )
        check_count(dim, "dim")
        check_count(num_heads, "num_heads")
        if dim % num_heads:
            raise ValueError(f"num_heads must divide dim, got {num_heads} heads for dim {dim}")
        self.num_heads = num_heads
        self.causal = causal
        self.encoding = encoding
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        *,
        context: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        context_positions: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> torch.Tensor:
        """Attend from ``x`` to itself, to a cache and itself, or to ``context``.

        Args:
            x: ``(batch, n, dim)``.
            context: ``(batch, n_k, dim)``: keys and values come from here (cross-attention).
                The encoding is then asked only if ``context_positions`` is given: two sequences
                have no common coordinate by themselves, and T5's cross-attention has no bias.
            positions: ``(n,)`` or ``(batch, n)``; default ``0 … n-1``, or counting on from the
                end of each row of the cache.
            context_positions: ``(n_k,)`` or ``(batch, n_k)``.
            mask: bool, True = may attend, over all keys, cached ones first; see
                :func:`attention`.
            cache: keys and values of earlier tokens; the new ones are appended.

        Returns:
            ``(batch, n, dim)``.

        Raises:
            ValueError: shapes that do not fit; an encoding for another number of heads; a cache
                together with a context; ``context_positions`` without a context; causal
                cross-attention without ``context_positions``.
        """
        out, _ = self._attend(x, context, positions, context_positions, mask, cache)
        return self.out(out.transpose(1, 2).flatten(2))  # heads side by side again

    def weights(
        self,
        x: torch.Tensor,
        *,
        context: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        context_positions: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The attention weights of :meth:`forward`, for looking at.

        Args:
            x: ``(batch, n, dim)``; the other arguments as in :meth:`forward`.
            context: see :meth:`forward`.
            positions: see :meth:`forward`.
            context_positions: see :meth:`forward`.
            mask: see :meth:`forward`.

        Returns:
            ``(batch, heads, n, n_k)``; rows sum to 1, or to 0 where nothing is visible.

        Raises:
            ValueError: as :meth:`forward`.
        """
        return self._attend(x, context, positions, context_positions, mask, None)[1]

    def _attend(self, x, context, positions, context_positions, mask, cache):
        """Output of every head (batch, heads, n, head_dim), and the weights."""
        if x.dim() != 3 or x.shape[-1] != self.query.in_features:
            raise ValueError(
                f"x must have shape (batch, n, {self.query.in_features}), got {tuple(x.shape)}"
            )
        if context is not None and (context.dim() != 3 or context.shape[-1] != x.shape[-1]):
            raise ValueError(
                f"context must have shape (batch, n_k, {x.shape[-1]}), got {tuple(context.shape)}"
            )
        if context is None and context_positions is not None:
            raise ValueError("context_positions are the positions of a context, and none is given")
        if context is not None and cache is not None:
            raise ValueError("a cache is for self-attention; a context is already complete")
        if context is not None and self.causal and context_positions is None:
            raise ValueError("causal attention to a context needs context_positions")
        batch, n, _ = x.shape
        if positions is None:
            if cache is not None and len(cache):
                positions = cache.next_positions(n)
            else:
                positions = torch.arange(n, device=x.device)
        positions = token_positions(positions, batch, n, "positions")
        if mask is not None and cache is not None:
            # Checked before the cache grows. A mask for the new keys alone would broadcast over
            # the cached ones when only one token is new.
            n_keys = len(cache) + n
            _with_heads_axis(mask, torch.Size((batch, self.num_heads, n, n_keys)))
            if mask.shape[-1] != n_keys:
                raise ValueError(
                    f"mask must cover {len(cache)} cached and {n} new keys, "
                    f"got shape {tuple(mask.shape)}"
                )
        source = x if context is None else context
        q, k, v = (
            self._split(self.query(x)),
            self._split(self.key(source)),
            self._split(self.value(source)),
        )
        if context is None:
            k_positions = positions
        elif context_positions is not None:
            k_positions = token_positions(
                context_positions, batch, context.shape[1], "context_positions"
            )
        else:
            return attention(q, k, v, mask=mask, return_weights=True)

        # With parameters that never change, a key is rotated once and cached as it is. With
        # parameters that depend on the length, every key turns anew at every step.
        late = self.encoding.length_dependent
        if not late:
            q, k = self.encoding.rotate_query_key(q, k, positions, k_positions)
        if cache is not None:
            cache.append(k, v, k_positions)
            k, v, k_positions = cache.keys, cache.values, cache.positions
        if late:
            q, k = self.encoding.rotate_query_key(q, k, positions, k_positions)
        bias = self.encoding.score_bias(positions, k_positions, q=q)
        if bias is not None and bias.shape[-3] != self.num_heads:
            raise ValueError(
                f"the encoding was made for {bias.shape[-3]} heads, the layer has {self.num_heads}"
            )
        return attention(
            q,
            k,
            v,
            bias=bias,
            mask=mask,
            causal=self.causal,
            q_positions=positions,
            k_positions=k_positions,
            return_weights=True,
        )

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, n, dim) -> (batch, heads, n, head_dim)"""
        batch, n, dim = x.shape
        return x.view(batch, n, self.num_heads, dim // self.num_heads).transpose(1, 2)
