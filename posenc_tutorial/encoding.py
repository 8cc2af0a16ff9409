"""The three doors: one hook each, and an encoding overrides the one it uses."""

from __future__ import annotations

import torch
from torch import nn


def check_input(x: torch.Tensor, dim: int) -> None:
    """Raise unless ``x`` are floating-point embeddings of shape ``(batch, n, dim)``."""
    if x.dim() != 3 or x.shape[-1] != dim:
        raise ValueError(f"x must have shape (batch, n, {dim}), got {tuple(x.shape)}")
    if not x.is_floating_point():
        raise TypeError(f"x must be floating-point embeddings, got {x.dtype}")


class PositionalEncoding(nn.Module):
    """Base class of all encodings. Every hook passes through, so the base class is NoPE.

    A model calls door 1 once, on the token embeddings. Every attention layer then calls doors 2
    and 3. An encoding overrides one of them and leaves the others alone, so one model runs with
    any encoding.

    ======================  =======================================  =======================
    door                    hook                                     who uses it
    ======================  =======================================  =======================
    1. the input            :meth:`add_to_input`                     learned, sinusoidal
    2. the score            :meth:`score_bias`                       Shaw, T5, ALiBi
    3. query and key        :meth:`rotate_query_key`                 RoPE and its extensions
    ======================  =======================================  =======================

    Positions are integer tensors of shape ``(n,)``, or ``(batch, n)`` where rows differ
    (left padding, packing). They say where a token is. Who may see whom is the mask's business.
    """

    @property
    def length_dependent(self) -> bool:
        """Whether the encoding changes with the length of the sequence (dynamic NTK, longrope).

        A cache then has to keep keys *before* rotation, because all of them turn differently as
        soon as the sequence grows.
        """
        return False

    def add_to_input(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Door 1: add something to the token embeddings.

        Args:
            x: ``(batch, n, dim)``.
            positions: ``(n,)`` or ``(batch, n)``.

        Returns:
            ``(batch, n, dim)``, in the dtype of ``x``.
        """
        return x

    def score_bias(
        self,
        q_positions: torch.Tensor,
        k_positions: torch.Tensor,
        *,
        q: torch.Tensor | None = None,
    ) -> torch.Tensor | None:
        """Door 2: a number to add to each attention score, before the softmax.

        Args:
            q_positions: ``(n_q,)`` or ``(batch, n_q)``.
            k_positions: ``(n_k,)`` or ``(batch, n_k)``.
            q: ``(batch, heads, n_q, head_dim)``, the queries; only Shaw's encoding needs them.

        Returns:
            ``(heads, n_q, n_k)``, or ``(batch, heads, n_q, n_k)``; ``None`` means no bias.
        """
        return None

    def rotate_query_key(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        q_positions: torch.Tensor,
        k_positions: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Door 3: change queries and keys, each by its own position.

        Args:
            q: ``(batch, heads, n_q, head_dim)``.
            k: ``(batch, kv_heads, n_k, head_dim)``.
            q_positions: ``(n_q,)`` or ``(batch, n_q)``.
            k_positions: ``(n_k,)`` or ``(batch, n_k)``.

        Returns:
            The pair, same shapes and dtypes.
        """
        return q, k


class NoPE(PositionalEncoding):
    """No positional encoding: every door stays shut (Kazemnejad et al. 2023).

    Without a causal mask the model is then blind to order. With one it is not: each token sees a
    different number of tokens, and that is information about where it stands.
    """
