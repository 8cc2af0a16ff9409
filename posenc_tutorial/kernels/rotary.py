"""RoPE's rotation of queries and keys: one function, four ways to run it.

A rotation reads every channel once, does six operations on a pair, and writes every channel once.
So the limit is the speed of memory, and what a backend has to do is not touch anything twice.

=============  ===========  ======================================================================
backend        device       how
=============  ===========  ======================================================================
``eager``      any          :func:`~posenc_tutorial.rope.rotate`: one pass for every operation
``compiled``   CPU, CUDA    the same lines through ``torch.compile``, which fuses the passes
``numba``      CPU          a loop over pairs, by hand (the extra ``fast``)
``triton``     CUDA         one launch for queries and keys; on the CPU, Triton's interpreter
=============  ===========  ======================================================================
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import warnings

import numpy as np
import torch

from ..rope import _check_layout, rotate

BACKENDS = ("auto", "eager", "compiled", "numba", "triton")
_WARNED: set[str] = set()
_BROKEN: dict[tuple[str, str], str] = {}  # (backend, device type) -> what went wrong once


def apply_rope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    layout: str = "half",
    backend: str = "auto",
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate queries and keys of the same tokens, as :func:`~posenc_tutorial.rope.rotate` does.

    The first ``2 * cos.shape[-1]`` channels of every head turn, the others pass through. Every
    backend differentiates with respect to ``q`` and ``k``, any number of times. The gradient is
    the transpose of the forward map: the rotation by the negative angle, times the attention
    factor, if the tables hold one. Source: Su et al. 2021, eq. 34.

    Args:
        q: ``(batch, heads, n, head_dim)``, any strides.
        k: ``(batch, kv_heads, n, head_dim)``, same dtype and device.
        cos: ``(n, rotary_dim/2)``, or ``(batch, n, rotary_dim/2)`` where the rows of the batch
            have positions of their own (a heads axis of size 1 is allowed too).
        sin: like ``cos``.
        layout: ``"half"`` or ``"interleaved"``, see :mod:`~posenc_tutorial.rope`.
        backend: one of the table above, or ``"auto"``: on CUDA Triton, else compiled, else eager;
            on the CPU Numba, else compiled, else eager. ``auto`` says once what is missing, and
            takes eager for a few tokens, for other devices, and for tables that require a gradient.
        out: two tensors to write to, of the shapes and dtypes of ``q`` and ``k``. They may be
            ``q`` and ``k`` themselves. Without it, new tensors are made, and on a CPU that costs
            more than the rotation.

    Returns:
        The rotated pair, same shapes and dtypes; ``out`` itself if it was given. Arithmetic is
        float64 for float64 inputs and float32 otherwise, rounded once.

    Raises:
        ImportError: the backend asked for needs a package that is not installed.
        RuntimeError: the backend asked for cannot run here, or leaves no trace where operations
            are recorded to run later; ``out`` where a gradient is needed.
        TypeError: what is no tensor; dtypes that do not fit, or that the backend cannot rotate.
        ValueError: shapes that do not fit; an unknown layout or backend; ``out`` that overlaps
            itself, the tables, or an input without being that input.
    """
    cos, sin = _checked(q, k, cos, sin, layout)
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    grad = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad)
    table_grad = torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad)
    if out is not None:
        _check_out(q, k, cos, sin, out)
        recorded = torch.is_grad_enabled() and any(o.requires_grad for o in out)
        if grad or table_grad or recorded:
            raise RuntimeError(
                "out= records no gradient: leave it away, or call under torch.no_grad()"
            )
    if torch.compiler.is_compiling() and backend in ("auto", "eager", "compiled"):
        # The caller's graph is being compiled: the plain lines fuse with what is around them.
        return _eager(q, k, cos, sin, layout, out)
    automatic = backend == "auto"
    recorded = _recorded(q, k, cos, sin)
    if automatic:
        backend = "eager" if recorded else _choose(q, k, table_grad)
    elif backend != "eager":
        _insist(backend, q)
        if recorded:
            raise RuntimeError(
                f"backend {backend!r} leaves no trace for {recorded}; take backend 'eager' here"
            )
        if table_grad:
            raise RuntimeError(
                f"backend {backend!r} has no gradient with respect to cos and sin; "
                "backend 'eager' has one"
            )
    if backend == "eager" or q.numel() + k.numel() == 0:
        return _eager(q, k, cos, sin, layout, out)
    try:
        return _opaque(q, k, cos, sin, layout, backend, out)
    except Exception as error:
        if not automatic or backend == "numba":
            raise
        # A compiler that is there and does not work: say so once, and do without it.
        reason = f"backend {backend!r} failed with {type(error).__name__}: {error}".splitlines()[0]
        _BROKEN[backend, q.device.type] = reason
        _say_once(reason)
        return apply_rope(q, k, cos, sin, layout=layout, backend="auto", out=out)


# Checks


def _checked(q, k, cos, sin, layout) -> tuple[torch.Tensor, torch.Tensor]:
    """Raise unless everything fits; the tables as (batch or 1, n, pairs), in the wide dtype."""
    _check_layout(layout)
    for name, x in (("q", q), ("k", k), ("cos", cos), ("sin", sin)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    for name, x in (("q", q), ("k", k)):
        if x.dim() != 4:
            raise ValueError(
                f"{name} must have shape (batch, heads, n, head_dim), got {tuple(x.shape)}"
            )
        if not x.is_floating_point() or x.element_size() < 2:
            raise TypeError(f"{name} must be floating-point, of 16 bits or more, got {x.dtype}")
    if q.dtype != k.dtype:
        raise TypeError(f"q and k must have one dtype, got {q.dtype} and {k.dtype}")
    if (q.shape[0], *q.shape[2:]) != (k.shape[0], *k.shape[2:]):
        raise ValueError(
            "q and k must agree in all but the number of heads, "
            f"got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    if cos.shape != sin.shape:
        raise ValueError(f"cos and sin differ: {tuple(cos.shape)} and {tuple(sin.shape)}")
    if not (cos.is_floating_point() and sin.is_floating_point()):
        raise TypeError(f"cos and sin must be floating-point, got {cos.dtype} and {sin.dtype}")
    if not q.device == k.device == cos.device == sin.device:
        devices = sorted({str(x.device) for x in (q, k, cos, sin)})
        raise ValueError(f"q, k, cos and sin must be on one device, got {devices}")
    batch, _, n, head_dim = q.shape
    shape = tuple(cos.shape)
    if cos.dim() == 4 and shape[1] == 1:
        cos, sin = cos[:, 0], sin[:, 0]
    elif cos.dim() == 2:
        cos, sin = cos.unsqueeze(0), sin.unsqueeze(0)
    if cos.dim() != 3 or cos.shape[0] not in (1, batch) or cos.shape[1] != n or shape[-1] < 1:
        raise ValueError(
            f"cos must have shape ({n}, rotary_dim/2) or ({batch}, {n}, rotary_dim/2), got {shape}"
        )
    if 2 * shape[-1] > head_dim:
        raise ValueError(
            f"cos has {shape[-1]} columns, one per pair, and so turns {2 * shape[-1]} channels, "
            f"but a head has only {head_dim}; the tables must not repeat each angle"
        )
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    return (cos, sin) if cos.dtype == sin.dtype == wide else (cos.to(wide), sin.to(wide))


def _check_out(q, k, cos, sin, out) -> None:
    pair = isinstance(out, (tuple, list)) and len(out) == 2
    if not pair or not all(isinstance(o, torch.Tensor) for o in out):
        got = f"({', '.join(type(o).__name__ for o in out)})" if pair else type(out).__name__
        raise TypeError(f"out must be a pair of tensors, one like q and one like k, got {got}")
    for name, x, o in zip("qk", (q, k), out, strict=True):
        if o.shape != x.shape or o.dtype != x.dtype or o.device != x.device:
            raise ValueError(
                f"out must hold a tensor like {name}: {tuple(x.shape)}, {x.dtype}, {x.device}; "
                f"got {tuple(o.shape)}, {o.dtype}, {o.device}"
            )
        if _overlaps_itself(o):
            raise ValueError(
                f"out for {name} is expanded, or made of windows that overlap, with strides "
                f"{o.stride()}: several of its elements share one place"
            )
        if o.is_inference() and not torch.is_inference_mode_enabled():
            raise RuntimeError(
                f"out for {name} was made under torch.inference_mode(): write to it there, "
                "or give a tensor of your own"
            )
    if q.is_meta:
        return  # no memory, nothing to share
    q, k, cos, sin, out_q, out_k = ((x, *_span(x)) for x in (q, k, cos, sin, *out))
    for name, x, o in (("q", q, out_q), ("k", k, out_k)):
        itself = o[1] == x[1] and o[0].stride() == x[0].stride()
        if not itself and _share(*o, *x):
            raise ValueError(f"out for {name} overlaps {name} without being {name} itself")
        if _share(*o, *cos) or _share(*o, *sin):
            raise ValueError(f"out for {name} overlaps cos or sin, which are read meanwhile")
    if _share(*out_q, *out_k) or _share(*out_q, *k) or _share(*out_k, *q):
        raise ValueError("out for q and out for k need memory of their own")


def _overlaps_itself(x: torch.Tensor) -> bool:
    """Whether two elements may share a place: a step that lands inside what smaller steps span."""
    if x.is_contiguous():
        return False
    reach = 0
    for step, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1:
            if step <= reach:
                return x.numel() > 0
            reach += (size - 1) * step
    return False


def _span(x: torch.Tensor) -> tuple[int, int]:
    """The addresses where a tensor begins and ends."""
    begin = x.data_ptr()
    if x.is_contiguous() or x.numel() == 0:
        return begin, begin + x.nbytes
    last = sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
    return begin, begin + (last + 1) * x.element_size()


def _share(
    a: torch.Tensor, begin: int, end: int, b: torch.Tensor, b_begin: int, b_end: int
) -> bool:
    """Whether two tensors, with their spans, have an element in common.

    Packed q, k and v interleave in memory without sharing a byte, so the spans do not always
    decide. NumPy solves it exactly from addresses, shapes and strides; it reads no memory.
    """
    if end <= b_begin or b_end <= begin:
        return False
    try:
        return np.shares_memory(np.asarray(_Places(a)), np.asarray(_Places(b)), max_work=10**6)
    except np.exceptions.TooHardError:
        return begin == b_begin


class _Places:
    """The addresses of a tensor's elements, as NumPy's array interface tells them."""

    def __init__(self, x: torch.Tensor) -> None:
        size = x.element_size()
        self.__array_interface__ = {
            "version": 3,
            "data": (x.data_ptr(), True),
            "shape": tuple(x.shape),
            "strides": tuple(step * size for step in x.stride()),
            "typestr": f"|V{size}",
        }


# Choosing

_DTYPES = {
    "numba": (torch.float32, torch.float64, torch.bfloat16),
    "triton": (torch.float32, torch.float64, torch.float16, torch.bfloat16),
}
_FEW = 2**15  # elements of q; below, starting a kernel on the CPU costs more than the passes


def why_not(
    backend: str, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> str | None:
    """Why a backend cannot rotate tensors of this device and dtype here, or None if it can.

    Args:
        backend: ``"eager"``, ``"compiled"``, ``"numba"`` or ``"triton"``.
        device: where the tensors are.
        dtype: what they hold.

    Returns:
        None, or one sentence that says what is missing and what would help.

    Raises:
        ValueError: an unknown backend.
    """
    if backend not in BACKENDS[1:]:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS[1:])}, got {backend!r}")
    kind = device.type if isinstance(device, torch.device) else torch.device(device).type
    if backend == "eager":
        return None
    if backend == "compiled":
        if kind not in ("cpu", "cuda"):
            return f"backend 'compiled' is made for cpu and cuda, and the tensors are on {kind}"
        if kind == "cpu" and not _cpp_compiler():
            return (
                "backend 'compiled' needs a C++ compiler, and none was found: install g++ "
                "(apt install g++) or clang++, or set CXX"
            )
        if kind == "cuda" and not _installed("triton"):
            return "backend 'compiled' needs the package triton on cuda: pip install triton"
        return _BROKEN.get((backend, kind))
    if not _installed(backend):
        what = "pip install 'posenc-tutorial[fast]'" if backend == "numba" else "pip install triton"
        return f"backend {backend!r} needs the package {backend}: {what}"
    wanted = ("cpu",) if backend == "numba" else ("cpu", "cuda")
    if kind not in wanted:
        return f"backend {backend!r} runs on {' and '.join(wanted)}, and the tensors are on {kind}"
    if dtype not in _DTYPES[backend]:
        names = ", ".join(str(t).removeprefix("torch.") for t in _DTYPES[backend])
        return f"backend {backend!r} rotates {names}, not {str(dtype).removeprefix('torch.')}"
    return _BROKEN.get((backend, kind))


@functools.cache
def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _cpp_compiler() -> str | None:
    names = (os.environ.get("CXX"), "g++", "clang++", "c++", "cl")
    return next((name for name in names if name and shutil.which(name)), None)


def _insist(backend: str, q: torch.Tensor) -> None:
    reason = why_not(backend, q.device, q.dtype)
    if reason is None:
        return
    if "needs the package" in reason:
        raise ImportError(reason)
    if "rotates" in reason:
        raise TypeError(reason)
    raise RuntimeError(reason)


def _choose(q: torch.Tensor, k: torch.Tensor, table_grad: bool) -> str:
    on_cpu = q.device.type == "cpu"
    if table_grad or q.device.type not in ("cpu", "cuda") or (on_cpu and q.numel() < _FEW):
        return "eager"
    for backend in ("numba" if on_cpu else "triton", "compiled"):
        reason = why_not(backend, q.device, q.dtype)
        if reason is None:
            return backend
        _say_once(reason)
    return "eager"


def _say_once(reason: str) -> None:
    if reason not in _WARNED:
        _WARNED.add(reason)
        warnings.warn(f"apply_rope takes a slower way: {reason}", RuntimeWarning, stacklevel=4)


def _recorded(*tensors: torch.Tensor) -> str | None:
    """Who writes operations down here, to run them later, if anybody does.

    A kernel is no operation of PyTorch's: the record would lack it, and give wrong numbers.
    """
    if torch.compiler.is_compiling():
        return None  # there a kernel is a hole in the graph that the caller has asked for
    if torch.jit.is_tracing():
        return "torch.jit.trace"
    if torch._C._len_torch_dispatch_stack():
        for mode in torch.utils._python_dispatch._get_current_dispatch_mode_stack():
            if type(mode).__name__ in ("FakeTensorMode", "ProxyTorchDispatchMode"):
                return type(mode).__name__
    for x in tensors:
        if type(x) not in (torch.Tensor, torch.nn.Parameter):
            return type(x).__name__  # a tensor that decides itself what its operations do
    return None


# Running


def _eager(q, k, cos, sin, layout, out):
    cos, sin = cos[:, None], sin[:, None]  # (batch or 1, 1, n, pairs)
    new = rotate(q, cos, sin, layout=layout), rotate(k, cos, sin, layout=layout)
    if out is None:
        return new
    return out[0].copy_(new[0]), out[1].copy_(new[1])


def _opaque(q, k, cos, sin, layout, backend, out):
    """What torch.compile must not look into, if a caller compiles around it."""
    run = _run
    if torch.compiler.is_compiling():
        run = torch.compiler.disable(_run)
    return run(q, k, cos, sin, layout, backend, out)


def _run(q, k, cos, sin, layout, backend, out):
    if out is None:
        if _differentiated(q, k):
            return _Turn.apply(q, k, cos, sin, layout, False, backend)
        return _turn(q, k, cos, sin, layout, False, backend, None)
    _turn(q, k, cos, sin, layout, False, backend, out)
    for o in out:
        if not o.is_inference():  # a kernel wrote past PyTorch, which must know for its gradients
            torch.autograd.graph.increment_version(o)
    return out[0], out[1]


def _differentiated(q, k) -> bool:
    """Whether anybody may ask for a derivative, or for a batch of calls (``torch.func.vmap``)."""
    return (
        (torch.is_grad_enabled() and (q.requires_grad or k.requires_grad))
        or torch.autograd.forward_ad._current_level >= 0
        or torch._C._are_functorch_transforms_active()
    )


class _Turn(torch.autograd.Function):
    """The rotation as one node of the graph; its backward is the rotation the other way."""

    @staticmethod
    def forward(q, k, cos, sin, layout, inverse, backend):
        return _turn(q, k, cos, sin, layout, inverse, backend, None)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, cos, sin, ctx.layout, ctx.inverse, ctx.backend = inputs
        ctx.save_for_backward(cos, sin)
        ctx.save_for_forward(cos, sin)

    @staticmethod
    def backward(ctx, grad_q, grad_k):
        # (f R)ᵀ = f Rᵀ: the factor stays, the angle changes its sign, and that is the sine's.
        # A node again, so that gradients of gradients exist.
        cos, sin = ctx.saved_tensors
        grads = _Turn.apply(grad_q, grad_k, cos, sin, ctx.layout, not ctx.inverse, ctx.backend)
        return *grads, None, None, None, None, None

    @staticmethod
    def jvp(ctx, along_q, along_k, *_):
        """A rotation is linear: a direction turns as the vector does."""
        cos, sin = ctx.saved_tensors
        return _Turn.apply(along_q, along_k, cos, sin, ctx.layout, ctx.inverse, ctx.backend)

    @staticmethod
    def vmap(info, in_dims, q, k, cos, sin, layout, inverse, backend):
        """One axis more, taken together with the batch."""
        size, axis = info.batch_size, in_dims[0]
        batch = q.shape[0] if axis is None else q.movedim(axis, 0).shape[1]

        def joined(x, axis):
            x = x.expand(size, *x.shape) if axis is None else x.movedim(axis, 0)
            return x.expand(size, batch, *x.shape[2:]).flatten(0, 1)

        tensors = map(joined, (q, k, cos, sin), in_dims)
        turned = _Turn.apply(*tensors, layout, inverse, backend)
        return tuple(x.unflatten(0, (size, batch)) for x in turned), (0, 0)


def _turn(q, k, cos, sin, layout, inverse, backend, out):
    """Rotate without recording, by one of the kernels; new tensors unless ``out`` is given."""
    # A lazy minus sign, as in z.conj().imag, is no number in memory yet.
    if q.is_neg() or k.is_neg() or cos.is_neg() or sin.is_neg():
        q, k, cos, sin = (x.resolve_neg() for x in (q, k, cos, sin))
    if out is not None and (out[0].is_neg() or out[1].is_neg()):
        return _eager(q, k, cos, sin, layout, out)
    if backend == "compiled":
        from . import _compiled as kernel
    elif backend == "numba":
        from . import _numba as kernel
    else:
        from . import _triton as kernel
    return kernel.turn(q, k, cos, sin, layout, inverse, out)
