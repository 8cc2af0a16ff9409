"""A text split over several processes: whose token stands where, and attention over the pieces.

A long text does not fit on one device, so each of ``W`` processes (*ranks*) keeps a part of it, a
*shard*. Everything in a Transformer works token by token, except attention and positions. For
positions there is one rule: a token keeps the position it has in the whole text, however the text
is cut. Index and position are then two different things, which is why every function of this
package takes positions.

Two ways to cut ``n`` tokens, here for ``W = 2``:

==================  ==============================  ==================================
scheme              rank 0                          rank 1
==================  ==============================  ==================================
``"contiguous"``    the first half                  the second half
``"zigzag"``        first and last quarter          the two quarters in the middle
==================  ==============================  ==================================

Under a causal mask the second half has more to look at than the first. Zig-zag gives each rank an
early and a late piece, and so the same work to all; its positions are not contiguous.

Two ways to attend over shards, equal to attention over the whole up to rounding:
:func:`gathered_attention` collects all keys and values first, :func:`ring_attention` passes them
round and merges what each piece contributes (:func:`merge_attention`). Both are for reading texts;
no gradient flows through the communication.

Source: Liu et al. 2023 (Ring Attention, arXiv 2310.01889); the two pieces per rank and the
gathering from Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783), section 3.3.2. Tested against
:func:`~posenc_tutorial.attention.attention` on the whole text, on two processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from .attention import attention_scores
from .frequencies import as_positions

SCHEMES = ("contiguous", "zigzag")


def shard_positions(
    n: int, rank: int, world_size: int, *, scheme: str = "contiguous"
) -> torch.Tensor:
    """Positions in the whole text of the tokens that one rank keeps.

    Args:
        n: tokens in the whole text, a multiple of ``world_size`` (``2 * world_size`` for
            ``"zigzag"``).
        rank: which process, ``0 … world_size - 1``.
        world_size: number of processes, at least 1.
        scheme: ``"contiguous"``, or ``"zigzag"``: of ``2 * world_size`` equal pieces rank ``r``
            keeps piece ``r`` and piece ``2 * world_size - 1 - r``.

    Returns:
        ``(n / world_size,)``, int64, on the CPU, increasing.

    Raises:
        TypeError: a count that is not an integer.
        ValueError: an unknown scheme, a rank that does not exist, or a length that cannot be cut
            into equal pieces.
    """
    for name, value in (("n", n), ("rank", rank), ("world_size", world_size)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an integer, got {value!r}")
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {SCHEMES}, got {scheme!r}")
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must lie in 0 … {world_size - 1}, got {rank}")
    pieces = world_size if scheme == "contiguous" else 2 * world_size
    if n < pieces or n % pieces:
        raise ValueError(f"n must be a multiple of {pieces} for {scheme!r}, got {n}; pad the text")
    mine = [rank] if scheme == "contiguous" else [rank, pieces - 1 - rank]
    starts = torch.arange(n, device="cpu").view(pieces, -1)
    return starts[mine].flatten()


def shard(
    x: torch.Tensor, rank: int, world_size: int, *, dim: int, scheme: str = "contiguous"
) -> torch.Tensor:
    """The part of ``x`` that one rank keeps, cut along the token axis.

    Args:
        x: any tensor with a token axis: ids, embeddings, queries, position ids.
        rank: as for :func:`shard_positions`.
        world_size: as for :func:`shard_positions`.
        dim: the token axis; there is no default, because cutting another axis raises no error.
        scheme: as for :func:`shard_positions`.

    Returns:
        As ``x``, with ``1 / world_size`` of its tokens, in the order of :func:`shard_positions`.

    Raises:
        TypeError: as :func:`shard_positions`.
        ValueError: as :func:`shard_positions`.
    """
    kept = shard_positions(x.shape[dim], rank, world_size, scheme=scheme)
    return x.index_select(dim, kept.to(x.device))


def unshard(
    shards: Sequence[torch.Tensor], *, dim: int, scheme: str = "contiguous"
) -> torch.Tensor:
    """Put the shards of all ranks together again; the inverse of :func:`shard`.

    Args:
        shards: one tensor for each rank, in the order of ranks, of equal shapes.
        dim: the token axis.
        scheme: how the text was cut.

    Returns:
        The whole, tokens in the order of the text.

    Raises:
        TypeError: as :func:`shard_positions`.
        ValueError: no shards; an unknown scheme; shards that cannot come from one text.
    """
    if not shards:
        raise ValueError("shards must hold one tensor for each rank, got none")
    shapes = [tuple(piece.shape) for piece in shards]
    if len(set(shapes)) > 1:
        raise ValueError(f"shards must have one shape, got {shapes}")
    stacked = torch.cat(list(shards), dim)
    n, world_size = stacked.shape[dim], len(shards)
    places = [shard_positions(n, rank, world_size, scheme=scheme) for rank in range(world_size)]
    order = torch.argsort(torch.cat(places))
    return stacked.index_select(dim, order.to(stacked.device))


def causal_pairs(n: int, world_size: int, *, scheme: str = "contiguous") -> list[int]:
    """Scores that each rank has to compute under a causal mask: its share of the work.

    A query at position ``p`` sees ``p + 1`` keys, so a rank computes the sum of that over its
    tokens. Zig-zag makes all shares equal.

    Args:
        n: tokens in the whole text.
        world_size: number of processes.
        scheme: as for :func:`shard_positions`.

    Returns:
        One number for each rank; they add up to ``n * (n + 1) / 2``.

    Raises:
        TypeError: as :func:`shard_positions`.
        ValueError: as :func:`shard_positions`.
    """
    shard_positions(n, 0, world_size, scheme=scheme)  # refuses what cannot be cut
    ranks = range(world_size)
    return [int((shard_positions(n, r, world_size, scheme=scheme) + 1).sum()) for r in ranks]


def partial_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    q_positions: torch.Tensor,
    k_positions: torch.Tensor,
    causal: bool = True,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over some of the keys, with the number that says how much these keys count for.

    The softmax over all keys divides by ``Z``, a sum over all of them. A piece knows its own part
    of ``Z`` only. So it returns attention over the piece alone, and ``ln`` of its part of ``Z``.

    Args:
        q: ``(batch, heads, n_q, head_dim)``, rotated already.
        k: ``(batch, heads, n_k, head_dim)``, rotated already.
        v: ``(batch, heads, n_k, value_dim)``.
        q_positions: ``(n_q,)``, positions in the whole text.
        k_positions: ``(n_k,)``, positions in the whole text.
        causal: hide keys whose position is larger than the query's.
        bias: added to the scaled scores, of a shape that fits ``(batch, heads, n_q, n_k)``.
        scale: as for :func:`~posenc_tutorial.attention.attention_scores`.

    Returns:
        The output ``(batch, heads, n_q, value_dim)``, and the logarithm of the sum of
        exponentials, ``(batch, heads, n_q)``: minus infinity, with an output of zeros, for a
        query that sees none of these keys. float32 for half-precision input.

    Raises:
        TypeError: positions that are not integers; as for
            :func:`~posenc_tutorial.attention.attention_scores`.
        ValueError: positions or values that do not fit the queries and keys.
    """
    for name, positions, n in (
        ("q_positions", q_positions, q.shape[-2]),
        ("k_positions", k_positions, k.shape[-2]),
    ):
        if as_positions(positions, name).is_floating_point():
            raise TypeError(f"{name} must be integers, got {positions.dtype}")
        if positions.shape != (n,):
            raise ValueError(f"{name} must have shape ({n},), got {tuple(positions.shape)}")
    if v.shape[:-1] != k.shape[:-1]:
        raise ValueError(
            "v must agree with k in batch, heads and length, "
            f"got {tuple(v.shape)} and {tuple(k.shape)}"
        )
    scores = attention_scores(q, k, scale=scale, bias=bias)
    scores = scores if scores.dtype == torch.float64 else scores.float()
    if causal:
        hidden = k_positions.long()[None, :] > q_positions.long()[:, None]  # (n_q, n_k)
        scores = scores.masked_fill(hidden.to(scores.device), -math.inf)
    total = scores.logsumexp(-1)  # (batch, heads, n_q)
    # A row of minus infinities would turn into nan; it has no weights at all.
    weights = (scores - total.masked_fill(total == -math.inf, 0.0)[..., None]).exp()
    return weights @ v.to(weights.dtype), total


def merge_attention(
    outputs: Sequence[torch.Tensor], totals: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over all keys, from attention over pieces of them.

    With ``Z = sum of exp(total)`` over the pieces, a piece counts for ``exp(total) / Z``:

    ``out = sum of exp(total_i - ln Z) * out_i``,

    exactly, since the numerator of the softmax is a sum over keys as well. The largest exponent is
    taken out first, so nothing overflows.

    Args:
        outputs: ``(batch, heads, n_q, value_dim)`` for each piece.
        totals: ``(batch, heads, n_q)`` for each piece, natural logarithms.

    Returns:
        The merged output and its logarithm, which can be merged again.

    Raises:
        ValueError: no pieces, not one total for each output, or pieces of different shapes.
    """
    if not outputs or len(outputs) != len(totals):
        raise ValueError(
            f"need one total for each output, got {len(outputs)} outputs, {len(totals)} totals"
        )
    shapes = [(tuple(out.shape), tuple(t.shape)) for out, t in zip(outputs, totals, strict=True)]
    if len(set(shapes)) > 1 or shapes[0][0][:-1] != shapes[0][1]:
        raise ValueError(
            "outputs (…, n_q, value_dim) and totals (…, n_q) must agree in all pieces, "
            f"got {shapes}"
        )
    stacked = torch.stack(list(totals))  # (pieces, batch, heads, n_q)
    total = stacked.logsumexp(0)
    share = (stacked - total.masked_fill(total == -math.inf, 0.0)).exp()
    return (share[..., None] * torch.stack(list(outputs))).sum(0), total


def gathered_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    *,
    causal: bool = True,
    bias: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Attention of the local queries over the keys of all ranks, collected first.

    Simple, and one piece of communication; every rank holds all keys and values for a moment.

    Args:
        q: ``(batch, heads, n_local, head_dim)``, the local queries, rotated already.
        k: ``(batch, heads, n_local, head_dim)``, the local keys, rotated already.
        v: ``(batch, heads, n_local, value_dim)``.
        positions: ``(n_local,)``, of the local tokens in the whole text; any cut will do, since
            the mask compares positions.
        causal: hide later keys.
        bias: from query and key positions to a bias, for door 2: an encoding's ``score_bias``.
        group: the processes; by default all.

    Returns:
        ``(batch, heads, n_local, value_dim)``, for the local queries.

    Raises:
        TypeError: as :func:`partial_attention`.
        ValueError: as :func:`partial_attention`.
    """
    keys, values, places = (_all_gather(x, group) for x in (k, v, positions))
    everywhere = torch.cat(places)
    out, _ = partial_attention(
        q,
        torch.cat(keys, -2),
        torch.cat(values, -2),
        q_positions=positions,
        k_positions=everywhere,
        causal=causal,
        bias=None if bias is None else bias(positions, everywhere),
    )
    return out.to(v.dtype)


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    *,
    causal: bool = True,
    bias: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Attention of the local queries over all keys, which go round the ranks piece by piece.

    In each of ``world_size`` steps a rank attends to the piece it holds and hands it on to the
    next rank, positions included. It never holds more than one foreign piece.

    Args:
        q: as for :func:`gathered_attention`.
        k: as for :func:`gathered_attention`.
        v: as for :func:`gathered_attention`.
        positions: as for :func:`gathered_attention`. They travel with the keys: where a piece
            comes from cannot be told from its index.
        causal: hide later keys.
        bias: from query and key positions to a bias, for door 2: an encoding's ``score_bias``.
        group: the processes; by default all.

    Returns:
        ``(batch, heads, n_local, value_dim)``, for the local queries.

    Raises:
        TypeError: as :func:`partial_attention`.
        ValueError: as :func:`partial_attention`.
    """
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    piece = (k, v, positions)
    outputs, totals = [], []
    for step in range(world_size):
        out, total = partial_attention(
            q,
            piece[0],
            piece[1],
            q_positions=positions,
            k_positions=piece[2],
            causal=causal,
            bias=None if bias is None else bias(positions, piece[2]),
        )
        outputs.append(out)
        totals.append(total)
        if step < world_size - 1:
            piece = tuple(_hand_on(x, rank, world_size, group) for x in piece)
    return merge_attention(outputs, totals)[0].to(v.dtype)


def _all_gather(x: torch.Tensor, group: dist.ProcessGroup | None) -> list[torch.Tensor]:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x.contiguous(), group=group)
    return parts


def _hand_on(
    x: torch.Tensor, rank: int, world_size: int, group: dist.ProcessGroup | None
) -> torch.Tensor:
    """Send to the next rank, receive from the one before, both at once so that nobody waits."""

    def globally(member: int) -> int:
        return member if group is None else dist.get_global_rank(group, member)

    received = torch.empty_like(x)
    after, before = globally((rank + 1) % world_size), globally((rank - 1) % world_size)
    operations = [
        dist.P2POp(dist.isend, x.contiguous(), after, group=group),
        dist.P2POp(dist.irecv, received, before, group=group),
    ]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    return received
