"""The rotation as a loop over pairs, compiled by Numba, on all cores. Imported when first used.

The loop is the formula: read a pair, turn it, write it. Nothing is read or written twice, and both
layouts run at the same speed, because only the addresses differ.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from array import array

import numba
import numpy as np
import torch
from numba.core import cgutils, types
from numba.extending import intrinsic

from . import _threads

_SMALL = 2**16  # elements; fewer are not worth a thread
_PAGES = 2**22  # bytes; for less it is not worth the question whether they are there
# So many heads take turns, each for so many bytes. Then a token's angles are still in the first
# cache for the next head. Measured: with eight heads the processor no longer foresees what is read.
_GROUP, _STRETCH = 4, 2**10
# Numba knows no bfloat16: its bits are taken for an integer's, and widened in the loop.
_DTYPES = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.bfloat16: np.dtype(np.uint16),
}


def turn(q, k, cos, sin, layout, inverse, out):
    """The rotated ``q`` and ``k``, written to ``out`` if given."""
    new = out is None
    out = (torch.empty_like(q), torch.empty_like(k)) if new else out
    cos, sin = cos.contiguous(), (-sin if inverse else sin).contiguous()
    for x, o in ((q, out[0]), (k, out[1])):
        if x.numel():
            _turn_one(x, o, cos, sin, layout, new)
    return out


def _turn_one(x, out, cos, sin, layout, new) -> None:
    # The loop steps from channel to channel by one.
    x = x if x.stride(-1) == 1 else x.contiguous()
    dense = out.stride(-1) == 1
    written = out if dense else torch.empty_like(x, memory_format=torch.contiguous_format)
    batch, heads, n, head_dim = x.shape
    # Steps in memory along (batch, heads, tokens): of x, of what is written, of the tables.
    pairs = cos.shape[-1]
    by_batch = cos.stride(0) if cos.shape[0] > 1 else 0
    steps = [*x.stride()[:3]], [*written.stride()[:3]], [by_batch, 0, pairs]
    block = max(1, _STRETCH // (head_dim * x.element_size()))
    sizes, units = [heads, n, _GROUP, block], [-(-heads // _GROUP), -(-n // block)]
    if x.stride(1) < x.stride(2):  # heads inside tokens: all heads of one token, then the next
        for each in steps:
            each[1], each[2] = each[2], each[1]
        sizes, units = [n, heads, 1, heads], [n, 1]
    fresh = new and out.nbytes >= _PAGES and _no_page_yet(out)
    places = x.data_ptr(), written.data_ptr(), cos.data_ptr(), sin.data_ptr()
    numbers = (
        *places, *steps[0], *steps[1], *steps[2], *sizes, pairs, head_dim,
        batch * units[0] * units[1], out.nbytes if fresh else 0, 0, 0,
    )  # fmt: skip
    loop = _loop(layout, x.dtype, cos.dtype, places[0] == places[1])
    threads = max(1, min(torch.get_num_threads(), x.numel() // _SMALL))
    _threads.run(loop, array("q", numbers), threads)
    if not dense:
        out.copy_(written)


# The loops. Places in memory are unsigned: a signed one might be negative and count from the end,
# and a loop that has to ask which is not turned into vector instructions.

_compile = numba.njit(nogil=True, error_model="numpy")
_place = np.uint64
_NONE, _ONE, _TWO = _place(0), _place(1), _place(2)


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


@intrinsic
def _pointer(typing, address):
    def write(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), write


@_compile
def _zero():
    return 0


# Memory is given page by page, at the first write, and each page is an interruption. That takes
# several times as long as the rotation. Linux gives all of them at once to those who ask; before
# 5.14 it says no, and then they come one by one.


@functools.cache
def _system():
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    library.mincore.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    library.madvise.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    library.madvise.restype = ctypes.c_int
    return library


def _no_page_yet(x: torch.Tensor) -> bool:
    """Whether a tensor's memory is only promised, and not something that was used before."""
    if _system() is None:
        return False
    middle = x.data_ptr() + x.nbytes // 2
    there = ctypes.create_string_buffer(1)
    failed = _system().mincore(middle - middle % mmap.PAGESIZE, mmap.PAGESIZE, there)
    return not failed and not there.raw[0] & 1


@functools.cache
def _loop(layout: str, dtype: torch.dtype, table_dtype: torch.dtype, in_place: bool):
    """A C function of one address: of 23 integers, in the order in which they are read below."""
    half = layout == "half"
    dtype, table_dtype = _DTYPES[dtype], _DTYPES[table_dtype]
    load, store = (_widen, _narrow) if dtype == np.uint16 else (_as_it_is, _as_it_is)
    library = _threads.openmp()
    this_thread = library.omp_get_thread_num if library else _zero
    all_threads = library.omp_get_num_threads if library else _zero
    can_ask, page, populate = _system() is not None, mmap.PAGESIZE, 23  # MADV_POPULATE_WRITE
    get_pages = _system().madvise if can_ask else None

    @numba.cfunc("void(voidptr)", error_model="numpy")
    def loop(data):
        numbers = numba.carray(data, 23, np.int64)
        x = numba.carray(_pointer(numbers[0]), 1, dtype)
        out = numba.carray(_pointer(numbers[1]), 1, dtype)
        cos = numba.carray(_pointer(numbers[2]), 1, table_dtype)
        sin = numba.carray(_pointer(numbers[3]), 1, table_dtype)
        x_outer, x_middle, x_inner = numbers[4], numbers[5], numbers[6]
        out_outer, out_middle, out_inner = numbers[7], numbers[8], numbers[9]
        angle_outer, angle_middle, angle_inner = numbers[10], numbers[11], numbers[12]
        middle_size, inner_size, group, block = numbers[13], numbers[14], numbers[15], numbers[16]
        pairs, head_dim, units = _place(numbers[17]), _place(numbers[18]), numbers[19]
        fresh, share, shares = numbers[20], numbers[21], numbers[22]
        if shares == 0:
            share, shares = this_thread(), all_threads()
        if can_ask:
            if fresh > 0:
                start = numbers[1] + fresh * share // shares
                start -= start % page
                get_pages(start, numbers[1] + fresh * (share + 1) // shares - start, populate)

        row = np.empty(_TWO * pairs, dtype)
        groups, blocks = -(-middle_size // group), -(-inner_size // block)
        for unit in range(units * share // shares, units * (share + 1) // shares):
            outer = unit // blocks // groups
            top, begin = unit // blocks % groups * group, unit % blocks * block
            for middle in range(top, min(top + group, middle_size)):
                for inner in range(begin, min(begin + block, inner_size)):
                    i = _place(outer * x_outer + middle * x_middle + inner * x_inner)
                    o = _place(outer * out_outer + middle * out_middle + inner * out_inner)
                    at = _place(outer * angle_outer + middle * angle_middle + inner * angle_inner)
                    if in_place:
                        # A copy that stays in the first cache: a loop that overwrites what it
                        # reads could not be turned into vector instructions.
                        for channel in range(_TWO * pairs):
                            row[channel] = x[i + channel]
                        source, start = row, _NONE
                    else:
                        source, start = x, i
                        for channel in range(_TWO * pairs, head_dim):
                            out[o + channel] = x[i + channel]
                    for p in range(pairs):
                        if half:
                            left, right = p, p + pairs
                        else:
                            left, right = _TWO * p, _TWO * p + _ONE
                        u, v = load(source[start + left]), load(source[start + right])
                        c, s = cos[at + p], sin[at + p]
                        out[o + left] = store(u * c - v * s)
                        out[o + right] = store(u * s + v * c)

    return loop
