"""Exercises of chapter 6: speeds, the rotation in two layouts, scores, and what they know."""

from __future__ import annotations

import math

import torch

from ..attention import attention_scores
from ..claims.ch06_rope import moved_output
from ..frequencies import inverse_frequencies
from ..rope import rope_cos_sin, rotate
from .registry import Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"
BASE = 10000.0


def _normal(generator: torch.Generator, *shape: int, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, dtype=dtype, device="cpu")


# The speeds


def _rotary_speeds(
    head_dim: int,
    factor: float,
    base: float,
    *,
    whole_head: bool = False,
    head_exponent: bool = False,
    twice: bool = False,
    proportional: bool = False,
    doubled: bool = False,
    halved: bool = False,
    end_point: bool = False,
    base_dropped: bool = False,
    upside_down: bool = False,
    slowest_first: bool = False,
) -> torch.Tensor:
    r = head_dim if whole_head else int(head_dim * factor)
    if twice:
        r = int(r * factor)
    base = BASE if base_dropped else base
    two_i = torch.arange(0, head_dim if proportional else r, 2, dtype=torch.float64, device="cpu")
    width = head_dim if head_exponent or proportional else r
    exponent = two_i / width * (2 if doubled else 0.5 if halved else 1)
    if end_point:
        exponent = two_i / (2 * len(two_i) - 2)
    speed = base ** (exponent if upside_down else -exponent)
    if proportional:
        speed[r // 2 :] = 0.0
    return (speed.flip(0) if slowest_first else speed).float()


ROTARY_SPEEDS = Implement(
    name="rotary_speeds",
    title="How fast does each pair turn?",
    chapter=6,
    difficulty=1,
    importance=3,
    minutes=8,
    points=2,
    signature="def rotary_speeds(head_dim, factor, base):",
    make_inputs=lambda: [(8, 1.0, BASE), (128, 0.25, BASE), (80, 0.4, BASE), (64, 1.0, 500000.0)],
    tolerance=1e-6,
    any_float=True,
    reference=_rotary_speeds,
    hints=(
        "First the width of the part that turns. From then on, forget the rest of the head.",
        "For rotary_speeds(8, 1.0, 10000.0) the speeds are 1, a tenth of it, and so on.",
        "A head of 128 of which a quarter turns has the speeds of a head of 32.",
    ),
    mistakes=(
        Mistake(
            "whole_head",
            "the factor has no effect: speeds for the whole head",
            GITHUB + "vllm-project/vllm/pull/30384",
            excludes=("head_exponent", "twice", "proportional"),
        ),
        Mistake(
            "head_exponent",
            "the exponent counts the channels of the whole head; the part that turns is a head of "
            "its own",
            GITHUB + "vllm-project/vllm/pull/30384",
            excludes=("proportional", "end_point"),
        ),
        Mistake(
            "twice",
            "the factor is applied twice",
            GITHUB + "vllm-project/vllm/pull/30384",
        ),
        Mistake(
            "proportional",
            "this is proportional rotary: speeds of the whole head, the slow ones set to 0; asked "
            "for is a partial one",
            GITHUB + "apple/coreai-models/issues/66",
        ),
        Mistake(
            "doubled",
            "the exponent is doubled: something that already counts channels is multiplied by 2 "
            "again",
            GITHUB + "SamLynnEvans/Transformer/issues/25",
            excludes=("halved", "end_point"),
        ),
        Mistake(
            "halved",
            "the exponent is half of what it should be: pairs are counted, and divided by the "
            "number of channels",
            GITHUB + "rasbt/LLMs-from-scratch/issues/410",
            excludes=("end_point",),
        ),
        Mistake(
            "end_point",
            "the slowest pair turns by exactly 1/base: one pair too few in the denominator",
            GITHUB + "tensorflow/tensor2tensor/issues/1423",
        ),
        Mistake(
            "base_dropped",
            "the base that is given has no effect: it is 10,000 whatever is asked for",
            GITHUB + "unslothai/unsloth/pull/7028",
        ),
        Mistake(
            "upside_down",
            "the inverse of the speeds: the sign of the exponent",
            GITHUB + "SamLynnEvans/Transformer/issues/25",
        ),
        Mistake(
            "slowest_first",
            "the slowest pair comes first; the fastest should",
            GITHUB + "SamLynnEvans/Transformer/issues/25",
        ),
    ),
)


# What moves with the text


def _what_moves(
    *,
    keys_still: bool = False,
    lengths_move: bool = False,
    scores_move: bool = False,
    output_moves: bool = False,
    values_harmless: bool = False,
    turned_for_good: bool = False,
    sign_harmless: bool = False,
) -> list[bool]:
    speeds = inverse_frequencies(16)
    generator = torch.Generator(device="cpu").manual_seed(61)
    q, k = _normal(generator, 2, 6, 16)

    def turn(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return rotate(x, *rope_cos_sin(positions, speeds, dtype=torch.float64))

    def parts(start: int) -> list[torch.Tensor]:
        places = torch.arange(start, start + 6)
        keys, queries, backwards = turn(k, places), turn(q, places), turn(k, -places)
        head = (
            moved_output(turn, values=values, shift=start)
            for values in ("still", "turned", "turned and back")
        )
        return [
            keys,
            keys.norm(dim=-1),
            attention_scores(queries[None, None], keys[None, None]),
            *head,
            attention_scores(queries[None, None], backwards[None, None]),
        ]

    pairs = zip(parts(0), parts(100), strict=True)
    measured = [bool((a - b).abs().max() > 1e-9) for a, b in pairs]
    flips = [
        keys_still,
        lengths_move,
        scores_move,
        output_moves,
        values_harmless,
        turned_for_good,
        sign_harmless,
    ]
    return [value != flip for value, flip in zip(measured, flips, strict=True)]


WHAT_MOVES = Predict(
    name="what_moves",
    title="A hundred tokens later",
    chapter=6,
    difficulty=1,
    importance=3,
    minutes=8,
    points=2,
    reference=_what_moves,
    parts=(
        "the turned keys",
        "their lengths",
        "the scores",
        "the output",
        "the output, values turned too",
        "the output, turned back",
        "the scores, keys the other way",
    ),
    hints=(
        "Everything is turned by D(100) once more. Where does this cancel?",
        "It cancels between two vectors that are turned the same way and meet in a dot product, "
        "and it cancels if it is undone.",
    ),
    mistakes=(
        Mistake(
            "keys_still",
            "the turned keys: each is turned by its own absolute position, which has changed",
            "claim 11",
        ),
        Mistake(
            "lengths_move",
            "their lengths: a rotation keeps lengths, at every position",
            GITHUB + "facebookresearch/vjepa2/pull/15",
        ),
        Mistake(
            "scores_move",
            "the scores: query and key are turned on alike, and a common turn cancels",
            GITHUB + "huggingface/transformers/issues/22161",
        ),
        Mistake(
            "output_moves",
            "the output: the weights are the same, and so are the values",
            "claim 10",
        ),
        Mistake(
            "values_harmless",
            "the output, values turned too: nothing undoes the turn of the values, so the output "
            "is turned as well",
            "claim 23",
        ),
        Mistake(
            "turned_for_good",
            "the output, turned back: value and output are turned by two positions whose "
            "difference is all that is left",
            "claim 23",
        ),
        Mistake(
            "sign_harmless",
            "the scores, keys the other way: they depend on the sum of the positions, which has "
            "grown by 200",
            GITHUB + "huggingface/transformers/issues/30900",
        ),
    ),
)


# The rotation, in both layouts


def _rotate_by_layout(
    x: torch.Tensor,
    angle: torch.Tensor,
    layout: str,
    *,
    backwards: bool = False,
    one_sign: bool = False,
    exchanged: bool = False,
    always_half: bool = False,
    always_interleaved: bool = False,
    not_put_back: bool = False,
    mixed_table: bool = False,
    whole_head_pairs: bool = False,
    last_channels: bool = False,
    rest_dropped: bool = False,
    rest_zero: bool = False,
    axes_exchanged: bool = False,
) -> torch.Tensor:
    pairs, width = angle.shape[-1], x.shape[-1]
    if exchanged:
        layout = "half" if layout == "interleaved" else "interleaved"
    if always_half:
        layout = "half"
    if always_interleaved:
        layout = "interleaved"
    i = torch.arange(pairs)
    if layout == "interleaved":
        first, second = 2 * i, 2 * i + 1
    else:
        first, second = i, i + (width // 2 if whole_head_pairs else pairs)
    if last_channels:
        shift = width - 1 - int(second.max())
        first, second = first + shift, second + shift
    first_angle = second_angle = angle
    if mixed_table:
        # Wide tables: the one that repeats the row with neighbours, the other with halves.
        table = angle.repeat_interleave(2, -1) if layout == "half" else torch.cat([angle] * 2, -1)
        first_angle = table[:, first - first.min()]
        second_angle = table[:, second - first.min()]
    if axes_exchanged:
        first_angle = first_angle[: x.shape[0], None]
        second_angle = second_angle[: x.shape[0], None]
    a, b = x[..., first], x[..., second]
    sign = -1 if backwards else 1
    minus = 1 if one_sign else -1
    turned_a = a * first_angle.cos() + minus * sign * b * first_angle.sin()
    turned_b = sign * a * second_angle.sin() + b * second_angle.cos()
    out = torch.zeros_like(x) if rest_zero else x.clone()
    out[..., first], out[..., second] = turned_a, turned_b
    if not_put_back and layout == "interleaved":
        start = int(first.min())
        out[..., start : start + 2 * pairs] = torch.cat([turned_a, turned_b], -1)
    return out[..., : 2 * pairs] if rest_dropped else out


def _rotation_inputs() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(62)
    cases = []
    for heads, n, width, pairs, layout in (
        (3, 5, 8, 4, "interleaved"),
        (4, 4, 8, 4, "half"),
        (2, 6, 12, 3, "half"),
        (2, 6, 12, 3, "interleaved"),
    ):
        x = _normal(generator, heads, n, width)
        places = torch.arange(3, 3 + n, dtype=torch.float64, device="cpu")
        cases.append((x, places[:, None] * inverse_frequencies(2 * pairs), layout))
    return cases


ROTATE_BY_LAYOUT = Implement(
    name="rotate_by_layout",
    title="The rotation, in both layouts",
    chapter=6,
    difficulty=2,
    importance=3,
    minutes=15,
    points=3,
    signature="def rotate_by_layout(x, angle, layout):",
    make_inputs=_rotation_inputs,
    tolerance=1e-5,
    any_float=True,
    reference=_rotate_by_layout,
    hints=(
        "Cut off what stands still. Take a and b out of the rest: every second channel, or the "
        "two halves.",
        "The two lines of the chapter, then a and b back to where they came from, then what stood "
        "still.",
        "A vector of four channels 1, 2, 3, 4 at position 1 is printed in the chapter, for both "
        "layouts.",
    ),
    mistakes=(
        Mistake(
            "backwards",
            "the hands turn the other way: a minus has changed places",
            GITHUB + "skyzh/tiny-llm/pull/25",
            excludes=("one_sign",),
        ),
        Mistake(
            "one_sign",
            "both sines have one sign; this is no rotation, it changes lengths",
            GITHUB + "jingyaogong/minimind/issues/532",
        ),
        Mistake(
            "exchanged",
            "the layouts are exchanged: half where interleaved is asked for, and the other way "
            "round",
            GITHUB + "huggingface/transformers/issues/25199",
            excludes=("always_half", "always_interleaved"),
        ),
        Mistake(
            "always_half",
            "right for half; what is called interleaved is half too",
            GITHUB + "huggingface/transformers/issues/25199",
            excludes=("always_interleaved", "not_put_back"),
        ),
        Mistake(
            "always_interleaved",
            "right for interleaved; what is called half is interleaved too",
            GITHUB + "rasbt/LLMs-from-scratch/pull/750",
            excludes=("whole_head_pairs",),
        ),
        Mistake(
            "not_put_back",
            "interleaved: the turned channels are not put back where they came from, all a stand "
            "before all b",
            "claim 22",
        ),
        Mistake(
            "mixed_table",
            "the two channels of a pair are turned by different angles: a wide table of one "
            "layout meets the partners of the other",
            GITHUB + "facebookresearch/vjepa2/pull/15",
            excludes=("whole_head_pairs",),
        ),
        Mistake(
            "whole_head_pairs",
            "half: partners are half a head apart; in a partial rotation the head that turns is "
            "narrower",
            GITHUB + "apple/coreai-models/issues/66",
        ),
        Mistake(
            "last_channels",
            "the last channels are turned and the first stand still; it should be the other way "
            "round",
            GITHUB + "labmlai/annotated_deep_learning_paper_implementations/issues/215",
            excludes=("rest_dropped",),
        ),
        Mistake(
            "rest_dropped",
            "the channels that stand still are missing from the result",
            GITHUB + "labmlai/annotated_deep_learning_paper_implementations/issues/215",
            excludes=("rest_zero", "whole_head_pairs"),
        ),
        Mistake(
            "rest_zero",
            "the channels that should stand still are 0",
            GITHUB + "labmlai/annotated_deep_learning_paper_implementations/issues/215",
        ),
        Mistake(
            "axes_exchanged",
            "each head is turned by a position of its own: the rows of the table belong to the "
            "tokens",
            GITHUB + "ml-explore/mlx-lm/pull/1553",
        ),
    ),
)


# Scores


def _rope_scores(
    q: torch.Tensor,
    k: torch.Tensor,
    q_positions: torch.Tensor,
    k_positions: torch.Tensor,
    *,
    key_backwards: bool = False,
    both_backwards: bool = False,
    keys_still: bool = False,
    queries_still: bool = False,
    nothing_turned: bool = False,
    one_position: bool = False,
    row_numbers: bool = False,
    no_scale: bool = False,
    over_width: bool = False,
    half_layout: bool = False,
    doubled: bool = False,
    halved: bool = False,
    keys_down: bool = False,
) -> torch.Tensor:
    width = q.shape[-1]
    speeds = inverse_frequencies(width, BASE**2 if doubled else BASE**0.5 if halved else BASE)
    if row_numbers:
        q_positions, k_positions = torch.arange(len(q)), torch.arange(len(k))
    if one_position:
        k_positions = q_positions[: len(k)]
    k_sign = -1 if key_backwards != both_backwards else 1
    q_sign = -1 if both_backwards else 1
    layout = "half" if half_layout else "interleaved"

    def turn(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return rotate(x, *rope_cos_sin(positions, speeds, dtype=torch.float64), layout=layout)

    if not (queries_still or nothing_turned):
        q = turn(q, q_sign * q_positions)
    if not (keys_still or nothing_turned):
        k = turn(k, k_sign * k_positions)
    scores = q @ k.T / (1.0 if no_scale else width if over_width else math.sqrt(width))
    return scores.T if keys_down else scores


def _score_inputs() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(63)
    places = [
        ([3, 9, 4], [0, 2, 5]),
        ([120, 121], [3, 117]),
        ([700, 12, 41, 13], [690, 40, 8, 300]),
    ]
    return [
        (
            _normal(generator, len(at), width),
            _normal(generator, len(at), width),
            torch.tensor(at, device="cpu"),
            torch.tensor(seen, device="cpu"),
        )
        for (at, seen), width in zip(places, (8, 16, 12), strict=True)
    ]


ROPE_SCORES = Implement(
    name="rope_scores",
    title="Scores with RoPE",
    chapter=6,
    difficulty=2,
    importance=3,
    minutes=15,
    points=3,
    signature="def rope_scores(q, k, q_positions, k_positions):",
    make_inputs=_score_inputs,
    tolerance=1e-3,
    any_float=True,
    reference=_rope_scores,
    hints=(
        "Turn all queries, turn all keys, each by its own position, then one matrix product.",
        "Test it: adding 50 to all positions must change nothing.",
    ),
    mistakes=(
        Mistake(
            "key_backwards",
            "the key is turned the other way, so the scores depend on the sum of the positions",
            GITHUB + "huggingface/transformers/issues/30900",
        ),
        Mistake(
            "both_backwards",
            "both are turned the other way: before and after have changed places",
            GITHUB + "skyzh/tiny-llm/pull/25",
        ),
        Mistake(
            "keys_still",
            "the keys are not turned",
            "claim 23",
            excludes=("queries_still", "key_backwards", "one_position"),
        ),
        Mistake(
            "queries_still",
            "the queries are not turned",
            "claim 23",
            # The sign of the query is all that tells these two apart.
            excludes=("key_backwards", "both_backwards"),
        ),
        Mistake(
            "nothing_turned",
            "neither queries nor keys are turned; the positions have no effect",
            "claim 11",
            excludes=(
                "keys_still",
                "queries_still",
                "key_backwards",
                "both_backwards",
                "one_position",
                "row_numbers",
                "half_layout",
                "doubled",
                "halved",
            ),
        ),
        Mistake(
            "one_position",
            "keys are turned by the positions of the queries",
            GITHUB + "hpcaitech/ColossalAI/pull/6429",
            excludes=("row_numbers",),
        ),
        Mistake(
            "row_numbers",
            "rows are counted; the positions that are given have no effect",
            GITHUB + "Blaizzy/mlx-vlm/issues/1983",
        ),
        Mistake(
            "no_scale",
            "the scores are not divided by the square root of the width",
            "claim 11",
            excludes=("over_width",),
        ),
        Mistake(
            "over_width",
            "the scores are divided by the width itself, not by its square root",
            "claim 11",
        ),
        Mistake(
            "half_layout",
            "channels half a head apart are turned together; the exercise asks for neighbours",
            GITHUB + "huggingface/transformers/issues/25199",
        ),
        Mistake(
            "doubled",
            "the exponent is doubled, so only the first pair turns as it should",
            GITHUB + "SamLynnEvans/Transformer/issues/25",
            excludes=("halved",),
        ),
        Mistake(
            "halved",
            "the exponent is half of what it should be: pairs are counted, and divided by the "
            "number of channels",
            GITHUB + "rasbt/LLMs-from-scratch/issues/410",
        ),
        Mistake(
            "keys_down",
            "rows and columns are exchanged: queries run down",
            GITHUB + "ofirpress/attention_with_linear_biases/issues/9",
        ),
    ),
)


# A query that was built


def _where_it_looks(
    *,
    decays: bool = False,
    other_way: bool = False,
    absolute: bool = False,
    from_start: bool = False,
) -> list[int]:
    speeds = inverse_frequencies(32)
    key = _normal(torch.Generator(device="cpu").manual_seed(64), 1, 32)
    places = torch.arange(100)

    def turn(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return rotate(x, *rope_cos_sin(positions, speeds, dtype=torch.float64))

    keys = turn(key.expand(100, 32), places)
    found = []
    for m, built in ((60, 0), (60, -7), (60, 7), (90, -7)):
        if decays:
            found.append(m)
            continue
        if from_start:
            found.append(m if built == 0 else 7)
            continue
        at = 60 if absolute else m
        query = turn(turn(key, torch.tensor([-built if other_way else built])), torch.tensor([at]))
        found.append(int((keys @ query[0]).argmax()))
    return found


WHERE_IT_LOOKS = Predict(
    name="where_it_looks",
    title="Where does it look?",
    chapter=6,
    difficulty=3,
    importance=2,
    minutes=10,
    points=2,
    reference=_where_it_looks,
    parts=("q = k", "q = D(-7) k", "q = D(7) k", "q = D(-7) k from 90"),
    hints=(
        "The score is largest where the two hands of every pair point the same way.",
        "The turned query is D(60) D(-7) k. Which of the turned keys D(n) k is equal to it?",
    ),
    mistakes=(
        Mistake(
            "decays",
            "RoPE does not prefer the nearest key by itself; a query can be built for any distance",
            "claim 12",
            excludes=("other_way", "absolute", "from_start"),
        ),
        Mistake(
            "other_way",
            "back and ahead are exchanged: steps add up, and so the turn of the query counts with "
            "its own sign",
            GITHUB + "huggingface/transformers/issues/30900",
            excludes=("from_start",),
        ),
        Mistake(
            "absolute",
            "a query is built for a distance and not for a place: it looks from where it stands",
            "claim 11",
            excludes=("from_start",),
        ),
        Mistake(
            "from_start",
            "distances count from the query, not from the beginning of the text",
            "claim 11",
        ),
    ),
)


WHAT_ROPE_KNOWS = explain(
    {
        "A": Statement(
            "Whoever asks for scores that depend on $n - m$ alone, with one $f$ for queries and "
            "keys that changes nothing at position 0, gets a linear map, without having asked for "
            "it."
        ),
        "B": Statement(
            "The further apart a query and a key stand, the smaller their score.",
            "a score is a sum of waves; only the average over equal vectors falls",
            "claim 12",
        ),
        "C": Statement(
            "Since both layouts are rotations, a checkpoint runs with either.",
            "its query and key weights were trained for one order of the channels",
            "claim 21",
        ),
        "D": Statement(
            "A key that was turned and cached need not be turned again when later queries look "
            "at it."
        ),
        "E": Statement(
            "For independent standard normal vectors, scores have the same distribution at every "
            "distance."
        ),
        "F": Statement(
            "A head of 64 channels with base 10,000 can tell about 63,000 positions apart, and "
            "then its angles repeat exactly.",
            "the first pair never comes back to exactly the same angle at a whole position, and "
            "up to 100,000 some hand of the 64 channels is far from its start",
            "claim 26",
        ),
        "G": Statement(
            "The key must be turned by the negative angle, or there is no difference in the score.",
            "both are turned the same way; the dot product brings the minus",
            GITHUB + "huggingface/transformers/issues/30900",
        ),
        "H": Statement(
            "RoPE keeps attention parallel, which sets it apart from the other encodings.",
            "the others in this course encode each token by itself as well",
            "claim 33",
        ),
        "I": Statement(
            "Turning the values too would be harmless, since a rotation keeps lengths.",
            "the output would be turned by the place where the text stands",
            "claim 23",
        ),
    },
    name="what_rope_knows",
    title="What RoPE knows",
    chapter=6,
    difficulty=3,
    importance=2,
    minutes=8,
    points=2,
    hints=(
        "Three of the nine are true.",
        "B, E: what falls, and for which vectors?",
    ),
)

EXERCISES = (
    ROTARY_SPEEDS,
    WHAT_MOVES,
    ROTATE_BY_LAYOUT,
    ROPE_SCORES,
    WHERE_IT_LOOKS,
    WHAT_ROPE_KNOWS,
)
