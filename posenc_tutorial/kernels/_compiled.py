"""The rotation through torch.compile. Imported when it is first used."""

from __future__ import annotations

import torch

from ..rope import rotate
from ._graphs import compiled, memory_order


def turn(q, k, cos, sin, layout, inverse, out):
    """Rotate ``q`` and ``k`` by compiled code; into ``out`` if given."""
    cos, sin = cos[:, None], -sin[:, None] if inverse else sin[:, None]
    if out is not None and _shared_memory(q, k, *out):
        # The compiler is told nothing about tensors that lie in each other's memory.
        new = _run(_NEW[layout], q, k, cos, sin)
        return out[0].copy_(new[0]), out[1].copy_(new[1])
    if out is None:
        return _run(_NEW[layout], q, k, cos, sin)
    return _run(_INTO[layout], q, k, cos, sin, *out)


def _run(function, *tensors):
    q, k = tensors[:2]
    fixed = tuple(
        (x.dtype, x.device, x.shape[0] == 1, x.shape[1], x.shape[3], memory_order(x))
        for x in tensors
    )
    # A single token is a shape of its own to the compiler, and not worth a graph.
    tiny = q.shape[2] == 1 or q.numel() == 0 or k.numel() == 0
    with torch.no_grad():
        tensors = [x.detach() for x in tensors]
        return function(*tensors) if tiny else compiled(function, fixed)(*tensors)


def _shared_memory(*tensors: torch.Tensor) -> bool:
    return len({x.untyped_storage().data_ptr() for x in tensors}) < len(tensors)


def _new_half(q, k, cos, sin):
    return rotate(q, cos, sin, layout="half"), rotate(k, cos, sin, layout="half")


def _new_interleaved(q, k, cos, sin):
    return rotate(q, cos, sin, layout="interleaved"), rotate(k, cos, sin, layout="interleaved")


def _into_half(q, k, cos, sin, out_q, out_k):
    p = cos.shape[-1]
    for x, out in ((q, out_q), (k, out_k)):
        a, b = x[..., :p].to(cos.dtype), x[..., p : 2 * p].to(cos.dtype)
        first, second = (a * cos - b * sin).to(x.dtype), (a * sin + b * cos).to(x.dtype)
        out[..., :p] = first
        out[..., p : 2 * p] = second
        out[..., 2 * p :] = x[..., 2 * p :]
    return out_q, out_k


def _into_interleaved(q, k, cos, sin, out_q, out_k):
    p = cos.shape[-1]
    for x, out in ((q, out_q), (k, out_k)):
        a, b = x[..., 0 : 2 * p : 2].to(cos.dtype), x[..., 1 : 2 * p : 2].to(cos.dtype)
        first, second = (a * cos - b * sin).to(x.dtype), (a * sin + b * cos).to(x.dtype)
        out[..., 0 : 2 * p : 2] = first
        out[..., 1 : 2 * p : 2] = second
        out[..., 2 * p :] = x[..., 2 * p :]
    return out_q, out_k


_NEW = {"half": _new_half, "interleaved": _new_interleaved}
_INTO = {"half": _into_half, "interleaved": _into_interleaved}
