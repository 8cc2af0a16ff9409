"""Counting passes over memory, and the stored benchmark that chapter 12 draws."""

from __future__ import annotations

import pytest
import torch

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


def test_the_stored_benchmark_has_what_the_chapter_draws():
    assert {row["what"] for row in measured("machine")} >= {"copy speed", "matmul speed"}
    for dtype in ("float32", "bfloat16"):
        rows = measured("rope forward", dtype=dtype, n=8192)
        ways = {row["what"] for row in rows}
        assert {"copy_", "clone", "numba, out=", "transformers, eager"} <= ways
        assert all(float(row["ratio_copy"]) == 1 for row in rows if row["what"] == "copy_")
    assert len(measured("share of a layer", n=2048)) == 3
    with pytest.raises(ValueError, match="no row"):
        measured("rope forward", n=7)
