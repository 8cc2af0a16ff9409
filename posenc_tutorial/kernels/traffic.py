"""Count the bytes that a piece of PyTorch code moves, operation by operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class Pass:
    """One operation that goes over memory.

    Attributes:
        name: PyTorch's name for it.
        read: bytes.
        written: bytes.
    """

    name: str
    read: int
    written: int


def memory_passes(function: Callable[..., Any], *arguments: Any) -> list[Pass]:
    """The passes over memory that a function makes, in order.

    Every operation reads its inputs from memory and writes its outputs to it, once. Views cost
    nothing, and an expanded tensor is read as the one row it is. What fits into a cache may cost
    less than these bytes; a pass over something large costs what it says.

    Args:
        function: called once with ``arguments``.
        arguments: tensors and anything else.

    Returns:
        One entry for each operation that moved something.
    """
    with _Watch() as watch, torch.no_grad():
        function(*arguments)
    return watch.passes


def total_bytes(passes: list[Pass]) -> int:
    """All bytes read and written."""
    return sum(each.read + each.written for each in passes)


class _Watch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.passes: list[Pass] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = list(_tensors(args)) + list(_tensors(kwargs or {}))
        made = list(_tensors(result))
        name = func.overloadpacket.__name__
        if name.startswith("empty"):
            return result  # memory is promised; nothing is touched yet
        if func._schema.is_mutable:
            changed = given[:1]  # copy_, add_ and their like change their first argument
            read = given[1:] if name == "copy_" else given
            self._note(name, read, changed)
        else:
            known = {x.untyped_storage().data_ptr() for x in given}
            new = [x for x in made if x.untyped_storage().data_ptr() not in known]
            if new:
                self._note(name, given, new)
        return result

    def _note(self, name, read, written) -> None:
        passed = Pass(name.strip("_"), sum(map(_bytes, read)), sum(map(_bytes, written)))
        if passed.read + passed.written:
            self.passes.append(passed)


def _tensors(value: Any):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _tensors(entry)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _bytes(x: torch.Tensor) -> int:
    sizes = [size for size, step in zip(x.shape, x.stride(), strict=True) if step or size == 0]
    count = 1
    for size in sizes:
        count *= size
    return count * x.element_size()
