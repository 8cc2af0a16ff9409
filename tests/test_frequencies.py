"""Frequencies, wavelengths, angles and the containers around them.

Properties first, then published values, then the ways in which the same few lines go wrong
elsewhere (each with its report).
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_tutorial import frequencies
from posenc_tutorial.frequencies import (
    RopeParameters,
    angles,
    as_positions,
    inverse_frequencies,
    wavelengths,
)

even_dims = st.integers(1, 256).map(lambda half: 2 * half)
bases = st.floats(1.5, 1e7, allow_nan=False, allow_infinity=False)


# Properties


@settings(max_examples=60, deadline=None, derandomize=True)
@given(dim=even_dims, base=bases)
def test_frequencies_form_one_geometric_sequence_that_starts_at_one(dim, base):
    inv_freq = inverse_frequencies(dim, base)
    assert inv_freq.shape == (dim // 2,)
    assert inv_freq.dtype == torch.float64 and inv_freq.device.type == "cpu"
    assert inv_freq[0] == 1.0
    ratio = base ** (-2.0 / dim)
    torch.testing.assert_close(
        inv_freq[1:] / inv_freq[:-1],
        torch.full((dim // 2 - 1,), ratio, dtype=torch.float64),
        rtol=1e-12,
        atol=0,
    )
    # The last frequency is base^(-(dim - 2)/dim), one step before 1/base.
    assert inv_freq[-1].item() == pytest.approx(base ** (-(dim - 2) / dim), rel=1e-12)
    assert bool((inv_freq.diff() < 0).all())
    assert inv_freq.unique().numel() == dim // 2


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    dim=even_dims,
    base=bases,
    positions=st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=9),
)
def test_every_angle_is_position_times_frequency(dim, base, positions):
    inv_freq = inverse_frequencies(dim, base)
    table = angles(torch.tensor(positions), inv_freq)
    assert table.shape == (len(positions), dim // 2) and table.dtype == torch.float64
    for row, position in enumerate(positions):
        for pair in {0, dim // 4, dim // 2 - 1}:
            expected = position * math.pow(base, -2.0 * pair / dim)
            assert table[row, pair].item() == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_wavelengths_are_tokens_per_turn():
    inv_freq = inverse_frequencies(64)
    lengths = wavelengths(inv_freq)
    assert lengths.shape == inv_freq.shape and lengths.dtype == torch.float64
    torch.testing.assert_close(lengths * inv_freq, torch.full_like(inv_freq, 2 * math.pi))
    assert lengths[0].item() == pytest.approx(6.283185307179586, abs=1e-15)
    assert bool((lengths.diff() > 0).all())


def test_a_frequency_of_zero_has_an_infinite_wavelength():
    lengths = wavelengths(torch.tensor([1.0, 0.0], dtype=torch.float64))
    assert lengths[0].item() == pytest.approx(2 * math.pi)
    assert math.isinf(lengths[1].item()) and lengths[1] > 0


INTEGER_DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", [*INTEGER_DTYPES, torch.float32, torch.float64])
def test_angles_are_float64_on_the_cpu_whatever_the_position_dtype(dtype):
    inv_freq = inverse_frequencies(32)
    positions = torch.arange(100)
    table = angles(positions.to(dtype), inv_freq)
    assert table.dtype == torch.float64 and table.device.type == "cpu"
    assert torch.equal(table, angles(positions, inv_freq))


def test_uint8_positions_do_not_wrap():
    """255 * 1.0 in uint8 arithmetic is fine, 255 + 255 or a cast of the frequency is not."""
    inv_freq = torch.tensor([3.0, 0.5], dtype=torch.float64)
    table = angles(torch.tensor([255], dtype=torch.uint8), inv_freq)
    assert table.tolist() == [[765.0, 127.5]]


@pytest.mark.parametrize("shape", [(5,), (2, 5), (3, 2, 5), ()])
def test_angles_keep_the_shape_of_the_positions(shape):
    inv_freq = inverse_frequencies(8)
    positions = torch.randint(0, 1000, shape, generator=torch.Generator().manual_seed(0))
    table = angles(positions, inv_freq)
    assert table.shape == (*shape, 4)
    torch.testing.assert_close(table, positions.double().unsqueeze(-1) * inv_freq, rtol=0, atol=0)


def test_no_two_positions_below_a_million_share_an_angle():
    """Neighbouring rows differ, above 2048 and above 2^19 too (NVIDIA/Megatron-LM issue 535)."""
    inv_freq = inverse_frequencies(64)
    for start in (2046, 4094, 2**19, 2**20 - 4):
        table = angles(torch.arange(start, start + 4), inv_freq)
        assert bool((table.diff(dim=0) > 0).all())


def test_fractional_positions_are_kept():
    """998.3897 rounded to bfloat16 is 1000 (modelscope/DiffSynth-Studio pull 1025)."""
    inv_freq = inverse_frequencies(8)
    exact = angles(torch.tensor([998.3897], dtype=torch.float64), inv_freq)
    assert exact[0, 0].item() == 998.3897
    single = angles(torch.tensor([998.3897], dtype=torch.float32), inv_freq)
    assert abs(single[0, 0].item() - 998.3897) < 5e-5
    assert not torch.allclose(exact, angles(torch.tensor([1000]), inv_freq), atol=1e-3)


def test_autocast_changes_no_angle():
    inv_freq = inverse_frequencies(128)
    positions = torch.arange(4096)
    outside = angles(positions, inv_freq)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside_freq = inverse_frequencies(128)
        inside = angles(positions, inside_freq)
    assert torch.equal(inside_freq, inv_freq)
    assert inside.dtype == torch.float64 and torch.equal(inside, outside)


def test_the_default_dtype_and_device_change_no_frequency():
    """A model is often built under a default dtype of bfloat16, or on the meta device."""
    expected = inverse_frequencies(128)
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        inv_freq = inverse_frequencies(128)
        table = angles(torch.arange(3000), inv_freq)
    finally:
        torch.set_default_dtype(previous)
    assert torch.equal(inv_freq, expected)
    assert torch.equal(table, angles(torch.arange(3000), expected))
    with torch.device("meta"):
        built = inverse_frequencies(128)
    assert built.device.type == "cpu" and torch.equal(built, expected)


# Published values


def test_published_values_for_base_ten_thousand():
    inv_freq = inverse_frequencies(128)
    assert inv_freq[1].item() == pytest.approx(0.86596432, abs=5e-9)
    assert inv_freq[32].item() == pytest.approx(0.01, rel=1e-13)
    assert inv_freq[63].item() == pytest.approx(1.1547820e-4, abs=5e-12)
    assert inverse_frequencies(8).tolist() == pytest.approx([1, 0.1, 0.01, 0.001], rel=1e-13)


def test_published_value_for_base_half_a_million():
    inv_freq = inverse_frequencies(128, 500000.0)
    assert inv_freq[1].item() == pytest.approx(0.81461723, abs=5e-9)
    # The config of a linear factor of 2 at this base: 0.40731 (0.43298 with the base lost).
    assert inv_freq[1].item() / 2 == pytest.approx(0.40731, abs=5e-6)
    assert torch.equal(inv_freq, inverse_frequencies(128, 500000))


def test_published_value_for_width_256():
    """The ratio is base^(-2/256) = 0.9306, not e^-2 (zju3dv/LoFTR issue 41)."""
    inv_freq = inverse_frequencies(256)
    assert (inv_freq[1] / inv_freq[0]).item() == pytest.approx(0.9306, abs=5e-5)


def test_published_values_for_partial_rotary():
    """head 128 with a quarter rotated has width 32: the second frequency is 0.56234."""
    assert inverse_frequencies(32)[1].item() == pytest.approx(0.56234, abs=5e-6)


def test_half_precision_would_spoil_the_angle():
    """d=32, position 1857, pair 1: 1044.2678, not 1045 or 1040 (EleutherAI/gpt-neox 1003)."""
    table = angles(torch.tensor([1857]), inverse_frequencies(32))
    assert table[0, 1].item() == pytest.approx(1044.2678, abs=5e-4)


# Bad input: the message names the value


@pytest.mark.parametrize("dim", [-2, 0, 1, 3, 127])
def test_width_must_be_even_and_at_least_two(dim):
    with pytest.raises(ValueError, match=rf"(?<!\d){dim}\b"):
        inverse_frequencies(dim)


@pytest.mark.parametrize("dim", [8.0, 64.5, "64", True, None])
def test_width_must_be_an_integer(dim):
    with pytest.raises((TypeError, ValueError), match=str(dim)):
        inverse_frequencies(dim)


def test_a_float_width_is_a_type_error():
    with pytest.raises(TypeError, match=r"64\.0"):
        inverse_frequencies(64.0)
    with pytest.raises(TypeError, match="True"):
        inverse_frequencies(True)


@pytest.mark.parametrize("base", [0.0, -1.0, -10000.0, math.inf, math.nan])
def test_base_must_be_positive_and_finite(base):
    shown = {0.0: "0", -1.0: "-1", -10000.0: "-10000"}.get(base, str(base))
    with pytest.raises(ValueError, match=shown):
        inverse_frequencies(8, base)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.bool, torch.complex64])
def test_positions_that_cannot_hold_integers_are_rejected(dtype):
    """bfloat16 has no 257 and float16 no 2049 (NVIDIA/Megatron-LM issue 535)."""
    positions = torch.zeros(4).to(dtype)
    with pytest.raises(TypeError, match=str(dtype).removeprefix("torch.")):
        angles(positions, inverse_frequencies(8))
    with pytest.raises(TypeError, match=str(dtype).removeprefix("torch.")):
        as_positions(positions)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_positions_that_are_not_finite_are_rejected(bad):
    with pytest.raises(ValueError, match="finite"):
        as_positions(torch.tensor([0.0, bad]))


@pytest.mark.parametrize("bad", [[0, 1, 2], 7, None, range(3)])
def test_positions_must_be_a_tensor(bad):
    with pytest.raises(TypeError, match=type(bad).__name__):
        as_positions(bad)


@pytest.mark.parametrize("dtype", [*INTEGER_DTYPES, torch.float32, torch.float64])
def test_accepted_positions_come_back_with_the_same_values(dtype):
    positions = torch.tensor([[0, 1], [7, 100]]).to(dtype)
    assert torch.equal(as_positions(positions).double(), positions.double())


# RopeParameters


def test_rope_parameters_hold_float64_on_the_cpu():
    parameters = RopeParameters(torch.tensor([1.0, 0.25], dtype=torch.float32))
    assert parameters.inv_freq.dtype == torch.float64
    assert parameters.inv_freq.device.type == "cpu"
    assert parameters.attention_factor == 1.0
    assert parameters.rotary_dim == 4
    assert RopeParameters(inverse_frequencies(64), 1.25).attention_factor == 1.25


def test_rope_parameters_are_frozen():
    parameters = RopeParameters(inverse_frequencies(8))
    with pytest.raises((AttributeError, TypeError)):
        parameters.attention_factor = 2.0


def test_rope_parameters_allow_frequencies_of_zero():
    """The "proportional" form leaves trailing pairs still: their frequency is zero."""
    parameters = RopeParameters(torch.tensor([1.0, 0.0], dtype=torch.float64))
    assert parameters.inv_freq.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "inv_freq",
    [
        torch.ones(2, 2, dtype=torch.float64),
        torch.tensor(1.0),
        torch.tensor([1.0, -0.5]),
        torch.tensor([1.0, math.nan]),
        torch.tensor([1.0, math.inf]),
    ],
)
def test_rope_parameters_reject_what_is_no_list_of_frequencies(inv_freq):
    with pytest.raises(ValueError, match="inv_freq"):
        RopeParameters(inv_freq)


def test_rope_parameters_reject_a_list():
    with pytest.raises(TypeError, match="list"):
        RopeParameters([1.0, 0.5])


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf])
def test_rope_parameters_reject_a_factor_without_meaning(factor):
    with pytest.raises(ValueError, match="attention_factor"):
        RopeParameters(inverse_frequencies(8), factor)


def test_a_later_change_of_the_source_tensor_does_not_reach_the_parameters():
    source = inverse_frequencies(8)
    parameters = RopeParameters(source)
    source.zero_()
    assert parameters.inv_freq[0] == 1.0


def test_importing_the_module_runs_no_torch_call():
    """Nothing at module level is a tensor: the API pages are built with torch mocked."""
    for name, value in vars(frequencies).items():
        assert not isinstance(value, torch.Tensor), name
