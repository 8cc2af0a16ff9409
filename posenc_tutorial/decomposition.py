"""A score of added positions taken apart, and how much of it depends on distance alone."""

from __future__ import annotations

import math

import torch

from .attention import MultiHeadAttention
from .lm import LanguageModel

#: What each term of :func:`score_terms` multiplies: of the query, then of the key.
TERMS = ("content-content", "content-position", "position-content", "position-position")


def score_terms(
    content: torch.Tensor,
    position: torch.Tensor,
    query_weight: torch.Tensor,
    key_weight: torch.Tensor,
    *,
    scale: float | None = None,
) -> torch.Tensor:
    """The four terms of ``scale * (x_m + p_m) W_Q W_Kᵀ (x_n + p_n)ᵀ``, for all ``m`` and ``n``.

    Source: the expansion in Dai et al. 2019, section 3.3, and Ke et al. 2021, eq. 7. Their sum is
    the score of the sum, tested against
    :func:`~posenc_tutorial.attention.attention_scores`.

    Args:
        content: ``(n, dim)``, the rows ``x``.
        position: ``(n, dim)``, the rows ``p``.
        query_weight: ``(dim, head_dim)``, as in ``Q = X W_Q``; ``nn.Linear`` keeps the transpose.
        key_weight: ``(dim, head_dim)``.
        scale: default ``1 / sqrt(head_dim)``.

    Returns:
        ``(4, n, n)`` in the order of :data:`TERMS`; queries run down, keys across.

    Raises:
        ValueError: shapes that do not fit.
    """
    if content.dim() != 2 or content.shape != position.shape:
        raise ValueError(
            "content and position must have one shape (n, dim), "
            f"got {tuple(content.shape)} and {tuple(position.shape)}"
        )
    if query_weight.shape != key_weight.shape or query_weight.shape[:-1] != content.shape[1:]:
        raise ValueError(
            f"weights must have shape ({content.shape[1]}, head_dim), "
            f"got {tuple(query_weight.shape)} and {tuple(key_weight.shape)}"
        )
    if scale is None:
        scale = 1 / math.sqrt(query_weight.shape[1])
    rows = torch.stack([content, position])  # (2, n, dim)
    queries, keys = scale * (rows @ query_weight), rows @ key_weight
    return (queries[:, None] @ keys.transpose(-2, -1)).flatten(0, 1)


def head_weights(attention: MultiHeadAttention, head: int) -> tuple[torch.Tensor, torch.Tensor]:
    """``W_Q`` and ``W_K`` of one head, as formulas have them: ``Q = X W_Q``, without a transpose.

    Args:
        attention: the layer.
        head: from 0.

    Returns:
        Two views, ``(dim, head_dim)``, detached.

    Raises:
        IndexError: a head that the layer does not have.
    """
    if not 0 <= head < attention.num_heads:
        raise IndexError(f"head must be in 0 … {attention.num_heads - 1}, got {head}")
    query, key = (
        linear.weight.detach().unflatten(0, (attention.num_heads, -1))[head].T
        for linear in (attention.query, attention.key)
    )
    return query, key


@torch.no_grad()
def first_layer_rows(
    model: LanguageModel, tokens: torch.Tensor, *, positions: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the first attention layer of a language model gets, split into word and place.

    The layer gets ``g * (x + p) / rms(x + p)``, with the gain ``g`` of the normalisation. The root
    mean square belongs to the sum, but it is one number a token, so dividing both parts by it
    leaves a sum that is exact.

    Args:
        model: its encoding must add to the input; otherwise the second part is zero.
        tokens: ``(batch, n)``, integers 0 … 255.
        positions: ``(n,)`` or ``(batch, n)``; default ``0 … n-1``.

    Returns:
        Content and position, each ``(batch, n, dim)``.
    """
    if positions is None:
        positions = torch.arange(tokens.shape[-1], device=tokens.device)
    norm = model.blocks[0].attention_norm
    word = model.embedding(tokens.long())
    total = model.encoding.add_to_input(word, positions)
    eps = torch.finfo(total.dtype).eps if norm.eps is None else norm.eps
    factor = norm.weight * (total.square().mean(-1, keepdim=True) + eps).rsqrt()
    return factor * word, factor * (total - word)


def distance_share(
    scores: torch.Tensor, *, causal: bool = True, beyond_slope: bool = False
) -> float:
    """How much of what the softmax sees in a score matrix depends on the distance ``m - n`` alone.

    The softmax of a row does not change when a number is added to the whole row, so first each row
    is compared with its own mean. What varies then within rows is fitted by one number per
    distance. The share is the part of the sum of squares that this fit explains: 1 if the score is
    a function of distance plus anything that depends on the query alone.

    A slope is a special case, see :func:`slope_share`: it is a function of distance and a function
    of the key's place at once.

    Args:
        scores: ``(n, n)``, queries down and keys across.
        causal: only keys up to the query count, as under a causal mask.
        beyond_slope: take the best slope out first, and judge what remains.

    Returns:
        A number from 0 to 1.

    Raises:
        ValueError: not a square matrix, fewer than 4 rows, or nothing that varies.
    """
    columns = ["slope", "distance"] if beyond_slope else ["distance"]
    return _explained(scores, causal, columns, known=["slope"] if beyond_slope else [])


def slope_share(scores: torch.Tensor, *, causal: bool = True) -> float:
    """How much of what the softmax sees is one slope: a number times the key's position ``n``.

    Within row ``m`` the slope ``n`` is ``m - (m - n)``, a number for the row less the distance. So
    "later keys score higher" and "nearer keys score higher" are the same thing here, although the
    first needs to know nothing of ``m``.

    Args:
        scores: as in :func:`distance_share`.
        causal: as in :func:`distance_share`.

    Returns:
        A number from 0 to 1.

    Raises:
        ValueError: as in :func:`distance_share`.
    """
    return _explained(scores, causal, ["slope"], known=[])


def _explained(scores: torch.Tensor, causal: bool, columns: list[str], known: list[str]) -> float:
    """Share of the sum of squares within rows that ``columns`` explain, once ``known`` is out."""
    n = scores.shape[0]
    if scores.dim() != 2 or scores.shape[1] != n or n < 4:
        raise ValueError(f"scores must have shape (n, n), n >= 4, got {tuple(scores.shape)}")
    visible = torch.ones(n, n, dtype=torch.bool)
    query, key = (visible.tril() if causal else visible).nonzero().T
    in_row = torch.nn.functional.one_hot(query, n).double()
    size = in_row.sum(0)[:, None]
    in_diagonal = torch.nn.functional.one_hot(query - key + n - 1, 2 * n - 1)
    parts = {"slope": key[:, None].double() / n, "distance": in_diagonal.double()}

    def within_rows(values):
        return values - in_row @ (in_row.T @ values / size)

    values = scores.detach().double().cpu()[query, key][:, None]
    target = within_rows(values)

    def left_over(names):
        if not names:
            return target.square().sum()
        design = within_rows(torch.cat([parts[name] for name in names], dim=1))
        fit = design @ torch.linalg.lstsq(design, target, driver="gelsd").solution
        return (target - fit).square().sum()

    total = left_over(known)
    if total <= 1e-18 * values.square().sum() or total == 0:
        raise ValueError("nothing varies within the rows of these scores, or only a slope")
    return float(1 - left_over(columns) / total)


def jensen_shannon(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Jensen-Shannon divergence of distributions along the last axis, in nats.

    0 for equal distributions, at most ``ln 2 = 0.693`` for disjoint ones; it does not become
    infinite where one of them is zero. Source: Lin 1991, with equal weights.

    Args:
        a: ``(..., n)``, rows sum to 1.
        b: ``(..., n)``.

    Returns:
        ``(...)``.
    """
    middle = (a + b) / 2
    return (torch.xlogy(a, a / middle) + torch.xlogy(b, b / middle)).nan_to_num(0.0).sum(-1) / 2


def mass_by_distance(weights: torch.Tensor) -> torch.Tensor:
    """Attention weight by distance, averaged over everything but the distance.

    Args:
        weights: ``(..., n_q, n)``, the weights of the *last* ``n_q`` of ``n`` tokens.

    Returns:
        ``(n,)``: entry ``k`` is the mean weight on the token ``k`` places back, for the queries
        that have one.

    Raises:
        ValueError: more queries than keys.
    """
    n_q, n = weights.shape[-2:]
    if n_q > n:
        raise ValueError(f"weights must have at most as many queries as keys, got {n_q} and {n}")
    mean = weights.detach().flatten(0, -3).mean(0) if weights.dim() > 2 else weights.detach()
    back = torch.arange(n - n_q, n)[:, None] - torch.arange(n)
    return torch.stack([mean.cpu()[back == k].mean() for k in range(n)])
