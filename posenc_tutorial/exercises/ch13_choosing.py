"""Exercises of chapter 13: settings, a rotation on a grid, changes, symptoms, and a choice."""

from __future__ import annotations

import copy

import torch

from ..alibi import ALiBi, alibi_slopes
from ..attention import MultiHeadAttention
from ..context_extension import dynamic_ntk, yarn
from ..encoding import PositionalEncoding
from ..learned import LearnedEncoding
from ..lm.results import read_table
from ..relative import T5Bias
from ..rope import RotaryEmbedding, convert_projection
from .registry import Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"


# One target, the words of two programs


def _program_numbers(
    trained: int,
    wanted: int,
    base: float,
    rotary_dim: int,
    *,
    factor_turned: bool = False,
    scale_is_factor: bool = False,
    bare_base: bool = False,
    short_exponent: bool = False,
    base_kept: bool = False,
    longest_as_original: bool = False,
    squeezed_short: bool = False,
    whole_factor: bool = False,
    half_width: bool = False,
    base_divided: bool = False,
) -> torch.Tensor:
    factor = wanted // trained if whole_factor else wanted / trained
    if not squeezed_short:
        factor = max(factor, 1.0)
    width = rotary_dim / 2 if half_width else rotary_dim
    exponent = width / (width - 2)
    if bare_base:
        exponent = 1.0
    if short_exponent:
        exponent = (rotary_dim - 2) / rotary_dim
    if base_kept:
        exponent = 0.0
    if base_divided:
        exponent = -exponent
    numbers = [
        1 / factor if factor_turned else factor,
        factor if scale_is_factor else 1 / factor,
        base * factor**exponent,
        wanted if longest_as_original else trained,
    ]
    return torch.tensor(numbers, dtype=torch.float64, device="cpu")


def _relative_tolerance(trained, wanted, base, rotary_dim) -> torch.Tensor:
    right = _program_numbers(trained, wanted, base, rotary_dim)
    return 1e-5 * right.abs()


PROGRAM_NUMBERS = Implement(
    name="program_numbers",
    title="One target, two spellings",
    chapter=13,
    difficulty=1,
    importance=3,
    minutes=8,
    points=2,
    signature="def program_numbers(trained, wanted, base, rotary_dim):",
    make_inputs=lambda: [
        (4096, 16384, 10000.0, 128),
        (8192, 20480, 100000.0, 64),
        (2048, 1024, 10000.0, 32),
        (32768, 131072, 1000000.0, 128),
    ],
    tolerance=_relative_tolerance,
    any_float=True,
    reference=_program_numbers,
    hints=(
        "A factor says how many times longer a text becomes. A scale says by what every speed is "
        "multiplied.",
        "The change of base must divide the slowest pair by the factor, and chapter 10 has the "
        "exponent.",
        "One of the inputs asks for less than the model has. Nothing may get slower there.",
    ),
    mistakes=(
        Mistake(
            "factor_turned",
            "the factor is upside down: for longer texts it is more than 1",
            GITHUB + "ggml-org/llama.cpp/issues/2402",
        ),
        Mistake(
            "scale_is_factor",
            "the frequency scale is the factor, so every pair becomes faster; it multiplies speeds",
            GITHUB + "ggml-org/llama.cpp/issues/2402",
        ),
        Mistake(
            "bare_base",
            "the base is multiplied by the factor as it stands: the slowest pair is then slowed by "
            "less than the factor",
            GITHUB + "Eyeline-Labs/CineScale/issues/7",
            excludes=("short_exponent", "base_kept"),
        ),
        Mistake(
            "short_exponent",
            "the exponent of the base is the wrong way round, less than 1",
            "claim 13",
            excludes=("base_kept",),
        ),
        Mistake(
            "base_kept",
            "the base is the old one; a change of base has to change it",
            "claim 13",
        ),
        Mistake(
            "longest_as_original",
            "the original context is the extended one; it says what the model was trained on",
            GITHUB + "NVIDIA/Megatron-LM/issues/1418",
        ),
        Mistake(
            "squeezed_short",
            "texts shorter than the trained ones get a factor below 1, which makes every pair "
            "faster; they need no change",
            GITHUB + "vllm-project/vllm/issues/3488",
        ),
        Mistake(
            "whole_factor",
            "the factor is rounded to a whole number; 2.5 times as long is a factor of 2.5",
            GITHUB + "ggml-org/llama.cpp/issues/2402",
            excludes=("squeezed_short",),
        ),
        Mistake(
            "half_width",
            "the exponent counts pairs where it should count the channels that turn",
            "claim 13",
            excludes=("bare_base", "short_exponent", "base_kept"),
        ),
        Mistake(
            "base_divided",
            "the base became smaller, which makes pairs faster",
            "claim 13",
            excludes=("base_kept",),
        ),
    ),
)


# A rotation with two axes


def _rotate_on_grid(
    x: torch.Tensor,
    rows: torch.Tensor,
    columns: torch.Tensor,
    base: float,
    *,
    swapped: bool = False,
    one_axis: bool = False,
    summed: bool = False,
    one_ladder: bool = False,
    whole_width: bool = False,
    far_pairs: bool = False,
    taking_turns: bool = False,
    backwards: bool = False,
    joined: bool = False,
    halves_within: bool = False,
    doubled: bool = False,
) -> torch.Tensor:
    d = x.shape[-1]
    pairs = d // 2
    place = torch.arange(pairs, device="cpu")
    by_row = place % 2 == 0 if taking_turns else place < pairs // 2
    within = place // 2 if taking_turns else place % (pairs // 2)
    width = d if whole_width else d // 2
    speeds = base ** (-(4 if doubled else 2) * within.double() / width)
    if one_ladder:
        speeds = base ** (-2 * place.double() / d)
    rows, columns = rows.double()[:, None], columns.double()[:, None]
    if swapped:
        rows, columns = columns, rows
    if one_axis:
        columns = rows
    if summed:
        rows = columns = rows + columns
    angle = torch.where(by_row, rows, columns) * speeds
    if backwards:
        angle = -angle
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    if far_pairs:
        a, b = x[:, :pairs], x[:, pairs:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=1)
    if halves_within:
        a, b = x.unflatten(1, (2, 2, d // 4)).unbind(2)  # (n, axes, pairs of an axis)
        cos, sin = cos.unflatten(1, (2, d // 4)), sin.unflatten(1, (2, d // 4))
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=2).flatten(1)
    a, b = x[:, 0::2], x[:, 1::2]
    turned = [a * cos - b * sin, a * sin + b * cos]
    return torch.cat(turned, dim=1) if joined else torch.stack(turned, dim=2).flatten(1)


def _patches() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(131)
    inputs = []
    for n, d, base in ((6, 8, 10000.0), (5, 16, 100.0)):
        x = torch.randn(n, d, generator=generator, dtype=torch.float64, device="cpu")
        rows = torch.randint(9, (n,), generator=generator)
        columns = torch.randint(9, (n,), generator=generator)
        inputs.append((x.float() if d == 8 else x, rows, columns, base))
    return inputs


ROTATE_ON_GRID = Implement(
    name="rotate_on_grid",
    title="RoPE on a grid, from its specification",
    chapter=13,
    difficulty=2,
    importance=2,
    minutes=15,
    points=3,
    signature="def rotate_on_grid(x, rows, columns, base):",
    make_inputs=_patches,
    tolerance=2e-5,
    reference=_rotate_on_grid,
    hints=(
        "How many pairs does a head of d channels have, and how many of them belong to each axis?",
        "Each axis has the speeds of a head of its own, half as wide.",
        "Build one angle for each token and each pair first, then rotate all pairs alike.",
    ),
    mistakes=(
        Mistake(
            "swapped",
            "rows and columns have changed places",
            "claim 21",
            excludes=("summed",),
        ),
        Mistake(
            "one_axis",
            "all pairs turn with the same coordinate, so the other one is lost",
            "claim 11",
            excludes=("summed",),
        ),
        Mistake(
            "summed",
            "row and column are added, so places on one diagonal look alike",
            "claim 11",
        ),
        Mistake(
            "one_ladder",
            "one list of speeds runs through both axes, so one axis has the fast pairs and the "
            "other the slow ones",
            "claim 7",
            excludes=("whole_width",),
        ),
        Mistake(
            "whole_width",
            "the exponent counts the channels of the whole head; each axis has the speeds of a "
            "head of half the width",
            GITHUB + "rasbt/LLMs-from-scratch/issues/410",
        ),
        Mistake(
            "far_pairs",
            "a pair is made of a channel and the one half a head further; here it is two "
            "neighbours",
            GITHUB + "huggingface/transformers/issues/25199",
        ),
        Mistake(
            "taking_turns",
            "the axes take turns, pair by pair; some models do this, here the first half of the "
            "pairs belongs to the rows",
            "claim 21",
        ),
        Mistake(
            "backwards",
            "every pair turns the wrong way",
            GITHUB + "huggingface/transformers/issues/30900",
        ),
        Mistake(
            "joined",
            "the two channels of a pair come out far apart: put them back where they were",
            GITHUB + "huggingface/transformers/issues/25199",
            excludes=("far_pairs", "halves_within"),
        ),
        Mistake(
            "halves_within",
            "within an axis a channel is paired with the one half of the axis further; here a pair "
            "is two neighbours",
            GITHUB + "huggingface/transformers/issues/25199",
            excludes=("far_pairs", "taking_turns"),
        ),
        Mistake(
            "doubled",
            "the speeds fall too fast from pair to pair: the exponent has a factor of 2 too many",
            GITHUB + "rasbt/LLMs-from-scratch/issues/410",
            excludes=("one_ladder", "whole_width"),
        ),
    ),
)


# What a change does to a trained model


class _KeyNumber(PositionalEncoding):
    """ALiBi's shortcut: slope times the number of the key."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(num_heads)

    def score_bias(self, q_positions, k_positions, *, q=None):
        bias = self.slopes.to(k_positions.device).float()[:, None, None] * k_positions.float()
        return bias.expand(-1, q_positions.shape[-1], -1)


def _after_the_change(
    *,
    rows_disturb: bool = False,
    table_is_safe: bool = False,
    scores_are_permuted: bool = False,
    values_follow: bool = False,
    base_is_for_long: bool = False,
    dynamic_acts: bool = False,
    static_waits: bool = False,
    shortcut_differs: bool = False,
    ends_only: bool = False,
) -> list[bool]:
    generator = torch.Generator(device="cpu").manual_seed(132)
    n, dim, heads, width = 16, 32, 4, 8
    x = torch.randn(2, n, dim, generator=generator, dtype=torch.float64, device="cpu")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(133)
        layer = MultiHeadAttention(dim, heads, PositionalEncoding(), causal=True).double()
        table = LearnedEncoding(n, dim).double()
        buckets = T5Bias(heads, bidirectional=False, num_buckets=8, max_distance=n).double()

        def output(encoding, *, layer=layer):
            changed = copy.deepcopy(layer)
            changed.encoding = encoding
            return changed(encoding.add_to_input(x, torch.arange(n, device="cpu")))

        def same(old, new, **other):
            return bool((output(new, **other) - output(old)).abs().max() < 1e-5)

        rope = RotaryEmbedding(width)
        neighbours = RotaryEmbedding(width, layout="interleaved")
        converted = copy.deepcopy(layer)
        for projection in (converted.query, converted.key):
            rows = convert_projection(projection.weight, heads, to="interleaved")
            projection.weight.copy_(rows)
        too_much = copy.deepcopy(converted)
        too_much.value.weight.copy_(convert_projection(layer.value.weight, heads, to="interleaved"))
        torch.nn.init.normal_(buckets.weight)
        wider = T5Bias(heads, bidirectional=False, num_buckets=8, max_distance=4 * n).double()
        wider.load_state_dict(buckets.state_dict())

        def by_length(length):
            return dynamic_ntk(width, 10000.0, 4.0, n, length)

        measured = [
            same(table, table.resized(2 * n, mode="random")),
            same(table, table.resized(2 * n)),
            same(rope, neighbours, layer=converted),
            same(rope, neighbours, layer=too_much),
            same(rope, RotaryEmbedding(width, base=40000.0)),
            same(rope, RotaryEmbedding(width, parameters=by_length)),
            same(rope, RotaryEmbedding(width, parameters=yarn(width, 10000.0, 4.0, n))),
            same(ALiBi(heads), _KeyNumber(heads)),
            same(buckets, wider),
        ]
    believed = {
        0: (rows_disturb, False),
        1: (table_is_safe, True),
        2: (scores_are_permuted, False),
        3: (values_follow, True),
        4: (base_is_for_long, True),
        5: (dynamic_acts, False),
        6: (static_waits, True),
        7: (shortcut_differs, False),
        8: (ends_only, True),
    }
    for place, (held, value) in believed.items():
        if held:
            measured[place] = value
    return measured


AFTER_THE_CHANGE = Predict(
    name="after_the_change",
    title="What a change leaves alone",
    chapter=13,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    parts=(
        "random rows",
        "interpolated rows",
        "converted query and key",
        "converted values too",
        "another base",
        "dynamic NTK",
        "YaRN",
        "the key's number",
        "another last bucket",
    ),
    reference=_after_the_change,
    hints=(
        "The text is as long as those of training. Which of the changes touch anything that such a "
        "text uses?",
        "A permutation of channels inside a head changes no dot product, as long as queries and "
        "keys are permuted alike.",
        "Which bucket does a distance of 10 fall into when the last bucket begins later?",
    ),
    mistakes=(
        Mistake(
            "rows_disturb",
            "new rows behind the old ones are not looked up by a text that needs only the old ones",
            GITHUB + "huggingface/transformers/pull/13559",
        ),
        Mistake(
            "table_is_safe",
            "an interpolated table moves its old rows to other positions",
            "claim 9",
        ),
        Mistake(
            "scores_are_permuted",
            "the channels of queries and keys are permuted, the scores are not",
            GITHUB + "meta-pytorch/gpt-fast/issues/190",
        ),
        Mistake(
            "values_follow",
            "values are not rotated and have no pairs; permuted, they reach the wrong columns of "
            "the output projection",
            GITHUB + "meta-pytorch/gpt-fast/issues/190",
        ),
        Mistake(
            "base_is_for_long",
            "another base changes the speed of all pairs but the first, at every distance",
            GITHUB + "unslothai/unsloth/pull/7028",
        ),
        Mistake(
            "dynamic_acts",
            "dynamic scaling is plain RoPE up to the trained length",
            GITHUB + "vllm-project/vllm/issues/3488",
        ),
        Mistake(
            "static_waits",
            "YaRN is static: it slows its pairs for short texts as well",
            "claim 16",
        ),
        Mistake(
            "shortcut_differs",
            "under a causal mask the two biases differ by one number in each row, which a softmax "
            "removes",
            GITHUB + "ofirpress/attention_with_linear_biases/issues/9",
        ),
        Mistake(
            "ends_only",
            "the logarithmic buckets are spread up to the last one, so most of them move",
            "claim 20",
        ),
    ),
)


# Six patients

PATIENTS = ("NoPE", "NTK-aware", "learned", "ALiBi", "RoPE", "interpolation")
"""Who is behind the letters A to F."""

_CAUSES = {
    "learned": 1,  # places that were never trained
    "RoPE": 2,  # distances that were never trained
    "interpolation": 3,  # squeezed, and not trained after it
    "NoPE": 4,  # no positions
    "ALiBi": 5,  # nothing far away is looked at
    "NTK-aware": 6,  # scaled by too little
}


def patients() -> dict[str, dict[int, float]]:
    """Losses of six models at four lengths, under the letters A to F, from the stored tables.

    Returns:
        Letter to length to loss, nats per byte, means over three seeds.
    """
    lengths = (64, 128, 256, 512)
    loss = {(r["encoding"], r["length"]): r["mean"] for r in read_table("length_mean")}
    tuned = {
        (r["method"], r["length"]): r["mean"]
        for r in read_table("fine_tune_mean")
        if (r["encoding"], r["steps"]) == ("rope", 0)
    }
    found = {}
    for letter, name in zip("ABCDEF", PATIENTS, strict=True):
        if name in ("NTK-aware", "interpolation"):
            key = {"NTK-aware": "ntk_aware", "interpolation": "position_interpolation"}[name]
            found[letter] = {n: tuned[key, n] for n in lengths}
        else:
            key = {"NoPE": "nope"}.get(name, name.lower())
            found[letter] = {n: loss[key, n] for n in lengths}
    return found


def _six_patients(
    *,
    cliff_and_slope: bool = False,
    late_is_never: bool = False,
    level_is_fine: bool = False,
    blind_is_squeezed: bool = False,
    blind_is_near: bool = False,
) -> list[int]:
    causes = dict(_CAUSES)
    swaps = {
        ("learned", "RoPE"): cliff_and_slope,
        ("NTK-aware", "RoPE"): late_is_never,
        ("ALiBi", "interpolation"): level_is_fine,
        ("NoPE", "interpolation"): blind_is_squeezed,
        ("NoPE", "ALiBi"): blind_is_near,
    }
    for (one, other), made in swaps.items():
        if made:
            causes[one], causes[other] = causes[other], causes[one]
    return [causes[name] for name in PATIENTS]


SIX_PATIENTS = Predict(
    name="six_patients",
    title="Six patients",
    chapter=13,
    difficulty=3,
    importance=3,
    minutes=10,
    points=2,
    parts=("A", "B", "C", "D", "E", "F"),
    reference=_six_patients,
    hints=(
        "Begin with the two that are bad at the trained length already, then with the two that "
        "hardly change.",
        "A row that was never trained hurts at once. A distance a little longer than the known "
        "ones hurts a little.",
        "One patient is as good at twice the trained length as at once. What was done to it?",
    ),
    mistakes=(
        Mistake(
            "cliff_and_slope",
            "an untrained row hurts at once, an unknown distance the more the longer it is; you "
            "have them the other way round",
            "claim 20",
        ),
        Mistake(
            "late_is_never",
            "untouched RoPE is worse at twice the trained length already; the other is not, so "
            "something was done about it, and not enough",
            "claim 29",
        ),
        Mistake(
            "level_is_fine",
            "level can be bad or good at every length: to look at near tokens only does not make "
            "short texts bad, squeezed positions do",
            "claim 15",
            excludes=("blind_is_squeezed", "blind_is_near"),
        ),
        Mistake(
            "blind_is_squeezed",
            "squeezed positions ruin the trained length most; a model that has none is bad at it, "
            "and not that bad",
            "claim 15",
            excludes=("blind_is_near",),
        ),
        Mistake(
            "blind_is_near",
            "one of the two gets worse with every doubling, and one keeps what it has: a model "
            "that looks at near tokens only sees no difference in a longer text",
            "claim 19",
        ),
    ),
)


# The choice

WHAT_TO_CHOOSE = explain(
    {
        "A": Statement(
            "For short texts of a fixed length, a learned table reads as well as RoPE.",
            "on the model of chapter 9 it is clearly behind RoPE at the very length it was trained "
            "on",
            "claim 36",
        ),
        "B": Statement(
            "If no text is longer than those of training, a rule for longer texts has nothing to "
            "gain, and may cost something."
        ),
        "C": Statement(
            "An encoding that keeps its loss at sixteen times the trained length also finds what "
            "stands there.",
            "keeping a loss and finding a fact are two things; the slope that does the first "
            "hinders the second",
            "claim 19",
        ),
        "D": Statement(
            "In the book's table, sixty steps of training on longer texts do more for them than "
            "any change of speeds without training."
        ),
        "E": Statement(
            "A model that is trained on short texts reads long ones if its base is large enough.",
            "it helps at twice the length and not beyond; a large base makes room, training fills "
            "it",
            "claim 17",
        ),
        "F": Statement(
            "Without any positions, a causal decoder gives the same output for both orders of a "
            "sentence.",
            "the mask breaks the symmetry; it is the encoder without a mask that is blind",
            "claim 2",
        ),
        "G": Statement(
            "The method that is best at the trained length is the one to take for the target "
            "length.",
            "untouched RoPE is best at home and among the worst away",
            "claim 16",
        ),
        "H": Statement(
            "Two programs that are given the same incomplete settings may run two different models."
        ),
        "I": Statement(
            "RoPE and ALiBi have no parameters, so one may take the other's place in a trained "
            "model.",
            "the other weights were trained around it: the loss of the trained length rises by "
            "three quarters",
            "claim 28",
        ),
    },
    name="what_to_choose",
    title="What to choose",
    chapter=13,
    difficulty=3,
    importance=2,
    minutes=8,
    points=2,
    hints=(
        "Three of the nine are true.",
        "A: the table of three seeds in chapter 9 has both losses in its first column.",
    ),
)

EXERCISES = (PROGRAM_NUMBERS, ROTATE_ON_GRID, AFTER_THE_CHANGE, SIX_PATIENTS, WHAT_TO_CHOOSE)
