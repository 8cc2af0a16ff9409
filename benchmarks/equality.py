"""Every backend of ``apply_rope`` against the written-out rotation, on a grid of shapes.

    python -m benchmarks.equality                     # all of it for eager, numba and triton (a
                                                      # quarter of an hour), and for the compiler
                                                      # every pair of settings (seconds a shape)
    python -m benchmarks.equality --whole compiled    # the whole grid for the compiler: hours

The reference is ``rotate``, one tensor at a time, on contiguous copies.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from dataclasses import dataclass

import torch

from posenc_tutorial import inverse_frequencies, rope_cos_sin, rotate
from posenc_tutorial.kernels import apply_rope, why_not

LAYOUTS = ("half", "interleaved")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
HEADS = ((1, 1), (8, 2), (15, 5), (32, 8))
WIDTHS = (2, 6, 20, 48, 80, 96, 112, 128)
MEMORY = ("contiguous", "strided", "packed", "expanded", "transposed")
BATCHED = (False, True)
# One unit in the last place, relative: the smallest difference that rounding can make.
STEP = {
    torch.float64: 2.0**-52,
    torch.float32: 2.0**-23,
    torch.float16: 2.0**-10,
    torch.bfloat16: 2.0**-7,
}


@dataclass(frozen=True)
class Case:
    """One point of the grid."""

    layout: str
    dtype: torch.dtype
    heads: tuple[int, int]
    width: int
    memory: str
    batched: bool


def whole_grid() -> list[Case]:
    """All combinations."""
    axes = (LAYOUTS, DTYPES, HEADS, WIDTHS, MEMORY, BATCHED)
    return [Case(*point) for point in itertools.product(*axes)]


def every_pair() -> list[Case]:
    """Some of the grid, such that any two values of two axes meet in at least one case."""
    pairs_of = {
        case: set(itertools.combinations(enumerate(vars(case).values()), 2))
        for case in whole_grid()
    }
    missing = set().union(*pairs_of.values())
    chosen = []
    while missing:
        best = max(pairs_of, key=lambda case: len(pairs_of[case] & missing))
        chosen.append(best)
        missing -= pairs_of[best]
    return chosen


def tensors(case: Case, n: int = 5, batch: int = 2, seed: int = 0, grad: bool = False):
    """Queries, keys and tables of a case; every fourth width is a partial one."""
    generator = torch.Generator().manual_seed(seed)
    head_dim = case.width + (0 if case.width % 4 else 6)

    def draw(*shape):
        return torch.randn(*shape, generator=generator).to(case.dtype)

    q_heads, k_heads = case.heads
    if case.memory == "packed":
        packed = draw(batch, n, q_heads + 2 * k_heads, head_dim).transpose(1, 2)
        q, k = packed[:, :q_heads], packed[:, q_heads : q_heads + k_heads]
    else:
        make = {
            "contiguous": lambda h: draw(batch, h, n, head_dim),
            "strided": lambda h: draw(batch, h, 2 * n, 2 * head_dim)[:, :, ::2, ::2],
            "expanded": lambda h: draw(1, 1, n, head_dim).expand(batch, h, n, head_dim),
            "transposed": lambda h: draw(batch, n, h, head_dim).transpose(1, 2),
        }[case.memory]
        q, k = make(q_heads), make(k_heads)
    positions = torch.arange(n) + 1000
    if case.batched:
        positions = torch.stack([positions, positions * 3 - 7])
    inv_freq = inverse_frequencies(case.width)
    return q, k, *rope_cos_sin(positions, inv_freq, attention_factor=1.25)


def difference(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, in units of the last place of the largest number of its pair.

    A channel of a rotated pair is a difference of two products, and may be much smaller than
    they are, so the unit is taken from the largest number of a head rather than from itself.
    """
    scale = wanted.double().abs().amax(-1, keepdim=True).clamp_min(1e-30)
    return float(((got.double() - wanted.double()).abs() / scale).max()) / STEP[wanted.dtype]


def worst_difference(case: Case, backend: str) -> float:
    """Forward, in place, and backward, against ``rotate``."""
    q, k, cos, sin = tensors(case)
    before = q.clone(), k.clone()
    table = (cos[:, None], sin[:, None]) if case.batched else (cos, sin)
    inputs = [x.contiguous().requires_grad_() for x in (q, k)]
    wanted = [rotate(x, *table, layout=case.layout) for x in inputs]
    options = {"layout": case.layout, "backend": backend}

    tracked = [x.detach().requires_grad_() for x in (q, k)]
    got = apply_rope(*tracked, cos, sin, **options)
    pairs = list(zip(got, wanted, strict=True))
    generator = torch.Generator().manual_seed(1)
    along = [torch.randn(w.shape, generator=generator).to(case.dtype) for w in wanted]
    pairs += zip(
        torch.autograd.grad(got, tracked, along),
        torch.autograd.grad(wanted, inputs, along),
        strict=True,
    )
    if case.memory != "expanded":  # several elements at one place cannot be written to
        with torch.no_grad():
            apply_rope(q, k, cos, sin, **options, out=(q, k))
        pairs += zip((q, k), wanted, strict=True)
    else:
        untouched = all(torch.equal(x, y) for x, y in zip((q, k), before, strict=True))
        if not untouched:
            return float("inf")
    return max(difference(g.detach(), w.detach()) for g, w in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.equality", description=__doc__)
    every = ["eager", "numba", "triton", "compiled"]
    parser.add_argument("--whole", nargs="*", default=every[:3], metavar="BACKEND")
    parser.add_argument("--backends", nargs="*", default=every)
    wanted = parser.parse_args()
    failed = False
    for backend in wanted.backends:
        cases = whole_grid() if backend in wanted.whole else every_pair()
        here = [case for case in cases if why_not(backend, "cpu", case.dtype) is None]
        if not here:
            print(f"{backend:9} not run: {why_not(backend)}", flush=True)
            continue
        start, worst, at = time.perf_counter(), -1.0, None
        for case in here:
            units = worst_difference(case, backend)
            if units > worst:
                worst, at = units, case
        seconds = time.perf_counter() - start
        failed |= worst > 1.5
        print(
            f"{backend:9} {len(here):5} of {len(whole_grid())} shapes, forward, in place and "
            f"backward: largest difference {worst:.2f} units in the last place, {seconds:.0f} s"
            f"\n          at {at}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
