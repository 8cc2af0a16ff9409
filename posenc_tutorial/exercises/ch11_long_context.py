"""Exercises of chapter 11: settings for longer texts, shards, merging, and what a probe shows."""

from __future__ import annotations

import math

import torch

from ..context_extension import llama3
from ..frequencies import inverse_frequencies, wavelengths
from .registry import Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"


# The settings that take a model further


def _extension_settings(
    trained: int,
    wanted: int,
    *,
    inverted: bool = False,
    whole_factor: bool = False,
    multiplied_again: bool = False,
    extended_as_original: bool = False,
    maximum_as_before: bool = False,
    below_one: bool = False,
    longer_as_original: bool = False,
    maximum_lowered: bool = False,
    shorter_not_asked: bool = False,
) -> torch.Tensor:
    factor = wanted / trained
    if whole_factor:
        factor = float(wanted // trained)
    if not (below_one or shorter_not_asked):
        factor = max(factor, 1.0)
    original = wanted if extended_as_original else trained
    if longer_as_original:
        original = max(wanted, trained)
    most = wanted if maximum_lowered or shorter_not_asked else max(wanted, trained)
    if maximum_as_before:
        most = trained
    if multiplied_again:
        most = round(most * factor)
    if inverted:
        factor = 1 / factor
    return torch.tensor([factor, original, most], dtype=torch.float64, device="cpu")


def _extension_inputs() -> list[tuple]:
    return [(8192, 32768), (4096, 10240), (32768, 131072), (8192, 4096), (2048, 6144)]


EXTENSION_SETTINGS = Implement(
    name="extension_settings",
    title="Three numbers for a longer text",
    chapter=11,
    difficulty=1,
    importance=3,
    minutes=8,
    points=2,
    signature="def extension_settings(trained, wanted):",
    make_inputs=_extension_inputs,
    tolerance=1e-4,
    any_float=True,
    reference=_extension_settings,
    hints=(
        "The factor says how many times longer the texts become; 10,240 is two and a half times "
        "4,096.",
        "The original length is what the model was trained on, before and after the change.",
        "A text that is shorter than the trained ones needs no extension: which factor leaves "
        "every frequency alone, and which texts can the model read then?",
    ),
    mistakes=(
        Mistake(
            "inverted",
            "the factor is the wrong way up: some programs call its inverse a frequency scale",
            GITHUB + "ggml-org/llama.cpp/issues/2402",
        ),
        Mistake(
            "whole_factor",
            "the factor is rounded down to a whole number, so the last part of the text is beyond "
            "the reach",
            GITHUB + "ggml-org/llama.cpp/issues/10355",
        ),
        Mistake(
            "multiplied_again",
            "the maximum is already the extended length; it is multiplied by the factor once more",
            GITHUB + "vllm-project/vllm/pull/56446",
            excludes=("maximum_as_before",),
        ),
        Mistake(
            "extended_as_original",
            "the extended length stands where the trained one belongs, so every pair is judged by "
            "a length that the model has never seen",
            GITHUB + "microsoft/LongRoPE/issues/21",
        ),
        Mistake(
            "maximum_as_before",
            "the maximum was not raised: a server that obeys it cuts the text at the old length",
            GITHUB + "vllm-project/vllm/issues/3488",
        ),
        Mistake(
            "below_one",
            "a text shorter than the trained length gets a factor below 1, which would speed the "
            "clocks up",
            GITHUB + "ggml-org/llama.cpp/issues/2402",
            excludes=("whole_factor", "shorter_not_asked"),
        ),
        Mistake(
            "longer_as_original",
            "the longer of the two lengths stands where the trained one belongs, so every pair is "
            "judged by a length that the model has never seen",
            GITHUB + "microsoft/LongRoPE/issues/21",
            excludes=("extended_as_original",),
        ),
        Mistake(
            "maximum_lowered",
            "where shorter texts are wanted, the maximum is lowered; the model can still read "
            "texts as long as those it was trained on",
            GITHUB + "vllm-project/vllm/issues/3488",
            excludes=("maximum_as_before", "below_one", "shorter_not_asked"),
        ),
        Mistake(
            "shorter_not_asked",
            "nothing asks whether the wanted texts are shorter than the trained ones: then the "
            "factor falls below 1, which would speed the clocks up, and the maximum is lowered",
            GITHUB + "ggml-org/llama.cpp/issues/2402",
            excludes=("whole_factor", "maximum_as_before"),
        ),
    ),
)


# Positions of a shard

#: Two ways in which a second piece that is one too far on shows.
TOO_FAR = ("mirrored_too_far", "beyond_the_text")


def _zigzag_positions(
    n: int,
    rank: int,
    world_size: int,
    *,
    local: bool = False,
    contiguous: bool = False,
    round_robin: bool = False,
    not_mirrored: bool = False,
    mirrored_too_far: bool = False,
    beyond_the_text: bool = False,
    late_first: bool = False,
) -> torch.Tensor:
    positions = torch.arange(n, device="cpu")
    if contiguous:
        kept = positions.view(world_size, -1)[rank]
    elif round_robin:
        kept = positions[rank::world_size]
    else:
        pieces = positions.view(2 * world_size, -1)
        second = world_size + rank if not_mirrored else 2 * world_size - 1 - rank
        if mirrored_too_far:
            second = (2 * world_size - rank) % (2 * world_size)
        late = pieces[second]
        if beyond_the_text:
            late = late + len(late)
        kept = torch.cat([late, pieces[rank]] if late_first else [pieces[rank], late])
    return torch.arange(len(kept), device="cpu") if local else kept


def _zigzag_inputs() -> list[tuple]:
    return [(8, 0, 2), (8, 1, 2), (24, 0, 3), (24, 1, 3), (24, 2, 3), (64, 3, 4)]


ZIGZAG_POSITIONS = Implement(
    name="zigzag_positions",
    title="Positions of a zig-zag shard",
    chapter=11,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    signature="def zigzag_positions(n, rank, world_size):",
    make_inputs=_zigzag_inputs,
    reference=_zigzag_positions,
    hints=(
        "Cut the positions 0 to n - 1 into twice as many equal pieces as there are ranks.",
        "Rank 0 keeps the first and the last piece. Which two does rank 1 keep?",
        "The two piece numbers of a rank always add up to the same number.",
    ),
    mistakes=(
        Mistake(
            "local",
            "positions are counted within the shard, from 0 on; a token keeps the position that "
            "it has in the whole text",
            GITHUB + "sgl-project/sglang/pull/32098",
            excludes=("contiguous", "round_robin", "not_mirrored", "late_first"),
        ),
        Mistake(
            "contiguous",
            "each rank gets one piece in a row: the last rank then has the most to compute",
            GITHUB + "NVIDIA/Megatron-LM/issues/560",
            excludes=("round_robin", "not_mirrored", "late_first", *TOO_FAR),
        ),
        Mistake(
            "round_robin",
            "tokens are dealt out in turn; that is another way to cut, not this one",
            GITHUB + "sgl-project/sglang/pull/28463",
            excludes=("not_mirrored", "late_first", *TOO_FAR),
        ),
        Mistake(
            "not_mirrored",
            "the second pieces are handed out in the same order as the first, so the work is "
            "not even",
            GITHUB + "EvolvingLMMs-Lab/LongVA/issues/14",
            excludes=TOO_FAR,
        ),
        Mistake(
            "mirrored_too_far",
            "the second piece is one too far on: the last piece has the number 2 W - 1",
            GITHUB + "EvolvingLMMs-Lab/LongVA/issues/14",
            excludes=("local", "beyond_the_text"),
        ),
        Mistake(
            "beyond_the_text",
            "the second piece is one too far on, for rank 0 behind the end of the text: the last "
            "piece has the number 2 W - 1",
            GITHUB + "EvolvingLMMs-Lab/LongVA/issues/14",
            excludes=("local",),
        ),
        Mistake(
            "late_first",
            "the late piece comes before the early one; positions within a shard should increase",
            GITHUB + "THUDM/slime/pull/73",
        ),
    ),
)


# Merging two pieces of attention


def _merge_two(
    out_a: torch.Tensor,
    total_a: torch.Tensor,
    out_b: torch.Tensor,
    total_b: torch.Tensor,
    *,
    averaged: bool = False,
    summed: bool = False,
    logarithms: bool = False,
    base_two: bool = False,
    swapped: bool = False,
    overflow: bool = False,
) -> torch.Tensor:
    scale = math.log(2) if base_two else 1.0
    weight = torch.sigmoid(scale * (total_a - total_b))  # exp(a) / (exp(a) + exp(b))
    if logarithms:
        weight = total_a / (total_a + total_b)
    if overflow:
        a, b = (scale * total_a).exp(), (scale * total_b).exp()
        weight = a / (a + b)
    if swapped:
        weight = 1 - weight
    if averaged:
        weight = torch.full_like(weight, 0.5)
    if summed:
        return out_a + out_b
    return weight[:, None] * out_a + (1 - weight)[:, None] * out_b


def _merge_inputs() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(111)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64, device="cpu")

    inputs = []
    for n, width, middle in ((4, 3, 2.0), (5, 2, 2000.0)):
        totals = [middle + normal(n), middle + 1.5 * normal(n)]
        inputs.append((normal(n, width), totals[0], normal(n, width), totals[1]))
    return inputs


MERGE_TWO = Implement(
    name="merge_two",
    title="Two halves of a softmax",
    chapter=11,
    difficulty=3,
    importance=2,
    minutes=12,
    points=3,
    signature="def merge_two(out_a, total_a, out_b, total_b):",
    make_inputs=_merge_inputs,
    tolerance=1e-6,
    any_float=True,
    reference=_merge_two,
    hints=(
        "Each half was divided by its own sum of exponentials. Multiply that back in, add, and "
        "divide by the sum of both.",
        "The total is the logarithm of that sum. What is the weight of half a?",
        "A total of 2000 has no exponential that fits into a float. Only the difference of the two "
        "totals matters.",
    ),
    mistakes=(
        Mistake(
            "averaged",
            "the two halves count the same, whatever their keys weigh",
            GITHUB + "zhuzilin/ring-flash-attention/issues/20",
            excludes=("summed", "logarithms", "base_two", "swapped", "overflow"),
        ),
        Mistake(
            "summed",
            "the halves are added: each is already a weighted mean, so the weights add up to 2",
            GITHUB + "zhuzilin/ring-flash-attention/issues/20",
            excludes=("logarithms", "base_two", "swapped", "overflow"),
        ),
        Mistake(
            "logarithms",
            "the halves are weighted by the totals themselves; those are logarithms of the weights",
            GITHUB + "zhuzilin/ring-flash-attention/issues/20",
            excludes=("base_two", "overflow"),
        ),
        Mistake(
            "base_two",
            "the totals are read as logarithms to base 2; they are natural ones",
            GITHUB + "vllm-project/vllm/pull/28840",
        ),
        Mistake(
            "swapped",
            "each half gets the weight of the other",
            GITHUB + "sgl-project/sglang/pull/35045",
        ),
        Mistake(
            "overflow",
            "the exponential of a large total overflows: take the larger one out first",
            GITHUB + "Dao-AILab/flash-attention/issues/907",
            excludes=("swapped",),
        ),
    ),
)


# How many clocks has Llama 3.2 slowed?


def _slowed_clocks(
    *,
    as_plain: bool = False,
    default_base: bool = False,
    fully_only: bool = False,
    channels: bool = False,
    by_extended: bool = False,
) -> list[int]:
    base = 1e4 if default_base else 5e5
    original = 131072 if by_extended else 8192
    plain = wavelengths(inverse_frequencies(64, base))
    scaled = wavelengths(llama3(64, base, 32.0, original).inv_freq)
    slowed = scaled / plain
    changed = slowed > (31.999 if fully_only else 1.001)
    resting = (plain if as_plain else scaled) > 131072
    count = 2 if channels else 1
    return [int(changed.sum()) * count, int(resting.sum()) * count]


SLOWED_CLOCKS = Predict(
    name="slowed_clocks",
    title="Which clocks does Llama 3.2 slow?",
    chapter=11,
    difficulty=2,
    importance=2,
    minutes=10,
    points=2,
    reference=_slowed_clocks,
    parts=("slowed", "no turn in 131,072"),
    hints=(
        "A pair that makes more than four turns within the trained 8,192 tokens is left alone. "
        "Which wavelength is that?",
        "The wavelength of pair i is 2 pi times 500000 to the power 2 i / 64; solve for i.",
        "For the second number: a pair that made less than one turn is 32 times slower than "
        "before, and one that made between one and four turns is slowed by something in between.",
    ),
    mistakes=(
        Mistake(
            "as_plain",
            "no turn: the pairs are counted as they were before the rule slowed them",
            GITHUB + "lablup/mlxcel/issues/1355",
            excludes=("by_extended",),
        ),
        Mistake(
            "default_base",
            "these are the numbers for a base of 10,000; the file says otherwise",
            GITHUB + "unslothai/unsloth/pull/7028",
        ),
        Mistake(
            "fully_only",
            "slowed: only the pairs that are slowed by the whole factor are counted, without those "
            "in between",
            GITHUB + "lablup/mlxcel/issues/1355",
        ),
        Mistake(
            "channels",
            "channels are counted; two of them make one pair",
            "claim 7",
        ),
        Mistake(
            "by_extended",
            "turns are counted within the extended length; the rule looks at the trained one",
            GITHUB + "microsoft/LongRoPE/issues/21",
        ),
    ),
)


# What has been shown


WHAT_THE_PROBE_SHOWS = explain(
    {
        "A": Statement(
            "A model that fails the probe at a gap of 10,000 has heads that cannot find what "
            "stands 10,000 tokens back, at least in this simplest case."
        ),
        "B": Statement(
            "A model that passes the probe at 24,000 can use a text of 24,000 tokens.",
            "the tokens between the copies are left out; thousands of keys that compete for "
            "attention are not tested",
            "claim 24",
        ),
        "C": Statement(
            "Position interpolation needs a short further training because its far positions are "
            "new to the model.",
            "its far positions are squeezed into the trained range; what is new is how little "
            "neighbours differ, and that hurts at every length",
            "claim 15",
        ),
        "D": Statement(
            "Static YaRN or NTK scaling that is switched on for long texts also changes the "
            "answers to short ones."
        ),
        "E": Statement(
            "A loss that stays flat up to 32,768 tokens shows that the far tokens are used.",
            "it shows that they do no harm; a model that looks at the last few hundred tokens only "
            "would show the same",
            "claim 19",
        ),
        "F": Statement(
            "If a configuration states max_position_embeddings of 131,072, the model was trained "
            "on texts of that length.",
            "that number may include an extension, or have been edited by hand; the original "
            "length is another field",
            GITHUB + "vllm-project/vllm/pull/56446",
        ),
        "G": Statement(
            "When a text is cut over several processes, RoPE needs no positions from outside, "
            "since only differences matter.",
            "differences between tokens of two shards come out wrong as soon as each shard counts "
            "from 0",
            GITHUB + "sgl-project/sglang/pull/32098",
        ),
    },
    name="what_the_probe_shows",
    title="What was shown, and what was not",
    chapter=11,
    difficulty=2,
    importance=3,
    minutes=8,
    points=2,
    hints=(
        "Two of the seven are true.",
        "For each statement, ask which measurement of the chapter could have come out otherwise "
        "if it were false.",
    ),
)

EXERCISES = (
    EXTENSION_SETTINGS,
    SLOWED_CLOCKS,
    ZIGZAG_POSITIONS,
    WHAT_THE_PROBE_SHOWS,
    MERGE_TWO,
)
