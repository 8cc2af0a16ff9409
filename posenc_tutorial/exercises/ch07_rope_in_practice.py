"""Exercises of chapter 7: places, layouts, tables, moved keys, and which test sees what."""

from __future__ import annotations

import torch

from ..frequencies import inverse_frequencies
from ..rope import half_to_interleaved, interleaved_to_half, rope_cos_sin, rotate
from .registry import Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"
LAYOUTS = ("half", "interleaved")


def _normal(generator: torch.Generator, *shape: int, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, dtype=dtype, device="cpu")


# Where the new tokens stand


def _next_places(
    mask: torch.Tensor,
    n_new: int,
    *,
    restart: bool = False,
    slots: bool = False,
    longest: bool = False,
    twice: bool = False,
    one_behind: bool = False,
    one_ahead: bool = False,
    one_for_all: bool = False,
) -> torch.Tensor:
    count = mask.long().sum(1, keepdim=True)
    if slots:
        count = torch.full_like(count, mask.shape[1])
    if longest:
        count = count.max().expand_as(count)
    if twice:
        count = 2 * count
    if one_behind:
        count = count - 1
    if one_ahead:
        count = count + 1
    if restart:
        count = torch.zeros_like(count)
    step = torch.zeros(n_new, dtype=torch.long) if one_for_all else torch.arange(n_new)
    return count + step


NEXT_PLACES = Implement(
    name="next_places",
    title="Where do the new tokens stand?",
    chapter=7,
    difficulty=1,
    importance=3,
    minutes=6,
    points=1,
    signature="def next_places(mask, n_new):",
    make_inputs=lambda: [
        (torch.tensor([[0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1]], device="cpu"), 3),
        (torch.tensor([[0, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1]]), 2),
        (torch.tensor([[0, 0, 1, 1]], device="cpu"), 1),
    ],
    reference=_next_places,
    hints=(
        "The first new token stands behind all real tokens of its own row.",
        "How many real tokens does a row have, and which is the first free place if they are "
        "counted from 0?",
        "Several new tokens stand one behind the other.",
    ),
    mistakes=(
        Mistake(
            "restart",
            "the new tokens start again at 0, as if nothing had been cached",
            GITHUB + "Blaizzy/mlx-vlm/issues/1983",
            excludes=("slots", "longest", "twice", "one_behind", "one_ahead"),
        ),
        Mistake(
            "slots",
            "slots of the cache are counted, padding included",
            GITHUB + "huggingface/transformers/issues/22161",
            excludes=("longest",),
        ),
        Mistake(
            "longest",
            "all rows go on from the end of the longest one",
            GITHUB + "huggingface/transformers/issues/3021",
        ),
        Mistake(
            "twice",
            "what is in the cache is counted twice",
            GITHUB + "Blaizzy/mlx-vlm/issues/1983",
        ),
        Mistake(
            "one_behind",
            "the first new token has the place of the last cached one",
            GITHUB + "fla-org/flash-linear-attention/issues/766",
            excludes=("one_ahead",),
        ),
        Mistake(
            "one_ahead",
            "one place too far: with the first token at 0, the first free place is their number",
            GITHUB + "fla-org/flash-linear-attention/issues/766",
        ),
        Mistake(
            "one_for_all",
            "all new tokens of a row stand at one place",
            GITHUB + "Blaizzy/mlx-vlm/issues/1983",
        ),
    ),
)


# Which test sees it?


def _which_test(
    *,
    first_token: bool = False,
    lengths: bool = False,
    other_base: bool = False,
    harmless: bool = False,
    table: bool = False,
    one_sign: bool = False,
    two_signs: bool = False,
    folded: bool = False,
    speeds: bool = False,
    shifted: bool = False,
) -> list[bool]:
    generator = torch.Generator(device="cpu").manual_seed(71)
    n, d = 400, 16
    q, k = (_normal(generator, d).expand(n, d) for _ in range(2))
    inv_freq, count = inverse_frequencies(d), torch.arange(n)

    def turn(x, positions=count, speeds=inv_freq, layout="half"):
        theta = positions.double()[:, None] * speeds
        return rotate(x, theta.cos(), theta.sin(), layout=layout)

    def unlike(a: torch.Tensor, b: torch.Tensor) -> bool:
        return bool((a - b).abs().max() > 1e-6)

    def moves(turned_q: torch.Tensor, turned_k: torch.Tensor) -> bool:
        scores = turned_q @ turned_k.T
        return unlike(scores[5:, 5:], scores[:-5, :-5])

    right_q, right_k = turn(q), turn(k)
    wrong_q, wrong_k = (turn(x, layout="interleaved") for x in (q, k))
    right, wrong = right_q @ right_k.T, wrong_q @ wrong_k.T
    theta = (count.double()[:, None] * inv_freq).repeat_interleave(2, -1)
    swapped = torch.cat([-q[:, d // 2 :], q[:, : d // 2]], -1)
    mixed = q * theta.cos() + swapped * theta.sin()
    thousand = inverse_frequencies(d, 1000.0)
    slow = inv_freq.bfloat16().double()
    backwards = turn(q, -count) @ turn(k, -count).T
    rough = turn(q, count, slow) @ turn(k, count, slow).T
    later = turn(q, count + 1) @ turn(k, count + 1).T
    measured = [
        unlike(wrong[:1, :1], right[:1, :1]),
        unlike(wrong_q.norm(dim=-1), q.norm(dim=-1)),
        moves(turn(q, count, thousand), turn(k, count, thousand)),
        unlike(wrong[8:], right[8:]),
        unlike(mixed[0], q[0]),
        unlike(turn(k, -count).norm(dim=-1), k.norm(dim=-1)),
        unlike(backwards[8:], right[8:]),
        moves(turn(q, count % 256), turn(k, count % 256)),
        unlike(rough[8:], right[8:]),
        unlike(later[8:], right[8:]),
    ]
    flips = [
        first_token,
        lengths,
        other_base,
        harmless,
        table,
        one_sign,
        two_signs,
        folded,
        speeds,
        shifted,
    ]
    return [value != flip for value, flip in zip(measured, flips, strict=True)]


WHICH_TEST = Predict(
    name="which_test",
    title="Which test sees it?",
    chapter=7,
    difficulty=2,
    importance=3,
    minutes=8,
    points=2,
    reference=_which_test,
    parts=(
        "wrong layout, first token",
        "wrong layout, lengths",
        "base 1000, moved text",
        "wrong layout, right scores",
        "wrong table, first token",
        "keys backwards, lengths",
        "both backwards, right scores",
        "positions modulo 256, moved text",
        "rounded frequencies, right scores",
        "all positions + 1, right scores",
    ),
    hints=(
        "Ask of each mistake: is the result still a rotation, and is it still relative?",
        "Some mistakes are the same at every place. A test that compares two places is blind to "
        "them.",
    ),
    mistakes=(
        Mistake(
            "first_token",
            "wrong layout, first token: all its angles are 0, whatever the layout",
            GITHUB + "rasbt/LLMs-from-scratch/pull/750",
        ),
        Mistake(
            "lengths",
            "wrong layout, lengths: the wrong pairs are turned, and turning changes no length",
            GITHUB + "huggingface/transformers/issues/25199",
        ),
        Mistake(
            "other_base",
            "base 1000, moved text: other frequencies, and the same ones at every place",
            GITHUB + "unslothai/unsloth/pull/7028",
        ),
        Mistake(
            "harmless",
            "wrong layout, right scores: two permuted keys and queries give the same scores, but "
            "nothing was permuted here",
            GITHUB + "meta-pytorch/gpt-fast/issues/190",
        ),
        Mistake(
            "table",
            "wrong table, first token: its angles are all 0, and nothing is swapped with a sine "
            "of 0",
            GITHUB + "facebookresearch/vjepa2/pull/15",
        ),
        Mistake(
            "one_sign",
            "keys backwards, lengths: a turn the wrong way round is a turn",
            GITHUB + "huggingface/transformers/issues/30900",
        ),
        Mistake(
            "two_signs",
            "both backwards, right scores: relative is not right; every distance has changed its "
            "sign",
            GITHUB + "skyzh/tiny-llm/pull/25",
        ),
        Mistake(
            "folded",
            "positions modulo 256, moved text: two tokens on both sides of the fold are not as "
            "far apart as two others",
            GITHUB + "pytorch/torchtitan/pull/2849",
        ),
        Mistake(
            "speeds",
            "rounded frequencies, right scores: what a model does not notice is a difference all "
            "the same, and it grows with the distance",
            GITHUB + "EleutherAI/gpt-neox/issues/1003",
        ),
        Mistake(
            "shifted",
            "all positions + 1, right scores: a shift that all share cancels in every score",
            GITHUB + "huggingface/transformers/issues/22161",
        ),
    ),
)


# Rows of a checkpoint


def _convert_rows(
    W: torch.Tensor,
    num_heads: int,
    rotary_dim: int,
    to: str,
    *,
    inverted: bool = False,
    always_half: bool = False,
    always_interleaved: bool = False,
    whole_axis: bool = False,
    first_head: bool = False,
    heads_last: bool = False,
    whole_head: bool = False,
    last_rows: bool = False,
    columns: bool = False,
    unchanged: bool = False,
    again: bool = False,
) -> torch.Tensor:
    if unchanged:
        return W.clone()
    if always_half or always_interleaved:
        to = "half" if always_half else "interleaved"
    if inverted:
        to = LAYOUTS[1 - LAYOUTS.index(to)]
    reorder = interleaved_to_half if to == "half" else half_to_interleaved
    rows = W.shape[0]
    width = rows // num_heads
    turning = width if whole_head else rotary_dim
    one = torch.arange(width)
    if last_rows:
        one = torch.cat([one[: width - turning], reorder(one[width - turning :])])
    else:
        one = torch.cat([reorder(one[:turning]), one[turning:]])
    if whole_axis:
        order = reorder(torch.arange(rows))
    elif first_head:
        order = torch.cat([one, torch.arange(width, rows)])
    elif heads_last:
        order = (one[:, None] * num_heads + torch.arange(num_heads)).flatten()
    else:
        order = (one + width * torch.arange(num_heads)[:, None]).flatten()
    if again:
        order = order[order]
    return W[:, order] if columns else W[order]


def _square_weights() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(72)
    cases = ((2, 8, 8, "half"), (3, 10, 6, "interleaved"), (2, 12, 8, "half"))
    return [
        (_normal(generator, heads * width, heads * width, dtype=torch.float32), heads, turning, to)
        for heads, width, turning, to in cases
    ]


_LISTS = ("inverted", "always_half", "always_interleaved")
_PLACES = ("whole_axis", "first_head", "heads_last", "whole_head", "last_rows")

CONVERT_ROWS = Implement(
    name="convert_rows",
    title="Convert a checkpoint",
    chapter=7,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    signature="def convert_rows(W, num_heads, rotary_dim, to):",
    make_inputs=_square_weights,
    tolerance=0.0,
    reference=_convert_rows,
    hints=(
        "Write the list for one head first: which old row comes to place 0, which to place 1?",
        "A list that is used as an index says where each row comes from, not where it goes.",
        "Within the rows of one head the first rotary_dim move. The next head has the same list, "
        "a head further down.",
    ),
    mistakes=(
        Mistake(
            "inverted",
            "the conversion runs the wrong way round: this list leads from the other layout to "
            "the one that W already has",
            GITHUB + "meta-pytorch/gpt-fast/issues/190",
            excludes=("always_half", "always_interleaved"),
        ),
        Mistake(
            "always_half",
            "the result is the half layout, whichever is asked for",
            GITHUB + "huggingface/transformers/issues/25199",
            excludes=("always_interleaved",),
        ),
        Mistake(
            "always_interleaved",
            "the result is the interleaved layout, whichever is asked for",
            GITHUB + "huggingface/transformers/issues/25199",
        ),
        Mistake(
            "whole_axis",
            "one list runs over all heads, so rows change from head to head",
            GITHUB + "meta-pytorch/gpt-fast/issues/190",
            excludes=("first_head", "heads_last", "whole_head", "last_rows"),
        ),
        Mistake(
            "first_head",
            "only the first head is reordered",
            GITHUB + "huggingface/transformers/pull/31788",
            excludes=("heads_last",),
        ),
        Mistake(
            "heads_last",
            "rows are read as if the heads changed fastest; the rows of one head stand together",
            GITHUB + "meta-pytorch/gpt-fast/issues/190",
        ),
        Mistake(
            "whole_head",
            "rows move that make channels which do not turn",
            GITHUB + "vllm-project/vllm/pull/30384",
            excludes=("last_rows",),
        ),
        Mistake(
            "last_rows",
            "the last channels of a head are taken for the ones that turn",
            GITHUB + "labmlai/annotated_deep_learning_paper_implementations/issues/215",
        ),
        Mistake(
            "columns",
            "columns are reordered: they belong to the input, and the rows make the channels",
            GITHUB + "meta-pytorch/gpt-fast/issues/190",
        ),
        Mistake(
            "unchanged",
            "the rows are where they were",
            GITHUB + "huggingface/transformers/issues/25199",
            excludes=(*_LISTS, *_PLACES, "columns", "again"),
        ),
        Mistake(
            "again",
            "the rows are reordered twice",
            GITHUB + "meta-pytorch/gpt-fast/issues/190",
            excludes=_LISTS,
        ),
    ),
)


# Keys that move


def _move_keys(
    keys: torch.Tensor,
    old: torch.Tensor,
    new: torch.Tensor,
    inv_freq: torch.Tensor,
    *,
    backwards: bool = False,
    from_scratch: bool = False,
    only_back: bool = False,
    summed: bool = False,
    one_step: bool = False,
    slots: bool = False,
    interleaved: bool = False,
    whole_head_pairs: bool = False,
    unmoved: bool = False,
) -> torch.Tensor:
    if unmoved:
        return keys.clone()
    if slots:
        old = torch.arange(len(old))
    step = new - old
    if from_scratch:
        step = new
    if only_back:
        step = -old
    if summed:
        step = new + old
    if one_step:
        step = step[:1].expand_as(step)
    if backwards:
        step = -step
    cos, sin = rope_cos_sin(step, inv_freq, dtype=torch.float64)
    x = keys.double()
    if whole_head_pairs:
        pairs, half = len(inv_freq), keys.shape[-1] // 2
        first, second = x[..., :pairs], x[..., half : half + pairs]
        x = x.clone()
        x[..., :pairs], x[..., half : half + pairs] = (
            first * cos - second * sin,
            first * sin + second * cos,
        )
        return x.to(keys.dtype)
    return rotate(x, cos, sin, layout="interleaved" if interleaved else "half").to(keys.dtype)


def _cached_keys() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(73)
    first = _normal(generator, 1, 2, 5, 8)
    second = _normal(generator, 2, 1, 6, 12, dtype=torch.float32)
    return [
        (first, torch.arange(5), torch.arange(5) + 7, inverse_frequencies(8)),
        # The middle of a text was dropped, and only 8 of 12 channels turn.
        (
            second,
            torch.tensor([3, 4, 20, 21, 22, 40], device="cpu"),
            torch.tensor([1, 2, 3, 4, 5, 6], device="cpu"),
            inverse_frequencies(8),
        ),
        (
            _normal(generator, 1, 2, 3, 8).bfloat16(),
            torch.tensor([1, 5, 6], device="cpu"),
            torch.tensor([3, 4, 8], device="cpu"),
            inverse_frequencies(8),
        ),
    ]


def _keys_tolerance(keys, old, new, inv_freq) -> float:
    # Cosines, products and sums may each be rounded to the dtype of the keys.
    return max(1e-4, 8 * torch.finfo(keys.dtype).eps)


MOVE_KEYS = Implement(
    name="move_keys",
    title="Move cached keys",
    chapter=7,
    difficulty=2,
    importance=2,
    minutes=8,
    points=2,
    signature="def move_keys(keys, old, new, inv_freq):",
    make_inputs=_cached_keys,
    tolerance=_keys_tolerance,
    reference=_move_keys,
    hints=(
        "A key that has been turned to its old place needs one more turn. From where to where?",
        "Each token has a turn of its own: the gap that closes is not the same for all.",
        "With n tokens and r/2 frequencies there is a table of n rows and r/2 columns of angles.",
    ),
    mistakes=(
        Mistake(
            "backwards",
            "the keys are turned the wrong way, away from their new place",
            GITHUB + "Kevin-thu/StoryMem/issues/17",
            excludes=("summed",),
        ),
        Mistake(
            "from_scratch",
            "the keys are turned to the new place as if they had not been turned before",
            GITHUB + "NeuraLegion/shainet/pull/110",
            excludes=("only_back", "summed", "slots"),
        ),
        Mistake(
            "only_back",
            "the old turn is undone, and the new one is missing",
            GITHUB + "NVIDIA/kvpress/pull/31",
            excludes=("summed", "slots"),
        ),
        Mistake(
            "summed",
            "old and new place are added up; the turn that is missing is their difference",
            GITHUB + "huggingface/transformers/issues/30900",
        ),
        Mistake(
            "one_step",
            "all tokens are moved as far as the first one",
            GITHUB + "huggingface/candle/pull/2901",
            excludes=("slots", "from_scratch", "only_back", "summed"),
        ),
        Mistake(
            "slots",
            "slots of the cache are taken for the old places, which are given",
            GITHUB + "MemTensor/MemOS/pull/2304",
            excludes=("summed",),
        ),
        Mistake(
            "interleaved",
            "neighbours are turned as pairs; these keys are in the half layout",
            GITHUB + "huggingface/transformers/issues/25199",
            excludes=("whole_head_pairs",),
        ),
        Mistake(
            "whole_head_pairs",
            "where only a part of the head turns, its pairs are made within that part",
            GITHUB + "apple/coreai-models/issues/66",
        ),
        Mistake(
            "unmoved",
            "the keys are still turned to their old places",
            GITHUB + "MemTensor/MemOS/pull/2304",
            excludes=(
                "backwards",
                "from_scratch",
                "only_back",
                "summed",
                "one_step",
                "slots",
                "interleaved",
                "whole_head_pairs",
            ),
        ),
    ),
)


# A table with a column for each channel


def _channel_table(
    positions: torch.Tensor,
    inv_freq: torch.Tensor,
    layout: str,
    dtype: torch.dtype,
    *,
    exchanged: bool = False,
    always_half: bool = False,
    always_interleaved: bool = False,
    sine_first: bool = False,
    row_numbers: bool = False,
    cast_positions: bool = False,
    cast_angles: bool = False,
    cast_speeds: bool = False,
    cast_all: bool = False,
    float32_angles: bool = False,
    negative: bool = False,
) -> torch.Tensor:
    if exchanged:
        layout = LAYOUTS[1 - LAYOUTS.index(layout)]
    if always_half or always_interleaved:
        layout = "half" if always_half else "interleaved"
    if cast_all:
        cast_positions = cast_angles = cast_speeds = True
    p, w = positions.double(), inv_freq.double()
    if row_numbers:
        p = torch.arange(len(p), dtype=torch.float64)
    if cast_positions:
        p = p.to(dtype).double()
    if cast_speeds:
        w = w.to(dtype).double()
    theta = p[:, None] * w
    if cast_angles:
        theta = theta.to(dtype).double()
    if float32_angles:
        theta = (p.float()[:, None] * w.float()).double()
    theta = torch.cat([theta, theta], 1) if layout == "half" else theta.repeat_interleave(2, 1)
    sine = -theta.sin() if negative else theta.sin()
    pair = (sine, theta.cos()) if sine_first else (theta.cos(), sine)
    return torch.stack(pair).to(dtype)


def _table_tolerance(positions, inv_freq, layout, dtype) -> torch.Tensor:
    # One rounding to the dtype asked for. In 16 bits float32 angles are as good as any.
    if dtype == torch.float32:
        return torch.full((len(positions), 1), 1e-6, dtype=torch.float64)
    return torch.finfo(dtype).eps / 2 + 1e-5 + 1.5e-7 * positions.double()[:, None]


_CASTS = ("cast_angles", "cast_speeds", "cast_all")

CHANNEL_TABLE = Implement(
    name="channel_table",
    title="A table for other people's rotations",
    chapter=7,
    difficulty=3,
    importance=2,
    minutes=8,
    points=2,
    signature="def channel_table(positions, inv_freq, layout, dtype):",
    make_inputs=lambda: [
        (torch.arange(300, 304), inverse_frequencies(8), "half", torch.bfloat16),
        (
            torch.tensor([0, 5, 2049, 4095], device="cpu"),
            inverse_frequencies(6),
            "interleaved",
            torch.float16,
        ),
        (
            torch.tensor([4093, 3001, 7], device="cpu"),
            inverse_frequencies(10),
            "half",
            torch.float32,
        ),
    ],
    tolerance=_table_tolerance,
    reference=_channel_table,
    hints=(
        "Angles first, one column for each pair; then every angle is needed twice.",
        "The two channels of a pair share an angle. Where are they, in each layout?",
        "What is the dtype of the last operation, and of all before it?",
    ),
    mistakes=(
        Mistake(
            "exchanged",
            "each layout has got the other one's table",
            GITHUB + "facebookresearch/vjepa2/pull/15",
            excludes=("always_half", "always_interleaved"),
        ),
        Mistake(
            "always_half",
            "the angles stand in two halves, whichever layout is asked for",
            GITHUB + "facebookresearch/vjepa2/pull/15",
            excludes=("always_interleaved",),
        ),
        Mistake(
            "always_interleaved",
            "each angle stands beside its copy, whichever layout is asked for",
            GITHUB + "facebookresearch/vjepa2/pull/15",
        ),
        Mistake(
            "sine_first",
            "the sines come first; the task asks for cosines, then sines",
            GITHUB + "flashinfer-ai/flashinfer/pull/3819",
        ),
        Mistake(
            "row_numbers",
            "rows are counted from 0; the positions that are given have no effect",
            GITHUB + "lucidrains/rotary-embedding-torch/issues/11",
            excludes=("cast_positions", *_CASTS),
        ),
        Mistake(
            "cast_positions",
            "positions are rounded to 16 bits, and neighbours fall on one place",
            GITHUB + "NVIDIA/Megatron-LM/issues/535",
            excludes=_CASTS,
        ),
        Mistake(
            "cast_angles",
            "angles are rounded before the cosine is taken; the error of a large angle is large",
            GITHUB + "EleutherAI/gpt-neox/issues/1003",
            excludes=_CASTS[1:],
        ),
        Mistake(
            "cast_speeds",
            "frequencies are rounded before they meet a position; that keeps distances, but it is "
            "not the table that was asked for",
            GITHUB + "EleutherAI/gpt-neox/issues/1003",
            excludes=_CASTS[2:],
        ),
        Mistake(
            "cast_all",
            "positions, frequencies and angles are all rounded before the cosine is taken",
            GITHUB + "EleutherAI/gpt-neox/issues/1003",
        ),
        Mistake(
            "float32_angles",
            "the angles are computed in float32: good enough for a table in 16 bits, and not as "
            "precise as a table in float32 allows",
            GITHUB + "EleutherAI/gpt-neox/issues/1003",
            excludes=("row_numbers", "cast_positions", *_CASTS),
        ),
        Mistake(
            "negative",
            "the sines have the wrong sign, and the rotation goes the other way round",
            GITHUB + "huggingface/transformers/issues/30900",
        ),
    ),
)


ROPE_IN_USE = explain(
    {
        "A": Statement(
            "A checkpoint that is converted to the other layout has the same scores and other "
            "queries."
        ),
        "B": Statement(
            "To convert a checkpoint, the rows of the query, key and value matrices are reordered.",
            "values meet nobody in a dot product; their order is that of the columns of W_o",
            "claim 23",
        ),
        "C": Statement(
            "The function printed in [S004] can stand in for the interleaved rotation anywhere.",
            "its scores can be used, its outputs cannot: they come out in another order",
            "claim 22",
        ),
        "D": Statement(
            "With frequencies rounded once to bfloat16, scores still depend on distance alone."
        ),
        "E": Statement(
            "Keys that are cached before rotation make decoding with dynamic NTK equal to a fresh "
            "pass, with any number of layers.",
            "from the second layer on, keys were made from states of a shorter text",
            GITHUB + "huggingface/transformers/issues/25104",
        ),
        "F": Statement(
            "With RoPE of fixed frequencies, texts packed into one row need a mask; whether "
            "positions start again changes no score."
        ),
        "G": Statement(
            "If a model answers fluently, its base has been read correctly.",
            "a wrong base costs little on short texts: less than a tenth of a nat in this chapter",
            GITHUB + "unslothai/unsloth/pull/7028",
        ),
        "H": Statement(
            "A test with one attention layer finds a layer that counts positions one ahead of the "
            "others.",
            "with one layer there are no others; all its positions are shifted alike",
            GITHUB + "fla-org/flash-linear-attention/issues/766",
        ),
    },
    name="rope_in_use",
    title="RoPE in use",
    chapter=7,
    difficulty=3,
    importance=2,
    minutes=8,
    points=1,
    hints=(
        "Three of the eight are true.",
        "B, C and E have a cell in this chapter in which they come out otherwise. For G, what did "
        "a wrong base cost? For H, with what can one layer disagree?",
    ),
)

EXERCISES = (
    NEXT_PLACES,
    WHICH_TEST,
    CONVERT_ROWS,
    MOVE_KEYS,
    CHANNEL_TABLE,
    ROPE_IN_USE,
)
