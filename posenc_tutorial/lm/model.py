"""A small decoder-only Transformer over bytes. The encoding is its only moving part."""

from __future__ import annotations

import torch
from torch import nn

from ..attention import KeyValueCache, MultiHeadAttention
from ..encoding import PositionalEncoding

VOCABULARY = 256  # bytes


class LanguageModel(nn.Module):
    """Next-byte prediction with any positional encoding, the same code for all of them.

    Pre-norm blocks with RMSNorm, a GELU MLP of four times the width, and an output that shares
    the embedding's weights.

    Args:
        encoding: door 1 is opened once, on the embeddings; doors 2 and 3 in every layer. All
            layers share the instance.
        dim: model width.
        num_layers: number of blocks.
        num_heads: heads per block.

    Raises:
        TypeError: ``encoding`` is not a PositionalEncoding.
        ValueError: ``num_heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        encoding: PositionalEncoding,
        *,
        dim: int = 128,
        num_layers: int = 3,
        num_heads: int = 4,
    ) -> None:
        super().__init__()
        self.encoding = encoding
        self.embedding = nn.Embedding(VOCABULARY, dim)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(_Block(dim, num_heads, encoding) for _ in range(num_layers))
        self.norm = nn.RMSNorm(dim)

    def forward(
        self,
        tokens: torch.Tensor,
        *,
        positions: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        caches: list[KeyValueCache] | None = None,
    ) -> torch.Tensor:
        """Scores of the next byte after each byte.

        Args:
            tokens: ``(batch, n)``, integers 0 … 255.
            positions: ``(n,)`` or ``(batch, n)``; default ``0 … n-1``, or counting on from the
                caches. One set of positions serves all layers.
            mask: see :func:`~posenc_tutorial.attention.attention`.
            caches: one per block, for decoding step by step.

        Returns:
            ``(batch, n, 256)``, logits.

        Raises:
            TypeError: tokens that are not integers.
            ValueError: tokens of another shape; not one cache of its own for each block, or caches
                of different length.
        """
        if tokens.dim() != 2:
            raise ValueError(f"tokens must have shape (batch, n), got {tuple(tokens.shape)}")
        if tokens.is_floating_point():
            raise TypeError(f"tokens must be integers, got {tokens.dtype}")
        if caches is not None:
            if len({id(cache) for cache in caches}) != len(self.blocks):
                raise ValueError(
                    f"give {len(self.blocks)} caches, one per block and none of them twice, "
                    f"got {len(caches)}"
                )
            lengths = [len(cache) for cache in caches]
            if len(set(lengths)) > 1:
                raise ValueError(f"all caches must have seen the same tokens, got {lengths}")
        n = tokens.shape[1]
        if positions is None:
            if caches and len(caches[0]):
                positions = caches[0].next_positions(n)
            else:
                positions = torch.arange(n, device=tokens.device)
        x = self.embedding(tokens.long())
        x = self.encoding.add_to_input(x, positions)
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks), strict=True):
            x = block(x, positions=positions, mask=mask, cache=cache)
        return self.norm(x) @ self.embedding.weight.T


class _Block(nn.Module):
    def __init__(self, dim: int, num_heads: int, encoding: PositionalEncoding) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(dim)
        self.attention = MultiHeadAttention(dim, num_heads, encoding, causal=True)
        self.mlp_norm = nn.RMSNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: torch.Tensor, **where) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), **where)
        return x + self.mlp(self.mlp_norm(x))
