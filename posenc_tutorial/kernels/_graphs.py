"""What the compiled ways have in common."""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable

import torch

_FUNCTIONS: dict[Hashable, Callable] = {}


def compiled(function: Callable, *key: Hashable) -> Callable:
    """A compiled copy of ``function`` for everything that ``key`` names.

    The first length makes a graph for itself, the second one a graph for every length. Dynamo
    counts graphs by code object, and gives up after eight of them, so what never changes within
    a model (dtype, heads, widths, memory order) gets a code object of its own.
    """
    key = (function, torch.get_num_threads(), *key)
    if key not in _FUNCTIONS:
        copy = types.FunctionType(
            function.__code__.replace(),
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        _FUNCTIONS[key] = torch.compile(copy, fullgraph=True)
    return _FUNCTIONS[key]


def memory_order(x: torch.Tensor) -> tuple[int, ...]:
    """Axes from the widest stride to the narrowest; -1 for one that does not move in memory."""
    steps = [step if size > 1 else 0 for size, step in zip(x.shape, x.stride(), strict=True)]
    widest_first = sorted(range(x.dim()), key=lambda axis: -steps[axis])
    return tuple(axis if steps[axis] else -1 for axis in widest_first)
