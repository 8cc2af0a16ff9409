"""``biased_attention``: the written-out attention with a bias, without the ``n x n`` bias."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from posenc_tutorial import ALiBi, KeyValueCache, NoPE, RotaryEmbedding, ShawRelative, T5Bias
from posenc_tutorial.attention import attention
from posenc_tutorial.encoding import PositionalEncoding
from posenc_tutorial.kernels import biased, biased_attention

BATCH, HEADS, WIDTH = 2, 3, 8
ROOT = Path(__file__).parents[1]


class Window(PositionalEncoding):
    """An encoding that nobody has written a kernel for, with batched and float64 parts."""

    def score_bias(self, q_positions, k_positions, *, q=None):
        distance = q_positions[..., :, None] - k_positions[..., None, :]
        bias = -(distance.double() / 5).square().float()
        return bias[None] if bias.dim() == 2 else bias[:, None]


def encodings() -> dict[str, PositionalEncoding]:
    torch.manual_seed(0)
    made = {
        "ALiBi": ALiBi(HEADS),
        "T5 both ways": T5Bias(HEADS, bidirectional=True, num_buckets=8, max_distance=20),
        "T5 causal": T5Bias(HEADS, bidirectional=False, num_buckets=8, max_distance=20),
        "Shaw": ShawRelative(WIDTH, 4),
        "NoPE": NoPE(),
        "RoPE": RotaryEmbedding(WIDTH),
        "a new one": Window(),
    }
    for encoding in made.values():
        for parameter in encoding.parameters():
            torch.nn.init.normal_(parameter)
    return made


def draw(n_q: int, n_k: int | None = None, dtype=torch.float32, value_dim: int = 5):
    n_k = n_q if n_k is None else n_k
    generator = torch.Generator().manual_seed(n_q)
    return [
        torch.randn(BATCH, HEADS, n, d, generator=generator, dtype=torch.float64).to(dtype)
        for n, d in ((n_q, WIDTH), (n_k, WIDTH), (n_k, value_dim))
    ]


def situation(name: str):
    """n_q, n_k, and the arguments that say who is where and who may see whom."""
    if name == "bidirectional":
        return 23, 23, {}
    if name == "causal":
        return 23, 23, {"causal": True}
    if name == "cached decode":
        return (
            1,
            19,
            {
                "causal": True,
                "q_positions": torch.tensor([18]),
                "k_positions": torch.arange(19),
            },
        )
    if name == "several new tokens":
        return (
            5,
            19,
            {
                "causal": True,
                "q_positions": torch.arange(14, 19),
                "k_positions": torch.arange(19),
            },
        )
    if name == "left padding":
        first = torch.tensor([[0], [6]])
        places = (torch.arange(23) - first).clamp(min=0)
        keep = torch.arange(23) >= first
        mask = keep[:, None, :]
        return (
            23,
            23,
            {
                "causal": True,
                "q_positions": places,
                "k_positions": places,
                "mask": mask,
            },
        )
    if name == "packed, every head its own mask":
        document = torch.arange(23) // 9
        mask = (document[:, None] == document)[None, None].expand(BATCH, HEADS, 23, 23).clone()
        mask[:, 1] &= torch.arange(23) > 2  # queries of the first document see nothing here
        places = torch.arange(23) % 9
        return 23, 23, {"mask": mask, "q_positions": places, "k_positions": places}
    if name == "keys in no order":
        order = torch.randperm(23, generator=torch.Generator().manual_seed(2))
        return 23, 23, {"causal": True, "q_positions": order, "k_positions": order}
    raise AssertionError(name)


SITUATIONS = [
    "bidirectional",
    "causal",
    "cached decode",
    "several new tokens",
    "left padding",
    "packed, every head its own mask",
    "keys in no order",
]


def written_out(encoding, q, k, v, **options):
    places = torch.arange(k.shape[2])
    q_positions = options.pop("q_positions", places)
    k_positions = options.pop("k_positions", places)
    bias = encoding.score_bias(q_positions, k_positions, q=q)
    return attention(
        q, k, v, bias=bias, q_positions=q_positions, k_positions=k_positions, **options
    )


@pytest.mark.parametrize("name", encodings())
@pytest.mark.parametrize("where", SITUATIONS)
def test_equals_the_written_out_attention_with_all_gradients(where, name):
    encoding = encodings()[name]
    n_q, n_k, options = situation(where)
    inputs = [x.requires_grad_() for x in draw(n_q, n_k)]
    wanted = written_out(encoding, *inputs, **options)
    got = biased_attention(*inputs, encoding, chunk=6, backend="chunked", **options)
    assert got.dtype == wanted.dtype
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=2e-6)
    along = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1))
    learned = [*inputs, *encoding.parameters()]
    for a, b in zip(
        torch.autograd.grad(got, learned, along),
        torch.autograd.grad(wanted, learned, along),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both ways"])
@pytest.mark.parametrize("name", ["ALiBi", "T5"])
def test_equal_at_a_thousand_tokens_forward_and_backward(name, causal):
    """As long as the benchmark's shortest text, in several chunks of the default's kind."""
    n, heads = 1024, 2
    encoding = ALiBi(heads) if name == "ALiBi" else T5Bias(heads, bidirectional=not causal)
    generator = torch.Generator().manual_seed(7)
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    inputs = [torch.randn(1, heads, n, 16, generator=generator).requires_grad_() for _ in range(3)]
    wanted = written_out(encoding, *inputs, causal=causal)
    got = biased_attention(*inputs, encoding, causal=causal, chunk=200)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=2e-6)
    along = torch.randn(wanted.shape, generator=generator)
    learned = [*inputs, *encoding.parameters()]
    for a, b in zip(
        torch.autograd.grad(got, learned, along),
        torch.autograd.grad(wanted, learned, along),
        strict=True,
    ):
        # The gradient of a table's row is a sum over up to a million scores.
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("chunk", [1, 5, 23, 100, None])
def test_the_chunk_changes_nothing(chunk):
    q, k, v = draw(23)
    options = {"causal": True, "backend": "chunked"}
    got = biased_attention(q, k, v, ALiBi(HEADS), chunk=chunk, **options)
    torch.testing.assert_close(got, written_out(ALiBi(HEADS), q, k, v, causal=True))


@pytest.mark.parametrize("name", ["NoPE", "RoPE"])
@pytest.mark.parametrize("causal", [False, True])
def test_without_a_bias_pytorchs_own_attention_is_taken(name, causal):
    encoding = encodings()[name]
    q, k, v = draw(23, value_dim=WIDTH)
    wanted = written_out(encoding, q, k, v, causal=causal)
    for backend in ("auto", "sdpa"):
        got = biased_attention(q, k, v, encoding, causal=causal, backend=backend)
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes(dtype):
    q, k, v = draw(23, dtype=dtype)
    for name, encoding in encodings().items():
        if name == "Shaw" and dtype == torch.float64:
            continue  # its term is computed in the dtype of the queries, like the reference's
        got = biased_attention(q, k, v, encoding, causal=True, chunk=7)
        wanted = written_out(encoding, q, k, v, causal=True)
        assert got.dtype == wanted.dtype == dtype
        torch.testing.assert_close(got, wanted, rtol=1e-2, atol=1e-2)


def test_gradcheck():
    encoding = T5Bias(HEADS, bidirectional=True, num_buckets=8, max_distance=20).double()
    torch.nn.init.normal_(encoding.weight)
    inputs = [x.requires_grad_() for x in draw(5, dtype=torch.float64)]

    def attend(q, k, v, weight):
        return biased_attention(q, k, v, encoding, causal=True, chunk=2)

    assert torch.autograd.gradcheck(attend, (*inputs, encoding.weight))


def test_decoding_with_a_cache_equals_one_pass():
    q, k, v = draw(9)
    whole = biased_attention(q, k, v, ALiBi(HEADS), causal=True)
    cache = KeyValueCache()
    for i in range(9):
        here = torch.tensor([i])
        cache.append(k[:, :, i : i + 1], v[:, :, i : i + 1], here)
        step = biased_attention(
            q[:, :, i : i + 1], cache.keys, cache.values, ALiBi(HEADS),
            causal=True, q_positions=here.expand(BATCH, 1), k_positions=cache.positions,
        )  # fmt: skip
        torch.testing.assert_close(step, whole[:, :, i : i + 1], rtol=1e-5, atol=2e-6)


def test_a_query_that_sees_nothing_gets_zeros_and_no_nan_gradient():
    q, k, v = (x.requires_grad_() for x in draw(6))
    mask = torch.ones(6, 6, dtype=torch.bool)
    mask[2] = False
    got = biased_attention(q, k, v, ALiBi(HEADS), mask=mask, chunk=2)
    assert bool((got[:, :, 2] == 0).all())
    got.sum().backward()
    assert all(bool(x.grad.isfinite().all()) for x in (q, k, v))


# Memory


def test_nothing_of_the_size_of_the_bias_is_kept_for_the_backward_pass():
    n, kept = 64, []
    q, k, v = (x.requires_grad_() for x in draw(n))
    encoding = T5Bias(HEADS, bidirectional=True)

    def note(x):
        kept.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        biased_attention(q, k, v, encoding, chunk=16)
    assert max(kept, default=0) < BATCH * HEADS * 16 * n, "a block of scores was kept"
    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        written_out(encoding, q, k, v)
    assert max(kept) >= n * n * HEADS  # this test can fail


class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the largest tensor that any operation returns."""

    def __init__(self):
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(x, torch.Tensor):
                self.largest = max(self.largest, x.untyped_storage().nbytes())
        return out


def test_the_largest_tensor_grows_linearly():
    sizes = {}
    for n in (256, 1024):
        q, k, v = draw(n)
        with LargestTensor() as watch:
            biased_attention(q, k, v, ALiBi(HEADS), causal=True, chunk=16)
        sizes[n] = watch.largest
    assert sizes[1024] <= 4.2 * sizes[256]
    assert sizes[1024] < BATCH * HEADS * 1024 * 1024 * 4 / 8


def test_the_default_chunk_bounds_the_scores():
    q, k, v = (x[:, :1] for x in draw(3000))
    with LargestTensor() as watch:
        biased_attention(q, k, v, ALiBi(1))
    assert watch.largest <= 8 * biased._BUDGET


# FlexAttention


@pytest.mark.parametrize("name", ["ALiBi", "T5 both ways", "T5 causal", "Shaw"])
@pytest.mark.parametrize("where", SITUATIONS)
def test_the_score_function_of_flex_is_the_bias(where, name):
    """Called by hand for all indices, without a compiler."""
    encoding = encodings()[name]
    n_q, n_k, options = situation(where)
    q, _, _ = draw(n_q, n_k)
    q_places = options.get("q_positions", torch.arange(n_q)).expand(BATCH, n_q)
    k_places = options.get("k_positions", torch.arange(n_k)).expand(BATCH, n_k)
    function = biased.score_function(encoding, q, q_places, k_places)
    index = torch.meshgrid(*map(torch.arange, (BATCH, HEADS, n_q, n_k)), indexing="ij")
    got = function(torch.zeros(BATCH, HEADS, n_q, n_k), *index)
    bias = encoding.score_bias(q_places, k_places, q=q)
    torch.testing.assert_close(got, bias.expand_as(got), rtol=1e-6, atol=1e-6)


def test_flex_on_the_cpu():
    from posenc_tutorial.kernels import why_not

    if why_not("compiled"):
        pytest.skip(why_not("compiled"))
    encoding = encodings()["T5 both ways"]
    n_q, n_k, options = situation("left padding")
    q, k, v = draw(n_q, n_k, value_dim=WIDTH)
    with torch.no_grad():
        got = biased_attention(q, k, v, encoding, backend="flex", **options)
        wanted = written_out(encoding, q, k, v, **options)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", ["ALiBi", "T5 both ways", "Shaw"])
@pytest.mark.parametrize("backend", ["auto", "flex"])
def test_flex_on_a_gpu(backend, name):
    encoding = encodings()[name].cuda()
    torch.manual_seed(0)
    inputs = [torch.randn(2, HEADS, 256, 64, device="cuda").requires_grad_() for _ in range(3)]
    if name == "Shaw":
        encoding = ShawRelative(64, 4).cuda()
    places = torch.arange(256, device="cuda")
    bias = encoding.score_bias(places, places, q=inputs[0])
    wanted = attention(*inputs, bias=bias, causal=True)
    got = biased_attention(*inputs, encoding, causal=True, backend=backend)
    torch.testing.assert_close(got, wanted, rtol=1e-2, atol=1e-2)
    learned = [*inputs, *encoding.parameters()]
    grads = [torch.autograd.grad(x.sum(), learned) for x in (got, wanted)]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)


def test_what_flex_cannot_do_is_named():
    q, k, v = (x.requires_grad_() for x in draw(6))
    with pytest.raises(RuntimeError, match="no backward pass on the CPU"):
        biased_attention(q, k, v, ALiBi(HEADS), backend="flex")
    with pytest.raises(RuntimeError, match="not Window"):
        biased_attention(q, k, v, Window(), backend="flex")


# Errors


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"encoding": "alibi"}, TypeError, "PositionalEncoding, got str"),
        ({"backend": "flash"}, ValueError, "auto, chunked, sdpa, flex, got 'flash'"),
        ({"chunk": 0}, ValueError, "chunk must be an integer >= 1, got 0"),
        ({"q_positions": torch.arange(6)}, ValueError, "give both"),
        ({"k": torch.zeros(2, 3, 7, 8), "v": torch.zeros(2, 3, 7, 5)}, ValueError, "6 queries"),
        ({"v": torch.zeros(2, 3, 7, 5)}, ValueError, r"\(2, 3, 7, 5\)"),
        ({"mask": torch.ones(6, 6)}, TypeError, "mask must be bool"),
        ({"mask": torch.ones(5, 6, dtype=torch.bool)}, ValueError, r"got \(5, 6\)"),
        ({"backend": "sdpa"}, RuntimeError, "adds no bias"),
        ({"encoding": NoPE(), "backend": "sdpa", "mask": torch.ones(6, 6).bool()}, RuntimeError,
         "without a mask"),
        ({"encoding": ALiBi(2)}, ValueError, "fit scores"),
    ],
)  # fmt: skip
def test_bad_input_is_named(change, error, match):
    q, k, v = draw(6)
    given = {"q": q, "k": k, "v": v, "encoding": ALiBi(HEADS), **change}
    with pytest.raises(error, match=match):
        biased_attention(**given)


def test_auto_survives_a_flex_attention_that_fails(monkeypatch):
    """Where FlexAttention cannot be compiled, the reference answers, and it is said once."""

    def broken(*arguments):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(biased, "_flex", broken)
    monkeypatch.setattr(biased, "_BROKEN", [])
    monkeypatch.setattr(biased, "_wants_flex", lambda q: True)
    q, k, v = draw(6)
    with pytest.warns(RuntimeWarning, match="no such instruction"):
        got = biased_attention(q, k, v, ALiBi(HEADS))
    torch.testing.assert_close(got, written_out(ALiBi(HEADS), q, k, v))


def test_the_benchmark_is_importable_without_its_peers():
    assert importlib.util.find_spec("benchmarks.bench") is not None
    run = [sys.executable, "-m", "benchmarks.bench", "--help"]
    assert subprocess.run(run, cwd=ROOT, capture_output=True, check=False).returncode == 0
