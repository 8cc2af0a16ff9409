"""Attention with five bugs, for chapter 14: it runs, and its output looks like attention.

Do not copy from here. The bugs are repaired, and told apart, in
:mod:`posenc_tutorial.exercises.ch14_review`.
"""

from __future__ import annotations

import torch


def attention_with_cache(q, k, v, past_k, past_v, base):
    """Causal attention of several heads with RoPE, for the new tokens behind a cache.

    Args:
        q, k, v: (heads, new, d), of the new tokens, not yet rotated.
        past_k, past_v: (heads, past, d), the cache: keys of the tokens before, each
            rotated by its own position in the half layout, and values as they are.
            Without a cache, past is 0. The first token of the text stands at 0.
        base: of the speeds base ** (-2 i / d).

    Returns:
        Outputs (heads, new, d) and attention weights (heads, new, past + new).
    """
    heads, new, d = q.shape
    past = past_k.shape[1]

    # Cosines and sines: a row for each new token, a column for each pair.
    speeds = base ** (-torch.arange(0, d, 2) / d)
    positions = torch.arange(new)
    angles = positions[:, None] * speeds
    cos, sin = angles.cos(), angles.sin()

    def turn(x):
        a, b = x[..., 0::2], x[..., 1::2]
        turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)
        return turned.flatten(-2)

    q, k, v = turn(q), turn(k), turn(v)
    keys = torch.cat([past_k, k], dim=1)
    values = torch.cat([past_v, v], dim=1)

    # Scores, without those that a token may not look at.
    scores = q @ keys.transpose(-2, -1) / (heads * d) ** 0.5
    ahead = torch.ones(new, past + new, dtype=torch.bool).triu(past + 2)
    weights = scores.masked_fill(ahead, float("-inf")).softmax(dim=-1)
    return weights @ values, weights
