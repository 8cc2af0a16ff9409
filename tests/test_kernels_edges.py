"""Odd input to the fast kernels: the right numbers, or an error that names what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from posenc_tutorial import ALiBi, NoPE, inverse_frequencies, rope_cos_sin, rotate
from posenc_tutorial.kernels import apply_rope, biased_attention, rotary, why_not

ROOT = Path(__file__).parents[1]
BACKENDS = ["eager", "numba", "triton"]


def need(backend: str) -> None:
    if backend != "auto" and why_not(backend) is not None:
        pytest.skip(why_not(backend))


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def tables(n: int, width: int, **options):
    return rope_cos_sin(torch.arange(n) + 7, inverse_frequencies(width), **options)


def small():
    return draw(1, 2, 4, 8), draw(1, 1, 4, 8, seed=1), *tables(4, 8)


def large():
    """Enough elements for ``auto`` to take a kernel."""
    return draw(1, 4, 300, 64), draw(1, 1, 300, 64, seed=1), *tables(300, 64)


def close(got, wanted) -> None:
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-6)


def turned(q, k, cos, sin):
    return rotate(q, cos, sin), rotate(k, cos, sin)


# What is no tensor, or not of a kind that can be rotated


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"q": torch.zeros(1, 2, 4, 8).numpy()}, "q must be a tensor, got ndarray"),
        ({"k": None}, "k must be a tensor, got NoneType"),
        ({"cos": [1.0]}, "cos must be a tensor, got list"),
        ({"out": (1, 2)}, r"pair of tensors.*\(int, int\)"),
        ({"out": (None, None)}, r"pair of tensors.*\(NoneType, NoneType\)"),
        ({"out": torch.zeros(2, 1, 2, 4, 8)}, "pair of tensors.*Tensor"),
        ({"q": torch.zeros(1, 2, 4, 8, dtype=torch.complex64)}, "16 bits or more, got.*complex64"),
        ({"q": torch.zeros(1, 2, 4, 8).to(torch.float8_e5m2)}, "16 bits or more, got.*float8"),
    ],
)
def test_what_is_no_tensor_of_numbers_is_named(change, match):
    q, k, cos, sin = small()
    with pytest.raises(TypeError, match=match):
        apply_rope(**{"q": q, "k": k, "cos": cos, "sin": sin, **change})


@pytest.mark.parametrize("backend", [None, "Numba", "", ["eager"]])
def test_unknown_backends_are_named(backend):
    with pytest.raises(ValueError, match="one of auto, eager, compiled, numba, triton, got"):
        apply_rope(*small(), backend=backend)


# out=


@pytest.mark.parametrize("backend", BACKENDS)
def test_out_made_of_windows_that_overlap_is_refused(backend):
    need(backend)
    q, k, cos, sin = small()
    windows = torch.zeros(100).as_strided((1, 2, 4, 8), (64, 16, 4, 1))
    with pytest.raises(ValueError, match=r"windows that overlap.*\(64, 16, 4, 1\)"):
        apply_rope(q, k, cos, sin, backend=backend, out=(windows, torch.empty_like(k)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_out_may_have_any_strides_that_do_not_overlap(backend):
    need(backend)
    q, k, cos, sin = small()
    memory = torch.full((4, 16, 3, 2), 7.0)
    out_q = memory[:, ::2, 1].permute(2, 0, 1)[None]  # every second channel, tokens outside
    out_k = torch.empty(1, 8, 4, 1).permute(0, 3, 2, 1)
    apply_rope(q, k, cos, sin, backend=backend, out=(out_q, out_k))
    close((out_q, out_k), turned(q, k, cos, sin))
    assert int((memory == 7).sum()) == memory.numel() - q.numel()


@pytest.mark.parametrize("backend", BACKENDS)
def test_out_that_overlaps_the_tables_is_refused(backend):
    need(backend)
    q, k, _, sin = small()
    room = torch.zeros(1, 2, 4, 8)
    cos = room.flatten()[20:36].view(4, 4)
    with pytest.raises(ValueError, match="out for q overlaps cos or sin"):
        apply_rope(q, k, cos, sin, backend=backend, out=(room, torch.empty_like(k)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_and_keys_that_are_one_tensor(backend):
    need(backend)
    q, _, cos, sin = small()
    wanted = rotate(q, cos, sin)
    close(apply_rope(q, q, cos, sin, backend=backend), (wanted, wanted))
    out = torch.empty_like(q), torch.empty_like(q)
    close(apply_rope(q, q, cos, sin, backend=backend, out=out), (wanted, wanted))
    with pytest.raises(ValueError, match="memory of their own"):
        apply_rope(q, q, cos, sin, backend=backend, out=(q, torch.empty_like(q)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_one_of_the_two_in_place(backend):
    need(backend)
    q, k, cos, sin = small()
    wanted = turned(q, k, cos[:, :3], sin[:, :3])
    out = (q, torch.empty_like(k))
    close(apply_rope(q, k, cos[:, :3], sin[:, :3], backend=backend, out=out), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_out_of_inference_mode_is_written_only_there(backend):
    need(backend)
    q, k, cos, sin = small()
    with torch.inference_mode():
        out = torch.empty_like(q), torch.empty_like(k)
        close(apply_rope(q, k, cos, sin, backend=backend, out=out), turned(q, k, cos, sin))
    with pytest.raises(RuntimeError, match="inference_mode"):
        apply_rope(q, k, cos, sin, backend=backend, out=out)


# Tables


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_tables_of_another_dtype_and_with_gaps(dtype, backend):
    need(backend)
    q, k, cos, sin = small()
    wanted = turned(q, k, cos.to(dtype), sin.to(dtype))
    gaps = torch.empty(4, 8, dtype=dtype)[:, ::2].copy_(cos)
    across = torch.empty(4, 4, dtype=dtype).T.copy_(sin)
    close(apply_rope(q, k, gaps, across, backend=backend), wanted)
    half = [x.bfloat16() for x in (q, k)]
    got = apply_rope(*half, gaps, across, backend=backend)
    # Triton's interpreter cuts off where others round: one step of bfloat16.
    for a, b in zip(got, turned(*half, cos.to(dtype), sin.to(dtype)), strict=True):
        torch.testing.assert_close(a, b, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
def test_no_batch_no_tokens_no_keys(backend):
    need(backend)
    q, k, cos, sin = small()
    none = apply_rope(q[:0], k[:0], cos[None][:0], sin[None][:0], backend=backend)
    assert [x.shape for x in none] == [(0, 2, 4, 8), (0, 1, 4, 8)]
    got = apply_rope(q, k[:, :0], cos, sin, backend=backend)
    close(got, turned(q, k[:, :0], cos, sin))
    short = q[:, :, :0], k[:, :, :0], cos[:0], sin[:0]
    assert [x.shape for x in apply_rope(*short, backend=backend)] == [(1, 2, 0, 8), (1, 1, 0, 8)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_lazy_minus_sign_is_seen(backend):
    """The imaginary part of a conjugate is a float tensor whose sign is not in memory."""
    need(backend)
    _, _, cos, sin = small()
    numbers = torch.view_as_complex(draw(1, 2, 4, 8, 2))
    lazy = numbers.conj().imag
    assert lazy.is_neg()
    wanted = rotate(-numbers.imag, cos, sin)
    close(apply_rope(lazy, lazy, cos, sin, backend=backend), (wanted, wanted))
    q, k, *_ = small()
    apply_rope(q, k, cos, sin, backend=backend, out=(lazy, torch.empty_like(k)))
    close([lazy], [rotate(q, cos, sin)])


# Derivatives of all kinds


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
def test_vmap_and_per_sample_gradients(backend):
    need(backend)
    q, k, cos, sin = large() if backend == "auto" else small()
    many = torch.stack([q, 2 * q, -q], dim=2)  # the new axis in the middle

    def turn(q):
        return apply_rope(q, k, cos, sin, backend=backend)

    got_q, got_k = torch.func.vmap(turn, in_dims=2)(many)
    for i, factor in enumerate((1, 2, -1)):
        close((got_q[i], got_k[i]), turned(factor * q, k, cos, sin))
    tables_too = torch.func.vmap(lambda q, c, s: apply_rope(q, k, c, s, backend=backend)[0])
    close(tables_too(many.movedim(2, 0), *(x.expand(3, *x.shape) for x in (cos, sin))), got_q)

    gradient = torch.func.vmap(torch.func.grad(lambda q: turn(q)[0].square().sum() / 2))
    torch.testing.assert_close(gradient(many.movedim(2, 0)), many.movedim(2, 0))


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
def test_forward_mode_turns_the_direction(backend):
    need(backend)
    q, k, cos, sin = large() if backend == "auto" else small()
    along = draw(*q.shape, seed=5)

    def turn(q):
        return apply_rope(q, k, cos, sin, backend=backend)

    out, slope = torch.func.jvp(turn, (q,), (along,))
    close(out, turned(q, k, cos, sin))
    close(slope, (rotate(along, cos, sin), torch.zeros_like(k)))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, along)
        slope = torch.autograd.forward_ad.unpack_dual(turn(dual)[0]).tangent
    close([slope], [rotate(along, cos, sin)])


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
def test_only_keys_are_trained(backend):
    need(backend)
    q, k, cos, sin = large() if backend == "auto" else small()
    k.requires_grad_()
    apply_rope(q, k, cos, sin, backend=backend)[1].square().sum().backward()
    torch.testing.assert_close(k.grad, 2 * k.detach())


@pytest.mark.parametrize("backend", ["eager", "numba", "auto"])
def test_autocast_and_deterministic_algorithms_change_nothing(backend):
    need(backend)
    q, k, cos, sin = large()
    wanted = turned(q, k, cos, sin)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = apply_rope(q, k, cos, sin, backend=backend)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    torch.use_deterministic_algorithms(True)
    try:
        got = apply_rope(q, k, cos, sin, backend=backend)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


# Those who write operations down, to run them later


def test_a_recorded_graph_holds_the_rotation():
    """A kernel writes past PyTorch; a graph recorded around it would return what it found."""
    from torch.fx.experimental.proxy_tensor import make_fx

    q, k, cos, sin = large()
    graph = make_fx(lambda q: apply_rope(q, k, cos, sin))(q)
    close(graph(2 * q), turned(2 * q, k, cos, sin))
    program = torch.export.export(Turning(k, cos, sin), (q,))
    close(program.module()(2 * q), turned(2 * q, k, cos, sin))


class Turning(torch.nn.Module):
    def __init__(self, k, cos, sin):
        super().__init__()
        self.rest = k, cos, sin

    def forward(self, q):
        return apply_rope(q, *self.rest)


def test_fake_tensors_have_no_memory_for_a_kernel():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        q, cos = torch.empty(1, 4, 300, 64), torch.empty(300, 32)
        assert apply_rope(q, q, cos, cos)[0].shape == q.shape
        need("numba")
        with pytest.raises(RuntimeError, match="no trace for FakeTensorMode.*'eager'"):
            apply_rope(q, q, cos, cos, backend="numba")
    with pytest.raises(RuntimeError, match="no trace for FakeTensor"):
        apply_rope(q, q, cos, cos, backend="numba")


@pytest.mark.filterwarnings("ignore")
def test_jit_trace_records_the_rotation():
    q, k, cos, sin = large()
    traced = torch.jit.trace(lambda q: apply_rope(q, k, cos, sin), q, check_trace=False)
    close(traced(2 * q), turned(2 * q, k, cos, sin))
    need("numba")
    with pytest.raises(RuntimeError, match="no trace for torch.jit.trace"):
        torch.jit.trace(lambda q: apply_rope(q, k, cos, sin, backend="numba"), q)


def test_no_memory_on_the_meta_device():
    q, k, cos, sin = (x.to("meta") for x in large())
    out = torch.empty_like(q), torch.empty_like(k)
    assert apply_rope(q, k, cos, sin, out=out)[0].device.type == "meta"


# Threads and memory


def test_the_same_on_a_pool_of_threads(monkeypatch):
    """Where OpenMP has no entry for us, or after a fork."""
    need("numba")
    from posenc_tutorial.kernels import _threads

    q, k, cos, sin = draw(1, 4, 1100, 64), draw(1, 3, 1100, 64, seed=1), *tables(1100, 64)
    wanted, before = turned(q, k, cos, sin), torch.get_num_threads()
    monkeypatch.setattr(_threads, "_BORN", -1)
    monkeypatch.setattr(_threads, "_POOLS", {})
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            close(apply_rope(q, k, cos, sin, backend="numba"), wanted)
    finally:
        torch.set_num_threads(before)
    assert [size for _, size in _threads._POOLS] == [1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_can_rotate():
    """PyTorch's own operations of this size would wait for ever there; so NumPy compares."""
    need("numba")
    code = """
        import os, numpy, torch
        from posenc_tutorial.kernels import apply_rope
        torch.set_num_threads(2)
        x, t = torch.randn(1, 8, 600, 64), torch.ones(600, 32)
        first = apply_rope(x, x, t, t, backend="numba")[0]
        pid = os.fork()
        if pid == 0:
            again = apply_rope(x, x, t, t, backend="numba")[0]
            same = numpy.array_equal(again.numpy(), first.numpy())
            os._exit(0 if same else 1)
        print(os.waitpid(pid, 0)[1])
    """
    run = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "0", done.stderr


def test_large_new_tensors():
    """Large enough for all their pages to be asked for at once: the numbers are the same."""
    need("numba")
    q, k, cos, sin = draw(1, 16, 9000, 64), draw(1, 2, 9000, 64, seed=1), *tables(9000, 64)
    assert q.nbytes > 2**25
    got = apply_rope(q, k, cos, sin, backend="numba")
    assert all(torch.equal(a, b) for a, b in zip(got, turned(q, k, cos, sin), strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="needs memory that is promised only")
@pytest.mark.parametrize("backend", ["numba", "triton"])
def test_distances_beyond_32_bits(backend):
    """2^31 elements apart in memory. In a process of its own: a wrong address may end it."""
    need(backend)
    code = f"""
        import torch
        from posenc_tutorial import inverse_frequencies, rope_cos_sin, rotate
        from posenc_tutorial.kernels import apply_rope
        far = {{
            "head": (0, 2**31 + 64, 16, 1),
            "token": (0, 16, 2**31 + 64, 1),
            "channel": (0, 16, 32, 2**29 + 64),
        }}
        x = torch.randn(1, 2, 2, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
        k = x[:, :1].clone()
        cos, sin = rope_cos_sin(torch.arange(2) + 1, inverse_frequencies(6))
        for axis, strides in far.items():
            size = 1 + sum((n - 1) * s for n, s in zip(x.shape, strides))
            for layout in ("half", "interleaved"):
                q = torch.empty(size, dtype=torch.bfloat16).as_strided(x.shape, strides).copy_(x)
                wanted = rotate(x, cos, sin, layout=layout)
                got, _ = apply_rope(q, k, cos, sin, layout=layout, backend="{backend}")
                apply_rope(q, k.clone(), cos, sin, layout=layout, backend="{backend}", out=(q, k))
                for found in (got, q):
                    assert float((found - wanted).abs().max()) < 0.02, (axis, layout)
        print("all right")
    """
    run = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=300)
    if "allocate memory" in done.stderr:
        pytest.skip("this machine does not promise 9 GB")
    assert done.stdout.strip() == "all right", done.stderr[-2000:]


def test_a_missing_package_is_said_once_by_auto(monkeypatch):
    monkeypatch.setattr(rotary, "_installed", lambda package: False)
    monkeypatch.setattr(rotary, "_cpp_compiler", lambda: None)
    monkeypatch.setattr(rotary, "_WARNED", set())
    with pytest.warns(RuntimeWarning) as said:
        for _ in range(3):
            got = apply_rope(*large())
    assert len(said) == 2  # one for each of the two that are missing, not three times two
    close(got, turned(*large()))


# biased_attention


def attend(**change):
    q, k, v = (draw(1, 2, 6, 4, seed=s) for s in range(3))
    given = {"q": q, "k": k, "v": v, "encoding": ALiBi(2), **change}
    return biased_attention(**given)


@pytest.mark.parametrize("encoding", [ALiBi(2), NoPE()], ids=["ALiBi", "NoPE"])
@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"q": torch.zeros(1, 2, 6, 4).numpy()}, TypeError, "q must be a tensor, got ndarray"),
        ({"v": None}, TypeError, "v must be a tensor, got NoneType"),
        ({"q": torch.zeros(1, 2, 6, 4).double()}, TypeError, "one dtype, got.*float64.*float32"),
        ({"v": torch.zeros(1, 2, 6, 4).double()}, TypeError, "one dtype"),
        ({"q": torch.zeros(1, 4, 6, 4)}, ValueError, r"k like q.*\(1, 4, 6, 4\)"),
        ({"q": torch.zeros(2, 2, 6, 4)}, ValueError, r"k like q.*\(2, 2, 6, 4\)"),
        ({"q": torch.zeros(1, 2, 6, 5)}, ValueError, r"k like q.*\(1, 2, 6, 5\)"),
        ({"scale": float("nan")}, ValueError, "scale must be a finite number, got nan"),
        ({"scale": float("inf")}, ValueError, "scale must be a finite number, got inf"),
        ({"chunk": True}, ValueError, "chunk must be an integer >= 1, got True"),
        ({"chunk": 2.0}, ValueError, "chunk must be an integer >= 1, got 2.0"),
    ],
)
def test_bad_attention_is_named_with_and_without_a_bias(encoding, change, error, match):
    """PyTorch's own attention would broadcast heads and batches, and give zeros for nan."""
    with pytest.raises(error, match=match):
        attend(encoding=encoding, **change)


@pytest.mark.parametrize("encoding", [ALiBi(2), NoPE()], ids=["ALiBi", "NoPE"])
def test_attention_over_nothing(encoding):
    places = {"q_positions": torch.arange(6), "k_positions": torch.arange(0)}
    nothing = torch.zeros(1, 2, 0, 4)
    got = attend(encoding=encoding, k=nothing, v=nothing, causal=True, **places)
    assert torch.equal(got, torch.zeros(1, 2, 6, 4))
    places = {"q_positions": torch.arange(0), "k_positions": torch.arange(6)}
    assert attend(encoding=encoding, q=nothing, **places).shape == (1, 2, 0, 4)
    batchless = {name: torch.zeros(0, 2, 6, 4) for name in "qkv"}
    assert attend(encoding=encoding, **batchless).shape == (0, 2, 6, 4)


def test_second_derivatives_pass_the_recomputation():
    q = draw(1, 2, 6, 4).requires_grad_()
    found = []
    for chunk in (2, 6):
        out = attend(q=q, causal=True, chunk=chunk, backend="chunked")
        (slope,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), q)[0])
    torch.testing.assert_close(*found)
