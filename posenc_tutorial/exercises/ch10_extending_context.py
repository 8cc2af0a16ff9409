"""Exercises of chapter 10: bases, ramps, dynamic scales, factors that count twice, and caches."""

from __future__ import annotations

import math
from functools import lru_cache

import torch

from ..attention import KeyValueCache
from ..context_extension import dynamic_ntk, ntk_aware, yarn_attention_factor
from ..frequencies import inverse_frequencies
from ..lm.model import LanguageModel
from ..rope import RotaryEmbedding
from .registry import Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"
BASE = 10000.0


# The new base


def _ntk_base(
    head_dim: int,
    rotary_dim: int,
    base: float,
    factor: float,
    *,
    bare: bool = False,
    whole_head: bool = False,
    pairs: bool = False,
    upside_down: bool = False,
    one_less: bool = False,
    divided: bool = False,
    times_exponent: bool = False,
) -> float:
    d = head_dim if whole_head else rotary_dim
    if pairs:
        d = d // 2
    exponent = d / (d - (1 if one_less else 2))
    if upside_down:
        exponent = 1 / exponent
    if bare:
        exponent = 1.0
    power = factor * exponent if times_exponent else factor**exponent
    return base / power if divided else base * power


NTK_BASE = Implement(
    name="ntk_base",
    title="The new base",
    chapter=10,
    difficulty=1,
    importance=3,
    minutes=8,
    points=2,
    signature="def ntk_base(head_dim, rotary_dim, base, factor):",
    make_inputs=lambda: [
        (128, 128, BASE, 4.0),
        (64, 32, BASE, 8.0),
        (80, 20, 500000.0, 2.0),
        (256, 64, BASE, 1.0),
    ],
    tolerance=lambda head_dim, rotary_dim, base, factor: 1e-5 * base,
    reference=_ntk_base,
    hints=(
        "The slowest pair is to be divided by the factor. Which exponent does it have?",
        "Its speed is base ** (-(r - 2) / r), with r the channels that turn. Solve for the base.",
        "For 128 channels, base 10,000 and factor 4 the result is a little more than 40,000.",
    ),
    mistakes=(
        Mistake(
            "bare",
            "the base is multiplied by the factor alone, so the slowest pair is slowed by less "
            "than the factor; the exponent is missing",
            GITHUB + "oobabooga/textgen/pull/3452",
            excludes=("whole_head", "pairs", "upside_down", "one_less", "times_exponent"),
        ),
        Mistake(
            "whole_head",
            "the exponent counts the channels of the whole head; only those that turn are a RoPE "
            "of their own",
            GITHUB + "vllm-project/vllm/pull/30384",
        ),
        Mistake(
            "pairs",
            "the exponent counts pairs where it should count channels",
            GITHUB + "rasbt/LLMs-from-scratch/issues/410",
            excludes=("one_less",),
        ),
        Mistake(
            "upside_down",
            "the exponent is upside down: it should be a little more than 1",
            GITHUB + "turboderp/exllama/pull/118",
        ),
        Mistake(
            "one_less",
            "the exponent is d / (d - 1): the slowest pair is two channels from the end, not one",
            GITHUB + "tensorflow/tensor2tensor/issues/1423",
        ),
        Mistake(
            "divided",
            "the base becomes smaller, which makes the slow pairs faster",
            GITHUB + "ggml-org/llama.cpp/issues/2402",
        ),
        Mistake(
            "times_exponent",
            "the factor is multiplied by the exponent; it should be raised to it",
            GITHUB + "oobabooga/textgen/pull/3452",
        ),
    ),
)


# NTK by parts, as published


def _by_parts(
    dim: int,
    base: float,
    factor: float,
    length: int,
    slow: float,
    fast: float,
    *,
    upside_down: bool = False,
    extended: bool = False,
    multiplied: bool = False,
    by_index: bool = False,
    wavelengths_blended: bool = False,
    unclamped: bool = False,
    radians: bool = False,
    new_base: bool = False,
    step: bool = False,
) -> torch.Tensor:
    plain = inverse_frequencies(dim, base)
    if extended:
        length = int(length * factor)
    turns = length * plain / (1 if radians else 2 * math.pi)
    if by_index:
        alone = (turns / slow).log() / math.log(fast / slow)
    else:
        alone = (turns - slow) / (fast - slow)
    if not unclamped:
        alone = alone.clamp(0, 1)
    if step:
        alone = (turns >= slow).double()
    if upside_down:
        alone = 1 - alone
    keep = ntk_aware(dim, base, factor).inv_freq if new_base else plain
    slowed = plain * factor if multiplied else plain / factor
    if wavelengths_blended:
        return 1 / (alone / keep + (1 - alone) / slowed)
    return alone * keep + (1 - alone) * slowed


BY_PARTS = Implement(
    name="by_parts",
    title="NTK by parts, as published",
    chapter=10,
    difficulty=2,
    importance=3,
    minutes=12,
    points=3,
    signature="def by_parts(dim, base, factor, length, slow, fast):",
    make_inputs=lambda: [
        (64, BASE, 4.0, 2048, 1.0, 32.0),
        (32, BASE, 8.0, 64, 1.0, 4.0),
        (128, 500000.0, 8.0, 8192, 1.0, 4.0),
        (48, BASE, 2.0, 4096, 2.0, 16.0),
    ],
    tolerance=2e-6,
    any_float=True,
    reference=_by_parts,
    hints=(
        "How many turns does each pair make within the trained length?",
        "From `slow` to `fast` turns the share that is left alone grows from 0 to 1 in a straight "
        "line; outside it is 0 or 1.",
        "With dim 32, base 10,000, factor 8, length 64 and thresholds 1 and 4, the first two of "
        "sixteen pairs keep their speed and all from the sixth on are divided by 8.",
    ),
    mistakes=(
        Mistake(
            "upside_down",
            "the ramp is upside down: fast pairs are divided, slow ones are left alone",
            GITHUB + "jquesnelle/yarn/issues/60",
        ),
        Mistake(
            "extended",
            "turns are counted within the extended length; what the pairs have seen is decided by "
            "the trained one",
            GITHUB + "NVIDIA/Megatron-LM/issues/1418",
            excludes=("step",),
        ),
        Mistake(
            "multiplied",
            "slow pairs become faster by the factor; they should be divided by it",
            GITHUB + "ggml-org/llama.cpp/issues/2402",
        ),
        Mistake(
            "by_index",
            "this ramp is linear in the index of the pair, as in the code of YaRN; asked for is "
            "the published one, linear in the number of turns",
            GITHUB + "jquesnelle/yarn/issues/60",
            excludes=("step",),
        ),
        Mistake(
            "wavelengths_blended",
            "the wavelengths are blended; it should be the speeds",
            GITHUB + "jquesnelle/yarn/issues/24",
            excludes=("step",),
        ),
        Mistake(
            "unclamped",
            "the ramp goes on below 0 and above 1; the share has to be cut off there",
            GITHUB + "jquesnelle/yarn/issues/65",
            excludes=("step",),
        ),
        Mistake(
            "radians",
            "radians are counted where turns are asked for: a turn has 2 pi of them",
            "claim 16",
        ),
        Mistake(
            "new_base",
            "pairs that should be left alone get NTK-aware speeds; by parts keeps the old base",
            GITHUB + "paiml/aprender/pull/2161",
        ),
        Mistake(
            "step",
            "there is no blend between the thresholds: pairs are either left alone or divided",
            GITHUB + "lablup/mlxcel/issues/1355",
        ),
    ),
)


# The ends of YaRN's ramp


def _ramp_ends(
    dim: int,
    base: float,
    length: int,
    slow: float,
    fast: float,
    truncate: bool,
    *,
    always_rounded: bool = False,
    never_rounded: bool = False,
    nearest: bool = False,
    inwards: bool = False,
    floored: bool = False,
    ceiled: bool = False,
    towards_zero: bool = False,
    inverted: bool = False,
    channels: bool = False,
    no_turn: bool = False,
    clamped: bool = False,
    swapped: bool = False,
    swapped_first: bool = False,
) -> list[float]:
    def index(turns: float) -> float:
        around = 1.0 if no_turn else 2 * math.pi
        of = dim if channels else dim / 2
        return of * math.log(length / (around * turns)) / math.log(base)

    low, high = index(fast), index(slow)
    if swapped_first:
        low, high = high, low
    rounded = (truncate != inverted or always_rounded) and not never_rounded
    if rounded:
        if nearest:
            low, high = round(low), round(high)
        elif towards_zero:
            low, high = math.trunc(low), math.ceil(high)
        else:
            down, up = math.floor, math.ceil
            if inwards:
                down, up = up, down
            low, high = (up if ceiled else down)(low), (down if floored else up)(high)
    if clamped:
        low, high = max(low, 0), min(high, dim // 2 - 1)
    return [high, low] if swapped else [low, high]


#: Ways to round, of which one answer has one.
_ROUNDINGS = ("nearest", "inwards", "floored", "ceiled", "towards_zero")

RAMP_ENDS = Implement(
    name="ramp_ends",
    title="Where YaRN's ramp begins and ends",
    chapter=10,
    difficulty=2,
    importance=2,
    minutes=10,
    points=2,
    signature="def ramp_ends(dim, base, length, slow, fast, truncate):",
    make_inputs=lambda: [
        (128, BASE, 4096, 1.0, 32.0, True),
        (64, 150000.0, 4096, 1.0, 32.0, False),
        (96, BASE, 8192, 2.0, 16.0, True),
        (128, 1000000.0, 32768, 1.0, 32.0, False),
        (32, BASE, 64, 1.0, 32.0, True),
        (32, BASE, 64, 1.0, 32.0, False),
    ],
    tolerance=1e-3,
    reference=_ramp_ends,
    hints=(
        "Solve turns = L / (2 pi) * b ** (-2 i / d) for i.",
        "The fast end has the small index. If the ends are rounded, the ramp becomes wider, not "
        "narrower.",
        "For 128 channels, base 10,000 and 4,096 tokens the ends are 20.9 and 45.0, before "
        "rounding.",
    ),
    mistakes=(
        Mistake(
            "always_rounded",
            "the ends are rounded although truncate is False",
            GITHUB + "vllm-project/vllm/issues/27722",
            excludes=("never_rounded", "inverted"),
        ),
        Mistake(
            "never_rounded",
            "the ends are not rounded although truncate is True",
            GITHUB + "vllm-project/vllm/issues/27722",
            excludes=(*_ROUNDINGS, "inverted"),
        ),
        Mistake(
            "nearest",
            "the ends are rounded to the nearest pair; the low one goes down and the high one up",
            GITHUB + "jingyaogong/minimind/issues/602",
            excludes=_ROUNDINGS[1:],
        ),
        Mistake(
            "inwards",
            "the low end is rounded up and the high one down; the ramp should become wider",
            GITHUB + "jingyaogong/minimind/issues/602",
            excludes=(*_ROUNDINGS[2:], "swapped"),
        ),
        Mistake(
            "floored",
            "both ends are rounded down; the high one goes up, so that the ramp becomes wider",
            GITHUB + "jingyaogong/minimind/issues/602",
            excludes=_ROUNDINGS[3:],
        ),
        Mistake(
            "ceiled",
            "both ends are rounded up; the low one goes down, so that the ramp becomes wider",
            GITHUB + "jingyaogong/minimind/issues/602",
            excludes=_ROUNDINGS[4:],
        ),
        Mistake(
            "towards_zero",
            "the low end is rounded towards zero, which is upwards where it is negative",
            GITHUB + "jingyaogong/minimind/issues/602",
            excludes=("no_turn",),
        ),
        Mistake(
            "inverted",
            "the ends are rounded where truncate is False, and not where it is True",
            GITHUB + "vllm-project/vllm/issues/27722",
        ),
        Mistake(
            "channels",
            "the index is that of a channel; a pair has two of them",
            GITHUB + "jquesnelle/yarn/issues/65",
        ),
        Mistake(
            "no_turn",
            "the length is not divided by 2 pi, so radians are counted and not turns",
            "claim 16",
        ),
        Mistake(
            "clamped",
            "the ends are cut off at the ends of the head; asked for is where they would be",
            GITHUB + "jquesnelle/yarn/issues/65",
            excludes=("towards_zero", "no_turn"),
        ),
        Mistake(
            "swapped",
            "low and high are exchanged: pairs with many turns come first",
            GITHUB + "jquesnelle/yarn/issues/60",
        ),
        Mistake(
            "swapped_first",
            "low and high are exchanged, and then rounded: pairs with many turns come first",
            GITHUB + "jquesnelle/yarn/issues/60",
            excludes=(*_ROUNDINGS, "never_rounded", "clamped", "swapped"),
        ),
    ),
)


# The base of the moment


def _dynamic_base(
    dim: int,
    base: float,
    factor: float,
    trained: int,
    n: int,
    *,
    below: bool = False,
    ratio: bool = False,
    from_the_maximum: bool = False,
    no_offset: bool = False,
    bare: bool = False,
    times_factor: bool = False,
    whole_lengths: bool = False,
    jump: bool = False,
    qwen: bool = False,
    upside_down: bool = False,
) -> float:
    if from_the_maximum:
        n = int(factor * trained)
    length = n / trained
    if whole_lengths:
        length = float(math.ceil(length))
    if not below:
        length = max(length, 1.0)
    scale = factor * length - (0.0 if no_offset else factor - 1)
    if ratio:
        scale = length
    if times_factor:
        scale = factor
    if no_offset and n <= trained and not below:
        scale = 1.0
    if jump:
        scale = factor if n > trained else 1.0
    if qwen:
        scale = 2.0 ** math.ceil(math.log2(length) + 1) - 1
    exponent = (dim - 2) / dim if upside_down else dim / (dim - 2)
    power = scale if bare else math.copysign(abs(scale) ** exponent, scale)
    return base * power


#: Mistakes that put another scale in the place of the right one.
_SCALES = ("below", "ratio", "from_the_maximum", "no_offset", "times_factor", "whole_lengths")

DYNAMIC_BASE = Implement(
    name="dynamic_base",
    title="The base of the moment",
    chapter=10,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    signature="def dynamic_base(dim, base, factor, trained, n):",
    make_inputs=lambda: [
        (128, BASE, 2.0, 2048, 1500),
        (128, BASE, 2.0, 2048, 2048),
        (128, BASE, 2.0, 2048, 5000),
        (64, 500000.0, 3.0, 4096, 9000),
    ],
    tolerance=lambda dim, base, factor, trained, n: 1e-4 * base,
    reference=_dynamic_base,
    hints=(
        "What is the scale for a text of 1,500 tokens, if the model was trained on 2,048?",
        "Beyond the trained length the scale is the first of the three formulas in the chapter; "
        "then the base as in NTK-aware scaling.",
        "dynamic_base(128, 10000.0, 2.0, 2048, 4096) is 30527.74.",
    ),
    mistakes=(
        Mistake(
            "below",
            "a text shorter than the trained length gets another base as well; nothing may change "
            "there",
            GITHUB + "vllm-project/vllm/issues/3488",
            excludes=("from_the_maximum", "times_factor", "whole_lengths"),
        ),
        Mistake(
            "ratio",
            "the scale is n / L; asked for is the formula of transformers, with the factor",
            GITHUB + "huggingface/transformers/issues/25104",
            excludes=("no_offset", "times_factor"),
        ),
        Mistake(
            "from_the_maximum",
            "the length of the text has no effect: the base is computed once, for the longest one",
            GITHUB + "vllm-project/vllm/issues/5093",
            excludes=("times_factor", "whole_lengths", "ratio"),
        ),
        Mistake(
            "no_offset",
            "the scale jumps from 1 to the factor right after the trained length: something has "
            "to be subtracted",
            GITHUB + "vllm-project/vllm/issues/41236",
            excludes=("times_factor",),
        ),
        Mistake(
            "bare",
            "the base is multiplied by the scale without the exponent",
            GITHUB + "oobabooga/textgen/pull/3452",
            excludes=("upside_down",),
        ),
        Mistake(
            "upside_down",
            "the exponent is upside down: it should be a little more than 1",
            GITHUB + "turboderp/exllama/pull/118",
        ),
        Mistake(
            "jump",
            "beyond the trained length the scale is the factor, whatever the length; it should "
            "grow with the text",
            GITHUB + "vllm-project/vllm/issues/41236",
            excludes=(*_SCALES, "qwen"),
        ),
        Mistake(
            "qwen",
            "the scale is that of Qwen, which moves in steps; asked for is the formula of "
            "transformers, with the factor",
            GITHUB + "InternLM/lmdeploy/issues/536",
            excludes=_SCALES,
        ),
        Mistake(
            "times_factor",
            "this is NTK-aware scaling with a fixed factor, at every length",
            GITHUB + "vllm-project/vllm/issues/3488",
            excludes=("whole_lengths",),
        ),
        Mistake(
            "whole_lengths",
            "the length is rounded up to whole multiples of the trained one, so the scale moves "
            "in steps",
            GITHUB + "InternLM/lmdeploy/issues/536",
        ),
    ),
)


# Once, twice, or three times


def _score_factors(
    *,
    once: bool = False,
    fourth: bool = False,
    cancelled: bool = False,
    second_half_forgotten: bool = False,
) -> list[float]:
    g1, g7 = yarn_attention_factor(40.0), yarn_attention_factor(40.0, 0.707)
    plain = g1 if once else g1**4 if fourth else g1**2
    # Both settings 1: cosines and sines get 1, the softmax scale g(1) ** 2.
    both_one = 1.0 if second_half_forgotten else g1 if once else g1**2
    both_less = 1.0 if second_half_forgotten else g7 if once else g7**2
    if cancelled:
        plain = 1.0
    # The softmax scale multiplies the channels that are not rotated as well.
    return [round(value, 2) for value in (plain, both_one, both_less, both_less)]


SCORE_FACTORS = Predict(
    name="score_factors",
    title="Once, twice or three times",
    chapter=10,
    difficulty=2,
    importance=3,
    minutes=8,
    points=2,
    reference=_score_factors,
    tolerance=0.011,
    parts=("plain YaRN", "both settings 1", "both 0.707, rotated", "both 0.707, not rotated"),
    hints=(
        "A score is a product. In which of its two factors is the attention factor?",
        "With two equal settings, cosines and sines get 1, and the softmax scale gets the square "
        "of g. The softmax scale multiplies all channels.",
        "0.1 ln 40 + 1 is 1.3689.",
    ),
    mistakes=(
        Mistake(
            "once",
            "the attention factor is counted once; it is in the query and in the key",
            GITHUB + "turboderp-org/exllamav3/issues/259",
            excludes=("fourth",),
        ),
        Mistake(
            "fourth",
            "plain YaRN: squared once too often; it enters twice by itself, and the softmax scale "
            "stays as it is",
            GITHUB + "guoqingbao/xinfer/pull/329",
            excludes=("cancelled",),
        ),
        Mistake(
            "cancelled",
            "plain YaRN: without the two settings nothing cancels",
            GITHUB + "turboderp-org/exllamav3/issues/259",
            excludes=("once",),
        ),
        Mistake(
            "second_half_forgotten",
            "with both settings cosines and sines get 1, but the softmax scale gets its part",
            GITHUB + "onnxruntime/mobius/pull/548",
        ),
    ),
)


# Which way of decoding equals a fresh pass


@lru_cache(maxsize=1)
def _decoded_like_fresh() -> tuple[bool, ...]:
    """Six ways to decode, and whether the last logits equal those of a fresh pass."""
    trained, n = 8, 14

    def rule(length: int):
        return dynamic_ntk(16, BASE, 4.0, trained, length)

    dynamic = RotaryEmbedding(16, parameters=rule)

    class Stale(RotaryEmbedding):
        """Keys keep the rotation that they got when they were new."""

        length_dependent = False

        def rotate_query_key(self, q, k, q_positions, k_positions):
            return dynamic.rotate_query_key(q, k, q_positions, k_positions)

    generator = torch.Generator(device="cpu").manual_seed(101)
    text = torch.randint(256, (1, n), generator=generator, device="cpu")

    def net(encoding, layers: int) -> LanguageModel:
        # The global generator decides the weights; what it was is put back.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            made = LanguageModel(encoding, dim=32, num_layers=layers, num_heads=2)
        return made.double()

    def equal(encoding, layers: int, length: int, judge=None) -> bool:
        stepwise = net(encoding, layers)
        caches = [KeyValueCache() for _ in stepwise.blocks]
        for t in range(length):
            last = stepwise(text[:, t : t + 1], caches=caches)[0, -1]
        fresh = net(judge or encoding, layers)(text[:, :length])[0, -1]
        return bool((last - fresh).abs().max() < 1e-9)

    with torch.no_grad():
        return (
            equal(Stale(16), 1, n, dynamic),
            equal(Stale(16), 1, trained, dynamic),
            equal(dynamic, 1, n),
            equal(dynamic, 2, n),
            equal(RotaryEmbedding(16, parameters=rule(n)), 2, n),
            equal(RotaryEmbedding(16), 2, n),
        )


def _same_as_fresh(
    *,
    stale_harmless: bool = False,
    stale_short_wrong: bool = False,
    raw_one_wrong: bool = False,
    raw_two_right: bool = False,
    fixed_wrong: bool = False,
    plain_wrong: bool = False,
) -> list[bool]:
    flips = [
        stale_harmless,
        stale_short_wrong,
        raw_one_wrong,
        raw_two_right,
        fixed_wrong,
        plain_wrong,
    ]
    return [value != flip for value, flip in zip(_decoded_like_fresh(), flips, strict=True)]


SAME_AS_FRESH = Predict(
    name="same_as_fresh",
    title="Token by token",
    chapter=10,
    difficulty=3,
    importance=3,
    minutes=10,
    points=2,
    reference=_same_as_fresh,
    parts=(
        "turned keys cached, 14 tokens",
        "turned keys cached, 8 tokens",
        "un-turned keys, one layer",
        "un-turned keys, two layers",
        "speeds fixed for 14 tokens",
        "plain RoPE",
    ),
    hints=(
        "Up to the trained length the scale is 1. When does a cached key have another speed than "
        "the query?",
        "Un-turned keys are turned right. What were they made from, in the second layer?",
    ),
    mistakes=(
        Mistake(
            "stale_harmless",
            "turned keys cached, 14 tokens: the older keys were turned with the speeds of a "
            "shorter text",
            GITHUB + "huggingface/transformers/issues/25104",
        ),
        Mistake(
            "stale_short_wrong",
            "turned keys cached, 8 tokens: up to the trained length nothing has changed between "
            "the first key and the last",
            "claim 14",
        ),
        Mistake(
            "raw_one_wrong",
            "un-turned keys, one layer: all keys are turned anew with the speeds of the moment, "
            "and their inputs are the embeddings, which do not change",
            "claim 14",
        ),
        Mistake(
            "raw_two_right",
            "un-turned keys, two layers: the second layer's keys were made from outputs that the "
            "first layer computed with older speeds",
            GITHUB + "huggingface/transformers/issues/25104",
        ),
        Mistake(
            "fixed_wrong",
            "speeds fixed for 14 tokens: nothing depends on the moment any more, so every cached "
            "key is right",
            GITHUB + "huggingface/transformers/issues/25104",
        ),
        Mistake(
            "plain_wrong",
            "plain RoPE: a key is turned by its own position, once and for all",
            "claim 11",
        ),
    ),
)


# What an extension does

WHAT_EXTENDING_DOES = explain(
    {
        "A": Statement(
            "A pair that has made a full turn within the trained length has come close to every "
            "angle that it can have in longer texts."
        ),
        "B": Statement(
            "NTK-aware scaling slows the high frequencies, so that near tokens stay apart.",
            why="the fastest pair is exactly unchanged, and it is the slow ones that are slowed",
            source="claim 13",
        ),
        "C": Statement(
            "Dynamic NTK raises the base step by step while the model is trained.",
            why="training texts are no longer than the trained length, and there the rule does "
            "nothing",
            source="claim 14",
        ),
        "D": Statement(
            "Position interpolation brings every pair into the range of training, and still, "
            "without further training, made the model of this chapter worse on short and on long "
            "texts."
        ),
        "E": Statement(
            "YaRN's code and YaRN's paper describe one ramp, written in two ways.",
            why="the ends agree; in between one is linear in the turns, the other in their "
            "logarithm",
            source=GITHUB + "jquesnelle/yarn/issues/60",
        ),
        "F": Statement(
            "With factor $s$ in NTK-aware scaling, all pairs that have not been round stay within "
            "the angles they know in a text of $sL$ tokens.",
            why="only the last pair is slowed by s; those before it, down to the first that has "
            "not been round, are slowed by less",
            source="claim 29",
        ),
        "G": Statement(
            "An attention factor of 1.2 on cosines and sines multiplies the scores of rotated "
            "channels by 1.44."
        ),
        "H": Statement(
            "A model that is trained on short texts with a larger base reads texts four times as "
            "long and longer better, since it has more slow pairs.",
            why="more slow pairs have seen less of the circle; measured, it helps at twice the "
            "length and not beyond, and what helps there are long texts in training",
            source="claim 17",
        ),
        "I": Statement(
            "Caching keys before they are turned makes dynamic scaling exact for any model.",
            why="it does so for each layer; deeper layers have cached what older speeds produced",
            source=GITHUB + "huggingface/transformers/issues/25104",
        ),
    },
    name="what_extending_does",
    title="What an extension does",
    chapter=10,
    difficulty=3,
    importance=2,
    minutes=8,
    points=2,
    hints=(
        "Three of the nine hold.",
        "For a statement about pairs, ask what happens to the first pair and to the last.",
    ),
)

EXERCISES = (
    NTK_BASE,
    BY_PARTS,
    RAMP_ENDS,
    DYNAMIC_BASE,
    SCORE_FACTORS,
    SAME_AS_FRESH,
    WHAT_EXTENDING_DOES,
)
