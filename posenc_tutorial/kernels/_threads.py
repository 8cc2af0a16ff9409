"""Run one compiled loop on several threads: on those that PyTorch has started, if possible.

After an operation PyTorch's threads (OpenMP's) do not sleep. They wait for the next one, spinning,
for some milliseconds, each on a core of its own. A second set of threads has to share these cores
with them, and a loop as short as a rotation then takes up to twice the time. So the loop is handed
to the threads that wait, through the entry that compiled code uses. Where there is no such entry,
a pool of Python's threads does it.
"""

from __future__ import annotations

import ctypes
import functools
import os
from array import array
from concurrent.futures import ThreadPoolExecutor

_BORN = os.getpid()
_POOLS: dict[tuple[int, int], ThreadPoolExecutor] = {}


@functools.cache
def openmp() -> ctypes.CDLL | None:
    """The OpenMP that PyTorch has loaded, if it has the entries of GNU's."""
    try:
        library = ctypes.CDLL(None)
        library.GOMP_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p] + 2 * [ctypes.c_uint]
        library.GOMP_parallel.restype = None
        for name in ("omp_get_thread_num", "omp_get_num_threads"):
            getattr(library, name).argtypes = []
            getattr(library, name).restype = ctypes.c_int
    except (AttributeError, OSError, TypeError):
        return None
    return library


def run(loop, numbers: array, threads: int) -> None:
    """Call ``loop`` for all shares of its work.

    Args:
        loop: a C function of Numba's, of one address, where it finds ``numbers``. The last two of
            them say which share is asked for, and of how many; with none, OpenMP knows.
        numbers: int64.
        threads: how many to use.
    """
    if threads > 1 and os.getpid() == _BORN and openmp() is not None:  # not after a fork
        numbers[-2] = numbers[-1] = 0
        openmp().GOMP_parallel(loop.address, numbers.buffer_info()[0], threads, 0)
        return
    # More shares than threads, so that a thread that starts late can take fewer.
    shares = 1 if threads == 1 else 8 * threads
    todo = iter(range(shares))

    def work() -> None:
        for share in todo:
            mine = numbers[:]
            mine[-2], mine[-1] = share, shares
            loop.ctypes(mine.buffer_info()[0])  # without Python's lock

    key = (os.getpid(), threads - 1)
    if threads > 1 and key not in _POOLS:
        _POOLS[key] = ThreadPoolExecutor(threads - 1, thread_name_prefix="apply_rope")
    helpers = [_POOLS[key].submit(work) for _ in range(threads - 1)]
    work()
    for helper in helpers:
        if not helper.cancel():  # one that has not begun by now has nothing left to do
            helper.result()
