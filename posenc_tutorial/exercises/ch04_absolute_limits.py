"""Exercises of chapter 4: four terms, positions under padding, and the same text elsewhere."""

from __future__ import annotations

import math

import torch

from ..alibi import ALiBi
from ..attention import attention_scores
from ..encoding import PositionalEncoding
from ..learned import LearnedEncoding
from ..rope import RotaryEmbedding
from ..sinusoidal import SinusoidalEncoding
from .registry import Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"


def _normal(generator: torch.Generator, *shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, dtype=dtype, device="cpu")


# Positions under padding


def _token_positions(
    mask: torch.Tensor,
    *,
    shared: bool = False,
    from_one: bool = False,
    pads_counted: bool = False,
    down_the_batch: bool = False,
    inverted: bool = False,
) -> torch.Tensor:
    real = (1 - mask if inverted else mask).long()
    if shared:
        positions = torch.arange(mask.shape[1]).expand(mask.shape)
    else:
        positions = real.cumsum(0 if down_the_batch else 1) - 1
    if from_one:
        positions = positions + 1
    return positions if pads_counted else positions.clamp(min=0)


def _real_tokens_only(arguments: tuple, positions: torch.Tensor) -> torch.Tensor:
    """Padding may stand anywhere inside the text, so that every table has a row for it."""
    (mask,) = arguments
    padding = mask == 0
    outside = padding & ((positions < 0) | (positions >= mask.shape[1]))
    return positions.masked_fill(padding, -1 if outside.any() else 0)


def _masks() -> list[tuple]:
    return [
        (torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], device="cpu"),),
        (torch.tensor([[0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]),),
        (torch.tensor([[1, 1, 1, 0], [0, 0, 1, 1]], device="cpu"),),  # padded on both sides
    ]


TOKEN_POSITIONS = Implement(
    name="token_positions",
    title="Positions under padding",
    chapter=4,
    difficulty=1,
    importance=3,
    minutes=6,
    points=1,
    signature="def token_positions(mask):",
    make_inputs=_masks,
    canonical=_real_tokens_only,
    reference=_token_positions,
    hints=(
        "The position of a real token is the number of real tokens to its left.",
        "A running sum along the right axis counts the token itself as well.",
        "What does the running sum say before the first real token, and does a table have that "
        "row?",
    ),
    mistakes=(
        Mistake(
            "shared",
            "padding is counted: the first word of a short text does not start at 0",
            GITHUB + "huggingface/transformers/issues/22161",
            excludes=("down_the_batch", "inverted", "pads_counted"),
        ),
        Mistake(
            "from_one",
            "the first word of each text is at position 1, not 0",
            GITHUB + "huggingface/transformers/issues/3021",
            excludes=("pads_counted",),
        ),
        Mistake(
            "pads_counted",
            "padding gets position -1, which a table does not have, or takes for its last row",
            GITHUB + "huggingface/transformers/issues/3021",
        ),
        Mistake(
            "down_the_batch",
            "positions are counted down the batch, not along the text",
            GITHUB + "cmu-l3/anlp-fall2025-code/issues/1",
            excludes=("pads_counted", "inverted"),
        ),
        Mistake(
            "inverted",
            "the mask is read the wrong way round: padding is numbered and the words are not",
            GITHUB + "rasbt/LLMs-from-scratch/issues/1061",
        ),
    ),
)


# Four terms


def _four_terms(
    X: torch.Tensor,
    P: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    *,
    no_scale: bool = False,
    no_root: bool = False,
    model_width: bool = False,
    exchanged: bool = False,
    mirrored: bool = False,
    keys_down: bool = False,
    one_matrix: bool = False,
) -> torch.Tensor:
    if one_matrix:
        W_K = W_Q
    width = X.shape[1] if model_width else W_Q.shape[1]
    scale = 1.0 if no_scale else 1 / width if no_root else 1 / math.sqrt(width)
    terms = [scale * (q @ W_Q) @ (k @ W_K).T for q in (X, P) for k in (X, P)]
    if mirrored:
        terms[2] = terms[1].T
    if exchanged:
        terms[1], terms[2] = terms[2], terms[1]
    if keys_down:
        terms = [term.T for term in terms]
    return torch.stack(terms)


def _four_terms_inputs() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(41)
    inputs = []
    for n, d, width, dtype in ((3, 4, 2, torch.float32), (6, 8, 5, torch.float64)):
        shapes = ((n, d), (n, d), (d, width), (d, width))
        inputs.append(tuple(_normal(generator, *shape, dtype=dtype) for shape in shapes))
    return inputs


FOUR_TERMS = Implement(
    name="four_terms",
    title="Four terms of one score",
    chapter=4,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    signature="def four_terms(X, P, W_Q, W_K):",
    make_inputs=_four_terms_inputs,
    tolerance=2e-5,
    any_float=True,
    reference=_four_terms,
    hints=(
        "A test that needs no reference: the four must add up to the score of X + P.",
        "Queries come from X or from P, keys come from X or from P; each choice is one term.",
        "Position-content asks with a position and looks at contents: queries from P.",
    ),
    mistakes=(
        Mistake(
            "no_scale",
            "the terms are not divided as scores are",
            GITHUB + "PAIR-code/tiny-transformers/issues/71",
            excludes=("no_root", "model_width"),
        ),
        Mistake(
            "no_root",
            "the terms are divided by the width itself; scores are divided by its root",
            GITHUB + "thegregyang/NTK4A/issues/3",
        ),
        Mistake(
            "model_width",
            "the divisor is taken from the width of the model, not of the head",
            GITHUB + "karpathy/ng-video-lecture/pull/6",
        ),
        Mistake(
            "exchanged",
            "the two mixed terms have changed places",
            GITHUB + "LeeSureman/Flat-Lattice-Transformer/issues/88",
            excludes=("mirrored", "one_matrix"),
        ),
        Mistake(
            "mirrored",
            "one mixed term is taken for the mirror image of the other; queries and keys have "
            "different matrices",
            GITHUB + "microsoft/DeBERTa/issues/47",
            excludes=("one_matrix",),
        ),
        Mistake(
            "keys_down",
            "queries run across and keys down; the scores are transposed",
            GITHUB + "karpathy/llm.c/pull/531",
        ),
        Mistake(
            "one_matrix",
            "queries and keys are made with one and the same matrix",
            GITHUB + "datawhalechina/learn-nlp-with-transformers/pull/40",
        ),
    ),
)


# Weight by distance


def _weight_by_distance(
    A: torch.Tensor,
    *,
    divided_by_n: bool = False,
    summed: bool = False,
    ahead: bool = False,
    from_one: bool = False,
) -> torch.Tensor:
    n = A.shape[0]
    means = []
    for k in range(n):
        diagonal = A.diagonal(k if ahead else -k)
        total = diagonal.sum()
        means.append(total if summed else total / (n if divided_by_n else n - k))
    result = torch.stack(means)
    return torch.cat([result[1:], result[:1] * 0]) if from_one else result


def _causal_maps() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(42)
    maps = []
    for n in (4, 9):
        hidden = torch.ones(n, n, dtype=torch.bool, device="cpu").triu(1)
        hidden[n // 2 :, 1] = True  # a weight of 0 in the past is a weight, and counts in a mean
        scores = 2 * _normal(generator, n, n)
        maps.append((torch.softmax(scores.masked_fill(hidden, -math.inf), 1),))
    return maps


WEIGHT_BY_DISTANCE = Implement(
    name="weight_by_distance",
    title="How far back does a head look?",
    chapter=4,
    difficulty=2,
    importance=2,
    minutes=8,
    points=2,
    signature="def weight_by_distance(A):",
    make_inputs=_causal_maps,
    tolerance=1e-6,
    any_float=True,
    reference=_weight_by_distance,
    hints=(
        "All pairs of query and key that are k places apart lie on one diagonal of A.",
        "Queries run down and keys across, and a key that lies back has a smaller number: above "
        "or below the main diagonal?",
        "How many queries have a key k places back? Not n.",
    ),
    mistakes=(
        Mistake(
            "divided_by_n",
            "far distances come out too small: fewer queries than n have a key that far back",
            "claim 35",
            excludes=("summed", "ahead"),
        ),
        Mistake(
            "summed",
            "weights are added up, not averaged, so distances with many pairs count more",
            "claim 35",
        ),
        Mistake(
            "ahead",
            "distances are counted forwards: under a causal mask nothing is there",
            GITHUB + "pytorch/examples/issues/649",
            excludes=("from_one",),
        ),
        Mistake(
            "from_one",
            "entry 0 is the weight one place back; distance 0 is a word's weight on itself",
            GITHUB + "TransformerLensOrg/TransformerLens/issues/284",
        ),
    ),
)


# The same text somewhere else


def _moved_text(
    *,
    linear_map: bool = False,
    rope_absolute: bool = False,
    bias_absolute: bool = False,
    clean_values: bool = False,
    turned_values: bool = False,
) -> list[bool]:
    generator = torch.Generator(device="cpu").manual_seed(43)
    x = _normal(generator, 1, 6, 16, dtype=torch.float64)
    W_Q, W_K, W_V = (_normal(generator, 16, 16, dtype=torch.float64) for _ in range(3))
    table = LearnedEncoding(128, 16).double()
    table.weight = torch.nn.Parameter(_normal(generator, 128, 16, dtype=torch.float64))

    def parts(encoding: PositionalEncoding, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.arange(start, start + 6)
        here = encoding.add_to_input(x, places)
        q, k, v = ((here @ weight)[:, None] for weight in (W_Q, W_K, W_V))
        q, k = encoding.rotate_query_key(q, k, places, places)
        bias = encoding.score_bias(places, places, q=q)
        return attention_scores(q, k, bias=bias), v

    def changes(encoding: PositionalEncoding) -> tuple[bool, bool]:
        pairs = zip(parts(encoding, 0), parts(encoding, 100), strict=True)
        scores, values = (bool((a - b).abs().max() > 1e-9) for a, b in pairs)
        return scores, values

    learned, waves = changes(table), changes(SinusoidalEncoding(16))
    rope, alibi = changes(RotaryEmbedding(16)), changes(ALiBi(1))
    measured = [learned[0], waves[0], rope[0], alibi[0], waves[1], rope[1]]
    flips = [False, linear_map, rope_absolute, bias_absolute, clean_values, turned_values]
    return [value != flip for value, flip in zip(measured, flips, strict=True)]


MOVED_TEXT = Predict(
    name="moved_text",
    title="The same text, a hundred places on",
    chapter=4,
    difficulty=2,
    importance=3,
    minutes=8,
    points=2,
    reference=_moved_text,
    parts=(
        "scores, learned",
        "scores, sinusoidal",
        "scores, RoPE",
        "scores, ALiBi",
        "values, sinusoidal",
        "values, RoPE",
    ),
    hints=(
        "Which of the four terms of a score are still the same after the move?",
        "Sort the encodings by door. What does each door get to see: a place, or a difference?",
    ),
    mistakes=(
        Mistake(
            "linear_map",
            "scores, sinusoidal: that a step is a linear map does not make the scores of a head "
            "depend on distance alone",
            "claim 6",
        ),
        Mistake(
            "rope_absolute",
            "scores, RoPE: query and key are turned alike, and a common turn cancels",
            GITHUB + "huggingface/transformers/issues/22161",
        ),
        Mistake(
            "bias_absolute",
            "scores, ALiBi: the bias knows the distance of two places and neither of the places",
            GITHUB + "ofirpress/attention_with_linear_biases/issues/9",
        ),
        Mistake(
            "clean_values",
            "values, sinusoidal: the values are made from the same sum of word and position",
            "claim 10",
        ),
        Mistake(
            "turned_values",
            "values, RoPE: only queries and keys are turned",
            "claim 23",
        ),
    ),
)


WHY_ABSOLUTE_BREAKS = explain(
    {
        "A": Statement(
            "Of the four terms, only position-position can pick out the token three places back, "
            "whatever the words are."
        ),
        "B": Statement(
            "Since sinusoidal rows exist for every position, attention beyond the trained length "
            "looks much as it does inside.",
            "the attention of the same text drifts once it stands beyond the trained positions",
            "claim 35",
        ),
        "C": Statement(
            "Beyond the trained length the fast clocks do the damage, because they have gone "
            "round most often.",
            "the fast clocks show nothing there that training has not shown; the slow ones do",
            "claim 8",
        ),
        "D": Statement(
            "No absolute encoding can be extended to longer texts.",
            "squeezing the positions into the trained range extends it at a small price, the more "
            "so after a little training",
            "claim 34",
        ),
        "E": Statement(
            "Left padding that is hidden by a mask can still change the output of a model with an "
            "absolute encoding."
        ),
        "F": Statement(
            "With absolute positions in the input, a trained model keeps its values free of them.",
            "training turns the value matrix away from positions, but only part of the way",
            "claim 10",
        ),
        "G": Statement(
            "The mixed terms, content-position and position-content, say how far apart two tokens "
            "are.",
            "each of them knows one place and the other token's content, never two places",
            "claim 10",
        ),
    },
    name="why_absolute_breaks",
    title="Why absolute positions break",
    chapter=4,
    difficulty=3,
    importance=2,
    minutes=8,
    points=2,
    hints=(
        "Two of the seven are true.",
        "For each of the others the chapter has a picture or a verdict that says otherwise.",
    ),
)

EXERCISES = (
    TOKEN_POSITIONS,
    FOUR_TERMS,
    WEIGHT_BY_DISTANCE,
    MOVED_TEXT,
    WHY_ABSOLUTE_BREAKS,
)
