"""Longer texts with RoPE: each method is a rule that slows the clocks of a trained model.

A model trained on ``L`` tokens has never seen the angles that longer texts produce. Every method
here answers with another set of frequencies, so that ``s * L`` tokens stay within familiar angles;
YaRN and LongRoPE also make attention a little sharper. What differs is *which* pairs are slowed:

======================  =================  ====================  ========================
method                  fastest pair       slowest pair          depends on the length
======================  =================  ====================  ========================
position interpolation  divided by s       divided by s          no
NTK-aware               unchanged          divided by s          no
dynamic NTK             unchanged          as the length needs   yes
YaRN, llama3            unchanged          divided by s          no
LongRoPE                by a tuned factor  by a tuned factor     yes (two lists)
======================  =================  ====================  ========================

(YaRN and llama3 count turns within ``L`` tokens. With a short ``L`` even the fastest pair may turn
too seldom to be left alone, or the slowest often enough.)

Each function returns :class:`~posenc_tutorial.frequencies.RopeParameters`: frequencies in radians
per token, float64, on the CPU, and the attention factor that multiplies cosine and sine. ``dim``
is the rotated width, which is smaller than the head for models with partial rotary encodings.
Tested against mpmath-checked frequencies, the published values, and ``transformers``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import torch

from .frequencies import RopeParameters, check_base, check_even_dim, inverse_frequencies


def default_rope(dim: int, base: float) -> RopeParameters:
    """Plain RoPE: ``base ** (-2 i / dim)`` for pair ``i``, and an attention factor of 1.

    Source: Su et al. 2021 (arXiv 2104.09864), eq. 15. The starting point of all other methods;
    each of them returns exactly this when there is nothing to extend.

    Args:
        dim: rotated channels, even.
        base: above 0. Called ``rope_theta`` in configuration files.

    Returns:
        RopeParameters with ``(dim/2,)`` frequencies, radians per token.

    Raises:
        TypeError: ``dim`` is not an integer or ``base`` not a number.
        ValueError: ``dim`` is odd or below 2; ``base`` is not a finite number above 0.
    """
    return RopeParameters(inverse_frequencies(dim, base))


def position_interpolation(dim: int, base: float, factor: float) -> RopeParameters:
    """Position interpolation: every frequency divided by ``factor``.

    Token ``p`` gets the angles that token ``p / factor`` had, so positions up to ``s * L`` are
    squeezed into the trained ``0 … L``. Fastest and slowest pair are slowed alike, and neighbours
    become ``factor`` times harder to tell apart. Source: Chen et al. 2023 (arXiv 2306.15595),
    eq. 4; found at the same time by /u/kaiokendev. Configuration files call it ``"linear"``.

    Args:
        dim: rotated channels, even.
        base: above 0.
        factor: ``s``, at least 1. A model for 4096 tokens reads 16384 with ``factor=4``. Some
            programs ask for the inverse, 0.25, as a *frequency scale*; here that is an error.

    Returns:
        RopeParameters with ``(dim/2,)`` frequencies, radians per token, and attention factor 1.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: ``dim`` odd or below 2; ``base`` not above 0; ``factor`` below 1; nan or inf.
    """
    check_factor(factor)
    return RopeParameters(inverse_frequencies(dim, base) / factor)


def ntk_aware(dim: int, base: float, factor: float) -> RopeParameters:
    """NTK-aware scaling: plain RoPE with the base ``base * factor ** (dim / (dim - 2))``.

    The exponent is chosen so that the fastest pair keeps its speed and the slowest is divided by
    exactly ``factor``; pair ``i`` is divided by ``factor ** (2 i / (dim - 2))``. Multiplying the
    base by ``factor`` without the exponent is another method, a plain change of ``rope_theta``.

    Source: /u/bloc97, "NTK-aware scaled RoPE", r/LocalLLaMA, June 2023
    (https://www.reddit.com/r/LocalLLaMA/comments/14lz7j5/); Peng et al. 2023 (arXiv 2309.00071v2),
    eq. 16. Tencent's Hunyuan models use it with a fixed ``alpha`` in the place of ``factor``.

    Args:
        dim: rotated channels, even, at least 4: with a single pair, fastest and slowest coincide.
        base: above 0.
        factor: ``s``, at least 1.

    Returns:
        RopeParameters with ``(dim/2,)`` frequencies, radians per token, and attention factor 1.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: ``dim`` odd or below 4; ``base`` not above 0; ``factor`` below 1; nan or inf,
            also as the new base.
    """
    check_even_dim(dim)
    check_base(base)
    check_factor(factor)
    if dim == 2:
        raise ValueError("dim must be an even integer >= 4 for NTK scaling, got 2: a single pair")
    try:
        new_base = base * factor ** (dim / (dim - 2))
    except OverflowError:
        new_base = math.inf
    if new_base == math.inf:
        raise ValueError(
            "base * factor ** (dim / (dim - 2)) must be a number that float64 holds, "
            f"got base {base:g}, factor {factor:g}, dim {dim}"
        )
    return default_rope(dim, new_base)


DYNAMIC_NTK_VARIANTS = ("transformers", "ratio", "qwen")
"""The formulas of :func:`dynamic_ntk` for the scale at a given length."""


def dynamic_ntk(
    dim: int,
    base: float,
    factor: float,
    original_max_positions: int,
    seq_len: int,
    *,
    variant: str = "transformers",
) -> RopeParameters:
    """Dynamic NTK: NTK-aware scaling by as much as the current text needs, and no more.

    With ``L = original_max_positions`` and ``n = seq_len``, the scale that goes into
    :func:`ntk_aware` is 1 for ``n <= L`` (bit for bit plain RoPE), and beyond that one of

    ==================  ====================================  ==============================
    variant             scale                                 used by
    ==================  ====================================  ==============================
    ``"transformers"``  ``factor * n / L - (factor - 1)``     Hugging Face transformers,
                                                              InternLM2, PaddleNLP; the
                                                              proposal of /u/emozilla
    ``"ratio"``         ``n / L``                             Peng et al. 2023, section 3.3
    ``"qwen"``          ``2 ** ceil(log2(n / L) + 1) - 1``    the first Qwen models
    ==================  ====================================  ==============================

    The fastest pair is unchanged, the slowest divided by the scale. ``"ratio"`` and ``"qwen"``
    leave ``factor`` aside. With ``"qwen"`` the scale is 3 from ``L + 1`` to ``2 L`` tokens, then
    7, and changes seldom. vLLM computes the first formula once, with ``n = factor * L``, and uses
    the result at every length, short texts included: pass that ``seq_len`` to reproduce it.

    Scores depend on the distance alone only if query and keys use one scale. A cache of keys that
    were rotated earlier, at a shorter length, breaks this: keep the keys un-rotated.

    Source: /u/emozilla, "Dynamically scaled RoPE", r/LocalLLaMA, June 2023
    (https://www.reddit.com/r/LocalLLaMA/comments/14mrgpr/); Peng et al. 2023 (arXiv 2309.00071v2),
    section 3.3; ``get_ntk_alpha`` in Qwen-7B's published ``modeling_qwen.py``.

    Args:
        dim: rotated channels, even, at least 4.
        base: above 0.
        factor: at least 1. In the first formula, how eagerly the scale grows beyond ``L``: at
            ``n = 2 L`` it is ``factor + 1``.
        original_max_positions: ``L``, tokens, the length the model was trained on.
        seq_len: ``n``, tokens in the text so far, the cached ones included.
        variant: one of the three names above.

    Returns:
        RopeParameters with ``(dim/2,)`` frequencies, radians per token, and attention factor 1.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: as :func:`ntk_aware`; a length below 1; an unknown variant.
    """
    check_factor(factor)
    check_length("original_max_positions", original_max_positions)
    check_length("seq_len", seq_len)
    ratio = max(1.0, seq_len / original_max_positions)
    if variant == "transformers":
        scale = factor * ratio - (factor - 1) if ratio > 1 else 1.0
    elif variant == "ratio":
        scale = ratio
    elif variant == "qwen":
        scale = 2.0 ** math.ceil(math.log2(ratio) + 1) - 1
    else:
        raise ValueError(f"variant must be one of {DYNAMIC_NTK_VARIANTS}, got {variant!r}")
    return ntk_aware(dim, base, scale)


def yarn(
    dim: int,
    base: float,
    factor: float,
    original_max_positions: int,
    *,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    truncate: bool = True,
) -> RopeParameters:
    """YaRN: leave the fast pairs alone, interpolate the slow ones, and sharpen attention.

    A pair that makes more than ``beta_fast`` turns within ``L = original_max_positions`` tokens
    keeps its speed; one that makes fewer than ``beta_slow`` is divided by ``factor``; between them
    the two are blended. Cosine and sine are multiplied by ``0.1 ln(factor) + 1``, hence attention
    scores by its square.

    This is the form that published models were trained with: the blend is linear in the *pair
    index*, from ``low`` to ``high``, the indices at which a pair makes ``beta_fast`` and
    ``beta_slow`` turns,

    ``index(turns) = dim * ln(L / (2 pi * turns)) / (2 ln base)``.

    The paper's ramp (eqs. 17, 18 and 20) is linear in the *number of turns* instead, which gives
    other values between the same two ends. ``low`` and ``high`` are kept within ``0 … dim - 1``.

    Source: Peng et al. 2023 (arXiv 2309.00071v2), definition 3, eqs. 20 to 22 and the authors'
    code; ``mscale`` and ``mscale_all_dim`` from DeepSeek-V2's published code; ``truncate`` from
    gpt-oss. Tested against transformers.

    Args:
        dim: rotated channels, even.
        base: above 1, since the index formula divides by its logarithm.
        factor: ``s``, at least 1.
        original_max_positions: ``L``, tokens.
        beta_fast: turns within ``L`` above which a pair is left alone.
        beta_slow: turns within ``L`` below which a pair is divided by ``factor``; above 0 and
            at most ``beta_fast``. Kimi K2 states 1 for both: next to no blend.
        attention_factor: replaces ``0.1 ln(factor) + 1``; above 0.
        mscale: with ``mscale_all_dim``, the factor becomes ``g(mscale) / g(mscale_all_dim)``,
            where ``g(m) = 0.1 m ln(factor) + 1`` (:func:`yarn_attention_factor`). Models with
            multi-head latent attention also multiply their softmax scale by
            ``g(mscale_all_dim) ** 2``; that belongs to the model, not to these parameters.
        mscale_all_dim: see ``mscale``. Give both or neither: with one alone, published programs
            disagree about the other.
        truncate: round ``low`` down and ``high`` up to whole pairs. gpt-oss says False.

    Returns:
        RopeParameters with ``(dim/2,)`` frequencies, radians per token, and the factor.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: ``dim`` odd or below 2; ``base`` at most 1; ``factor`` below 1; a length below
            1; ``beta_fast < beta_slow``; one of the two mscales alone; nan or inf.
    """
    plain = inverse_frequencies(dim, base)
    check_factor(factor)
    check_length("original_max_positions", original_max_positions)
    check_ordered("beta_slow", beta_slow, "beta_fast", beta_fast)
    if base <= 1:
        raise ValueError(f"base must be a finite number > 1 for YaRN, got {base}")
    if (mscale is None) != (mscale_all_dim is None):
        raise ValueError(
            f"give mscale and mscale_all_dim both or neither, got {mscale} and {mscale_all_dim}"
        )

    def index(turns: float) -> float:
        return dim * math.log(original_max_positions / (2 * math.pi * turns)) / (2 * math.log(base))

    low, high = index(beta_fast), index(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = (min(max(end, 0), dim - 1) for end in (low, high))
    width = max(high - low, 0.001)  # a step where the two ends meet
    pair = torch.arange(dim // 2, dtype=torch.float64, device="cpu")
    interpolated = ((pair - low) / width).clamp(0, 1)

    if attention_factor is None:
        attention_factor = yarn_attention_factor(factor, 1.0 if mscale is None else mscale)
        if mscale_all_dim is not None:
            attention_factor /= yarn_attention_factor(factor, mscale_all_dim)
    return RopeParameters(_slowed(plain, factor, interpolated), attention_factor)


def yarn_attention_factor(factor: float, mscale: float = 1.0) -> float:
    """YaRN's magnitude ``0.1 * mscale * ln(factor) + 1``, which multiplies cosine and sine.

    Attention scores are multiplied by its square: that is the inverse temperature ``1/t``.
    Source: Peng et al. 2023 (arXiv 2309.00071v2), eq. 22; ``mscale`` from DeepSeek-V2.

    Args:
        factor: ``s``, at least 1.
        mscale: weight of the logarithm, at least 0.

    Returns:
        The magnitude; 1 when there is nothing to extend.

    Raises:
        TypeError: not numbers.
        ValueError: ``factor`` below 1, ``mscale`` below 0, nan or inf.
    """
    check_factor(factor)
    check_number("mscale", mscale, at_least=0.0)
    return 0.1 * mscale * math.log(factor) + 1.0


def llama3(
    dim: int,
    base: float,
    factor: float,
    original_max_positions: int,
    *,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
) -> RopeParameters:
    """Llama 3.1's rule: as YaRN, but the blend is linear in the number of turns.

    A pair that makes more than ``high_freq_factor`` turns within ``L = original_max_positions``
    tokens keeps its speed; one that makes fewer than ``low_freq_factor`` is divided by ``factor``;
    between them the two are blended by the number of turns. This is the ramp of the YaRN paper
    (eq. 18) with other thresholds and without the attention factor.

    Source: ``apply_scaling`` in Meta's reference code
    (https://github.com/meta-llama/llama-models, ``models/llama3``). Tested against transformers.

    Args:
        dim: rotated channels, even.
        base: above 0; 500000 in Llama 3.
        factor: ``s``, at least 1; 8 in Llama 3.1, 32 in the small Llama 3.2 models.
        original_max_positions: ``L``, tokens; 8192 in Llama 3.1.
        low_freq_factor: turns below which a pair is divided; above 0.
        high_freq_factor: turns above which a pair is left alone; at least ``low_freq_factor``.

    Returns:
        RopeParameters with ``(dim/2,)`` frequencies, radians per token, and attention factor 1.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: ``dim`` odd or below 2; ``base`` not above 0; ``factor`` below 1; a length
            below 1; ``high_freq_factor < low_freq_factor``; nan or inf.
    """
    plain = inverse_frequencies(dim, base)
    check_factor(factor)
    check_length("original_max_positions", original_max_positions)
    check_ordered("low_freq_factor", low_freq_factor, "high_freq_factor", high_freq_factor)
    turns = original_max_positions * plain / (2 * math.pi)
    # Equal thresholds make a step: plus or minus infinity, which clamp turns into 1 or 0.
    interpolated = (high_freq_factor - turns) / (high_freq_factor - low_freq_factor)
    return RopeParameters(_slowed(plain, factor, interpolated.clamp(0, 1)))


def longrope(
    dim: int,
    base: float,
    short_factor: Sequence[float],
    long_factor: Sequence[float],
    original_max_positions: int,
    max_positions: int,
    seq_len: int,
    *,
    attention_factor: float | None = None,
) -> RopeParameters:
    """LongRoPE: every pair divided by a factor of its own, found by search.

    There are two lists: the short one serves texts of at most ``original_max_positions`` tokens,
    the long one all longer texts. Fastest and slowest pair are divided by whatever the lists say.
    The attention factor is the same for both, :func:`longrope_attention_factor` of
    ``max_positions / original_max_positions``.

    Since the list depends on the length, a cache of rotated keys goes wrong when a text grows past
    ``original_max_positions``, as with :func:`dynamic_ntk`.

    Source: Ding et al. 2024 (arXiv 2402.13753), section 3, without its un-interpolated first
    tokens, which published models do not use; the attention factor from
    https://github.com/microsoft/LongRoPE. Tested against transformers.

    Args:
        dim: rotated channels, even.
        base: above 0.
        short_factor: ``dim/2`` numbers above 0.
        long_factor: ``dim/2`` numbers above 0.
        original_max_positions: ``L``, tokens.
        max_positions: tokens after the extension, at least ``L``.
        seq_len: tokens in the text so far, the cached ones included.
        attention_factor: replaces the computed one; above 0.

    Returns:
        RopeParameters with ``(dim/2,)`` frequencies, radians per token, and the factor.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: ``dim`` odd or below 2; ``base`` not above 0; a list of the wrong length, or
            with an entry that is not above 0 (named by list and index); a length below 1;
            ``max_positions < original_max_positions``; nan or inf.
    """
    plain = inverse_frequencies(dim, base)
    check_length("original_max_positions", original_max_positions)
    check_length("max_positions", max_positions)
    check_length("seq_len", seq_len)
    if max_positions < original_max_positions:
        raise ValueError(
            f"max_positions must be >= original_max_positions ({original_max_positions}), "
            f"got {max_positions}"
        )
    short_list = _factor_list("short_factor", short_factor, dim // 2)
    long_list = _factor_list("long_factor", long_factor, dim // 2)
    factors = long_list if seq_len > original_max_positions else short_list
    if attention_factor is None:
        attention_factor = longrope_attention_factor(
            max_positions / original_max_positions, original_max_positions
        )
    return RopeParameters(plain / factors, attention_factor)


def longrope_attention_factor(factor: float, original_max_positions: int) -> float:
    """LongRoPE's magnitude ``sqrt(1 + ln(factor) / ln(L))``, which multiplies cosine and sine.

    ``L`` is the *original* length; the extended one in the logarithm gives a smaller number.
    Source: https://github.com/microsoft/LongRoPE.

    Args:
        factor: ``s``, extended over original length, at least 1.
        original_max_positions: ``L``, tokens, at least 2.

    Returns:
        The magnitude; 1 when there is nothing to extend.

    Raises:
        TypeError: not numbers.
        ValueError: ``factor`` below 1 or not finite; ``original_max_positions`` below 2.
    """
    check_factor(factor)
    check_length("original_max_positions", original_max_positions, at_least=2)
    return math.sqrt(1 + math.log(factor) / math.log(original_max_positions))


def proportional(dim: int, base: float, rotary_fraction: float) -> RopeParameters:
    """Proportional RoPE: the frequencies of the full width, of which the slow part stands still.

    The first ``int(rotary_fraction * dim // 2)`` pairs turn as in plain RoPE over the whole
    ``dim``, the others not at all (frequency 0): slow pairs carry content instead of position.
    The fastest pair is unchanged, the slowest at rest.

    Not to be confused with *partial* rotary encodings (GPT-NeoX, GPT-J, Phi), which turn the
    first ``r`` channels as a narrower head of width ``r`` would: exponent ``2 i / r`` instead of
    ``2 i / dim``, and in the half layout other channel pairs as well. Both are in use.

    Source: rope type ``"proportional"`` in transformers, as in Gemma 4's global layers.

    Args:
        dim: channels of the head, even; pairs at rest included.
        base: above 0.
        rotary_fraction: share of pairs that turn, 0 to 1. With 1 this is plain RoPE.

    Returns:
        RopeParameters with ``(dim/2,)`` frequencies, radians per token, and attention factor 1.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: ``dim`` odd or below 2; ``base`` not above 0; ``rotary_fraction`` outside 0…1.
    """
    inv_freq = inverse_frequencies(dim, base)
    check_number("rotary_fraction", rotary_fraction, at_least=0.0)
    if rotary_fraction > 1:
        raise ValueError(f"rotary_fraction must lie between 0 and 1, got {rotary_fraction}")
    inv_freq[int(rotary_fraction * dim // 2) :] = 0.0
    return RopeParameters(inv_freq)


def _slowed(plain: torch.Tensor, factor: float, interpolated: torch.Tensor) -> torch.Tensor:
    """Blend from ``plain`` (where ``interpolated`` is 0) to ``plain / factor`` (where it is 1)."""
    # lerp is exact at both ends, so pairs that are left alone keep their frequency bit for bit.
    return torch.lerp(plain, plain / factor, interpolated)


def check_number(name: str, value: float, *, at_least: float) -> None:
    """Raise unless ``value`` is a finite number of at least ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a finite number >= {at_least:g}, got {value!r}")
    if not at_least <= value <= sys.float_info.max:  # also false for nan
        raise ValueError(f"{name} must be a finite number >= {at_least:g}, got {value}")


def check_factor(factor: float) -> None:
    """Raise unless ``factor`` is a finite number of at least 1: it says how much longer."""
    check_number("factor", factor, at_least=1.0)


MOST_TOKENS = 2**53
"""Whole numbers up to here are exact in float64."""


def check_length(name: str, length: int, *, at_least: int = 1) -> None:
    """Raise unless ``length`` is a whole number of tokens, ``at_least`` up to 2**53."""
    if isinstance(length, bool) or not isinstance(length, int):
        raise TypeError(f"{name} must be an integer >= {at_least} (tokens), got {length!r}")
    if length < at_least:
        raise ValueError(f"{name} must be an integer >= {at_least} (tokens), got {length}")
    if length > MOST_TOKENS:
        raise ValueError(f"{name} must be an integer of at most 2**53 (tokens), got {length}")


def check_ordered(low_name: str, low: float, high_name: str, high: float) -> None:
    """Raise unless ``0 < low <= high``."""
    check_number(low_name, low, at_least=0.0)
    check_number(high_name, high, at_least=0.0)
    if not 0 < low <= high:
        raise ValueError(
            f"0 < {low_name} <= {high_name} must hold, got {low_name}={low}, {high_name}={high}"
        )


def _factor_list(name: str, factors: Sequence[float], pairs: int) -> torch.Tensor:
    if isinstance(factors, str) or not isinstance(factors, Sequence):
        raise TypeError(f"{name} must be a list of {pairs} numbers, got {type(factors).__name__}")
    if len(factors) != pairs:
        raise ValueError(
            f"{name} must have one number for each of the {pairs} pairs, got {len(factors)}"
        )
    for i, value in enumerate(factors):
        check_number(f"{name}[{i}]", value, at_least=0.0)
        if value == 0:
            raise ValueError(f"{name}[{i}] must be a finite number > 0, got {value}")
    return torch.tensor(factors, dtype=torch.float64, device="cpu")
