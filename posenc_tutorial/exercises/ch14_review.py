"""The final self-test: an encoding from its formula, and a module with five planted bugs."""

from __future__ import annotations

import math

import torch

from . import planted
from .registry import Cases, Implement, Mistake, Predict, Repair, Statement, explain

GITHUB = "https://github.com/"


def _normal(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, device="cpu")


# An encoding from its formula


def _kerple_log(
    r1: torch.Tensor,
    r2: torch.Tensor,
    q_positions: torch.Tensor,
    k_positions: torch.Tensor,
    *,
    reward: bool = False,
    no_one: bool = False,
    base_two: bool = False,
    swapped: bool = False,
    outside: bool = False,
    power: bool = False,
    ahead_free: bool = False,
    counted: bool = False,
    base_ten: bool = False,
    straight: bool = False,
    signed: bool = False,
) -> torch.Tensor:
    if counted:
        q_positions = torch.arange(len(q_positions), device="cpu")
        k_positions = torch.arange(len(k_positions), device="cpu")
    if swapped:
        r1, r2 = r2, r1
    r1, r2 = r1.double()[:, None, None], r2.double()[:, None, None]
    distance = (q_positions[:, None] - k_positions).double()
    if not signed:
        distance = distance.clamp(min=0) if ahead_free else distance.abs()
    if straight:
        bias = r1 * r2 * distance
    elif power:
        bias = r1 * distance**r2
    else:
        inside = distance if outside else r2 * distance
        bias = r1 * (inside if no_one else 1 + inside).log()
        bias = bias * r2 if outside else bias
        bias = bias / math.log(2) if base_two else bias
        bias = bias / math.log(10) if base_ten else bias
    return (bias if reward else -bias).float()


def _kerple_inputs() -> list[tuple[torch.Tensor, ...]]:
    def some(*values: float) -> torch.Tensor:
        return torch.tensor(values, device="cpu")

    place = torch.arange(12, device="cpu")
    return [
        (some(1.0, 0.5), some(0.3, 2.0), place[:5], place[:5]),
        (some(2.0, 1.5, 0.25), some(0.1, 1.0, 4.0), place[9:10], place[:10]),
        (some(0.7), some(0.05), 1000 + place[:3], 990 + place),
    ]


KERPLE_LOG = Implement(
    name="kerple_log",
    title="An encoding from its formula",
    chapter=14,
    difficulty=2,
    importance=2,
    minutes=12,
    points=2,
    signature="def kerple_log(r1, r2, q_positions, k_positions):",
    make_inputs=_kerple_inputs,
    tolerance=1e-4,
    any_float=True,
    reference=_kerple_log,
    hints=(
        "At distance 0 the bias is 0, in every head.",
        "Build the table of distances first, a row for each query; then give each head its two "
        "numbers with two more axes.",
    ),
    mistakes=(
        Mistake(
            "reward",
            "far keys get more than near ones",
            GITHUB + "meta-pytorch/attention-gym/pull/86",
        ),
        Mistake(
            "no_one",
            "the query's own token gets an infinite bias",
            "claim 19",
            excludes=("power",),
        ),
        Mistake(
            "base_two",
            "every number is too large by one factor, the same in all heads: which logarithm is "
            "meant?",
            "claim 19",
            excludes=("power",),
        ),
        Mistake(
            "swapped",
            "the two numbers of a head have changed places",
            "claim 19",
            excludes=("outside",),
        ),
        Mistake(
            "outside",
            "r2 stands in front of the logarithm; it stretches the distance",
            "claim 19",
            excludes=("power",),
        ),
        Mistake(
            "power",
            "the distance is raised to the power r2; that is the other member of the family",
            "claim 19",
        ),
        Mistake(
            "ahead_free",
            "keys after the query are not counted as far: a distance has no sign",
            GITHUB + "ofirpress/attention_with_linear_biases/issues/5",
        ),
        Mistake(
            "counted",
            "queries and keys are counted from 0; the positions say where they stand",
            GITHUB + "Dao-AILab/flash-attention/issues/907",
        ),
        Mistake(
            "base_ten",
            "every number is too small by one factor, the same in all heads: which logarithm is "
            "meant?",
            "claim 19",
            excludes=("power", "base_two"),
        ),
        Mistake(
            "straight",
            "the bias falls along a line, as ALiBi's does; here a logarithm bends it",
            "claim 19",
            excludes=("no_one", "base_two", "base_ten", "swapped", "outside", "power"),
        ),
        Mistake(
            "signed",
            "the logarithm breaks off at keys after the query: their distance has been taken as "
            "negative, and a distance has no sign",
            GITHUB + "ofirpress/attention_with_linear_biases/issues/5",
            excludes=("ahead_free", "power", "straight"),
        ),
    ),
)


# What a quick test sees


def _full(generator: torch.Generator, heads: int, new: int, d: int, past: int = 0) -> tuple:
    shapes = ((heads, new, d),) * 3 + ((heads, past, d),) * 2
    return tuple(_normal(generator, *shape) for shape in shapes)


def _quick_tests(
    *,
    sums_see_scale: bool = False,
    mask_lets_nothing_through: bool = False,
    one_token_sees_positions: bool = False,
    order_is_lost: bool = False,
    future_is_hidden: bool = False,
    steps_agree: bool = False,
    values_are_averaged: bool = False,
) -> list[bool]:
    run = planted.attention_with_cache
    generator = torch.Generator(device="cpu").manual_seed(141)
    q, k, v, past_k, past_v = _full(generator, 2, 6, 8)
    out, weights = run(q, k, v, past_k, past_v, 10000.0)

    def close(a: torch.Tensor, b: torch.Tensor) -> bool:
        return bool((a - b).abs().max() < 1e-4)

    first = run(q[:, :1], k[:, :1], v[:, :1], past_k, past_v, 10000.0)[0]
    order = torch.tensor([1, 0, 2, 3, 4, 5], device="cpu")
    other = run(q[:, order], k[:, order], v[:, order], past_k, past_v, 10000.0)[0]
    changed = v.clone()
    changed[:, -1] += 1
    early = run(q, k, changed, past_k, past_v, 10000.0)[0][:, :-1]
    cache = _turned(k[:, :5], 10000.0), v[:, :5]
    step = run(q[:, 5:], k[:, 5:], v[:, 5:], *cache, 10000.0)[1]
    equal = torch.ones_like(v)
    measured = [
        bool(out.isfinite().all()) and out.shape == q.shape,
        close(weights.sum(-1), torch.ones(2, 6, device="cpu")),
        close(first, v[:, :1]),
        not close(out[:, -1], other[:, -1]),
        close(early, out[:, :-1]),
        close(step[:, 0], weights[:, 5]),
        close(run(q, k, equal, past_k, past_v, 10000.0)[0], equal),
    ]
    flips = [
        mask_lets_nothing_through,
        sums_see_scale,
        one_token_sees_positions,
        order_is_lost,
        future_is_hidden,
        steps_agree,
        values_are_averaged,
    ]
    return [value != flip for value, flip in zip(measured, flips, strict=True)]


QUICK_TESTS = Predict(
    name="quick_tests",
    title="Which quick tests see anything?",
    chapter=14,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    reference=_quick_tests,
    parts=(
        "shape and finite",
        "weights add up",
        "one token",
        "two exchanged",
        "last token changed",
        "one step",
        "equal values",
    ),
    hints=(
        "Three of the seven fail.",
        "For each test, ask which line of the function could make it fail, and read that line.",
    ),
    mistakes=(
        Mistake(
            "mask_lets_nothing_through",
            "shape and finite: no bug here hides all keys from a query or changes a shape",
            GITHUB + "pytorch/examples/issues/649",
        ),
        Mistake(
            "sums_see_scale",
            "weights add up: a softmax divides by its own sum, whatever the scores are",
            GITHUB + "PAIR-code/tiny-transformers/issues/71",
        ),
        Mistake(
            "one_token_sees_positions",
            "one token: there is one key to choose, and at position 0 nothing is turned",
            GITHUB + "NeuraLegion/shainet/pull/111",
        ),
        Mistake(
            "order_is_lost",
            "two exchanged: positions enter, though wrongly, so order still makes a difference",
            "claim 3",
        ),
        Mistake(
            "future_is_hidden",
            "last token changed: look at the diagonal at which the mask begins",
            GITHUB + "pytorch/examples/issues/649",
        ),
        Mistake(
            "steps_agree",
            "one step: look at the position that a lone new token gets",
            GITHUB + "Blaizzy/mlx-vlm/issues/1983",
        ),
        Mistake(
            "values_are_averaged",
            "equal values: an average of equal vectors is that vector, unless something is done "
            "to them before",
            "claim 23",
        ),
    ),
)


# Five planted bugs


def _turned(x: torch.Tensor, base: float, *, first: int = 0, neighbours: bool = False):
    """Rotate by position, in the half layout unless told otherwise."""
    d = x.shape[-1]
    speeds = base ** (-torch.arange(0, d, 2, device="cpu") / d)
    angle = torch.arange(first, first + x.shape[-2], device="cpu")[:, None] * speeds
    cos, sin = angle.cos(), angle.sin()
    a, b = (x[..., 0::2], x[..., 1::2]) if neighbours else x.chunk(2, -1)
    turned = a * cos - b * sin, a * sin + b * cos
    return torch.stack(turned, -1).flatten(-2) if neighbours else torch.cat(turned, -1)


def _attention_with_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    past_k: torch.Tensor,
    past_v: torch.Tensor,
    base: float,
    *,
    restarts: bool = False,
    neighbours: bool = False,
    values_turned: bool = False,
    model_width: bool = False,
    one_ahead: bool = False,
    stacked: bool = False,
    hides: bool = False,
) -> list[torch.Tensor]:
    heads, new, d = q.shape
    past = past_k.shape[1]

    def turn(x: torch.Tensor) -> torch.Tensor:
        x = _turned(x, base, first=0 if restarts else past, neighbours=neighbours)
        return torch.stack(x.chunk(2, -1), -1).flatten(-2) if stacked else x

    keys = torch.cat([past_k, turn(k)], 1)
    values = torch.cat([past_v, turn(v) if values_turned else v], 1)
    scores = turn(q) @ keys.transpose(1, 2) / math.sqrt(heads * d if model_width else d)
    ahead = torch.ones(new, past + new, dtype=torch.bool, device="cpu")
    ahead = ahead.triu(past + (2 if one_ahead else 1) - hides)
    weights = scores.masked_fill(ahead, -math.inf).softmax(-1)
    return [weights @ values, weights]


def _bug_inputs() -> list[tuple]:
    """One input for each test, made so that the other bugs make no difference to it.

    Before the last stands one for everything else that could be wrong.
    """
    generator = torch.Generator(device="cpu").manual_seed(142)

    def alike(count: int) -> torch.Tensor:
        # Turned by one angle in all pairs, both layouts do the same to (a, m, m, -a).
        a, m = _normal(generator, 2, 2, count)
        return torch.stack([a, m, m, -a], -1)

    def inner(count: int) -> torch.Tensor:
        # Equal channels 1 and 2: both layouts turn it alike, up to the order of channels.
        x = _normal(generator, 2, count, 4)
        x[..., 2] = x[..., 1]
        return x

    none = torch.zeros(2, 0, 4, device="cpu")
    some = _normal(generator, 2, 6, 4)
    step = (alike(1), alike(1), _normal(generator, 2, 1, 4))
    cache = (_turned(alike(5), 1.0), _normal(generator, 2, 5, 4))
    general = _full(generator, 3, 3, 8, past=4)
    # Where no pair that has content turns, only the order of channels can go wrong.
    still = _full(generator, 2, 1, 8, past=4)
    for x in still[:2]:
        x[..., [0, 1, 4]] = 0  # the partners of pair 0, in both layouts
    return [
        (*step, *cache, 1.0),  # one new token behind a cache
        (*_full(generator, 2, 6, 8), 10000.0),  # a whole text
        (torch.zeros_like(some), torch.zeros_like(some), some, none, none, 10000.0),  # equal scores
        (inner(6), inner(6), some, none, none, 10000.0),  # a text that both layouts turn alike
        (*_full(generator, 2, 5, 8), 10000.0),  # a whole text
        (*general[:3], _turned(general[3], 500.0), general[4], 500.0),  # anything else
        (*still, 1e30),  # one new token that does not turn
    ]


def _pattern(weights: torch.Tensor) -> torch.Tensor:
    """The scores of one query in each head, up to a constant: what its weights can tell."""
    scores = weights.double().clamp(min=1e-30).log()
    return scores - scores.mean(-1, keepdim=True)


def _other_direction(want: torch.Tensor, got: torch.Tensor) -> bool:
    """Whether two patterns are no multiples of each other; a wrong scale is not noticed."""
    cosine = torch.cosine_similarity(_pattern(want), _pattern(got), dim=-1)
    return not bool((cosine > 1 - 1e-4).all())


def _hides(cases: Cases) -> bool:
    """Whether a key gets no weight, or nan, that a whole text gives some."""
    return any(
        bool(((want[1] > 0) & ~(got[1] > 1e-12)).any()) for _, want, got in (cases[4], cases[5])
    )


def _step_differs(cases: Cases) -> bool:
    _, want, got = cases[0]
    return not _hides(cases) and _other_direction(want[1][:, 0], got[1][:, 0])


def _layout_differs(cases: Cases) -> bool:
    _, want, got = cases[1]
    return not _hides(cases) and _other_direction(want[1][:, -1], got[1][:, -1])


def _values_change(cases: Cases) -> bool:
    (_, _, values, *_), _, got = cases[2]
    return not _hides(cases) and not bool((got[0][:, -1] - values.mean(1)).abs().max() < 1e-3)


def _scale_differs(cases: Cases) -> bool:
    _, want, got = cases[3]
    if _hides(cases) or _other_direction(want[1][:, -1], got[1][:, -1]):
        return False  # then there is no one factor
    a, b = _pattern(want[1][:, -1]), _pattern(got[1][:, -1])
    return not bool((((a * b).sum(-1) / (a * a).sum(-1)) - 1).abs().max() < 1e-2)


def _sees_ahead(cases: Cases) -> bool:
    return bool((cases[4][2][1].triu(1) > 1e-6).any())


def _order_differs(cases: Cases) -> bool:
    _, want, got = cases[6]
    return not _hides(cases) and _other_direction(want[1][:, 0], got[1][:, 0])


ATTENTION_WITH_CACHE = Repair(
    name="attention_with_cache",
    title="Five planted bugs",
    chapter=14,
    difficulty=3,
    importance=3,
    minutes=25,
    points=5,
    signature="def attention_with_cache(q, k, v, past_k, past_v, base):",
    make_inputs=_bug_inputs,
    tolerance=1e-4,
    any_float=True,
    reference=_attention_with_cache,
    hints=(
        "Four of the bugs are repaired within a line, the fifth takes three. Compare the function "
        "with its own docstring, sentence by sentence.",
        "Where does a new token stand if there are five in the cache? Where is the diagonal of a "
        "matrix that is wider than it is high?",
        "Which channels are partners? What is turned, and what is not? Whose width belongs under "
        "the root?",
    ),
    mistakes=(
        Mistake(
            "restarts",
            "a step of decoding: one new token behind a cache does not see the distances that one "
            "pass over the whole text sees",
            GITHUB + "Blaizzy/mlx-vlm/issues/1983",
            symptom=_step_differs,
        ),
        Mistake(
            "neighbours",
            "a whole text: query and key do not meet as in the layout that the docstring asks for",
            GITHUB + "huggingface/transformers/issues/25199",
            symptom=_layout_differs,
        ),
        Mistake(
            "values_turned",
            "equal scores: the output of the last token is not the mean of the values",
            "claim 23",
            symptom=_values_change,
        ),
        Mistake(
            "model_width",
            "the size of scores: they are off by a factor that is the same everywhere",
            GITHUB + "PAIR-code/tiny-transformers/issues/71",
            symptom=_scale_differs,
        ),
        Mistake(
            "one_ahead",
            "causality: a token gives weight to another one that comes after it",
            GITHUB + "pytorch/examples/issues/649",
            symptom=_sees_ahead,
        ),
        Mistake(
            "stacked",
            "the cache: new keys have their channels in another order than the cached ones",
            GITHUB + "huggingface/transformers/issues/25199",
            symptom=_order_differs,
            excludes=("neighbours",),
        ),
        Mistake(
            "hides",
            "causality: a token may look at itself and at everything before it, and here it may "
            "not; the other tests wait for this one",
            GITHUB + "pytorch/examples/issues/649",
            symptom=_hides,
            excludes=(
                "restarts",
                "neighbours",
                "values_turned",
                "model_width",
                "one_ahead",
                "stacked",
            ),
        ),
    ),
)


WHAT_THE_COURSE_FOUND = explain(
    {
        "A": Statement(
            "An encoding whose scores depend on distances alone keeps its loss beyond the trained "
            "length.",
            "RoPE's scores do, and at eight times the trained length its loss was above that of a "
            "model without positions",
            "claim 20",
        ),
        "B": Statement(
            "At the trained length T5's bias and RoPE had the lowest loss of the seven; at sixteen "
            "times that length, T5's bias and ALiBi had."
        ),
        "C": Statement(
            "With RoPE the product of a query and a key falls with their distance.",
            "only its average over equal vectors does; a query can be built whose largest score "
            "lies at any distance",
            "claim 12",
        ),
        "D": Statement(
            "A model whose loss stays flat on long texts makes use of them.",
            "ALiBi's did not change when all but the nearest tokens were hidden",
            "claim 19",
        ),
        "E": Statement(
            "NTK-aware scaling leaves the fastest pair as it is and divides the speed of the "
            "slowest by the whole factor."
        ),
        "F": Statement(
            "Dynamic NTK enlarges the base step by step while the model is trained.",
            "it acts beyond the trained length only, so in training it does nothing",
            "claim 14",
        ),
        "G": Statement(
            "To run a checkpoint in the other layout one reorders the rows of the query and key "
            "projections within each head, and no others."
        ),
        "H": Statement(
            "Sinusoidal positions have a largest position, as tables have.",
            "a sinusoid can be computed at any position; whether a model can use it is another "
            "question",
            "claim 26",
        ),
        "I": Statement(
            "On the small model of chapter 10, sixty steps of plain training on longer texts came "
            "within 0.05 nats per byte, at their length, of the same steps after YaRN."
        ),
        "J": Statement(
            "A language model with a causal mask and without an encoding cannot know order.",
            "the mask lets a token find out how many came before it, and such a model solved the "
            "task of chapter 1",
            "claim 3",
        ),
    },
    name="what_the_course_found",
    title="What the course found",
    chapter=14,
    difficulty=3,
    importance=3,
    minutes=10,
    points=3,
    hints=(
        "Four of the ten are true.",
        "Each false one is said in many places; each was measured in this course.",
    ),
)

EXERCISES = (KERPLE_LOG, QUICK_TESTS, ATTENTION_WITH_CACHE, WHAT_THE_COURSE_FOUND)
