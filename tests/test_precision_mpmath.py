"""cos and sin tables against 50-digit arithmetic.

The exact fraction of a turn is computed with integers: the frequency divided by 2 pi, to 160
binary places from mpmath, times the position, modulo one turn.  What is left is below one turn and
float64 is exact enough for it (1e-15).  That makes 100 000 samples cheap, and a sample of them is
checked against mpmath's own cosine.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

from posenc_tutorial.frequencies import inverse_frequencies
from posenc_tutorial.rope import RotaryEmbedding, rope_cos_sin
from posenc_tutorial.sinusoidal import sinusoidal_table

PLACES = 160
LIMIT = 3.1e-8  # half a float32 ulp just below 1 is 2.98e-8
SETTINGS = [(64, 10000.0), (128, 10000.0), (128, 500000.0), (256, 1000000.0), (6, 100.0)]
FAR = 2**20


def sampled_positions() -> torch.Tensor:
    """The first 64, the last 64 up to and including 2^20, powers of two, and 300 at random."""
    random = torch.randint(0, FAR, (300,), generator=torch.Generator().manual_seed(20))
    powers = 2 ** torch.arange(6, 21)
    ends = torch.cat([torch.arange(64), torch.arange(FAR - 63, FAR + 1)])
    return torch.cat([ends, powers - 1, powers, powers + 1, random]).unique().clamp_max(FAR)


def exact_turns(dim: int, base: float) -> list[int]:
    """inv_freq / (2 pi) in units of 2^-160, one integer a pair."""
    with mpmath.workdps(80):
        return [
            int(
                mpmath.nint(
                    mpmath.power(mpmath.mpf(base), mpmath.mpf(-2 * pair) / dim)
                    / (2 * mpmath.pi)
                    * mpmath.mpf(2) ** PLACES
                )
            )
            for pair in range(dim // 2)
        ]


def reference(positions: torch.Tensor, dim: int, base: float) -> tuple[np.ndarray, np.ndarray]:
    turns = np.array(exact_turns(dim, base), dtype=object)
    product = np.array(positions.tolist(), dtype=object)[:, None] * turns[None, :]
    within = (product % (1 << PLACES)) >> (PLACES - 64)
    angle = within.astype(np.float64) * (2 * np.pi / 2.0**64)
    return np.cos(angle), np.sin(angle)


def largest_error(table: torch.Tensor, exact: np.ndarray) -> float:
    return float(np.abs(table.double().numpy() - exact).max())


def test_the_integer_reduction_agrees_with_mpmath():
    positions = torch.tensor([0, 1, 3, 2047, 123457, FAR - 1, FAR, -5])
    for dim, base in SETTINGS:
        cos, sin = reference(positions, dim, base)
        with mpmath.workdps(50):
            for row, position in enumerate(positions.tolist()):
                for pair in {0, 1, dim // 4, dim // 2 - 1}:
                    angle = position * mpmath.power(base, mpmath.mpf(-2 * pair) / dim)
                    assert abs(cos[row, pair] - float(mpmath.cos(angle))) < 2e-15
                    assert abs(sin[row, pair] - float(mpmath.sin(angle))) < 2e-15


def test_the_sample_is_as_large_as_promised():
    positions = sampled_positions()
    assert positions.max() == FAR
    assert sum(len(positions) * (dim // 2) for dim, _ in SETTINGS) >= 100_000


@pytest.mark.parametrize(("dim", "base"), SETTINGS)
def test_rope_tables_are_exact_up_to_one_rounding(dim, base):
    positions = sampled_positions()
    exact_cos, exact_sin = reference(positions, dim, base)
    cos, sin = rope_cos_sin(positions, inverse_frequencies(dim, base))
    assert cos.dtype == sin.dtype == torch.float32
    assert largest_error(cos, exact_cos) <= LIMIT
    assert largest_error(sin, exact_sin) <= LIMIT
    cos, sin = rope_cos_sin(positions, inverse_frequencies(dim, base), dtype=torch.float64)
    assert cos.dtype == sin.dtype == torch.float64
    # What is left in float64 is the rounding of the angle, p * 1.1e-16 relative.
    assert largest_error(cos, exact_cos) <= 1e-9
    assert largest_error(sin, exact_sin) <= 1e-9


@pytest.mark.parametrize(("dim", "base"), SETTINGS)
@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_sinusoidal_tables_are_exact_up_to_one_rounding(dim, base, layout):
    positions = sampled_positions()
    exact_cos, exact_sin = reference(positions, dim, base)
    table = sinusoidal_table(positions, dim, base=base, layout=layout)
    assert table.dtype == torch.float32
    if layout == "interleaved":
        sin, cos = table[:, 0::2], table[:, 1::2]
    else:
        sin, cos = table[:, : dim // 2], table[:, dim // 2 :]
    assert largest_error(cos, exact_cos) <= LIMIT
    assert largest_error(sin, exact_sin) <= LIMIT


def test_negative_positions_are_as_exact():
    positions = -sampled_positions()
    exact_cos, exact_sin = reference(positions, 64, 10000.0)
    cos, sin = rope_cos_sin(positions, inverse_frequencies(64))
    assert largest_error(cos, exact_cos) <= LIMIT
    assert largest_error(sin, exact_sin) <= LIMIT


def test_a_float32_angle_would_fail_this_test():
    """The power of the test: frequencies and product in float32 miss by far more than 1e-2."""
    positions = sampled_positions()
    exact_cos, _ = reference(positions, 128, 10000.0)
    inv_freq = 10000.0 ** (-torch.arange(0, 128, 2, dtype=torch.float32) / 128)
    careless = torch.cos(positions.float()[:, None] * inv_freq)
    assert largest_error(careless, exact_cos) > 1e-2
    # Even a float64 frequency does not help when the product is rounded to float32.
    product = (positions.double()[:, None] * inverse_frequencies(128)).float()
    assert largest_error(torch.cos(product.double()), exact_cos) > 1e-2


def test_a_table_rounded_twice_would_fail_this_test():
    positions = sampled_positions()
    exact_cos, _ = reference(positions, 128, 10000.0)
    cos, _ = rope_cos_sin(positions, inverse_frequencies(128))
    assert largest_error(cos.bfloat16(), exact_cos) > 1e-3


def test_lower_precision_tables_are_rounded_once():
    """bfloat16 within half an ulp just below 1 (1.96e-3), float16 within 2.5e-4."""
    positions = sampled_positions()
    exact_cos, exact_sin = reference(positions, 128, 10000.0)
    for dtype, limit in ((torch.bfloat16, 1.96e-3), (torch.float16, 2.45e-4)):
        cos, sin = rope_cos_sin(positions, inverse_frequencies(128), dtype=dtype)
        assert cos.dtype == sin.dtype == dtype
        assert largest_error(cos, exact_cos) <= limit
        assert largest_error(sin, exact_sin) <= limit


def test_the_module_rotates_by_the_exact_angle_at_two_to_the_twentieth():
    """Through the table of RotaryEmbedding, in float32 and after a cast to bfloat16."""
    positions = torch.tensor([FAR - 1, FAR])
    exact_cos, exact_sin = reference(positions, 4, 10000.0)
    for module in (RotaryEmbedding(4), RotaryEmbedding(4).bfloat16()):
        unit = torch.zeros(1, 1, 2, 4)
        unit[..., :2] = 1.0  # first channel of each pair in the "half" layout
        rotated, _ = module(unit, unit.clone(), positions)
        assert largest_error(rotated[0, 0, :, :2], exact_cos) <= LIMIT
        assert largest_error(rotated[0, 0, :, 2:], exact_sin) <= LIMIT
