"""The encodings that are compared, each with the one thing it may need of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..alibi import ALiBi
from ..encoding import NoPE, PositionalEncoding
from ..learned import LearnedEncoding
from ..relative import T5Bias
from ..rope import RotaryEmbedding
from ..sinusoidal import SinusoidalEncoding


@dataclass(frozen=True)
class Recipe:
    """How an encoding is made for a model, and how its own parameters are trained.

    Attributes:
        make: ``(dim, num_heads, length) -> PositionalEncoding``, where ``length`` is the length
            trained at.
        learning_rate_factor: the encoding's parameters learn so many times as fast as the rest.
        weight_decay: of the encoding's parameters.
    """

    make: Callable[[int, int, int], PositionalEncoding]
    learning_rate_factor: float = 1.0
    weight_decay: float = 0.1


def _sinusoidal(dim, num_heads, length):
    # As large as the embeddings are at first (0.02); the table's own root mean square is 2**-0.5.
    return SinusoidalEncoding(dim, scale=0.02 * 2**0.5)


def _t5(max_distance):
    def make(dim, num_heads, length):
        # 32 buckets, as in T5, if that many distances occur; none farther than training shows.
        return T5Bias(
            num_heads,
            bidirectional=False,
            num_buckets=32 if length > 16 else max(2, length),
            max_distance=max_distance or max(2, length),
        )

    return make


def _rope(base):
    def make(dim, num_heads, length):
        return RotaryEmbedding(dim // num_heads, base=base)

    return make


RECIPES = {
    "nope": Recipe(lambda dim, num_heads, length: NoPE()),
    # Rows beyond the training length exist, so that they can be looked up, and are never taught.
    "learned": Recipe(lambda dim, num_heads, length: LearnedEncoding(16 * length, dim)),
    "sinusoidal": Recipe(_sinusoidal),
    # The table starts at zero and is read by every pair of tokens; at the common learning rate
    # it has hardly left zero when training ends.
    "t5": Recipe(_t5(None), learning_rate_factor=10.0, weight_decay=0.0),
    "alibi": Recipe(lambda dim, num_heads, length: ALiBi(num_heads)),
    "rope": Recipe(_rope(10_000.0)),
    "rope500000": Recipe(_rope(500_000.0)),
    # Two ways to tell a false story about T5.
    "t5_common_rate": Recipe(_t5(None)),
    "t5_far_buckets": Recipe(_t5(1024), learning_rate_factor=10.0, weight_decay=0.0),
}
"""Recipes by name. The first seven are the comparison; the last two are T5 done wrong: with the
common learning rate, and with buckets for distances that training never shows."""

ENCODINGS = tuple(RECIPES)[:7]
"""The seven that are compared."""


def recipe(name: str) -> Recipe:
    """Look up a recipe.

    Raises:
        ValueError: an unknown name.
    """
    if name not in RECIPES:
        raise ValueError(f"unknown encoding {name!r}; it must be one of {', '.join(RECIPES)}")
    return RECIPES[name]
