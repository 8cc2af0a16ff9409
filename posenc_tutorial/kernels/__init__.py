"""The rotation and the biased attention again, at the speed of memory.

Everything here computes what :mod:`~posenc_tutorial.rope` and :mod:`~posenc_tutorial.attention`
compute, and is tested against them. Nothing is compiled, and neither Numba nor Triton is imported,
before a backend that needs it is first used.
"""

from __future__ import annotations

from .biased import biased_attention
from .rotary import apply_rope, why_not

__all__ = ["apply_rope", "biased_attention", "why_not"]
