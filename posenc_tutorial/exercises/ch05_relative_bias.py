"""Exercises of chapter 5: distances, Shaw's term, T5's buckets, and a bias beside a cache."""

from __future__ import annotations

import math

import torch

from .registry import Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"


def _normal(generator: torch.Generator, *shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, dtype=dtype, device="cpu")


# A table of distances


def _distance_table(
    q_positions: torch.Tensor,
    k_positions: torch.Tensor,
    *,
    reversed: bool = False,
    transposed: bool = False,
    by_index: bool = False,
    unsigned: bool = False,
) -> torch.Tensor:
    if by_index:
        q_positions, k_positions = (torch.arange(len(p)) for p in (q_positions, k_positions))
    table = k_positions[None, :] - q_positions[:, None]
    if reversed:
        table = -table
    if unsigned:
        table = table.abs()
    return table.T if transposed else table


DISTANCE_TABLE = Implement(
    name="distance_table",
    title="How far is every key?",
    chapter=5,
    difficulty=1,
    importance=3,
    minutes=5,
    points=1,
    signature="def distance_table(q_positions, k_positions):",
    make_inputs=lambda: [
        (torch.tensor([7, 8, 9]), torch.arange(10)),
        (torch.tensor([2, 0, 7, 5]), torch.tensor([0, 3, 9])),
    ],
    reference=_distance_table,
    hints=(
        "One row for each query, one column for each key.",
        "Give one of the two tensors a second axis and let broadcasting make the table.",
        "A key that comes before the query has a smaller position: which sign should it get?",
    ),
    mistakes=(
        Mistake(
            "reversed",
            "the sign is the other way round: keys before the query come out positive",
            GITHUB + "dmlc/gluon-nlp/pull/1470",
            excludes=("unsigned",),
        ),
        Mistake(
            "transposed",
            "keys run down and queries across; the table is transposed",
            GITHUB + "karpathy/llm.c/pull/531",
        ),
        Mistake(
            "by_index",
            "rows and columns are counted from 0, and the positions are not used",
            GITHUB + "huggingface/candle/pull/899",
        ),
        Mistake(
            "unsigned",
            "the sign is lost: a key three back and a key three ahead look the same",
            "claim 3",
        ),
    ),
)


# How many numbers?


def _bias_numbers(
    *,
    per_layer: bool = False,
    cross_too: bool = False,
    one_for_both: bool = False,
    heads_share: bool = False,
) -> int:
    from ..relative import T5Bias

    layers, heads = 6, 8
    encoder, decoder = (T5Bias(heads, bidirectional=two_ways) for two_ways in (True, False))
    tables = [encoder.weight] if one_for_both else [encoder.weight, decoder.weight]
    if cross_too:
        tables.append(decoder.weight)
    numbers = sum(table.numel() for table in tables)
    return numbers * (layers if per_layer else 1) // (heads if heads_share else 1)


BIAS_NUMBERS = Predict(
    name="bias_numbers",
    title="What a whole model knows about positions",
    chapter=5,
    difficulty=1,
    importance=2,
    minutes=5,
    points=1,
    reference=_bias_numbers,
    hints=(
        "How large is one table? Who has one of its own: a layer, a head, a stack?",
        "There are two stacks, and three kinds of attention.",
    ),
    mistakes=(
        Mistake(
            "per_layer",
            "a table is counted for every layer; the layers of a stack share one",
            GITHUB + "huggingface/transformers/issues/10221",
        ),
        Mistake(
            "cross_too",
            "cross-attention is counted; it has no bias",
            GITHUB + "google-research/text-to-text-transfer-transformer/issues/415",
            excludes=("one_for_both",),
        ),
        Mistake(
            "one_for_both",
            "encoder and decoder are taken to share a table; their buckets mean different things",
            GITHUB + "ml-explore/mlx-examples/pull/113",
        ),
        Mistake(
            "heads_share",
            "the heads are taken to share their numbers; each has its own",
            GITHUB + "microsoft/Swin-Transformer/issues/14",
        ),
    ),
)


# Shaw's term


def _shaw_term(
    Q: torch.Tensor,
    A: torch.Tensor,
    *,
    no_scale: bool = False,
    reversed: bool = False,
    unsigned: bool = False,
    negative_rows: bool = False,
    far_is_zero: bool = False,
    of_the_key: bool = False,
) -> torch.Tensor:
    n, d = Q.shape
    most = len(A) // 2
    r = torch.arange(n)[None, :] - torch.arange(n)[:, None]  # (query, key)
    if reversed:
        r = -r
    if unsigned:
        r = r.abs()
    row = r.clamp(-most, most)
    row = row % len(A) if negative_rows else row + most
    scores = Q @ A.T  # (n, rows)
    index = torch.arange(n)
    term = scores[index[None, :] if of_the_key else index[:, None], row]
    if far_is_zero:
        term = term.masked_fill(r.abs() > most, 0)
    return term if no_scale else term / math.sqrt(d)


def _shaw_inputs() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(51)
    sizes = ((7, 4, 2, torch.float32), (5, 8, 9, torch.float32), (12, 6, 3, torch.float64))
    return [
        (_normal(generator, n, d, dtype=dtype), _normal(generator, 2 * most + 1, d, dtype=dtype))
        for n, d, most, dtype in sizes
    ]


SHAW_TERM = Implement(
    name="shaw_term",
    title="Shaw's term without a large tensor",
    chapter=5,
    difficulty=2,
    importance=2,
    minutes=12,
    points=2,
    signature="def shaw_term(Q, A):",
    make_inputs=_shaw_inputs,
    tolerance=2e-5,
    any_float=True,
    reference=_shaw_term,
    hints=(
        "Compare every query with every row of A first: that is one small matrix product.",
        "Which of these products belongs to query m and key n? Its row in A is n - m, clipped, "
        "and moved so that it starts at 0.",
        "torch.gather, or indexing with two index tensors, picks one entry for each pair.",
    ),
    mistakes=(
        Mistake(
            "no_scale",
            "the term is not divided as the rest of the score is",
            GITHUB + "PAIR-code/tiny-transformers/issues/71",
        ),
        Mistake(
            "reversed",
            "keys before the query get the vectors of those after it, and the reverse",
            GITHUB + "nntrainer/nntrainer/pull/3982",
            excludes=("unsigned",),
        ),
        Mistake(
            "unsigned",
            "the direction is lost: a key three back and a key three ahead get the same vector",
            "claim 3",
        ),
        Mistake(
            "negative_rows",
            "row 0 is taken for distance 0, and negative distances count from the end of the "
            "table; row 0 belongs to the farthest key back",
            GITHUB + "lucidrains/bottleneck-transformer-pytorch/issues/8",
        ),
        Mistake(
            "far_is_zero",
            "keys beyond the largest distance get nothing; they share the outermost vector",
            GITHUB + "huggingface/transformers/pull/9164",
        ),
        Mistake(
            "of_the_key",
            "the vector is compared with the token where the key stands, not with the query",
            GITHUB + "leaderj1001/Attention-Augmented-Conv2d/issues/1",
        ),
    ),
)


# Buckets


def _bucket_of(
    r: torch.Tensor,
    bidirectional: bool,
    num_buckets: int,
    max_distance: int,
    *,
    negated: bool = False,
    halves: bool = False,
    not_halved: bool = False,
    all_exact: bool = False,
    rounded: bool = False,
    ceiling: bool = False,
    short_log: bool = False,
    all_far: bool = False,
    no_last: bool = False,
    one_too_many: bool = False,
    zero_ahead: bool = False,
    ahead_counts: bool = False,
) -> torch.Tensor:
    if negated:
        r = -r
    buckets = num_buckets // 2 if bidirectional and not not_halved else num_buckets
    offset = torch.zeros_like(r)
    if bidirectional:
        upper = r < 0 if halves else r > 0
        if zero_ahead:
            upper = upper | (r == 0)
        offset = buckets * upper.long()
        distance = r.abs()
    else:
        distance = r.abs() if ahead_counts else (-r).clamp(min=0)
    if all_exact:
        return offset + (distance if no_last else distance.clamp(max=buckets - 1))
    exact = buckets // 2
    widest = math.log(max_distance) if short_log else math.log(max_distance / exact)
    count = buckets if all_far else buckets - exact
    steps = (distance.clamp(min=1).double() / exact).log() / widest * count
    far = exact + (steps.round() if rounded else steps.ceil() if ceiling else steps.floor()).long()
    if not no_last:
        far = far.clamp(max=buckets if one_too_many else buckets - 1)
    return offset + torch.where(distance < exact, distance, far)


def _bucket_inputs() -> list[tuple]:
    """No edge between two buckets is a whole number here, so the last bit decides nothing."""
    square = torch.arange(10)[None, :] - torch.arange(10)[:, None]
    line = torch.arange(-300, 301)
    line = line[line.abs() != 120]
    short = torch.tensor([*range(-90, -60), *range(-59, 30)])
    return [
        (square, True, 32, 128),
        (line, True, 32, 120),
        (line, False, 32, 120),
        (short, False, 8, 60),
    ]


_LOG_PART = ("all_exact", "rounded", "ceiling", "short_log", "all_far", "one_too_many")

BUCKET_OF = Implement(
    name="bucket_of",
    title="T5's buckets",
    chapter=5,
    difficulty=2,
    importance=3,
    minutes=15,
    points=3,
    signature="def bucket_of(r, bidirectional, num_buckets, max_distance):",
    make_inputs=_bucket_inputs,
    reference=_bucket_of,
    hints=(
        "Take the direction out first: which keys get the upper half, and how many buckets are "
        "left for the distance?",
        "Half of these are exact. For the rest write the edges down and take their logarithm.",
        "torch.where(distance < exact, distance, far); keep the logarithm away from 0, and the "
        "last bucket is a limit.",
    ),
    mistakes=(
        Mistake(
            "negated",
            "the sign of r is read the other way round: r is key minus query, so keys that lie "
            "back are negative",
            GITHUB + "dmlc/gluon-nlp/pull/1470",
            excludes=("halves", "zero_ahead", "ahead_counts"),
        ),
        Mistake(
            "halves",
            "in both directions: keys before the query use the upper half of the buckets; it is "
            "for those after it",
            GITHUB + "ml-explore/mlx-examples/pull/113",
        ),
        Mistake(
            "not_halved",
            "in both directions: each direction gets as many buckets as there are altogether",
            GITHUB + "ml-explore/mlx-examples/pull/113",
        ),
        Mistake(
            "all_exact",
            "every distance has a bucket of its own until they run out; only half of the buckets "
            "are exact",
            GITHUB + "ml-explore/mlx-examples/pull/113",
            excludes=_LOG_PART[1:],
        ),
        Mistake(
            "rounded",
            "the logarithm is rounded to the nearest whole number, so buckets begin too early",
            GITHUB + "ml-explore/mlx-examples/pull/113",
            excludes=("ceiling", "short_log", "all_far", "one_too_many"),
        ),
        Mistake(
            "ceiling",
            "the logarithm is rounded up, so far distances land one bucket too high",
            GITHUB + "ml-explore/mlx-examples/pull/113",
            excludes=("short_log", "all_far", "one_too_many"),
        ),
        Mistake(
            "short_log",
            "the widths do not fit: at the maximum distance the logarithmic part has not used up "
            "its buckets",
            GITHUB + "ml-explore/mlx-examples/pull/113",
            excludes=("all_far", "no_last", "one_too_many"),
        ),
        Mistake(
            "all_far",
            "the quotient of the logarithms is multiplied by all buckets; only those that are not "
            "exact are left for it",
            GITHUB + "ml-explore/mlx-examples/pull/113",
            excludes=("no_last", "one_too_many"),
        ),
        Mistake(
            "no_last",
            "there is no last bucket: far distances run over the end",
            GITHUB + "huggingface/transformers/issues/17026",
            excludes=("one_too_many",),
        ),
        Mistake(
            "one_too_many",
            "far distances get a bucket more than there is: the last one is the number of buckets "
            "minus 1",
            GITHUB + "huggingface/transformers/issues/17026",
        ),
        Mistake(
            "zero_ahead",
            "in both directions: the query itself, at distance 0, is counted as ahead",
            GITHUB + "ml-explore/mlx-examples/pull/113",
        ),
        Mistake(
            "ahead_counts",
            "in one direction: keys after the query are treated as if they lay before it; they "
            "share bucket 0",
            GITHUB + "ml-explore/mlx-examples/pull/113",
        ),
    ),
)


# A bias beside a cache


def _step_bias(
    b: torch.Tensor,
    past: int,
    n: int,
    *,
    from_zero: bool = False,
    new_keys_only: bool = False,
    by_key: bool = False,
    one_row: bool = False,
    far_is_zero: bool = False,
    heads_last: bool = False,
    one_off: bool = False,
    one_early: bool = False,
) -> torch.Tensor:
    q = torch.arange(n) + (0 if from_zero else past)
    k = torch.arange(n) + past if new_keys_only else torch.arange(past + n)
    if one_row:
        q = q[-1].expand(n)
    back = q[:, None] - k[None, :] + int(one_off) - int(one_early)
    if by_key:
        back = k.expand(n, -1)
    last = b.shape[1] - 1
    bias = b[:, back.clamp(0, last)]
    if far_is_zero:
        bias = bias * (back <= last)
    return bias.movedim(0, -1) if heads_last else bias


def _visible_only(arguments: tuple, bias: torch.Tensor) -> torch.Tensor:
    """What stands for keys after the query is free: the mask hides it."""
    b, past, n = arguments
    if bias.shape[-2:] == (n, past + n) and bias.dim() == 3:
        ahead = torch.arange(past + n)[None, :] > past + torch.arange(n)[:, None]
        return bias.masked_fill(ahead, 0)
    return bias


def _step_inputs() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(52)
    cases = ((4, 7, 0, 4), (2, 5, 9, 1), (2, 5, 6, 3), (3, 32, 40, 2))
    return [(_normal(generator, heads, size), past, n) for heads, size, past, n in cases]


STEP_BIAS = Implement(
    name="step_bias",
    title="A bias beside a cache",
    chapter=5,
    difficulty=3,
    importance=3,
    minutes=12,
    points=2,
    signature="def step_bias(b, past, n):",
    make_inputs=_step_inputs,
    tolerance=1e-6,
    any_float=True,
    canonical=_visible_only,
    reference=_step_bias,
    hints=(
        "At which positions do the new tokens stand, and at which positions all the keys?",
        "Make the table of distances back first, then look all of them up at once.",
        "A distance past the end of b uses its last entry; a negative one must not count from the "
        "end.",
    ),
    mistakes=(
        Mistake(
            "from_zero",
            "the new tokens are counted from 0, as if nothing were in the cache",
            GITHUB + "Blaizzy/mlx-vlm/issues/1983",
            excludes=("by_key", "far_is_zero"),
        ),
        Mistake(
            "new_keys_only",
            "there is a column for each new token only; the keys in the cache need one as well",
            GITHUB + "huggingface/candle/pull/899",
            excludes=("from_zero", "far_is_zero"),
        ),
        Mistake(
            "by_key",
            "the place of the key is taken for its distance, so all queries get the same row",
            GITHUB + "ofirpress/attention_with_linear_biases/issues/9",
            excludes=("one_row", "one_off"),
        ),
        Mistake(
            "one_row",
            "all new tokens get the row of the last one",
            GITHUB + "Dao-AILab/flash-attention/issues/907",
        ),
        Mistake(
            "far_is_zero",
            "far keys get no bias at all; they share the last number",
            GITHUB + "huggingface/transformers/issues/17026",
        ),
        Mistake(
            "heads_last",
            "the heads are on the last axis; scores have them before the queries",
            GITHUB + "ml-explore/mlx-examples/pull/113",
        ),
        Mistake(
            "one_off",
            "a token is one place away from itself; the first entry of b is for distance 0",
            GITHUB + "TransformerLensOrg/TransformerLens/issues/284",
            excludes=("one_early",),
        ),
        Mistake(
            "one_early",
            "the first new token is put at past - 1; that is where the last token of the cache "
            "stands",
            GITHUB + "TransformerLensOrg/TransformerLens/issues/284",
            excludes=("from_zero", "new_keys_only", "by_key", "one_row", "far_is_zero"),
        ),
    ),
)


WHAT_A_BIAS_KNOWS = explain(
    {
        "A": Statement(
            "If the positions of all tokens are raised by 100, no score of a model with T5's bias "
            "changes."
        ),
        "B": Statement(
            "Shaw's term can be computed once for all texts of one length, like T5's bias.",
            "it is a product with the query, so it is another number for every text",
            GITHUB + "microsoft/Swin-Transformer/issues/348",
        ),
        "C": Statement(
            "With 32 buckets and a maximum distance of 128, T5's encoder gives keys 100 and 120 "
            "back different numbers.",
            "the last bucket begins at 91, and both are in it",
            "claim 26",
        ),
        "D": Statement(
            "A T5 decoder that counts each new token from 0 while it reads from a cache gives all "
            "keys the same bias, which is as good as none."
        ),
        "E": Statement(
            "In T5's cross-attention the decoder's position and the encoder's position are "
            "compared by the decoder's table.",
            "the two texts share no coordinate, and cross-attention has no bias",
            GITHUB + "google-research/text-to-text-transfer-transformer/issues/415",
        ),
        "F": Statement(
            "A table of zeros gets no gradient, so it has to start with random numbers.",
            "the gradient of an added number is that of the score; ours started at zero, and the "
            "size of the steps is what mattered",
            GITHUB + "chinhsuanwu/coatnet-pytorch/issues/2",
        ),
        "G": Statement(
            "A learned bias falls steadily with the distance, so a straight line would do as well.",
            "one of our heads learned a saw, with a tooth every four bytes",
            "claim 19",
        ),
        "H": Statement(
            "Every distance has a bucket, so a text of any length is read as well as a short one.",
            "beyond the trained length the last bucket fills up, and the loss rises",
            "claim 20",
        ),
    },
    name="what_a_bias_knows",
    title="What a bias knows",
    chapter=5,
    difficulty=3,
    importance=2,
    minutes=8,
    points=2,
    hints=(
        "Two of the eight are true.",
        "For each of the others the chapter has a derivation or a measurement that says otherwise.",
    ),
)

EXERCISES = (
    DISTANCE_TABLE,
    BIAS_NUMBERS,
    SHAW_TERM,
    BUCKET_OF,
    STEP_BIAS,
    WHAT_A_BIAS_KNOWS,
)
