"""Exercises of chapter 1: attention by hand, its mask, and what it knows about order."""

from __future__ import annotations

import math

import torch

from ..attention import attention
from ..sinusoidal import sinusoidal_table
from .registry import Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"


def _generator(seed: int) -> torch.Generator:
    return torch.Generator(device="cpu").manual_seed(seed)


def _normal(generator: torch.Generator, *shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, dtype=dtype, device="cpu")


# Weights in another order


def _reorder_weights(
    A: torch.Tensor,
    order: torch.Tensor,
    *,
    rows_only: bool = False,
    columns_only: bool = False,
    inverse: bool = False,
    diagonal: bool = False,
) -> torch.Tensor:
    if inverse:
        order = order.argsort()
    if diagonal:
        return A[order, order]
    if not columns_only:
        A = A[order]
    return A if rows_only else A[:, order]


def _reorder_inputs() -> list[tuple]:
    generator = _generator(11)
    orders = [[1, 2, 0], [2, 0, 3, 1, 4], [3, 5, 0, 6, 1, 2, 4]]  # none is its own inverse
    return [
        (torch.softmax(_normal(generator, len(order), len(order)), 1), torch.tensor(order))
        for order in orders
    ]


REORDER_WEIGHTS = Implement(
    name="reorder_weights",
    title="The same weights, another order",
    chapter=1,
    difficulty=1,
    importance=2,
    minutes=5,
    points=1,
    signature="def reorder_weights(A, order):",
    make_inputs=_reorder_inputs,
    tolerance=1e-7,
    reference=_reorder_weights,
    hints=(
        "A word takes two things along when it moves: how it looks, and how it is looked at.",
        "The matrix has a row and a column for each word, and the proof has a P on either side.",
        "Index twice, first one axis, then the other; both at once does something else.",
    ),
    mistakes=(
        Mistake(
            "rows_only",
            "only the rows are in the new order; the words that are looked at have moved as well",
            "claim 1",
            excludes=("columns_only",),
        ),
        Mistake(
            "columns_only",
            "only the columns are in the new order; the words that look have moved as well",
            "claim 1",
        ),
        Mistake(
            "inverse",
            "the order is applied backwards: it says where each row comes from, not where it goes",
            GITHUB + "numpy/numpy/issues/8757",
        ),
        Mistake(
            "diagonal",
            "indexing both axes at once takes single entries: a vector comes out, not a matrix",
            GITHUB + "scipy/scipy/issues/11371",
            excludes=("rows_only", "columns_only"),
        ),
    ),
)


# A mean over words and nothing else


def _mean_over_words(
    Y: torch.Tensor,
    keep: torch.Tensor,
    *,
    all_rows: bool = False,
    total_length: bool = False,
    inverted: bool = False,
    whole_batch: bool = False,
) -> torch.Tensor:
    if all_rows:
        return Y.mean(1)
    if inverted:
        keep = ~keep
    number = keep.sum(1, keepdim=True)
    if total_length:
        number = torch.full_like(number, Y.shape[1])
    if whole_batch:
        number = keep.sum().expand_as(number)
    return (Y * keep[..., None]).sum(1) / number


def _mean_inputs() -> list[tuple]:
    generator = _generator(12)
    masks = [
        [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]],
        [[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1]],  # padded on the left
    ]
    inputs = []
    for mask in masks:
        keep = torch.tensor(mask, dtype=torch.bool)
        inputs.append((_normal(generator, *keep.shape, 4), keep))
    return inputs


MEAN_OVER_WORDS = Implement(
    name="mean_over_words",
    title="A mean over words",
    chapter=1,
    difficulty=1,
    importance=2,
    minutes=5,
    points=1,
    signature="def mean_over_words(Y, keep):",
    make_inputs=_mean_inputs,
    tolerance=1e-6,
    any_float=True,
    reference=_mean_over_words,
    hints=(
        "A padding row should leave no trace: neither in the sum nor in what you divide by.",
        "True counts as 1 and False as 0 in a product and in a sum.",
        "The mask lacks the last axis of Y; keep[..., None] has it.",
    ),
    mistakes=(
        Mistake(
            "all_rows",
            "padding is in the mean, so a sentence's vector depends on how long its neighbours are",
            GITHUB + "huggingface/transformers/issues/17463",
            excludes=("total_length", "inverted", "whole_batch"),
        ),
        Mistake(
            "total_length",
            "padding is left out of the sum but counted in the divisor",
            GITHUB + "huggingface/sentence-transformers/issues/230",
            excludes=("whole_batch",),
        ),
        Mistake(
            "inverted",
            "the mask is read the wrong way round: padding is averaged and the words are dropped",
            GITHUB + "rasbt/LLMs-from-scratch/issues/1061",
        ),
        Mistake(
            "whole_batch",
            "each sum is divided by the words of the whole batch, not of its own sentence",
            GITHUB + "om-ai-lab/OmDet/issues/19",
        ),
    ),
)


# Attention, by hand


def _attention_by_hand(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    *,
    no_scale: bool = False,
    no_root: bool = False,
    value_width: bool = False,
    scale_after: bool = False,
    wrong_axis: bool = False,
    exchanged: bool = False,
) -> torch.Tensor:
    scores = K @ Q.T if exchanged else Q @ K.T
    root = math.sqrt(V.shape[1] if value_width else Q.shape[1])
    if no_root:
        root = Q.shape[1]
    if not (no_scale or scale_after):
        scores = scores / root
    weights = torch.softmax(scores, dim=0 if wrong_axis else 1)
    return (weights / root if scale_after else weights) @ V


def _attention_inputs() -> list[tuple]:
    generator = _generator(13)
    shapes = [(3, 4, 6, torch.float32), (5, 8, 3, torch.float64), (7, 16, 2, torch.float32)]
    return [
        (
            _normal(generator, n, width, dtype=dtype),
            _normal(generator, n, width, dtype=dtype),
            _normal(generator, n, value, dtype=dtype),
        )
        for n, width, value, dtype in shapes
    ]


ATTENTION_BY_HAND = Implement(
    name="attention_by_hand",
    title="Attention by hand",
    chapter=1,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    signature="def attention_by_hand(Q, K, V):",
    make_inputs=_attention_inputs,
    tolerance=1e-5,
    any_float=True,
    reference=_attention_by_hand,
    hints=(
        "Three lines: scores, weights, output. Write down the shape that each must have.",
        "What adds up to 1: all that one word gives to others, or all that one word receives?",
        "The divisor belongs to the dot product of a query and a key, and to nothing else.",
    ),
    mistakes=(
        Mistake(
            "no_scale",
            "the scores are not divided, so they grow with the width of queries and keys",
            GITHUB + "PAIR-code/tiny-transformers/issues/71",
            excludes=("no_root", "value_width", "scale_after"),
        ),
        Mistake(
            "no_root",
            "the scores are divided by the width itself, so they shrink as the width grows",
            GITHUB + "thegregyang/NTK4A/issues/3",
            excludes=("value_width",),
        ),
        Mistake(
            "value_width",
            "the divisor is taken from the values; they have no part in the scores",
            GITHUB + "openai/gpt-2/issues/49",
        ),
        Mistake(
            "scale_after",
            "the weights are divided after the softmax; the rows no longer add up to 1",
            GITHUB + "FrancescoSaverioZuppichini/ViT/issues/2",
        ),
        Mistake(
            "wrong_axis",
            "the softmax runs over the wrong axis: what each word gives away should add up to 1",
            GITHUB + "labmlai/annotated_deep_learning_paper_implementations/issues/146",
        ),
        Mistake(
            "exchanged",
            "queries and keys have changed places: every word is looking with its key",
            GITHUB + "karpathy/llm.c/pull/531",
        ),
    ),
)


# The causal mask


def _causal_weights(
    S: torch.Tensor,
    *,
    no_mask: bool = False,
    own_place: bool = False,
    one_ahead: bool = False,
    flipped: bool = False,
    inverted: bool = False,
    after_softmax: bool = False,
    zero_score: bool = False,
    wrong_axis: bool = False,
) -> torch.Tensor:
    index = torch.arange(S.shape[0], device=S.device)
    ahead = index[None, :] - index[:, None]  # key minus query
    hidden = ahead > 0
    if no_mask:
        hidden = torch.zeros_like(hidden)
    elif own_place:
        hidden = ahead >= 0
    elif one_ahead:
        hidden = ahead > 1
    elif flipped:
        hidden = ahead < 0
    elif inverted:
        hidden = ahead <= 0
    axis = 0 if wrong_axis else 1
    if after_softmax:
        return torch.softmax(S, axis).masked_fill(hidden, 0.0)
    return torch.softmax(S.masked_fill(hidden, 0.0 if zero_score else -math.inf), axis)


def _no_empty_rows(arguments: tuple, weights: torch.Tensor) -> torch.Tensor:
    """One form for a row in which nothing may be seen.

    It is nan with scores of minus infinity, 0 if somebody has cleared the nan away, and uniform
    with large negative scores; here that is the same mistake.
    """
    uniform = 1 / weights.shape[-1]
    weights = weights.nan_to_num(uniform)
    return weights.masked_fill((weights == 0).all(-1, keepdim=True), uniform)


_SHAPES = ("no_mask", "own_place", "one_ahead", "flipped", "inverted")


def _other_shapes(key: str) -> tuple[str, ...]:
    return tuple(other for other in _SHAPES if other != key)


CAUSAL_WEIGHTS = Implement(
    name="causal_weights",
    title="Weights under a causal mask",
    chapter=1,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    signature="def causal_weights(S):",
    make_inputs=lambda: [
        (2 * _normal(_generator(14), 4, 4),),
        (3 * _normal(_generator(15), 7, 7, dtype=torch.float64) - 1,),
    ],
    tolerance=1e-6,
    any_float=True,
    canonical=_no_empty_rows,
    reference=_causal_weights,
    hints=(
        "Two tests need no reference: every row adds up to 1, and row 0 is known without "
        "computing anything.",
        "The softmax must not know that the future is there; afterwards it is too late.",
        "Which score turns into a weight of exactly 0? torch.triu and masked_fill are enough.",
    ),
    mistakes=(
        Mistake(
            "no_mask",
            "no weight is 0: the mask has no effect",
            GITHUB + "paiml/entrenar/issues/310",
            excludes=(*_other_shapes("no_mask"), "after_softmax", "zero_score"),
        ),
        Mistake(
            "own_place",
            "a word may not look at itself, and the first word has nothing left to look at",
            GITHUB + "pbloem/former/issues/10",
            excludes=_other_shapes("own_place"),
        ),
        Mistake(
            "one_ahead",
            "each word still sees the next one",
            GITHUB + "RVC-Boss/GPT-SoVITS/issues/965",
            excludes=_other_shapes("one_ahead"),
        ),
        Mistake(
            "flipped",
            "the triangle is the wrong one: each word sees itself and the future, not the past",
            GITHUB + "pytorch/pytorch/issues/29546",
            excludes=_other_shapes("flipped"),
        ),
        Mistake(
            "inverted",
            "the mask is read the wrong way round: what should be hidden is all that is seen",
            GITHUB + "rasbt/LLMs-from-scratch/issues/1061",
            excludes=_other_shapes("inverted"),
        ),
        Mistake(
            "after_softmax",
            "weights are set to 0 after the softmax: the rows no longer add up to 1",
            GITHUB + "lucidrains/memory-compressed-attention/issues/2",
            excludes=("zero_score", "no_mask"),
        ),
        Mistake(
            "zero_score",
            "hidden scores are set to 0, and a score of 0 still gets a weight",
            GITHUB + "awslabs/gluonts/pull/1401",
        ),
        Mistake(
            "wrong_axis",
            "the softmax runs over the wrong axis: what each word gives away should add up to 1",
            GITHUB + "nerminnuraydogan/vision-transformer/issues/1",
        ),
    ),
)


# What stays the same when a sentence is turned round


def _same_or_not(
    *,
    invariant: bool = False,
    sees_order: bool = False,
    blind_mask: bool = False,
    place_alone: bool = False,
    any_bias: bool = False,
    pooled: bool = False,
) -> list[bool]:
    generator = _generator(16)
    X = _normal(generator, 3, 8, dtype=torch.float64)
    W = [_normal(generator, 8, 8, dtype=torch.float64) for _ in range(3)]
    places = torch.arange(3)
    distance = -(places[:, None] - places).abs().double()

    def output(X, *, causal=False, bias=None):
        q, k, v = ((X @ weight)[None, None] for weight in W)
        return attention(q, k, v, causal=causal, bias=bias)[0, 0]

    def same(f, part) -> bool:
        return bool((part(f(X)) - part(f(X.flip(0)))).abs().max() < 1e-9)

    table = sinusoidal_table(3, 8, dtype=torch.float64)
    measured = [
        same(output, lambda Y: Y[0]),
        same(output, lambda Y: Y[1]),
        same(output, lambda Y: Y.mean(0)),
        same(lambda X: output(X, causal=True), lambda Y: Y[1]),
        same(lambda X: output(X + table), lambda Y: Y[1]),
        same(lambda X: output(X, bias=distance[None]), lambda Y: Y[1]),
    ]
    believed = [invariant, sees_order, pooled, blind_mask, place_alone, any_bias]
    return [value != flip for value, flip in zip(measured, believed, strict=True)]


SAME_OR_NOT = Predict(
    name="same_or_not",
    title="Turned round",
    chapter=1,
    difficulty=2,
    importance=3,
    minutes=8,
    points=2,
    reference=_same_or_not,
    parts=("first row", "middle row", "mean", "causal mask", "x + p", "distance bias"),
    hints=(
        "The word in the middle stays where it is; its neighbours change places.",
        "For each of the six, ask which line of the proof still holds.",
        "Entry 6: read the theorem about symmetric biases, with J as the reversal.",
    ),
    mistakes=(
        Mistake(
            "invariant",
            "first row: the rows move with their words, so another word's vector stands there now; "
            "equivariant is not invariant",
            "claim 1",
        ),
        Mistake(
            "sees_order",
            "middle row: without positions and mask nothing in attention tells left from right",
            "claim 2",
        ),
        Mistake(
            "pooled",
            "mean: the same vectors are added up, in another order",
            "claim 1",
        ),
        Mistake(
            "blind_mask",
            "causal mask: the word in the middle sees only what came before, and that has changed",
            "claim 2",
        ),
        Mistake(
            "place_alone",
            "x + p: the word in the middle keeps its own position, but its neighbours do not",
            "claim 31",
        ),
        Mistake(
            "any_bias",
            "distance bias: it is the same to the left and to the right, so turning round changes "
            "nothing",
            "claim 3",
        ),
    ),
)


WHAT_ATTENTION_KNOWS = explain(
    {
        "A": Statement(
            "Self-attention without positions gives the same matrix of outputs for every order "
            "of its input.",
            "its rows are reordered along with the words; only something like their mean is the "
            "same for every order",
            "claim 1",
        ),
        "B": Statement(
            "Stacking more layers of self-attention, norms and per-word networks does not help a "
            "model without positions to see order."
        ),
        "C": Statement(
            "Without positions a word's output does not depend on the other words.",
            "replace one word and the outputs of the others change; order is lost, company is not",
            "claim 31",
        ),
        "D": Statement(
            "To be of use, a position must be added to a word before it enters attention.",
            "encodings that leave the input alone, and change the score or query and key, break "
            "the symmetry as well",
            "claim 32",
        ),
        "E": Statement(
            "Under a causal mask, a model without an encoding can find out how many words came "
            "before, if there is something to count against, such as a start token."
        ),
        "F": Statement(
            "Any encoding with which attention is no longer equivariant can learn whether A comes "
            "before B.",
            "a bias that is the same to the left and to the right breaks the symmetry and still "
            "answers at random",
            "claim 3",
        ),
        "G": Statement(
            "Adding a position to the input changes queries and keys but leaves the values alone.",
            "the values are computed from the same sum, so they are a mixture of word and place",
            "claim 10",
        ),
    },
    name="what_attention_knows",
    title="What attention knows about order",
    chapter=1,
    difficulty=3,
    importance=2,
    minutes=8,
    points=2,
    hints=(
        "Two of the seven are true.",
        "For each of the others the chapter has a measured counter-example; look for its verdict.",
    ),
)

EXERCISES = (
    REORDER_WEIGHTS,
    MEAN_OVER_WORDS,
    ATTENTION_BY_HAND,
    CAUSAL_WEIGHTS,
    SAME_OR_NOT,
    WHAT_ATTENTION_KNOWS,
)
