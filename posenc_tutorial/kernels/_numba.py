"""The rotation as a loop over pairs, compiled by Numba, on all cores. Imported when first used.

The loop is the formula: read a pair, turn it, write it. Nothing is read or written twice, and both
layouts run at the same speed, because only the addresses differ.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import torch

from .rotary import extent

_SMALL = 2**17  # elements; below, a second thread costs more than it saves
_POOLS: dict[tuple[int, int], ThreadPoolExecutor] = {}


def turn(q, k, cos, sin, layout, inverse, out) -> None:
    """Write the rotated ``q`` and ``k`` to ``out``."""
    sin = -sin if inverse else sin
    with torch.no_grad():
        jobs = [_job(x, o, cos, sin, layout) for x, o in zip((q, k), out, strict=True)]
    threads = torch.get_num_threads() if q.numel() + k.numel() > _SMALL else 1
    # Numba's own threads end the process when two callers meet, or after a fork. These do not:
    # the loops let go of Python's lock, so that a pool of plain threads is enough.
    waiting = [
        _pool(threads - 1).submit(kernel, *arguments, *_share(rows, part, threads))
        for part in range(1, threads)
        for kernel, arguments, rows, _ in jobs
    ]
    for kernel, arguments, rows, _ in jobs:
        kernel(*arguments, *_share(rows, 0, threads))
    for future in waiting:
        future.result()
    for o, (_, _, _, written) in zip(out, jobs, strict=True):
        if written is not o:
            o.copy_(written)


def _job(x, out, cos, sin, layout):
    """The kernel for one tensor, its arguments, the number of rows, and what it writes to."""
    x, written = x.detach(), out.detach()
    if x.stride(-1) != 1:
        x = x.contiguous()
    if written.stride(-1) != 1:
        written = torch.empty_like(x, memory_format=torch.contiguous_format)
    elif written is not out:
        written = out
    batch, heads, n, head_dim = x.shape
    # Neighbours in memory one after the other: tokens inside heads, or heads inside tokens.
    heads_inside = x.stride(1) < x.stride(2)
    in_place = x.data_ptr() == written.data_ptr()
    cos, sin = cos.detach().contiguous(), sin.detach().contiguous()
    table_step = cos.stride(0) if cos.shape[0] > 1 else 0
    pairs = cos.shape[-1]
    arguments = (
        _flat(x), x.stride(0), x.stride(1), x.stride(2),
        _flat(written), written.stride(0), written.stride(1), written.stride(2),
        _flat(cos), _flat(sin), table_step,
        heads, n, pairs, head_dim - 2 * pairs, heads_inside,
    )  # fmt: skip
    kernel = _KERNELS[layout, x.dtype == torch.bfloat16, in_place]
    return kernel, arguments, batch * heads * n, written


def _flat(x: torch.Tensor) -> np.ndarray:
    """All memory from the first to the last element, as one row. Numba knows no bfloat16."""
    flat = x.detach().as_strided((extent(x),), (1,))
    return (flat.view(torch.uint16) if x.dtype == torch.bfloat16 else flat).numpy()


def _share(rows: int, part: int, parts: int) -> tuple[int, int]:
    return rows * part // parts, rows * (part + 1) // parts


def _pool(size: int) -> ThreadPoolExecutor:
    key = (os.getpid(), size)  # threads do not survive a fork
    if key not in _POOLS:
        _POOLS[key] = ThreadPoolExecutor(size, thread_name_prefix="apply_rope")
    return _POOLS[key]


# The loops

_compile = numba.njit(nogil=True, error_model="numpy")


@_compile
def _as_it_is(value):
    return value


@_compile
def _widen(bits):
    """bfloat16 is the upper half of a float32."""
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


@_compile
def _narrow(value):
    """Round to the nearest bfloat16, ties to even, as PyTorch does."""
    bits = np.float32(value).view(np.uint32)
    odd = np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(1))
    rounded = np.uint32(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))
    return np.uint16(np.uint32(0x7FC0) if value != value else rounded)


def _make(layout: str, load, store, in_place: bool):
    half = layout == "half"

    @_compile
    def kernel(
        x, x_batch, x_head, x_token, out, out_batch, out_head, out_token,
        cos, sin, table_step, heads, n, pairs, rest, heads_inside, first, last,
    ):  # fmt: skip
        row = np.empty(2 * pairs, x.dtype)
        # Where this share begins; then counting on. Four divisions for every row would take
        # longer than the rotation of the row.
        if heads_inside:
            h, t, b = first % heads, first // heads % n, first // heads // n
        else:
            h, t, b = first // n % heads, first % n, first // n // heads
        for _ in range(first, last):
            i = b * x_batch + h * x_head + t * x_token
            o = b * out_batch + h * out_head + t * out_token
            angle = b * table_step + t * pairs
            c, s = cos[angle : angle + pairs], sin[angle : angle + pairs]
            source, target = x[i : i + 2 * pairs], out[o : o + 2 * pairs]
            if in_place:
                # A copy that stays in the first cache: a loop that overwrites what it reads
                # could not be turned into vector instructions.
                row[:] = source
                source = row
            if half:
                left, right = source[:pairs], source[pairs:]
                new_left, new_right = target[:pairs], target[pairs:]
                for p in range(pairs):
                    u, v = load(left[p]), load(right[p])
                    new_left[p] = store(u * c[p] - v * s[p])
                    new_right[p] = store(u * s[p] + v * c[p])
            else:
                for p in range(pairs):
                    u, v = load(source[2 * p]), load(source[2 * p + 1])
                    target[2 * p] = store(u * c[p] - v * s[p])
                    target[2 * p + 1] = store(u * s[p] + v * c[p])
            if rest > 0 and not in_place:
                still = slice(2 * pairs, 2 * pairs + rest)
                out[o:][still] = x[i:][still]
            if heads_inside:
                h += 1
                if h == heads:
                    h, t = 0, t + 1
                if t == n:
                    t, b = 0, b + 1
            else:
                t += 1
                if t == n:
                    t, h = 0, h + 1
                if h == heads:
                    h, b = 0, b + 1

    return kernel


_KERNELS = {
    (layout, short, in_place): _make(layout, load, store, in_place)
    for layout in ("half", "interleaved")
    for short, load, store in ((False, _as_it_is, _as_it_is), (True, _widen, _narrow))
    for in_place in (False, True)
}
