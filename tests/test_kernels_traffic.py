"""Counting passes over memory, and the stored benchmark that chapter 12 draws."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.bench import middle_row, slope
from posenc_tutorial.kernels.measured import measured
from posenc_tutorial.kernels.traffic import memory_passes, total_bytes

SIZE = 8 * 16 * 4


def x() -> torch.Tensor:
    return torch.ones(8, 16)


@pytest.mark.parametrize(
    ("function", "read", "written"),
    [
        (lambda x: x + x, 2, 1),
        (lambda x: x * torch.ones((), device="cpu"), 1, 1),
        (lambda x: torch.cat([x, x]), 2, 2),
        (lambda x: x.clone(), 1, 1),
        (lambda x: torch.empty_like(x).copy_(x), 1, 1),
        (lambda x: x.add_(1), 1, 1),
        (lambda x: x.double(), 1, 2),
        (lambda x: -x[:, :8], 0.5, 0.5),
        (lambda x: x + x[:1].expand(8, 16), 1 + 1 / 8, 1),
    ],
)
def test_operations_read_their_inputs_and_write_their_outputs(function, read, written):
    passes = [p for p in memory_passes(function, x()) if p.name not in ("ones", "_to_copy")]
    total = total_bytes([p for p in memory_passes(function, x()) if p.name != "ones"])
    assert total == pytest.approx((read + written) * SIZE, abs=4)
    assert all(p.read >= 0 and p.written > 0 for p in passes)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(16, 8),
        lambda x: x.T,
        lambda x: x[:, ::2],
        lambda x: x.chunk(2, -1),
        lambda x: x[None].expand(3, 8, 16),
        lambda x: torch.empty_like(x),
    ],
)
def test_views_and_promises_cost_nothing(view):
    assert memory_passes(view, x()) == []


def test_the_rotation_of_transformers_moves_five_copies():
    from transformers.models.llama.modeling_llama import rotate_half

    x, number = torch.ones(2, 64, 32), torch.ones(())
    passes = memory_passes(lambda: x * number + rotate_half(x) * number)
    assert [p.name for p in passes] == ["mul", "neg", "cat", "mul", "add"]
    assert total_bytes(passes) == pytest.approx(5 * 2 * x.numel() * 4, abs=16)


def test_of_three_places_in_memory_the_middle_one_counts():
    slow, usual, fast = (
        {"what": "numba", "n": 512, "milliseconds": t, "spread": 0.1 / t, "ratio_copy": t / 2,
         "ratio_clone": 9.0 - t}
        for t in (4.0, 1.0, 0.5)
    )  # fmt: skip
    row = middle_row([slow, fast, usual])
    assert row == usual | {"spread": 0.1, "ratio_clone": 8.0}


def test_the_stored_benchmark_has_what_the_chapter_draws():
    assert {row["what"] for row in measured("machine")} >= {"copy speed", "matmul speed"}
    for dtype in ("float32", "bfloat16"):
        rows = measured("rope forward", dtype=dtype, n=8192)
        ways = {row["what"] for row in rows}
        assert {"copy_", "clone", "numba, out=", "transformers, eager"} <= ways
        assert all(float(row["ratio_copy"]) == 1 for row in rows if row["what"] == "copy_")
    assert len(measured("share of a layer", n=2048)) == 3
    assert len(measured("rope forward+backward", n=8192, what="numba")) == 4
    with pytest.raises(ValueError, match="no row"):
        measured("rope forward", n=7)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("n", [2048, 4096, 8192])
def test_the_stored_benchmark_is_at_copy_speed(n, dtype):
    """What is stored was measured, so this holds on every machine; a slower kernel's would not."""
    rows = measured("rope forward", dtype=dtype, n=n)
    ours = {(row["what"], row["layout"]): row for row in rows if row["what"].startswith("numba")}
    peers = [r for r in rows if r["what"] in ("transformers, eager", "rotary-embedding-torch")]
    assert len(peers) == 2
    for layout in ("half", "interleaved"):
        given, new = ours["numba, out=", layout], ours["numba", layout]
        assert float(given["ratio_copy"]) <= 1.35
        assert float(new["ratio_clone"]) <= 1.15
        for peer in peers:
            assert float(peer["milliseconds"]) >= 4 * float(given["milliseconds"])


@pytest.mark.parametrize("name", ["ALiBi", "T5"])
def test_the_stored_attention_is_linear_in_memory(name):
    rows = [r for r in measured("attention forward", what=f"{name}, on the fly") if r["n"]]
    assert [int(row["n"]) for row in rows] == [1024, 2048, 4096, 8192, 16384]
    assert float(rows[-1]["of_bias"]) < 1 / 8
    n, peak = ([math.log(float(row[key])) for row in rows] for key in ("n", "peak_mib"))
    assert slope(n, peak) <= 1.1
