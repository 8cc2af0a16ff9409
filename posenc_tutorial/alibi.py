"""Door 2 with nothing to learn: every token of distance takes a fixed amount off the score."""

from __future__ import annotations

import torch

from .encoding import PositionalEncoding
from .relative import relative_positions


def alibi_slopes(num_heads: int) -> torch.Tensor:
    """How much each head takes off the score per token of distance.

    For a power of two, head ``h = 1 … H`` has slope ``2^(-8h/H)``: 1/2, 1/4, … 1/256 for 8 heads.
    For other numbers the authors' code takes the slopes of the largest power of two below, and
    then every other slope of twice that power. The result is not sorted, and published models
    depend on its order. Source: Press et al. 2022, section 3 and their code. Tested against the
    builders of BLOOM and MPT in transformers.

    Args:
        num_heads: number of heads, at least 1.

    Returns:
        ``(num_heads,)``, score units per token, float64, on the CPU.

    Raises:
        TypeError: ``num_heads`` is not an integer.
        ValueError: ``num_heads`` below 1.
    """
    if isinstance(num_heads, bool) or not isinstance(num_heads, int):
        raise TypeError(f"num_heads must be an integer >= 1, got {num_heads!r}")
    if num_heads < 1:
        raise ValueError(f"num_heads must be an integer >= 1, got {num_heads}")

    def geometric(n: int) -> torch.Tensor:
        return 2.0 ** (-8.0 * torch.arange(1, n + 1, dtype=torch.float64, device="cpu") / n)

    power = 2 ** (num_heads.bit_length() - 1)  # the largest power of two that is <= num_heads
    extra = geometric(2 * power)[0::2][: num_heads - power]
    return torch.cat([geometric(power), extra])


def alibi_bias(
    num_heads: int, q_positions: torch.Tensor, k_positions: torch.Tensor
) -> torch.Tensor:
    """``-slope * |q - k|`` for every head, query and key.

    The distance has no sign: without a causal mask a head treats left and right alike.
    Source: Press et al. 2022, section 3.

    Args:
        num_heads: number of heads.
        q_positions: ``(n_q,)`` or ``(batch, n_q)``, integers.
        k_positions: ``(n_k,)`` or ``(batch, n_k)``, integers.

    Returns:
        ``(heads, n_q, n_k)``, or ``(batch, heads, n_q, n_k)`` for batched positions; float32, on
        the device of the positions.

    Raises:
        TypeError: ``num_heads`` not an integer; a dtype that cannot hold positions.
        ValueError: ``num_heads`` below 1; shapes that do not fit.
    """
    slopes = alibi_slopes(num_heads).float()
    distance = relative_positions(q_positions, k_positions).abs()[..., None, :, :].float()
    return -slopes.to(distance.device)[:, None, None] * distance


class ALiBi(PositionalEncoding):
    """Attention with linear biases: see :func:`alibi_bias`. No parameters, nothing saved.

    Args:
        num_heads: number of heads.

    Raises:
        TypeError: ``num_heads`` is not an integer.
        ValueError: ``num_heads`` below 1.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        alibi_slopes(num_heads)  # raises early
        self.num_heads = num_heads

    def score_bias(
        self,
        q_positions: torch.Tensor,
        k_positions: torch.Tensor,
        *,
        q: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """``-slope * |q - k|``.

        Args:
            q_positions: ``(n_q,)`` or ``(batch, n_q)``, integers.
            k_positions: ``(n_k,)`` or ``(batch, n_k)``, integers.
            q: not used.

        Returns:
            ``(heads, n_q, n_k)``, or ``(batch, heads, n_q, n_k)`` for batched positions; float32.
        """
        return alibi_bias(self.num_heads, q_positions, k_positions)
