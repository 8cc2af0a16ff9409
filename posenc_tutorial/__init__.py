"""Positional encodings for Transformers, each in one small module, each formula tested.

Position information enters attention by one of three doors, and every encoding here uses one:

1. *the input*: a vector is added to the token embedding
   (:class:`LearnedEncoding`, :class:`SinusoidalEncoding`);
2. *the score*: a number is added to the attention score
   (:class:`ShawRelative`, :class:`T5Bias`, :class:`ALiBi`);
3. *query and key*: both are rotated by an angle that grows with the position
   (:class:`RotaryEmbedding` and its context extensions).

:class:`NoPE` uses none of them.
"""

from __future__ import annotations

import os

import torch

from .alibi import ALiBi, alibi_bias, alibi_slopes
from .attention import KeyValueCache, MultiHeadAttention, attention_scores
from .context_extension import (
    default_rope,
    dynamic_ntk,
    llama3,
    longrope,
    ntk_aware,
    position_interpolation,
    proportional,
    yarn,
)
from .encoding import NoPE, PositionalEncoding
from .frequencies import RopeParameters, angles, inverse_frequencies, wavelengths
from .hf_config import rope_parameters_from_config
from .learned import LearnedEncoding
from .relative import ShawRelative, T5Bias, relative_positions, t5_bucket
from .rope import (
    RotaryEmbedding,
    convert_projection,
    half_to_interleaved,
    interleaved_to_half,
    rope_cos_sin,
    rotate,
    rotation_matrix,
)
from .sinusoidal import SinusoidalEncoding, shift_matrix, sinusoidal_table

__version__ = "0.1.0"

__all__ = [
    "ALiBi",
    "KeyValueCache",
    "LearnedEncoding",
    "MultiHeadAttention",
    "NoPE",
    "PositionalEncoding",
    "RopeParameters",
    "RotaryEmbedding",
    "ShawRelative",
    "SinusoidalEncoding",
    "T5Bias",
    "alibi_bias",
    "alibi_slopes",
    "angles",
    "attention_scores",
    "convert_projection",
    "default_rope",
    "device",
    "dynamic_ntk",
    "half_to_interleaved",
    "interleaved_to_half",
    "inverse_frequencies",
    "llama3",
    "longrope",
    "ntk_aware",
    "position_interpolation",
    "proportional",
    "relative_positions",
    "rope_cos_sin",
    "rope_parameters_from_config",
    "rotate",
    "rotation_matrix",
    "shift_matrix",
    "sinusoidal_table",
    "t5_bucket",
    "wavelengths",
    "yarn",
]


def device() -> torch.device:
    """The device that a chapter computes on.

    The environment variable ``POSENC_DEVICE`` decides: ``cpu`` or ``cuda``.
    Unset, it is CUDA where a GPU is present and the CPU elsewhere.

    Returns:
        The device. Asking for CUDA on a machine without it is an error, never a silent run on
        the CPU, so that a notebook checked "on the GPU" was really run there.

    Raises:
        RuntimeError: ``POSENC_DEVICE=cuda`` and no CUDA device is available.
        ValueError: ``POSENC_DEVICE`` is anything else.
    """
    wanted = os.environ.get("POSENC_DEVICE", "")
    if wanted not in ("", "cpu", "cuda"):
        raise ValueError(f"POSENC_DEVICE is {wanted!r}; it must be 'cpu', 'cuda' or unset")
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise RuntimeError(
            "POSENC_DEVICE is 'cuda', but PyTorch sees no CUDA device. "
            "Choose the kernel posenc-cpu, or unset POSENC_DEVICE."
        )
    return torch.device(wanted or ("cuda" if available else "cpu"))
