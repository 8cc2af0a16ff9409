"""``apply_rope``: every backend is the written-out rotation, with its gradient, at any shape."""

from __future__ import annotations

import builtins
import importlib.util
import itertools
import os
import subprocess
import sys
import threading
import warnings

import pytest
import torch

from benchmarks import equality
from benchmarks.equality import Case
from posenc_tutorial import inverse_frequencies, rope_cos_sin, rotate
from posenc_tutorial.kernels import apply_rope, rotary, why_not

KERNELS = ("numba", "triton", "compiled")


def need(backend: str, dtype: torch.dtype = torch.float32, device: str = "cpu") -> None:
    reason = why_not(backend, device, dtype)
    if reason is not None:
        pytest.skip(reason)


def draw(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def tables(n: int, width: int, factor: float = 1.0, dtype=torch.float32):
    frequencies = inverse_frequencies(width)
    return rope_cos_sin(torch.arange(n) + 7, frequencies, attention_factor=factor, dtype=dtype)


# Equal to the written-out rotation


@pytest.mark.parametrize("dtype", [*equality.DTYPES, torch.float64])
@pytest.mark.parametrize("layout", equality.LAYOUTS)
def test_numba_is_the_rotation_on_the_whole_grid(layout, dtype):
    """Forward, in place and backward; not one bit differs, since nothing is rounded otherwise."""
    need("numba", dtype)
    axes = (equality.HEADS, equality.WIDTHS, equality.MEMORY, equality.BATCHED)
    cases = [Case(layout, dtype, *point) for point in itertools.product(*axes)]
    # The corners always, and every seventh of the others.
    chosen = [c for i, c in enumerate(cases) if i % 7 == 0 or c.width in (2, 20)]
    worst = {case: equality.worst_difference(case, "numba") for case in chosen}
    assert max(worst.values()) == 0.0, max(worst, key=worst.get)


def test_any_two_settings_meet():
    cases = equality.every_pair()
    assert len(cases) < len(equality.whole_grid()) / 30
    axes = (
        equality.LAYOUTS, equality.DTYPES, equality.HEADS,
        equality.WIDTHS, equality.MEMORY, equality.BATCHED,
    )  # fmt: skip
    points = [tuple(vars(case).values()) for case in cases]
    for i, j in itertools.combinations(range(len(axes)), 2):
        assert {(p[i], p[j]) for p in points} == set(itertools.product(axes[i], axes[j]))


@pytest.mark.parametrize("part", range(2))
def test_triton_is_the_rotation(part):
    """In Triton's interpreter, which cuts bfloat16 off where a GPU rounds: one unit at most."""
    need("triton")
    cases = equality.every_pair()[part::2]
    worst = {case: equality.worst_difference(case, "triton") for case in cases}
    assert max(worst.values()) < 1.5, max(worst, key=worst.get)
    exact = [units for case, units in worst.items() if case.dtype != torch.bfloat16]
    assert max(exact) <= 1.0


@pytest.mark.parametrize(
    "case",
    [
        Case("half", torch.float32, (8, 2), 20, "transposed", True),
        Case("interleaved", torch.bfloat16, (15, 5), 48, "packed", False),
    ],
    ids=["half-float32", "interleaved-bfloat16"],
)
def test_compiled_is_the_rotation(case):
    need("compiled")
    assert equality.worst_difference(case, "compiled") <= 1.0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("layout", equality.LAYOUTS)
@pytest.mark.parametrize("dtype", equality.DTYPES)
@pytest.mark.parametrize("backend", ["triton", "compiled"])
def test_on_a_gpu(backend, layout, dtype):
    need(backend, dtype, "cuda")
    for heads, width, memory in (((8, 2), 80, "transposed"), ((32, 8), 128, "packed")):
        case = Case(layout, dtype, heads, width, memory, True)
        q, k, cos, sin = (x.cuda() for x in equality.tensors(case, n=70))
        along = torch.ones_like(q), torch.ones_like(k)
        q, k = q.requires_grad_(), k.requires_grad_()
        got = apply_rope(q, k, cos, sin, layout=layout, backend=backend)
        wanted = apply_rope(q, k, cos, sin, layout=layout, backend="eager")
        got += torch.autograd.grad(got, (q, k), along)
        wanted += torch.autograd.grad(wanted, (q, k), along)
        for a, b in zip(got, wanted, strict=True):
            assert equality.difference(a.detach(), b.detach()) < 1.5


@pytest.mark.parametrize("backend", ["eager", "numba", "triton"])
def test_a_published_rotation(backend):
    """A quarter turn: (1, 0) becomes (0, 1) in every pair, whichever channels it is made of."""
    need(backend)
    cos, sin = torch.zeros(1, 2), torch.ones(1, 2)
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 9.0]).view(1, 1, 1, 5)
    half, _ = apply_rope(x, x, cos, sin, layout="half", backend=backend)
    assert half.flatten().tolist() == [-3.0, -4.0, 1.0, 2.0, 9.0]
    interleaved, _ = apply_rope(x, x, cos, sin, layout="interleaved", backend=backend)
    assert interleaved.flatten().tolist() == [-2.0, 1.0, -4.0, 3.0, 9.0]


@pytest.mark.parametrize("backend", ["eager", "numba", "triton"])
@pytest.mark.parametrize("layout", equality.LAYOUTS)
def test_scores_depend_on_the_distance_alone(layout, backend):
    need(backend)
    q, k = draw(1, 2, 6, 16), draw(1, 1, 6, 16, seed=1)
    scores = []
    for start in (0, 5000):
        cos, sin = rope_cos_sin(torch.arange(start, start + 6), inverse_frequencies(16))
        a, b = apply_rope(q, k, cos, sin, layout=layout, backend=backend)
        scores.append(a @ b.transpose(-1, -2))
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=2e-5)


@pytest.mark.parametrize("shape", [(2, 5), (2, 1, 5)], ids=["batch", "batch and heads axis"])
def test_tables_of_each_row(shape):
    """Left padding: every row of the batch has positions of its own."""
    q, k = draw(2, 3, 5, 8), draw(2, 1, 5, 8, seed=1)
    positions = torch.stack([torch.arange(5), torch.arange(5) + 100])
    cos, sin = rope_cos_sin(positions, inverse_frequencies(8))
    got, _ = apply_rope(q, k, cos.view(*shape, 4), sin.view(*shape, 4), backend="eager")
    for row in range(2):
        torch.testing.assert_close(got[row], rotate(q[row], cos[row], sin[row]), rtol=0, atol=0)


def test_many_rows_are_shared_among_threads():
    need("numba")
    q, k = draw(1, 4, 700, 64), draw(1, 3, 700, 64, seed=1)
    cos, sin = tables(700, 64)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            got = apply_rope(q, k, cos, sin, backend="numba")
            for x, y in zip((q, k), got, strict=True):
                assert torch.equal(rotate(x, cos, sin), y)
    finally:
        torch.set_num_threads(before)


def test_callers_on_several_threads():
    need("numba")
    q, k = draw(1, 4, 700, 64), draw(1, 3, 700, 64, seed=1)
    cos, sin = tables(700, 64)
    wanted, failed = rotate(q, cos, sin), []

    def call():
        for _ in range(5):
            if not torch.equal(apply_rope(q, k, cos, sin, backend="numba")[0], wanted):
                failed.append(1)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failed


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -0.0, 1e-40, 3.3895e38])
def test_numba_rounds_bfloat16_as_pytorch_does(value):
    """Turned by nothing, a number stays; and not-a-number stays not-a-number."""
    need("numba", torch.bfloat16)
    x = torch.full((1, 1, 1, 4), value, dtype=torch.bfloat16)
    cos, sin = torch.ones(1, 2), torch.zeros(1, 2)
    got, _ = apply_rope(x, x.clone(), cos, sin, backend="numba")
    wanted, _ = apply_rope(x, x.clone(), cos, sin, backend="eager")
    torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("backend", ["eager", "numba", "triton", "compiled"])
@pytest.mark.parametrize("shape", [(0, 2, 5, 8), (2, 2, 0, 8), (2, 0, 5, 8)])
def test_nothing_to_rotate(shape, backend):
    need(backend)
    k = draw(shape[0], 1, *shape[2:])
    q, cos, sin = draw(*shape), *tables(shape[2], 8)
    got = apply_rope(q, k, cos, sin, backend=backend)
    assert [x.shape for x in got] == [q.shape, k.shape]
    assert torch.equal(got[1], rotate(k, cos, sin))


# Gradients


@pytest.mark.parametrize("backend", ["eager", "numba", "triton"])
@pytest.mark.parametrize("layout", equality.LAYOUTS)
def test_gradcheck(layout, backend):
    need(backend, torch.float64)
    q = draw(1, 2, 3, 6, dtype=torch.float64).requires_grad_()
    k = draw(1, 1, 3, 6, dtype=torch.float64, seed=1).requires_grad_()
    cos, sin = tables(3, 4, factor=1.3, dtype=torch.float64)

    def turn(q, k):
        return apply_rope(q, k, cos, sin, layout=layout, backend=backend)

    assert torch.autograd.gradcheck(turn, (q, k))
    assert torch.autograd.gradgradcheck(turn, (q, k))


@pytest.mark.parametrize("backend", ["numba", "triton"])
def test_the_backward_is_the_transpose_not_the_inverse(backend):
    """With an attention factor the two differ by its square."""
    need(backend, torch.float64)
    q, k = (draw(1, 1, 4, 8, dtype=torch.float64, seed=s).requires_grad_() for s in (0, 1))
    cos, sin = tables(4, 8, factor=1.5, dtype=torch.float64)
    out = apply_rope(q, k, cos, sin, backend=backend)
    back, _ = torch.autograd.grad(out, (q, k), [x.detach() for x in out])
    torch.testing.assert_close(back, 1.5**2 * q.detach(), rtol=1e-12, atol=1e-12)
    wanted = rotate(torch.ones_like(q), cos, -sin)
    got, _ = torch.autograd.grad(
        apply_rope(q, k, cos, sin, backend=backend), (q, k), [torch.ones_like(q)] * 2
    )
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", ["auto", "eager", "numba", "triton"])
def test_one_gradient_is_enough(backend):
    """Only one of the two is trained, or only one of the results is used."""
    need("numba" if backend == "auto" else backend)
    cos, sin = tables(4, 8)
    q, k = draw(1, 2, 4, 8).requires_grad_(), draw(1, 1, 4, 8)
    turned, _ = apply_rope(q, k, cos, sin, backend=backend)
    turned.square().sum().backward()
    torch.testing.assert_close(q.grad, 2 * q.detach(), rtol=1e-5, atol=1e-6)


def test_gradients_of_tables_are_eager_or_an_error():
    q, k = draw(1, 2, 4, 8), draw(1, 1, 4, 8)
    cos, sin = (x.requires_grad_() for x in tables(4, 8))
    apply_rope(q, k, cos, sin)[0].sum().backward()
    assert cos.grad is not None and sin.grad is not None
    need("numba")
    with pytest.raises(RuntimeError, match="cos and sin"):
        apply_rope(q, k, cos, sin, backend="numba")


# out=


@pytest.mark.parametrize("backend", ["eager", "numba", "triton"])
def test_out_is_written_and_returned_and_nothing_else_changes(backend):
    need(backend)
    q, k, (cos, sin) = draw(2, 4, 5, 10), draw(2, 2, 5, 10, seed=1), tables(5, 8)
    held = [x.clone() for x in (q, k, cos, sin)]
    wide = torch.full((2, 5, 4, 12), 7.0)
    out = wide[..., :10].transpose(1, 2), torch.empty(2, 2, 10, 5).transpose(2, 3)
    got = apply_rope(q, k, cos, sin, backend=backend, out=out)
    assert got[0] is out[0] and got[1] is out[1]
    assert torch.equal(out[0], rotate(q, cos, sin)) and torch.equal(out[1], rotate(k, cos, sin))
    assert all(torch.equal(x, y) for x, y in zip((q, k, cos, sin), held, strict=True))
    assert torch.equal(wide[..., 10:], torch.full((2, 5, 4, 2), 7.0)), "wrote past its tensor"


def test_compiled_writes_to_out():
    need("compiled")
    q, k, (cos, sin) = draw(1, 2, 6, 8), draw(1, 1, 6, 8, seed=1), tables(6, 6)
    out = torch.empty_like(q), torch.empty_like(k)
    got = apply_rope(q, k, cos, sin, backend="compiled", out=out)
    assert got[0] is out[0] and got[1] is out[1]
    assert torch.equal(out[0], rotate(q, cos, sin)) and torch.equal(out[1], rotate(k, cos, sin))


def test_out_that_cannot_work_is_refused():
    q, k, (cos, sin) = draw(1, 2, 4, 8), draw(1, 2, 4, 8, seed=1), tables(4, 8)

    def refused(out, match, error=ValueError):
        with pytest.raises(error, match=match):
            apply_rope(q, k, cos, sin, out=out)

    refused((torch.empty(1, 2, 4, 6), k), "like q")
    refused((q.double(), k), "like q")
    refused(q, "pair", TypeError)
    refused((q, q), "memory of their own")
    refused((k, q), "memory of their own")
    refused((torch.empty(1, 2, 1, 8).expand(1, 2, 4, 8), k), "expanded")
    room = torch.empty(100)
    q = room[:64].view(1, 2, 4, 8)
    refused((room[8:72].view(1, 2, 4, 8), k.clone()), "overlaps q")
    q = draw(1, 2, 4, 8).requires_grad_()
    refused((torch.empty(1, 2, 4, 8), k.clone()), "no_grad", RuntimeError)
    with torch.no_grad():
        apply_rope(q, k, cos, sin, out=(torch.empty(1, 2, 4, 8), k.clone()))


@pytest.mark.parametrize("backend", ["eager", "numba", "auto"])
def test_memory_that_out_shares_by_one_token_is_refused(backend):
    if backend == "numba":
        pytest.importorskip("numba")
    room = torch.zeros(1, 2, 7, 8)
    q, k = torch.randn(2, 1, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    cos, sin = rope_cos_sin(torch.arange(6), inverse_frequencies(8))
    with pytest.raises(ValueError, match="memory of their own"):
        apply_rope(q, k, cos, sin, backend=backend, out=(room[:, :, :6], room[:, :, 1:]))
    room[:, :, :6] = k
    with pytest.raises(ValueError, match="memory of their own"):
        k_in_room = room[:, :, :6]
        out = (room[:, :, 1:], torch.empty_like(k))
        apply_rope(q, k_in_room, cos, sin, backend=backend, out=out)


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_packed_queries_and_keys_share_no_byte(backend):
    """They interleave in memory, token by token, and may be turned in place."""
    if backend == "numba":
        pytest.importorskip("numba")
    packed = torch.randn(1, 6, 3, 2, 8, generator=torch.Generator().manual_seed(0))
    q, k, _ = (x.squeeze(2).transpose(1, 2) for x in packed.split(1, dim=2))
    cos, sin = rope_cos_sin(torch.arange(6), inverse_frequencies(8))
    expected = rotate(q, cos, sin), rotate(k, cos, sin)
    apply_rope(q, k, cos, sin, backend=backend, out=(q, k))
    torch.testing.assert_close((q, k), expected)


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_autograd_knows_what_was_written(backend):
    """A value that a gradient still needs was overwritten: an error, not a wrong gradient."""
    if backend == "numba":
        pytest.importorskip("numba")
    weight = torch.randn(1, 2, 6, 8, requires_grad=True)
    cos, sin = rope_cos_sin(torch.arange(6), inverse_frequencies(8))
    y = weight * 1.0
    z = y**2
    with torch.no_grad():
        apply_rope(y, y.clone(), cos, sin, backend=backend, out=(y, torch.empty_like(y)))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    plain = weight.detach()
    with pytest.raises(RuntimeError, match="records no gradient"):
        apply_rope(plain, plain.clone(), cos, sin, backend=backend, out=(weight, plain.clone()))


# Errors


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"layout": "pairs"}, ValueError, "half, interleaved, got 'pairs'"),
        ({"backend": "cuda"}, ValueError, "auto, eager, compiled, numba, triton, got 'cuda'"),
        (
            {"q": torch.zeros(2, 4, 8)},
            ValueError,
            r"\(batch, heads, n, head_dim\), got \(2, 4, 8\)",
        ),
        ({"q": torch.zeros(1, 2, 4, 8, dtype=torch.int64)}, TypeError, "int64"),
        ({"k": torch.zeros(1, 1, 4, 8).double()}, TypeError, "one dtype"),
        ({"k": torch.zeros(1, 1, 5, 8)}, ValueError, "number of heads"),
        ({"k": torch.zeros(1, 1, 4, 8, device="meta")}, ValueError, "one device"),
        ({"cos": torch.zeros(4, 3)}, ValueError, "cos and sin differ"),
        ({"cos": torch.zeros(4, 8), "sin": torch.zeros(4, 8)}, ValueError, "repeat each angle"),
        ({"cos": torch.zeros(5, 4), "sin": torch.zeros(5, 4)}, ValueError, r"got \(5, 4\)"),
        (
            {"cos": torch.zeros(3, 4, 4), "sin": torch.zeros(3, 4, 4)},
            ValueError,
            r"got \(3, 4, 4\)",
        ),
        ({"cos": torch.zeros(4, 4).int(), "sin": torch.zeros(4, 4).int()}, TypeError, "int32"),
    ],
)
def test_bad_input_is_named(change, error, match):
    cos, sin = tables(4, 8)
    given = {"q": draw(1, 2, 4, 8), "k": draw(1, 1, 4, 8), "cos": cos, "sin": sin, **change}
    with pytest.raises(error, match=match):
        apply_rope(**given)


# Choosing a backend


def hide(monkeypatch, *packages):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name in packages else real(name, *a)
    )
    # Without its memory of what is installed.
    monkeypatch.setattr(rotary, "_installed", rotary._installed.__wrapped__)
    imported = builtins.__import__

    def forbidden(name, *arguments):
        assert name.split(".")[0] not in packages, f"{name} was imported"
        return imported(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", forbidden)


def big():
    return draw(1, 4, 300, 64), draw(1, 1, 300, 64, seed=1), *tables(300, 64)


def test_asking_for_what_is_missing_says_what_to_install(monkeypatch):
    q, k, cos, sin = big()
    hide(monkeypatch, "numba", "triton")
    with pytest.raises(ImportError, match=r"pip install 'posenc-tutorial\[fast\]'"):
        apply_rope(q, k, cos, sin, backend="numba")
    with pytest.raises(ImportError, match="pip install triton"):
        apply_rope(q, k, cos, sin, backend="triton")
    monkeypatch.setattr(rotary, "_cpp_compiler", lambda: None)
    with pytest.raises(RuntimeError, match=r"C\+\+ compiler.*g\+\+"):
        apply_rope(q, k, cos, sin, backend="compiled")


def test_a_dtype_that_a_backend_cannot_rotate_is_named():
    need("numba")
    q, k, cos, sin = big()
    with pytest.raises(TypeError, match="float32, float64, bfloat16, not float16"):
        apply_rope(q.half(), k.half(), cos, sin, backend="numba")


def test_auto_falls_back_and_says_so_once(monkeypatch):
    q, k, cos, sin = big()
    hide(monkeypatch, "numba", "triton")
    monkeypatch.setattr(rotary, "_cpp_compiler", lambda: None)
    monkeypatch.setattr(rotary, "_WARNED", set())
    with pytest.warns(RuntimeWarning) as said:
        got = apply_rope(q, k, cos, sin)
    assert len(said) == 2 and "numba" in str(said[0].message) and "g++" in str(said[1].message)
    assert all(w.filename == __file__ for w in said), "the warning points at the caller"
    assert torch.equal(got[0], rotate(q, cos, sin))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apply_rope(q, k, cos, sin)


def test_auto_survives_a_compiler_that_does_not_work(monkeypatch):
    q, k, cos, sin = big()
    hide(monkeypatch, "numba")
    monkeypatch.setattr(rotary, "_cpp_compiler", lambda: "g++")
    monkeypatch.setattr(rotary, "_WARNED", set())
    monkeypatch.setattr(rotary, "_BROKEN", {})

    def broken(*arguments):
        raise OSError("cannot find Python.h")

    monkeypatch.setattr(rotary, "_opaque", broken)
    with pytest.warns(RuntimeWarning, match="Python.h"):
        got = apply_rope(q, k, cos, sin)
    assert torch.equal(got[0], rotate(q, cos, sin))
    assert "Python.h" in why_not("compiled")


def test_auto_takes_numba_on_the_cpu_and_eager_for_a_few_tokens(monkeypatch):
    need("numba")
    taken = []
    monkeypatch.setattr(rotary, "_opaque", lambda *a: taken.append(a[5]) or a[:2])
    q, k, cos, sin = big()
    apply_rope(q, k, cos, sin)
    apply_rope(q[:, :, :2], k[:, :, :2], cos[:2], sin[:2])
    assert taken == ["numba"]


def test_unknown_backends_have_no_reason():
    with pytest.raises(ValueError, match="got 'auto'"):
        why_not("auto")
    assert why_not("eager", "meta") is None
    assert "meta" in why_not("numba", "meta") if why_not("numba") is None else True


# torch.compile


def test_at_most_two_graphs_over_many_lengths():
    need("compiled")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    for n in (48, 64, 33, 100, 200):
        q, k, (cos, sin) = draw(1, 2, n, 4), draw(1, 1, n, 4, seed=1), tables(n, 4)
        got = apply_rope(q, k, cos, sin, backend="compiled")
        assert torch.equal(got[0], rotate(q, cos, sin))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2


@pytest.mark.parametrize("backend", ["auto", "compiled"])
def test_inside_a_compiled_region_it_is_part_of_the_graph(backend):
    """The plain lines fuse with what is around them; there is one graph and no break in it."""

    @torch.compile(fullgraph=True, backend="eager")
    def model(q, k, cos, sin):
        a, b = apply_rope(2 * q, k, cos, sin, backend=backend)
        return a + 1, b

    q, k, cos, sin = big()
    got = model(q, k, cos, sin)
    torch.testing.assert_close(got[0], rotate(2 * q, cos, sin) + 1)


def test_a_kernel_asked_for_by_name_inside_a_compiled_region_still_runs():
    need("numba")

    @torch.compile(backend="eager")
    def model(q, k, cos, sin):
        a, b = apply_rope(2 * q, k, cos, sin, backend="numba")
        return a + 1, b

    q, k, cos, sin = big()
    q.requires_grad_()
    got = model(q, k, cos, sin)
    torch.testing.assert_close(got[0], rotate(2 * q, cos, sin) + 1)
    got[0].sum().backward()
    torch.testing.assert_close(q.grad, 2 * rotate(torch.ones_like(q), cos, -sin))


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = (
        "import sys, torch, posenc_tutorial.kernels as kernels\n"
        "x = torch.randn(1, 1, 2, 4); t = torch.ones(2, 2)\n"
        "kernels.apply_rope(x, x.clone(), t, t)\n"
        "print([m for m in ('numba', 'triton', 'torch._dynamo') if m in sys.modules])"
    )
    root = os.path.dirname(os.path.dirname(__file__))
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
