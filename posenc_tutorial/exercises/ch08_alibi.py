"""Exercises of chapter 8: slopes, the bias, its shortcut, and how far a head looks."""

from __future__ import annotations

import math

import torch

from ..alibi import alibi_slopes
from .registry import Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"


def _normal(generator: torch.Generator, *shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, dtype=dtype, device="cpu")


# Slopes for any number of heads


def _head_slopes(
    num_heads: int,
    *,
    one_series: bool = False,
    from_one: bool = False,
    in_order: bool = False,
    next_power: bool = False,
    seen_before: bool = False,
    no_skip: bool = False,
    gentlest: bool = False,
    new_first: bool = False,
    halving: bool = False,
) -> torch.Tensor:
    def series(n: int, ratio: float) -> torch.Tensor:
        first = 0 if from_one else 1
        return ratio ** torch.arange(first, first + n, dtype=torch.float64, device="cpu")

    if halving:
        return series(num_heads, 0.5).float()
    if one_series:
        return series(num_heads, 2 ** (-8 / num_heads)).float()
    power = 2 ** (num_heads.bit_length() - 1)
    if next_power and power < num_heads:
        return series(2 * power, 2 ** (-4 / power))[:num_heads].float()
    left = num_heads - power
    extra = series(2 * power, 2 ** (-4 / power))
    if not no_skip:
        extra = extra[int(seen_before) :: 2]
    extra = extra[len(extra) - left :] if gentlest else extra[:left]
    old = series(power, 2 ** (-8 / power))
    slopes = torch.cat([extra, old] if new_first else [old, extra]).float()
    return slopes.sort(descending=True).values if in_order else slopes


_NEW_ONES = ("no_skip", "gentlest", "new_first")

HEAD_SLOPES = Implement(
    name="head_slopes",
    title="Slopes for any number of heads",
    chapter=8,
    difficulty=1,
    importance=3,
    minutes=8,
    points=1,
    signature="def head_slopes(num_heads):",
    make_inputs=lambda: [(8,), (4,), (6,), (12,), (40,)],
    tolerance=1e-6,
    any_float=True,
    reference=_head_slopes,
    hints=(
        "Begin with a power of two: P heads have the slopes r, r*r, r*r*r, ... What must r be, so "
        "that the last one is 1/256?",
        "The series of 2P heads contains the series of P heads. Which of its entries are new?",
        "The new ones come after the old ones, the steepest first, as many as there are heads "
        "left.",
    ),
    mistakes=(
        Mistake(
            "one_series",
            "one series for every number of heads, as the paper's sentence can be read; the "
            "published models have another list where the number is no power of two",
            GITHUB + "baichuan-inc/Baichuan2/issues/225",
            excludes=("in_order", "next_power", "seen_before", *_NEW_ONES, "halving"),
        ),
        Mistake(
            "from_one",
            "the first slope is 1; a series that starts with its own ratio does not contain 1",
            GITHUB + "paiml/aprender/pull/2143",
            excludes=_NEW_ONES,
        ),
        Mistake(
            "in_order",
            "the right slopes, sorted: a trained model has them in another order, and every head "
            "knows its own",
            GITHUB + "antofuller/CROMA/issues/12",
            excludes=("next_power", *_NEW_ONES, "halving"),
        ),
        Mistake(
            "next_power",
            "the first slopes of the next power of two, so the gentle ones at the end are missing",
            GITHUB + "ml-explore/mlx/issues/343",
            excludes=("seen_before", *_NEW_ONES, "halving"),
        ),
        Mistake(
            "seen_before",
            "the extra heads get slopes that are in the list already",
            GITHUB + "explosion/curated-transformers/pull/252",
            excludes=(*_NEW_ONES, "halving"),
        ),
        Mistake(
            "no_skip",
            "the extra heads get the first slopes of the next ladder, every one; every other of "
            "them is in the list already",
            "claim 18",
            excludes=("gentlest", "new_first", "halving"),
        ),
        Mistake(
            "gentlest",
            "the extra heads get the gentlest of the new slopes; the published models take the "
            "steepest",
            "claim 18",
            excludes=("new_first", "halving"),
        ),
        Mistake(
            "new_first",
            "the new slopes stand before the old ones; they come behind",
            "claim 18",
            excludes=("halving",),
        ),
        Mistake(
            "halving",
            "the slopes halve from head to head; that is the list of 8 heads only",
            "claim 18",
        ),
    ),
)


# The bias


def _distance_bias(
    slopes: torch.Tensor,
    q_positions: torch.Tensor,
    k_positions: torch.Tensor,
    *,
    reward: bool = False,
    signed: bool = False,
    key_index: bool = False,
    by_index: bool = False,
    at_the_end: bool = False,
    rounded: bool = False,
    one_slope: bool = False,
) -> torch.Tensor:
    n_q, n_k = len(q_positions), len(k_positions)
    if by_index or at_the_end:
        k_positions = torch.arange(n_k, device="cpu")
        q_positions = torch.arange(n_q, device="cpu") + (n_k - n_q if at_the_end else 0)
    if rounded:
        q_positions, k_positions = q_positions.float(), k_positions.float()
    difference = (k_positions[None, :] - q_positions[:, None]).double()  # key minus query
    term = difference if signed else -difference.abs()
    if key_index:
        term = k_positions.double().expand(n_q, n_k)
    if reward:
        term = -term
    if one_slope:
        slopes = slopes[:1].expand(len(slopes))
    return (slopes.double()[:, None, None] * term).float()


def _positions_and_slopes() -> list[tuple]:
    far = 2**24 + torch.tensor([0, 1, 2, 5], device="cpu")
    inputs = [
        (alibi_slopes(2), torch.arange(4), torch.arange(4)),
        (alibi_slopes(6), torch.tensor([5]), torch.arange(6)),  # one token, and a cache
        (alibi_slopes(4), torch.tensor([3, 0, 9]), torch.tensor([0, 1, 12, 3, 3])),
        (alibi_slopes(4), far[1:], far),
    ]
    return [(slopes.float(), *positions) for slopes, *positions in inputs]


DISTANCE_BIAS = Implement(
    name="distance_bias",
    title="A price per token",
    chapter=8,
    difficulty=2,
    importance=3,
    minutes=8,
    points=2,
    signature="def distance_bias(slopes, q_positions, k_positions):",
    make_inputs=_positions_and_slopes,
    tolerance=1e-5,
    any_float=True,
    reference=_distance_bias,
    hints=(
        "One number for each head, query and key: think of the shapes (heads, 1, 1) and "
        "(n_q, n_k).",
        "No entry of the result is positive, and the bias of a token towards itself is 0.",
        "Subtract while the positions are still integers.",
    ),
    mistakes=(
        Mistake(
            "reward",
            "the sign is turned round: far tokens are preferred",
            GITHUB + "meta-pytorch/attention-gym/pull/86",
        ),
        Mistake(
            "signed",
            "keys after the query are rewarded: a distance has no sign",
            GITHUB + "ofirpress/attention_with_linear_biases/issues/5",
            excludes=("key_index",),
        ),
        Mistake(
            "key_index",
            "the bias of the key's number alone: right after a causal softmax, but it is another "
            "matrix",
            GITHUB + "ofirpress/attention_with_linear_biases/issues/9",
            excludes=("at_the_end", "rounded"),
        ),
        Mistake(
            "by_index",
            "queries are counted from 0: a single token that asks a cache stands at the wrong end",
            GITHUB + "Dao-AILab/flash-attention/issues/907",
            excludes=("at_the_end", "rounded"),
        ),
        Mistake(
            "at_the_end",
            "the last query is taken to stand at the last key; the positions say where it stands",
            GITHUB + "Dao-AILab/flash-attention/issues/907",
            excludes=("rounded",),
        ),
        Mistake(
            "rounded",
            "far out, neighbours get the same bias: the positions were made float32 before they "
            "were subtracted",
            GITHUB + "NVIDIA/Megatron-LM/issues/535",
        ),
        Mistake(
            "one_slope",
            "all heads have the slope of the first one",
            GITHUB + "flashinfer-ai/flashinfer/issues/1606",
        ),
    ),
)


# From scores to weights


def _biased_weights(
    Q: torch.Tensor,
    K: torch.Tensor,
    slopes: torch.Tensor,
    keep: torch.Tensor,
    *,
    bias_scaled: bool = False,
    no_scale: bool = False,
    reward: bool = False,
    times: bool = False,
    no_bias: bool = False,
    pads_seen: bool = False,
    ahead_seen: bool = False,
    zero_scores: bool = False,
    zero_weights: bool = False,
) -> torch.Tensor:
    n, root = Q.shape[2], math.sqrt(Q.shape[3])
    place = torch.arange(n, device="cpu")
    bias = -slopes[:, None, None] * (place[:, None] - place).abs()
    if reward:
        bias = -bias
    products = Q @ K.mT
    scores = products if no_scale else products / root
    if times:
        scores = scores * bias
    elif not no_bias:
        scores = scores + (bias / root if bias_scaled else bias)
    seen = torch.ones(n, n, dtype=torch.bool, device="cpu")
    if not ahead_seen:
        seen = seen.tril()
    if not pads_seen:
        seen = seen & keep[:, None, None, :]
    if zero_weights:
        return torch.softmax(scores, -1).masked_fill(~seen, 0.0)
    return torch.softmax(scores.masked_fill(~seen, 0.0 if zero_scores else -1e30), -1)


def _real_queries(arguments: tuple, weights: torch.Tensor) -> torch.Tensor:
    """What padding attends to is free."""
    keep = arguments[3]
    return weights.masked_fill(~keep[:, None, :, None], 0.0)


def _padded_batches() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(81)
    inputs = []
    for heads, width, left, n, dtype in (
        (2, 4, (0, 2), 5, torch.float32),
        (4, 9, (3, 0, 1), 7, torch.float64),
    ):
        keep = torch.arange(n, device="cpu") >= torch.tensor(left, device="cpu")[:, None]
        q, k = (_normal(generator, len(left), heads, n, width, dtype=dtype) for _ in range(2))
        inputs.append((q, k, alibi_slopes(heads).to(dtype), keep))
    return inputs


BIASED_WEIGHTS = Implement(
    name="biased_weights",
    title="From scores to weights, with padding",
    chapter=8,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    signature="def biased_weights(Q, K, slopes, keep):",
    make_inputs=_padded_batches,
    tolerance=1e-5,
    any_float=True,
    canonical=_real_queries,
    reference=_biased_weights,
    hints=(
        "The dot products are divided by the root of the head's width. Is the bias?",
        "Two reasons to hide a key: it comes after the query, or it is padding.",
        "All texts are padded on the left. Does it matter whether you count from the padding or "
        "from the first word?",
    ),
    mistakes=(
        Mistake(
            "bias_scaled",
            "the bias is divided by the root of the width, as the dot products are; some models "
            "do this, but then slopes mean something else",
            GITHUB + "NVIDIA/TensorRT-Model-Connect/pull/32",
            excludes=("times", "no_bias"),
        ),
        Mistake(
            "no_scale",
            "the dot products are not divided by the root of the head's width",
            GITHUB + "PAIR-code/tiny-transformers/issues/71",
        ),
        Mistake(
            "reward",
            "the sign is turned round: far tokens are preferred",
            GITHUB + "meta-pytorch/attention-gym/pull/86",
            excludes=("no_bias",),
        ),
        Mistake(
            "times",
            "the scores are multiplied by the bias; it is added",
            GITHUB + "ofirpress/attention_with_linear_biases/issues/7",
            excludes=("no_bias",),
        ),
        Mistake(
            "no_bias",
            "there is no bias in the scores at all",
            GITHUB + "ofirpress/attention_with_linear_biases/issues/20",
        ),
        Mistake(
            "pads_seen",
            "padding gets weight: it lies in the past, so a causal mask does not hide it",
            GITHUB + "meta-pytorch/attention-gym/issues/74",
        ),
        Mistake(
            "ahead_seen",
            "tokens after the query get weight",
            GITHUB + "pytorch/examples/issues/649",
            excludes=("zero_scores", "zero_weights"),
        ),
        Mistake(
            "zero_scores",
            "hidden keys get the score 0, and a softmax makes a weight of it; it must be far below "
            "all others",
            GITHUB + "awslabs/gluonts/pull/1401",
            excludes=("zero_weights",),
        ),
        Mistake(
            "zero_weights",
            "the weights of hidden keys are set to 0 after the softmax, so the rest does not add "
            "up to 1",
            GITHUB + "lucidrains/memory-compressed-attention/issues/2",
        ),
    ),
)


# Where the shortcut holds


def _same_weights(
    *,
    needs_the_query: bool = False,
    any_mask: bool = False,
    padding_counts: bool = False,
    pieces: bool = False,
    sink_moves_along: bool = False,
    exact: bool = False,
) -> list[bool]:
    generator = torch.Generator(device="cpu").manual_seed(82)
    n, slope, first = 8, 0.5, 4000
    place = torch.arange(n, dtype=torch.float64, device="cpu")
    logits = _normal(generator, n, n, dtype=torch.float64)
    distance = -slope * (place[:, None] - place).abs()
    index = (slope * place).expand(n, n)
    causal = torch.ones(n, n, dtype=torch.bool, device="cpu").tril()

    def weights(bias: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        return torch.softmax((logits + bias).masked_fill(~seen, -math.inf), -1)

    def same(bias: torch.Tensor, seen: torch.Tensor) -> bool:
        return bool((weights(bias, seen) - weights(distance, seen)).abs().max() < 1e-6)

    halves = torch.cat([place[: n // 2], place[: n - n // 2]])  # each piece is counted from 0
    far = first + place
    coarse = (slope * far).to(torch.bfloat16).double().expand(n, n)
    zero = torch.zeros(n, 1, dtype=torch.float64, device="cpu")
    open_to_all = torch.ones(n, 1, dtype=torch.bool, device="cpu")

    def with_sink(bias: torch.Tensor) -> torch.Tensor:
        scores = torch.cat([zero, logits + bias], 1)
        return torch.softmax(
            scores.masked_fill(~torch.cat([open_to_all, causal], 1), -math.inf), -1
        )

    sink = bool((with_sink(index) - with_sink(distance)).abs().max() < 1e-6)
    measured = [
        same(index, causal),
        same(index, torch.ones_like(causal)),
        same(index + slope * 3, causal),  # three padded places before the text
        same((slope * halves).expand(n, n), causal),
        sink,
        same(coarse, causal),
    ]
    flips = [needs_the_query, any_mask, padding_counts, pieces, sink_moves_along, exact]
    return [value != flip for value, flip in zip(measured, flips, strict=True)]


SAME_WEIGHTS = Predict(
    name="same_weights",
    title="Where the shortcut holds",
    chapter=8,
    difficulty=2,
    importance=3,
    minutes=8,
    points=2,
    reference=_same_weights,
    parts=(
        "causal mask",
        "no mask",
        "left padding",
        "two pieces",
        "a sink",
        "bfloat16",
    ),
    hints=(
        "Write the bias that is asked about as the true one plus a rest. On what does the rest "
        "depend?",
        "A rest that depends on the query alone drops out, if it is added to everything that this "
        "query can choose.",
    ),
    mistakes=(
        Mistake(
            "needs_the_query",
            "causal mask: the number of the key is enough, since the query's own number is a "
            "constant in its row",
            GITHUB + "mosaicml/llm-foundry/issues/186",
        ),
        Mistake(
            "any_mask",
            "no mask: for keys after the query the key's number goes up where the bias should go "
            "down",
            GITHUB + "lucidrains/x-transformers/pull/88",
        ),
        Mistake(
            "padding_counts",
            "left padding: it moves all keys of a row by the same number",
            GITHUB + "meta-pytorch/attention-gym/issues/74",
        ),
        Mistake(
            "pieces",
            "two pieces: each is moved by a number of its own, which is no constant of the row",
            GITHUB + "Dao-AILab/flash-attention/issues/907",
        ),
        Mistake(
            "sink_moves_along",
            "a sink: its score stays where it is while all others are moved",
            GITHUB + "mit-han-lab/streaming-llm/issues/42",
        ),
        Mistake(
            "exact",
            "bfloat16: numbers of this size are whole steps apart there, and neighbours coincide",
            GITHUB + "NVIDIA/TensorRT-Model-Connect/issues/667",
        ),
    ),
)


# How far a head looks


def _tokens_that_matter(
    *,
    base_two: bool = False,
    reciprocal: bool = False,
    half_life: bool = False,
    one_short: bool = False,
    not_whole: bool = False,
) -> list[float]:
    found: list[float] = []
    for slope in (1 / 2, 1 / 16, 1 / 256):
        distance = torch.arange(20000, dtype=torch.float64, device="cpu")
        decay = math.log(2) if base_two else 1.0
        weights = torch.softmax(-slope * decay * distance, 0)
        share = 0.5 if half_life else 0.99
        count = int((weights.cumsum(0) < share).sum()) + 1
        if reciprocal:
            count = round(1 / slope)
        found.append(math.log(100) / slope if not_whole else count - one_short)
    return found


TOKENS_THAT_MATTER = Predict(
    name="tokens_that_matter",
    title="How many tokens does a head look at?",
    chapter=8,
    difficulty=2,
    importance=2,
    minutes=6,
    points=1,
    reference=_tokens_that_matter,
    parts=("slope 1/2", "slope 1/16", "slope 1/256"),
    hints=(
        "The weights are a geometric series. What is the sum of its first T terms, as a share of "
        "the whole?",
        "Solve for T, and round up.",
    ),
    mistakes=(
        Mistake(
            "base_two",
            "a softmax raises e, not 2, to the score",
            "claim 19",
            excludes=("reciprocal",),
        ),
        Mistake(
            "reciprocal",
            "after one over the slope, a weight has only fallen to 1/e",
            "claim 19",
            excludes=("half_life",),
        ),
        Mistake(
            "half_life",
            "these tokens hold half of the weight; the question is about 99 %",
            "claim 19",
        ),
        Mistake(
            "one_short",
            "that is the distance of the last of them; the token itself is at distance 0 and "
            "counts",
            GITHUB + "vllm-project/vllm/pull/945",
        ),
        Mistake(
            "not_whole",
            "tokens come whole: round up",
            "claim 19",
            excludes=("base_two", "reciprocal", "half_life", "one_short"),
        ),
    ),
)


WHY_ALIBI_EXTRAPOLATES = explain(
    {
        "A": Statement(
            "Any encoding whose scores depend on relative positions alone keeps its loss on longer "
            "texts.",
            "the scores of RoPE depend on relative positions alone, and its loss rises",
            "claim 19",
        ),
        "B": Statement(
            "With equal scores and slope 1/2, ten tokens hold 99 % of the weight in a text of a "
            "hundred tokens, and in one of a million."
        ),
        "C": Statement(
            "There is no table that ends, so a fact a thousand tokens back is found as easily as "
            "one ten tokens back.",
            "it can be found, but its score has to make up for a thousand times the slope",
            "claim 19",
        ),
        "D": Statement(
            "Sorting the slopes of a trained model with 12 heads changes what it says, although "
            "the set of slopes stays the same."
        ),
        "E": Statement(
            "Since its bias counts keys from the start of the text, the shortcut makes ALiBi an "
            "absolute encoding.",
            "under a causal mask its weights depend on distances alone, as those of the true bias "
            "do",
            GITHUB + "ofirpress/attention_with_linear_biases/issues/9",
        ),
        "F": Statement(
            "Without a mask, ALiBi learns to tell a sentence from its mirror image, if it is "
            "trained for long enough.",
            "no weights can do it: the bias is the same in both directions",
            "claim 3",
        ),
        "G": Statement(
            "The bias may be rounded to bfloat16 if positions are subtracted before, in integers."
        ),
        "H": Statement(
            "If 32 heads are spread over 4 devices, each device needs the slopes of a model with "
            "8 heads.",
            "every device needs its own part of the list for all 32 heads",
            GITHUB + "bigscience-workshop/Megatron-DeepSpeed/issues/227",
        ),
    },
    name="why_alibi_extrapolates",
    title="Why ALiBi extrapolates",
    chapter=8,
    difficulty=3,
    importance=2,
    minutes=8,
    points=2,
    hints=(
        "Three of the eight are true.",
        "A: the chapter trains two models whose scores depend on relative positions alone.",
    ),
)

EXERCISES = (
    HEAD_SLOPES,
    DISTANCE_BIAS,
    BIASED_WEIGHTS,
    SAME_WEIGHTS,
    TOKENS_THAT_MATTER,
    WHY_ALIBI_EXTRAPOLATES,
)
