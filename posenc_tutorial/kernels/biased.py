"""Attention with a bias of door 2, without ever holding an ``n x n`` bias.

The written-out :func:`~posenc_tutorial.attention.attention` takes a bias of shape
``(heads, n_q, n_k)``, and keeps the scores and the weights of the same size for the backward
pass. For 16 384 tokens and 8 heads one such tensor is 8.6 GB. But a row of the softmax needs only
its own query. So the queries are taken in chunks, each chunk asks the encoding for its rows of
the bias, and in the backward pass each chunk is computed again.
"""

from __future__ import annotations

import importlib.util
import math
import warnings

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ..alibi import ALiBi, alibi_slopes
from ..attention import _with_heads_axis, attention
from ..encoding import PositionalEncoding
from ..frequencies import token_positions
from ..relative import ShawRelative, T5Bias, t5_bucket
from ._graphs import compiled, memory_order

BACKENDS = ("auto", "chunked", "sdpa", "flex")
_BROKEN: list[str] = []  # why FlexAttention failed here, if it did
_BUDGET = 2**21  # scores in memory at a time, where the caller names no chunk


def biased_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    encoding: PositionalEncoding,
    *,
    mask: torch.Tensor | None = None,
    causal: bool = False,
    q_positions: torch.Tensor | None = None,
    k_positions: torch.Tensor | None = None,
    scale: float | None = None,
    chunk: int | None = None,
    backend: str = "auto",
) -> torch.Tensor:
    """Attention with ``encoding.score_bias``, in memory that grows linearly with the length.

    Equal to ``attention(q, k, v, bias=encoding.score_bias(q_positions, k_positions, q=q), …)``,
    gradients of ``q``, ``k``, ``v`` and of the encoding's parameters included. Door 3 is not
    opened here: queries and keys come rotated. Source of the idea: Rabe and Staats 2021,
    "Self-attention does not need O(n²) memory".

    Args:
        q: ``(batch, heads, n_q, head_dim)``.
        k: ``(batch, heads, n_k, head_dim)``.
        v: ``(batch, heads, n_k, value_dim)``.
        encoding: whose :meth:`~posenc_tutorial.encoding.PositionalEncoding.score_bias` is added.
        mask: bool, True = may attend, see :func:`~posenc_tutorial.attention.attention`. A padding
            mask ``keep[:, None, :]`` stays small; an ``n_q x n_k`` mask is the caller's memory.
        causal: a query sees only keys whose position is not greater than its own.
        q_positions: ``(n_q,)`` or ``(batch, n_q)``; used by the bias and by ``causal``.
        k_positions: ``(n_k,)`` or ``(batch, n_k)``. Without positions, both count from 0, and
            then ``n_q`` must equal ``n_k``.
        scale: default ``1 / sqrt(head_dim)``.
        chunk: queries at a time; default as many as keep about two million scores in memory.
        backend: ``"chunked"`` runs everywhere, with any encoding. ``"sdpa"`` is PyTorch's own
            attention, for encodings without a bias. ``"flex"`` is FlexAttention, for ALiBi, T5
            and Shaw, on CUDA, and on the CPU for inference. ``"auto"`` takes the last two where
            they are known to be linear in memory, and else the first.

    Returns:
        ``(batch, heads, n_q, value_dim)``; zeros for a query that may attend to nothing.

    Raises:
        RuntimeError: the backend asked for cannot do this here.
        TypeError: a mask that is not bool; anything else that is not floating-point.
        ValueError: shapes that do not fit; only one kind of positions, or none and two lengths;
            an unknown backend; a chunk below 1.
    """
    if not isinstance(encoding, PositionalEncoding):
        raise TypeError(f"encoding must be a PositionalEncoding, got {type(encoding).__name__}")
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
        raise ValueError(f"chunk must be an integer >= 1, got {chunk!r}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if not q.is_floating_point() or not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"q, k and v must be floating-point, of one dtype, got {q.dtype}, {k.dtype}, {v.dtype}"
        )
    if not (
        q.dim() == k.dim() == v.dim() == 4
        and v.shape[:3] == k.shape[:3]
        and (*q.shape[:2], q.shape[3]) == (*k.shape[:2], k.shape[3])
    ):
        raise ValueError(
            "q, k and v must have shape (batch, heads, n, head_dim), k like q but for its length, "
            "v like k but for its width; "
            f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale must be a finite number, got {scale}")
    batch, heads, n_q, _ = q.shape
    n_k = k.shape[2]
    if (q_positions is None) != (k_positions is None):
        raise ValueError("give both q_positions and k_positions, or neither")
    counted = q_positions is None
    if counted:
        if n_q != n_k:
            raise ValueError(
                f"{n_q} queries over {n_k} keys need q_positions and k_positions: without them "
                "it is not known which end is aligned"
            )
        q_positions = k_positions = torch.arange(n_k, device=q.device)
    q_positions = token_positions(q_positions, batch, n_q, "q_positions").to(q.device)
    k_positions = token_positions(k_positions, batch, n_k, "k_positions").to(q.device)
    if mask is not None:
        mask = _with_heads_axis(mask, torch.Size((batch, heads, n_q, n_k)))
        mask = mask.expand(*mask.shape[:-2], n_q, n_k)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale

    if backend in ("auto", "sdpa"):
        reason = _why_not_sdpa(encoding, q, q_positions, k_positions, mask, causal, counted)
        if reason is None:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
        if backend == "sdpa":
            raise RuntimeError(reason)
    if backend in ("auto", "flex"):
        reason = _why_not_flex(encoding, q, k, v)
        arguments = (q, k, v, encoding, mask, causal, q_positions, k_positions, scale)
        if backend == "flex":
            if reason is not None:
                raise RuntimeError(reason)
            return _flex(*arguments)
        if reason is None and _wants_flex(q) and not _BROKEN:
            try:
                return _flex(*arguments)
            except Exception as error:  # of the compiler; the reference needs none
                _BROKEN.append(f"{type(error).__name__}: {error}")
                warnings.warn(
                    "biased_attention takes a slower way: FlexAttention failed with "
                    + _BROKEN[0].splitlines()[0],
                    RuntimeWarning,
                    stacklevel=2,
                )
    return _chunked(q, k, v, encoding, mask, causal, q_positions, k_positions, scale, chunk)


# The reference: some queries at a time


def _chunked(q, k, v, encoding, mask, causal, q_positions, k_positions, scale, chunk):
    batch, heads, n_q, _ = q.shape
    n_k = k.shape[2]
    chunk = chunk or max(1, _BUDGET // max(1, batch * heads * n_k))
    # With keys in order, those after the last query of a chunk need not be looked at.
    ordered = causal and k_positions.dim() == 1 and bool((k_positions.diff() >= 0).all())
    record = torch.is_grad_enabled() and any(
        x.requires_grad for x in (q, k, v, *encoding.parameters())
    )
    parts = []
    # The last chunk sees most. It goes first, so that what it leaves free is large enough for all
    # others: blocks that grow from chunk to chunk would leave holes that none of them fits into.
    for start in reversed(range(0, n_q, chunk)):
        rows = slice(start, min(start + chunk, n_q))
        seen = n_k
        if ordered:
            latest = q_positions[..., rows].max()
            seen = max(1, int((k_positions <= latest).sum()))
        arguments = (
            q[:, :, rows],
            k[:, :, :seen],
            v[:, :, :seen],
            encoding,
            None if mask is None else mask[..., rows, :seen],
            causal,
            q_positions[..., rows],
            k_positions[..., :seen],
            scale,
        )
        if record:
            # Nothing of the size (chunk, n_k) is kept: the backward pass computes it again.
            part = checkpoint(_rows, *arguments, use_reentrant=False, preserve_rng_state=False)
        else:
            part = _rows(*arguments)
        parts.append(part)
    if not parts:
        return q.new_zeros(batch, heads, 0, v.shape[-1])
    return torch.cat(parts[::-1], dim=2)


def _rows(q, k, v, encoding, mask, causal, q_positions, k_positions, scale):
    """The written-out attention, for some of the queries."""
    return attention(
        q,
        k,
        v,
        bias=encoding.score_bias(q_positions, k_positions, q=q),
        mask=mask,
        causal=causal,
        q_positions=q_positions,
        k_positions=k_positions,
        scale=scale,
    )


# PyTorch's own attention, where there is no bias


def _why_not_sdpa(encoding, q, q_positions, k_positions, mask, causal, counted) -> str | None:
    if type(encoding).score_bias is not PositionalEncoding.score_bias:
        return "backend 'sdpa' adds no bias, and this encoding has one"
    if mask is not None or (causal and not counted):
        return "backend 'sdpa' is used without a mask and without positions of one's own"
    return None


# FlexAttention: the bias as a function of one score's indices


def _wants_flex(q) -> bool:
    """On the CPU the chunks are about as fast, and need no compiler."""
    return q.is_cuda


def _why_not_flex(encoding, q, k, v) -> str | None:
    if type(encoding) not in (ALiBi, T5Bias, ShawRelative):
        return f"backend 'flex' knows ALiBi, T5Bias and ShawRelative, not {type(encoding).__name__}"
    if q.device.type == "cpu":
        if torch.is_grad_enabled() and any(
            x.requires_grad for x in (q, k, v, *encoding.parameters())
        ):
            return "backend 'flex' has no backward pass on the CPU: use 'chunked'"
        return None
    if not q.is_cuda:
        return f"backend 'flex' runs on cuda and cpu, and the tensors are on {q.device.type}"
    if importlib.util.find_spec("triton") is None:
        return "backend 'flex' needs the package triton on cuda: pip install triton"
    if 0 in q.shape or 0 in k.shape:
        return "backend 'flex' needs at least one query and one key"
    return None


def score_function(encoding, q, q_positions, k_positions):
    """What FlexAttention calls for every score: ``(score, batch, head, query, key) -> score``.

    Shaw's term is scaled by ``1 / sqrt(head_dim)``, whatever the scores are scaled by.

    Args:
        encoding: ALiBi, T5Bias or ShawRelative.
        q: ``(batch, heads, n_q, head_dim)``.
        q_positions: ``(batch, n_q)``, int64.
        k_positions: ``(batch, n_k)``, int64.
    """
    if isinstance(encoding, ALiBi):
        slopes = alibi_slopes(encoding.num_heads).float().to(q.device)

        def biased(score, b, h, i, j):
            return score - slopes[h] * (q_positions[b, i] - k_positions[b, j]).abs()

    elif isinstance(encoding, T5Bias):
        # A table over all distances that occur: a bucket is a logarithm, and is found once here
        # and not once a score.
        lowest = k_positions.min() - q_positions.max()
        highest = k_positions.max() - q_positions.min()
        distances = torch.arange(int(lowest), int(highest) + 1, device=q.device)
        table = encoding.weight[t5_bucket(distances, **encoding.bucket_settings)]

        def biased(score, b, h, i, j):
            return score + table[k_positions[b, j] - q_positions[b, i] - lowest, h]

    else:
        reach = encoding.max_distance
        # q · a for every row of the small table: (batch, heads, n_q, 2 reach + 1), linear in n.
        terms = q @ encoding.weight.to(q.dtype).T / math.sqrt(q.shape[-1])

        def biased(score, b, h, i, j):
            distance = (k_positions[b, j] - q_positions[b, i]).clamp(-reach, reach)
            return score + terms[b, h, i, distance + reach]

    return biased


def _flex(q, k, v, encoding, mask, causal, q_positions, k_positions, scale):
    global flex_attention
    from torch.nn.attention.flex_attention import flex_attention  # slow to import

    batch = q.shape[0]
    q_positions = q_positions.expand(batch, -1).contiguous()
    k_positions = k_positions.expand(batch, -1).contiguous()
    biased = score_function(encoding, q, q_positions, k_positions)
    if mask is not None:
        mask = mask if mask.dim() == 4 else mask[None, None]
        mask_batch, mask_heads = mask.shape[0] > 1, mask.shape[1] > 1

    def masked(score, b, h, i, j):
        score = biased(score, b, h, i, j)
        if causal:
            score = torch.where(q_positions[b, i] >= k_positions[b, j], score, -math.inf)
        if mask is not None:
            seen = mask[b if mask_batch else 0, h if mask_heads else 0, i, j]
            score = torch.where(seen, score, -math.inf)
        return score

    # One compiled function for all that is fixed, see _graphs.py.
    settings = (type(encoding), causal, None if mask is None else (mask_batch, mask_heads))
    recorded = torch.is_grad_enabled() and any(
        x.requires_grad for x in (q, k, v, *encoding.parameters())
    )
    shapes = tuple((x.shape[0] == 1, x.shape[1], x.shape[3], memory_order(x)) for x in (q, k, v))
    one_query, one_key = q.shape[2] == 1, k.shape[2] == 1
    key = (settings, recorded, shapes, one_query, one_key, scale, q.dtype, q.device)
    return compiled(_call_flex, key)(q, k, v, masked, scale)


def _call_flex(q, k, v, score_mod, scale):
    return flex_attention(q, k, v, score_mod=score_mod, scale=scale)
