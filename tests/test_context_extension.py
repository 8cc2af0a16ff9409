"""Context extension: what each method does to the clocks, published values, and bad input."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_tutorial.context_extension import (
    DYNAMIC_NTK_VARIANTS,
    default_rope,
    dynamic_ntk,
    llama3,
    longrope,
    longrope_attention_factor,
    ntk_aware,
    position_interpolation,
    proportional,
    yarn,
    yarn_attention_factor,
)
from posenc_tutorial.frequencies import inverse_frequencies
from posenc_tutorial.rope import RotaryEmbedding, rope_cos_sin, rotate

searched = settings(deadline=None, derandomize=True, max_examples=60)

# One representative call a method: dim 128, base 1e4, factor s, original length 4096.
METHODS = {
    "default": lambda s: default_rope(128, 1e4),
    "position_interpolation": lambda s: position_interpolation(128, 1e4, s),
    "ntk_aware": lambda s: ntk_aware(128, 1e4, s),
    "dynamic_ntk": lambda s: dynamic_ntk(128, 1e4, 1.0, 4096, int(4096 * s)),
    "yarn": lambda s: yarn(128, 1e4, s, 4096),
    "llama3": lambda s: llama3(128, 1e4, s, 4096),
    "longrope": lambda s: longrope(
        128, 1e4, [1.0] * 64, [1 + (s - 1) * i / 63 for i in range(64)], 4096, int(4096 * s), 8000
    ),
    "proportional": lambda s: proportional(128, 1e4, 1.0),
}
widths = st.integers(2, 128).map(lambda pairs: 2 * pairs)
bases = st.floats(100.0, 1e7)
factors = st.floats(1.0, 64.0)
lengths = st.integers(512, 2**18)


def ratio(params, dim, base):
    """Speed of each pair compared with plain RoPE."""
    return params.inv_freq / inverse_frequencies(dim, base)


def close(actual, expected, rel=1e-6):
    return float(actual) == pytest.approx(expected, rel=rel)


# Properties of all methods.


@pytest.mark.parametrize("name", METHODS)
def test_frequencies_are_float64_on_the_cpu_and_fall_from_pair_to_pair(name):
    params = METHODS[name](4.0)
    assert params.inv_freq.dtype == torch.float64
    assert params.inv_freq.device.type == "cpu"
    assert params.inv_freq.shape == (64,)
    assert params.rotary_dim == 128
    assert bool((params.inv_freq.diff() < 0).all())
    assert bool((params.inv_freq > 0).all())


@pytest.mark.parametrize("name", METHODS)
def test_nothing_to_extend_is_plain_rope_bit_for_bit(name):
    params = METHODS[name](1.0)
    assert torch.equal(params.inv_freq, inverse_frequencies(128, 1e4))
    assert params.attention_factor == 1.0


@pytest.mark.parametrize("name", METHODS)
def test_no_pair_gets_faster_and_none_slower_than_interpolation(name):
    change = ratio(METHODS[name](4.0), 128, 1e4)
    assert bool((change <= 1 + 1e-12).all())
    assert bool((change >= 0.25 - 1e-12).all())


@pytest.mark.parametrize("name", METHODS)
def test_a_default_dtype_of_float32_or_float64_makes_no_difference(name):
    expected = METHODS[name](4.0).inv_freq
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(METHODS[name](4.0).inv_freq, expected)
    finally:
        torch.set_default_dtype(before)


def test_frequencies_stay_on_the_cpu_under_another_default_device():
    with torch.device("meta"):
        params = [make(4.0) for make in METHODS.values()]
    for one in params:
        assert one.inv_freq.device.type == "cpu"


# Position interpolation.


@searched
@given(dim=widths, base=bases, factor=factors)
def test_position_interpolation_divides_every_pair_by_the_factor(dim, base, factor):
    change = ratio(position_interpolation(dim, base, factor), dim, base)
    torch.testing.assert_close(change, torch.full_like(change, 1 / factor), rtol=1e-12, atol=0)


def test_position_interpolation_published_values():
    inv_freq = position_interpolation(128, 1e4, 4.0).inv_freq
    assert close(inv_freq[0], 0.25)
    assert close(inv_freq[1], 0.2164911)
    assert close(position_interpolation(128, 5e5, 2.0).inv_freq[1], 0.40731, rel=1e-5)


def test_interpolated_rotation_is_the_plain_rotation_of_the_squeezed_position():
    x = torch.randn(1, 1, 64, 128, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positions = torch.arange(64)
    squeezed = rope_cos_sin(
        positions, position_interpolation(128, 1e4, 4.0).inv_freq, dtype=torch.float64
    )
    plain = rope_cos_sin(positions.double() / 4, inverse_frequencies(128, 1e4), dtype=torch.float64)
    torch.testing.assert_close(rotate(x, *squeezed), rotate(x, *plain), rtol=0, atol=1e-12)


# NTK-aware.


@searched
@given(dim=widths, base=bases, factor=factors)
def test_ntk_leaves_the_fastest_pair_alone_and_divides_the_slowest_by_the_factor(dim, base, factor):
    change = ratio(ntk_aware(dim, base, factor), dim, base)
    assert change[0] == 1.0
    assert close(change[-1], 1 / factor, rel=1e-9)
    pair = torch.arange(dim // 2, dtype=torch.float64)
    torch.testing.assert_close(change, factor ** (-2 * pair / (dim - 2)), rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    "dim, factor, base",
    [
        (128, 2, 20221.2617),
        (128, 4, 40889.9424),
        (128, 8, 82684.6226),
        (64, 8, 85550.3759),
    ],
)
def test_ntk_published_bases(dim, factor, base):
    expected = inverse_frequencies(dim, base)
    torch.testing.assert_close(ntk_aware(dim, 1e4, factor).inv_freq, expected, rtol=1e-7, atol=0)


def test_ntk_is_not_the_base_times_the_factor():
    plain = inverse_frequencies(128, 1e4)[-1]
    assert close(plain / ntk_aware(128, 1e4, 8.0).inv_freq[-1], 8.0, rel=1e-12)
    assert close(plain / default_rope(128, 8e4).inv_freq[-1], 7.7442, rel=1e-5)


# Dynamic NTK.


@searched
@given(
    dim=widths,
    base=bases,
    factor=factors,
    original=st.integers(1, 10**6),
    share=st.floats(0, 1),
    variant=st.sampled_from(DYNAMIC_NTK_VARIANTS),
)
def test_dynamic_ntk_is_plain_rope_up_to_the_original_length(
    dim, base, factor, original, share, variant
):
    for seq_len in (max(1, int(share * original)), original):
        params = dynamic_ntk(dim, base, factor, original, seq_len, variant=variant)
        assert torch.equal(params.inv_freq, inverse_frequencies(dim, base))


@pytest.mark.parametrize(
    "seq_len, base",
    [
        (1024, 10000.0),
        (2048, 10000.0),
        (2049, 10009.9207),
        (3072, 20221.2617),
        (4096, 30527.7367),
        (8192, 72195.86),
    ],
)
def test_dynamic_ntk_published_bases(seq_len, base):
    params = dynamic_ntk(128, 1e4, 2.0, 2048, seq_len)
    torch.testing.assert_close(params.inv_freq, inverse_frequencies(128, base), rtol=1e-6, atol=0)


def test_dynamic_ntk_last_frequency_as_measured_in_transformers():
    assert close(dynamic_ntk(128, 1e4, 2.0, 2048, 2048).inv_freq[-1], 1.15478e-4, rel=1e-5)
    assert close(dynamic_ntk(128, 1e4, 2.0, 2048, 4096).inv_freq[-1], 3.84927e-5, rel=1e-5)


@pytest.mark.parametrize(
    "variant, scales",
    [
        # at n = L + 1, 1.5 L, 2 L, 2 L + 1, 4 L, with L = 2048 and factor 2
        ("transformers", [1 + 2 / 2048, 2.0, 3.0, 3 + 2 / 2048, 7.0]),
        ("ratio", [1 + 1 / 2048, 1.5, 2.0, 2 + 1 / 2048, 4.0]),
        ("qwen", [3.0, 3.0, 3.0, 7.0, 7.0]),
    ],
)
def test_dynamic_ntk_variants_slow_the_slowest_pair_by_their_own_scale(variant, scales):
    for seq_len, scale in zip([2049, 3072, 4096, 4097, 8192], scales, strict=True):
        params = dynamic_ntk(128, 1e4, 2.0, 2048, seq_len, variant=variant)
        change = ratio(params, 128, 1e4)
        assert change[0] == 1.0
        assert close(1 / change[-1], scale, rel=1e-9), seq_len


@pytest.mark.parametrize("variant", DYNAMIC_NTK_VARIANTS)
def test_dynamic_ntk_slows_more_the_longer_the_text(variant):
    slowest = [
        float(dynamic_ntk(64, 1e4, 4.0, 512, n, variant=variant).inv_freq[-1])
        for n in range(256, 4096, 64)
    ]
    assert slowest == sorted(slowest, reverse=True)
    assert len(set(slowest)) > 3


def test_dynamic_ntk_remembers_nothing():
    fresh = {n: dynamic_ntk(128, 1e4, 2.0, 2048, n).inv_freq for n in (100, 2048, 4096)}
    for n in (4096, 2048, 100, 4096):
        assert torch.equal(dynamic_ntk(128, 1e4, 2.0, 2048, n).inv_freq, fresh[n])


def test_a_module_with_dynamic_ntk_remembers_nothing():
    def module():
        return RotaryEmbedding(8, parameters=lambda n: dynamic_ntk(8, 1e4, 2.0, 16, n))

    used = module()
    for n in (32, 16, 5):
        x = torch.ones(1, 1, n, 8, dtype=torch.float64)
        after_longer_texts, _ = used(x, x)
        fresh, _ = module()(x, x)
        assert torch.equal(after_longer_texts, fresh), n


def test_keys_rotated_at_an_older_scale_spoil_the_scores():
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 33, 8, generator=generator, dtype=torch.float64)

    def at(x, position, seq_len):
        inv_freq = dynamic_ntk(8, 1e4, 2.0, 16, seq_len).inv_freq
        cos, sin = rope_cos_sin(torch.tensor([position]), inv_freq, dtype=torch.float64)
        return rotate(x[None], cos, sin)[0]

    query = at(q[32], 32, 33)
    one_scale = torch.stack([query @ at(k[p], p, 33) for p in range(33)])
    cached = torch.stack([query @ at(k[p], p, p + 1) for p in range(33)])
    error = (one_scale - cached).abs()
    agree = (error < 1e-12).nonzero().flatten().tolist()
    assert agree == [0, 32]
    assert float(error.max()) > 0.1


# YaRN.


def test_yarn_published_ratios():
    change = ratio(yarn(128, 1e4, 16.0, 4096), 128, 1e4)
    assert bool((change[:21] == 1).all())
    assert close(change[21], 0.963942)
    assert close(change[33], 0.53125)
    assert close(change[45], 0.0985577)
    torch.testing.assert_close(
        change[46:], torch.full((18,), 1 / 16.0).double(), rtol=1e-14, atol=0
    )


def test_yarn_range_with_and_without_truncation():
    # Pair 17 of gpt-oss-20b: 76 % apart.
    exact = yarn(64, 150000.0, 32.0, 4096, truncate=False)
    rounded = yarn(64, 150000.0, 32.0, 4096, truncate=True)
    assert close(exact.inv_freq[17], 1.293187e-4)
    assert close(rounded.inv_freq[17], 2.279478e-4)
    change = ratio(exact, 64, 150000.0)
    # The ends of the range are 8.0927791 and 17.3980245, so the slope is known.
    interpolated = (1 - change) / (1 - 1 / 32)
    assert bool((interpolated[:9] == 0).all()) and close(interpolated[18], 1.0, rel=1e-12)
    slope = float(interpolated[13] - interpolated[12])
    assert close(1 / slope, 17.3980245 - 8.0927791, rel=1e-6)
    assert close(13 - interpolated[13] / slope, 8.0927791, rel=1e-6)


@pytest.mark.parametrize(
    "factor, expected",
    [(2, 1.0693147), (4, 1.1386294), (8, 1.2079442), (16, 1.2772589), (32, 1.3465736)],
)
def test_yarn_published_attention_factors(factor, expected):
    assert close(yarn(128, 1e4, factor, 4096).attention_factor, expected, rel=1e-7)
    assert close(yarn_attention_factor(factor), expected, rel=1e-7)


def test_yarn_magnitude_sits_in_two_places_with_one_product():
    def logit_factors(mscale, mscale_all_dim, softmax_mscale):
        params = yarn(64, 1e4, 40.0, 4096, mscale=mscale, mscale_all_dim=mscale_all_dim)
        softmax = 1.0 if softmax_mscale is None else yarn_attention_factor(40, softmax_mscale) ** 2
        return params.attention_factor, softmax

    plain = logit_factors(None, None, None)
    deepseek_v3 = logit_factors(1.0, 1.0, 1.0)
    deepseek_v2 = logit_factors(0.707, 0.707, 0.707)
    assert plain[0] ** 2 * plain[1] == pytest.approx(1.8738542, rel=1e-7)
    assert deepseek_v3 == (1.0, pytest.approx(1.8738542, rel=1e-7))
    assert deepseek_v2 == (1.0, pytest.approx(1.5896262, rel=1e-7))
    ratio_of_two = logit_factors(1.0, 0.5, None)[0]
    assert ratio_of_two == pytest.approx((1 + 0.1 * math.log(40)) / (1 + 0.05 * math.log(40)))


def test_yarn_stated_attention_factor_wins():
    params = yarn(64, 1e4, 8.0, 4096, attention_factor=0.9, mscale=1.0, mscale_all_dim=0.5)
    assert params.attention_factor == 0.9


@searched
@given(
    dim=widths,
    base=bases,
    factor=factors,
    original=lengths,
    slow=st.floats(0.1, 8.0),
    more=st.floats(0.5, 60.0),
    truncate=st.booleans(),
)
def test_yarn_interpolates_the_more_the_slower_the_pair(
    dim, base, factor, original, slow, more, truncate
):
    params = yarn(
        dim, base, factor, original, beta_fast=slow + more, beta_slow=slow, truncate=truncate
    )
    change = ratio(params, dim, base)
    assert bool((change <= 1).all())
    assert bool((change >= (1 - 1e-12) / factor).all())
    assert bool((change.diff() <= 1e-12).all())
    assert bool((params.inv_freq.diff() < 0).all())


@searched
@given(dim=widths, base=bases, factor=factors, original=lengths)
def test_yarn_thresholds_count_turns(dim, base, factor, original):
    """Above 32 turns in the original length nothing changes, below 1 turn all is divided."""
    plain = inverse_frequencies(dim, base)
    turns = original * plain / (2 * math.pi)
    change = ratio(yarn(dim, base, factor, original, truncate=False), dim, base)
    assert bool((change[turns > 32.001] == 1).all())
    slow = turns < 0.999
    # The first pair is special: the range starts at pair 0 at the earliest.
    slow[0] = False
    torch.testing.assert_close(
        change[slow], torch.full_like(change[slow], 1 / factor), rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("truncate", [True, False])
def test_yarn_ramp_is_not_turned_round_when_its_ends_leave_the_table(truncate):
    # So short that even the fastest pair makes less than one turn; so long that the slowest
    # makes more than 32: the two clamped ends coincide, and the blend must not run backwards.
    short = ratio(yarn(64, 1e4, 8.0, 4, truncate=truncate), 64, 1e4)
    assert bool((short[1:] < 0.126).all())
    long = ratio(yarn(64, 10.0, 8.0, 2**20, truncate=truncate), 64, 10.0)
    assert bool((long == 1).all())


# Llama 3.


def test_llama3_published_values():
    plain = inverse_frequencies(128, 5e5)
    params = llama3(128, 5e5, 8.0, 8192)
    change = params.inv_freq / plain
    assert torch.equal(params.inv_freq[:29], plain[:29])
    smoothed = torch.tensor([0.82817, 0.64374, 0.49351, 0.37112, 0.27143, 0.19021])
    torch.testing.assert_close(change[29:35], smoothed.double(), rtol=0, atol=1e-5)
    assert torch.equal(params.inv_freq[35:], plain[35:] / 8)
    assert close(params.inv_freq[1], 0.81461723, rel=1e-7)
    assert close(params.inv_freq[28], 0.003211446, rel=1e-6)
    assert close(params.inv_freq[32], 5.2484616e-4, rel=1e-7)
    assert close(params.inv_freq[63], 3.0689260e-7, rel=1e-7)
    assert params.attention_factor == 1.0


def test_llama3_published_values_of_the_1b_model():
    change = ratio(llama3(64, 5e5, 32.0, 8192), 64, 5e5)
    assert bool((change[:15] == 1).all())
    smoothed = torch.tensor([0.60557, 0.30374, 0.10345]).double()
    torch.testing.assert_close(change[15:18], smoothed, rtol=0, atol=1e-5)
    torch.testing.assert_close(
        change[18:], torch.full((14,), 1 / 32.0).double(), rtol=1e-14, atol=0
    )


@searched
@given(
    dim=widths,
    base=bases,
    factor=factors,
    original=lengths,
    low=st.floats(0.1, 8.0),
    more=st.floats(0.5, 60.0),
)
def test_llama3_blends_by_turns_as_metas_loop_does(dim, base, factor, original, low, more):
    high = low + more
    expected = []
    for freq in inverse_frequencies(dim, base).tolist():
        wavelength = 2 * math.pi / freq
        smooth = (original / wavelength - low) / (high - low)
        if wavelength < original / high:
            expected.append(freq)
        elif wavelength > original / low:
            expected.append(freq / factor)
        else:
            expected.append((1 - smooth) * freq / factor + smooth * freq)
    params = llama3(dim, base, factor, original, low_freq_factor=low, high_freq_factor=high)
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(params.inv_freq, expected, rtol=1e-12, atol=0)


# LongRoPE.

SHORT = [1.0 + 0.01 * i for i in range(48)]
LONG = [1.0 + 1.5 * i for i in range(48)]


@pytest.mark.parametrize(
    "seq_len, factors", [(1, SHORT), (4096, SHORT), (4097, LONG), (9999, LONG)]
)
def test_longrope_chooses_a_list_by_length(seq_len, factors):
    params = longrope(96, 1e4, SHORT, LONG, 4096, 131072, seq_len)
    expected = inverse_frequencies(96, 1e4) / torch.tensor(factors, dtype=torch.float64)
    torch.testing.assert_close(params.inv_freq, expected, rtol=1e-15, atol=0)
    assert close(params.attention_factor, 1.1902381, rel=1e-7)


@pytest.mark.parametrize(
    "factor, expected", [(1, 1.0), (4, 1.0801234), (16, 1.1547005), (32, 1.1902381)]
)
def test_longrope_published_attention_factors(factor, expected):
    params = longrope(96, 1e4, SHORT, LONG, 4096, 4096 * factor, 100)
    assert close(params.attention_factor, expected, rel=1e-7)
    assert close(longrope_attention_factor(factor, 4096), expected, rel=1e-7)


def test_longrope_stated_attention_factor_wins():
    params = longrope(96, 1e4, SHORT, LONG, 4096, 131072, 100, attention_factor=1.25)
    assert params.attention_factor == 1.25


def test_longrope_keeps_its_lists_in_double_precision():
    factors = [1.1] * 48
    params = longrope(96, 1e4, factors, factors, 4096, 8192, 100)
    assert float(params.inv_freq[0]) == 1 / 1.1


# Proportional.


def test_proportional_against_partial_rotary():
    params = proportional(8, 1e4, 0.5)
    assert params.inv_freq.tolist() == pytest.approx([1.0, 0.1, 0.0, 0.0])
    x = torch.tensor([0.0, 1.0, 0, 0, 0, 0, 0, 0], dtype=torch.float64)[None]
    one = torch.tensor([1])
    turned = rotate(x, *rope_cos_sin(one, params.inv_freq, dtype=torch.float64))[0]
    assert turned.tolist() == pytest.approx([0, 0.9950, 0, 0, 0, 0.0998, 0, 0], abs=5e-5)
    partial = default_rope(4, 1e4)
    turned = rotate(x, *rope_cos_sin(one, partial.inv_freq, dtype=torch.float64))[0]
    assert turned.tolist() == pytest.approx([0, 1.0000, 0, 0.0100, 0, 0, 0, 0], abs=5e-5)


@searched
@given(dim=widths, base=bases, fraction=st.floats(0, 1))
def test_proportional_turns_the_stated_share_at_plain_speed(dim, base, fraction):
    inv_freq = proportional(dim, base, fraction).inv_freq
    turning = int(fraction * dim // 2)
    assert torch.equal(inv_freq[:turning], inverse_frequencies(dim, base)[:turning])
    assert bool((inv_freq[turning:] == 0).all())


# Bad input: the message names the argument and its value.

FINE = {
    "default_rope": (default_rope, {"dim": 8, "base": 1e4}),
    "position_interpolation": (position_interpolation, {"dim": 8, "base": 1e4, "factor": 2.0}),
    "ntk_aware": (ntk_aware, {"dim": 8, "base": 1e4, "factor": 2.0}),
    "dynamic_ntk": (
        dynamic_ntk,
        {"dim": 8, "base": 1e4, "factor": 2.0, "original_max_positions": 16, "seq_len": 20},
    ),
    "yarn": (yarn, {"dim": 8, "base": 1e4, "factor": 2.0, "original_max_positions": 16}),
    "llama3": (llama3, {"dim": 8, "base": 1e4, "factor": 2.0, "original_max_positions": 16}),
    "longrope": (
        longrope,
        {
            "dim": 8,
            "base": 1e4,
            "short_factor": [1.0] * 4,
            "long_factor": [2.0] * 4,
            "original_max_positions": 16,
            "max_positions": 32,
            "seq_len": 20,
        },
    ),
    "proportional": (proportional, {"dim": 8, "base": 1e4, "rotary_fraction": 0.5}),
}
NUMBERS = ("base", "factor", "rotary_fraction")
BAD_NUMBERS = [(math.nan, ValueError), (math.inf, ValueError), ("2", TypeError), (True, TypeError)]


@pytest.mark.parametrize("name", FINE)
def test_the_good_arguments_are_good(name):
    function, arguments = FINE[name]
    assert function(**arguments).rotary_dim == 8


@pytest.mark.parametrize("name", FINE)
@pytest.mark.parametrize("dim, error", [(7, ValueError), (0, ValueError), (8.0, TypeError)])
def test_bad_dim(name, dim, error):
    function, arguments = FINE[name]
    with pytest.raises(error, match=rf"dim must be .*{dim}"):
        function(**{**arguments, "dim": dim})


@pytest.mark.parametrize("name", FINE)
@pytest.mark.parametrize("base", [0, -1.0])
def test_bad_base(name, base):
    function, arguments = FINE[name]
    with pytest.raises(ValueError, match=f"base must be .*{base}"):
        function(**{**arguments, "base": base})


@pytest.mark.parametrize("value, error", BAD_NUMBERS)
@pytest.mark.parametrize(
    "name, argument", [(n, a) for n, (_, fine) in FINE.items() for a in NUMBERS if a in fine]
)
def test_numbers_must_be_finite_numbers(name, argument, value, error):
    function, arguments = FINE[name]
    with pytest.raises(error, match=f"{argument} must be"):
        function(**{**arguments, argument: value})


@pytest.mark.parametrize("factor", [0.25, 0, -2.0])
@pytest.mark.parametrize("name", [n for n, (_, fine) in FINE.items() if "factor" in fine])
def test_a_factor_below_one_is_refused(name, factor):
    function, arguments = FINE[name]
    with pytest.raises(ValueError, match=f"factor must be a finite number >= 1, got {factor}"):
        function(**{**arguments, "factor": factor})


@pytest.mark.parametrize(
    "base, factor, shown",
    [(1e4, 1e300, "10000, factor 1e.300"), (1e300, 1e9, "1e.300, factor 1e.09")],
)
def test_a_new_base_beyond_float64_is_refused(base, factor, shown):
    with pytest.raises(ValueError, match=f"float64 holds, got base {shown}"):
        ntk_aware(64, base, factor)
    with pytest.raises(ValueError, match="float64 holds, got base 1"):
        dynamic_ntk(64, base, factor, 100, 200)


@pytest.mark.parametrize(
    "value, error", [(0, ValueError), (-5, ValueError), (16.0, TypeError), (True, TypeError)]
)
@pytest.mark.parametrize("argument", ["original_max_positions", "max_positions", "seq_len"])
@pytest.mark.parametrize("name", ["dynamic_ntk", "yarn", "llama3", "longrope"])
def test_lengths_are_whole_numbers_of_tokens(name, argument, value, error):
    function, arguments = FINE[name]
    if argument in arguments:
        with pytest.raises(error, match=f"^{argument} must be an integer >= 1.*got {value}"):
            function(**{**arguments, argument: value})


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("ntk_aware", {"dim": 2}, "dim must be an even integer >= 4"),
        ("dynamic_ntk", {"dim": 2}, "dim must be an even integer >= 4"),
        ("dynamic_ntk", {"variant": "vllm"}, r"variant must be one of .*'ratio'.*'vllm'"),
        ("yarn", {"base": 1.0}, "base must be a finite number > 1 for YaRN, got 1.0"),
        ("yarn", {"base": 0.5}, "base must be a finite number > 1 for YaRN, got 0.5"),
        ("yarn", {"beta_fast": 0.9}, "beta_slow <= beta_fast must hold.*beta_fast=0.9"),
        ("yarn", {"beta_fast": 0.5}, "beta_slow <= beta_fast must hold.*beta_fast=0.5"),
        ("yarn", {"beta_slow": 0.0}, "0 < beta_slow"),
        ("yarn", {"beta_fast": math.nan}, "beta_fast must be a finite number"),
        ("yarn", {"mscale": 0.707}, "both or neither, got 0.707 and None"),
        ("yarn", {"mscale_all_dim": 1.0}, "both or neither, got None and 1.0"),
        ("yarn", {"mscale": -1.0, "mscale_all_dim": 1.0}, "mscale must be a finite number >= 0"),
        ("yarn", {"attention_factor": 0.0}, "attention_factor must be a finite number > 0, got 0"),
        ("yarn", {"attention_factor": math.nan}, "attention_factor must be a finite number"),
        ("llama3", {"low_freq_factor": 4.5}, "low_freq_factor <= high_freq_factor must hold"),
        ("llama3", {"low_freq_factor": 0.0}, "0 < low_freq_factor"),
        ("llama3", {"high_freq_factor": math.inf}, "high_freq_factor must be a finite number"),
        ("longrope", {"short_factor": [1.0] * 3}, "short_factor .* 4 pairs, got 3"),
        ("longrope", {"long_factor": [1.0] * 5}, "long_factor .* 4 pairs, got 5"),
        ("longrope", {"long_factor": [1.0, 2.0, 0.0, 1.0]}, r"long_factor\[2\] must be .*got 0.0"),
        ("longrope", {"short_factor": [1, -2, 1, 1]}, r"short_factor\[1\] must be .*got -2"),
        ("longrope", {"long_factor": [1, 1, 1, math.nan]}, r"long_factor\[3\] must be .*got nan"),
        ("longrope", {"max_positions": 8}, r"max_positions must be >= .*\(16\), got 8"),
        ("longrope", {"attention_factor": -1.0}, "attention_factor must be a finite number > 0"),
        ("proportional", {"rotary_fraction": 1.5}, "rotary_fraction must lie between 0 and 1"),
        ("proportional", {"rotary_fraction": -0.1}, "rotary_fraction must be .*got -0.1"),
    ],
)
def test_bad_values_are_named(name, change, message):
    function, arguments = FINE[name]
    with pytest.raises(ValueError, match=message):
        function(**{**arguments, **change})


@pytest.mark.parametrize("factors", ["1111", 1.0, None, [1.0, "2", 1.0, 1.0]])
def test_longrope_lists_must_be_lists_of_numbers(factors):
    function, arguments = FINE["longrope"]
    with pytest.raises(TypeError, match="long_factor"):
        function(**{**arguments, "long_factor": factors})


def test_longrope_needs_a_length_whose_logarithm_is_not_zero():
    with pytest.raises(ValueError, match="original_max_positions must be an integer >= 2"):
        longrope_attention_factor(2.0, 1)

