"""Starts the Triton kernels of ``_triton_kernels.py``. Imported when it is first used."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from pathlib import Path
from types import ModuleType

import torch
import triton.language  # noqa: F401  before the variable is touched: it decorates functions too


def turn(q, k, cos, sin, layout, inverse, out):
    """The rotated ``q`` and ``k``, written to ``out`` if given: one launch for both."""
    out = (torch.empty_like(q), torch.empty_like(k)) if out is None else out
    batch, q_heads, n, head_dim = q.shape
    k_heads, pairs = k.shape[1], cos.shape[-1]
    cos, sin = cos.detach().contiguous(), sin.detach().contiguous()
    in_place = all(x.data_ptr() == o.data_ptr() for x, o in zip((q, k), out, strict=True))
    rest = 0 if in_place else head_dim - 2 * pairs
    block_pairs = _power_of_two(pairs)
    block_tokens = max(1, min(32, 1024 // block_pairs, _power_of_two(n)))
    group = 4  # heads that share one read of the tables
    q_groups = -(-q_heads // group)
    grid = (batch * -(-n // block_tokens), q_groups + -(-k_heads // group))
    if 0 in grid:
        return out
    interpret = q.device.type == "cpu" or os.environ.get("TRITON_INTERPRET") == "1"
    kernel = kernels(interpret).turn_kernel
    on_device = torch.cuda.device(q.device) if q.is_cuda else contextlib.nullcontext()
    with torch.no_grad(), on_device:
        kernel[grid](
            q.detach(), k.detach(), out[0], out[1], cos, sin,
            n, q_heads, k_heads, q_groups,
            *q.stride(), *k.stride(), *out[0].stride(), *out[1].stride(),
            cos.stride(0) if cos.shape[0] > 1 else 0,
            PAIRS=pairs, REST=rest, INTERLEAVED=layout == "interleaved", INVERSE=inverse,
            BLOCK_N=block_tokens, BLOCK_P=block_pairs, BLOCK_R=_power_of_two(max(rest, 1)),
            GROUP=group,
        )  # fmt: skip
    return out


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


@functools.cache
def kernels(interpret: bool) -> ModuleType:
    """The module with the kernels, compiled for the GPU or run in Triton's interpreter.

    Triton reads ``TRITON_INTERPRET`` when a kernel is decorated, so the file is loaded once for
    each of the two.
    """
    path = Path(__file__).with_name("_triton_kernels.py")
    name = f"{__package__}._triton_{'interpreted' if interpret else 'kernels'}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1" if interpret else "0"
    try:
        spec.loader.exec_module(module)
    finally:
        if before is None:
            del os.environ["TRITON_INTERPRET"]
        else:
            os.environ["TRITON_INTERPRET"] = before
    return module
