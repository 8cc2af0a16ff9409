"""Ways to run a model on texts longer than those it was trained on, by name."""

from __future__ import annotations

from collections.abc import Callable

from ..context_extension import (
    default_rope,
    dynamic_ntk,
    ntk_aware,
    position_interpolation,
    yarn,
)
from ..frequencies import RopeParameters
from ..rope import RotaryEmbedding


def _yarn(beta_fast, **options):
    def method(dim, base, factor, length):
        return yarn(dim, base, factor, length, beta_fast=beta_fast, beta_slow=1.0, **options)

    return method


def _dynamic(dim, base, factor, length):
    return lambda n: dynamic_ntk(dim, base, factor, length, n, variant="ratio")


METHODS: dict[str, Callable] = {
    "none": lambda dim, base, factor, length: default_rope(dim, base),
    "position_interpolation": lambda dim, base, factor, length: position_interpolation(
        dim, base, factor
    ),
    "base_times_factor": lambda dim, base, factor, length: default_rope(dim, base * factor),
    "ntk_aware": lambda dim, base, factor, length: ntk_aware(dim, base, factor),
    "dynamic_ntk": _dynamic,
    # The published thresholds are made for thousands of tokens. Within 64 even the fastest pair
    # makes only 10 turns, so with 32 every pair is slowed; 8 leaves the fastest alone.
    "yarn_1_32": _yarn(32.0),
    "yarn_1_8": _yarn(8.0),
    "by_parts_1_8": _yarn(8.0, attention_factor=1.0),
}
"""``(dim, base, factor, length) -> RopeParameters`` (or a function from the length to them), where
``length`` is the trained one: nothing; position interpolation; the base times the factor, without
NTK's exponent; NTK-aware; dynamic NTK (scale = length of the text over trained length); YaRN with
thresholds (1, 32) and (1, 8); the latter without its temperature."""


def extended_rope(
    method: str, *, factor: float, length: int, head_dim: int, base: float = 10000.0
) -> RotaryEmbedding:
    """A rotary embedding with one of :data:`METHODS`.

    Args:
        method: a name.
        factor: ``s``, at least 1: how many times as long as the training the texts are.
        length: the trained length, tokens.
        head_dim: channels of one head.
        base: that of the trained model.

    Returns:
        For :func:`~posenc_tutorial.lm.with_encoding`.

    Raises:
        ValueError: an unknown method, or numbers out of range.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; it must be one of {', '.join(METHODS)}")
    parameters: RopeParameters = METHODS[method](head_dim, base, factor, length)
    return RotaryEmbedding(head_dim, parameters=parameters)
