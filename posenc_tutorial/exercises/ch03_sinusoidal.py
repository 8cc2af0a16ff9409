"""Exercises of chapter 3: the clocks, what moves them, and what their readings have in common."""

from __future__ import annotations

import math

import torch

from ..frequencies import inverse_frequencies, wavelengths
from .registry import Cases, Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"
BASE = 10000.0


def _rounding(positions: torch.Tensor | float) -> torch.Tensor | float:
    """How far honest float32 arithmetic may be off: an angle's error grows with the position.

    Measured: 7e-5 at position 3000, 1.2e-3 at 32768.
    """
    return 1e-5 + 1.5e-7 * abs(positions)


# The table


def _sinusoid_table(
    n: int,
    d: int,
    *,
    doubled: bool = False,
    halved: bool = False,
    base_1000: bool = False,
    end_point: bool = False,
    precedence: bool = False,
    integers: bool = False,
    own_cosine: bool = False,
    exchanged: bool = False,
    halves: bool = False,
    from_one: bool = False,
    half_precision: bool = False,
) -> torch.Tensor:
    base = 1000.0 if base_1000 else BASE
    channel = torch.arange(0, d, 2, dtype=torch.float64)
    position = torch.arange(n, dtype=torch.float64) + (1 if from_one else 0)
    exponent = channel / d
    if doubled:
        exponent = 2 * exponent
    elif halved:
        exponent = exponent / 2
    elif end_point:
        exponent = channel / (d - 2)
    speed = base**-exponent
    if precedence:
        speed = torch.exp(channel * (-math.log(base) / d // 2))
    elif integers:
        speed = torch.ones_like(channel)
    cosine_speed = speed
    if own_cosine:
        cosine_speed = speed * base ** -(1 / d)
    if half_precision:
        position, speed = position.half(), speed.half()
        cosine_speed = cosine_speed.half()
    sine = (position[:, None] * speed).double().sin()
    cosine = (position[:, None] * cosine_speed).double().cos()
    if exchanged:
        sine, cosine = cosine, sine
    if halves:
        return torch.cat([sine, cosine], 1).float()
    return torch.stack([sine, cosine], 2).flatten(1).float()


def _looks_half(cases: Cases) -> bool:
    """Right at small angles; far out, neighbours that should differ are equal.

    16 bits cannot tell 2048 from 2049 (float16) or 256 from 257 (bfloat16). What exactly comes out
    depends on the order of operations, so it cannot be compared number by number.
    """
    for (n, _), want, got in cases:
        error = (want.double() - got.double()).abs().nan_to_num(nan=9.0)
        if float(error[:5].max()) > 0.02:
            return False
        if n > 2100:
            should_move = want.double().diff(dim=0).abs() > 0.3
            moves = got.double().diff(dim=0).abs() > 1e-3
            if int((should_move & ~moves)[2000:].sum()) < 50:
                return False
    return True


_SPEEDS = ("doubled", "halved", "end_point", "base_1000", "own_cosine", "precedence", "integers")

SINUSOID_TABLE = Implement(
    name="sinusoid_table",
    title="The table from memory",
    chapter=3,
    difficulty=1,
    importance=3,
    minutes=10,
    points=2,
    signature="def sinusoid_table(n, d):",
    make_inputs=lambda: [(7, 12), (33, 16), (3000, 32)],
    tolerance=lambda n, d: _rounding(torch.arange(n, dtype=torch.float64)[:, None]),
    any_float=True,
    reference=_sinusoid_table,
    hints=(
        "Position 0 needs no calculator: which of its channels are 0 and which are 1?",
        "Print the angles of position 1 for d = 8: each is a tenth of the one before.",
        "A table of angles, (n, d/2), then its sine into the even and its cosine into the odd "
        "channels.",
    ),
    mistakes=(
        Mistake(
            "doubled",
            "the exponent is doubled: something that already counts channels is multiplied by 2 "
            "again",
            GITHUB + "SamLynnEvans/Transformer/issues/25",
            excludes=_SPEEDS[1:],
        ),
        Mistake(
            "halved",
            "the exponent is half of what it should be: pairs are counted, and divided by the "
            "number of channels",
            GITHUB + "rasbt/LLMs-from-scratch/issues/410",
            excludes=_SPEEDS[2:],
        ),
        Mistake(
            "end_point",
            "the last clock turns by exactly 1/base: this is the other end point, not the paper's "
            "formula",
            GITHUB + "tensorflow/tensor2tensor/issues/1423",
            excludes=_SPEEDS[3:],
        ),
        Mistake(
            "base_1000",
            "the base is 1,000",
            GITHUB + "maxjcohen/transformer/issues/62",
            excludes=("precedence", "integers"),
        ),
        Mistake(
            "precedence",
            "a division binds otherwise than meant and rounds down, so each clock is e^2 times "
            "slower than the one before",
            GITHUB + "zju3dv/LoFTR/issues/41",
            excludes=("integers", "own_cosine"),
        ),
        Mistake(
            "integers",
            "all clocks turn at the same speed: the exponent was rounded to a whole number",
            GITHUB + "codertimo/BERT-pytorch/issues/18",
            excludes=("own_cosine",),
        ),
        Mistake(
            "own_cosine",
            "the cosine has a speed of its own: sine and cosine of a pair must share one clock",
            GITHUB + "Kyubyong/transformer/issues/38",
        ),
        Mistake(
            "exchanged",
            "sine and cosine have changed places",
            GITHUB + "flashinfer-ai/flashinfer/pull/3819",
        ),
        Mistake(
            "halves",
            "all sines come first and then all cosines; the exercise asks for pairs side by side",
            GITHUB + "tatp22/multidim-positional-encoding/issues/20",
        ),
        Mistake(
            "from_one",
            "positions are counted from 1: row 0 is the reading of position 1",
            GITHUB + "graykode/nlp-tutorial/issues/73",
        ),
        Mistake(
            "half_precision",
            "right at small angles and wrong at large ones: positions or angles have gone through "
            "16 bits",
            GITHUB + "NVIDIA/Megatron-LM/issues/535",
            symptom=_looks_half,
            excludes=("precedence", "integers"),
        ),
    ),
)


# How many hands go round


def _turning_pairs(
    *,
    no_circle: bool = False,
    doubled: bool = False,
    channels: bool = False,
    last_number: bool = False,
) -> int:
    d, length = 256, 2048
    base = BASE**2 if doubled else BASE
    needed = wavelengths(inverse_frequencies(d, base))
    if no_circle:
        needed = needed / (2 * math.pi)
    pairs = int((needed <= length).sum()) - (1 if last_number else 0)
    return pairs * (2 if channels else 1)


TURNING_PAIRS = Predict(
    name="turning_pairs",
    title="How many hands go round?",
    chapter=3,
    difficulty=1,
    importance=2,
    minutes=6,
    points=1,
    reference=_turning_pairs,
    hints=(
        "The hand is back at twelve after one wavelength. Which is the last pair for which this "
        "is at most 2048?",
        "Solve the equation for the wavelength for i, and mind that i starts at 0.",
    ),
    mistakes=(
        Mistake(
            "no_circle",
            "a turn is 2 pi radians, not 1",
            GITHUB + "wfondrie/depthcharge/pull/28",
        ),
        Mistake(
            "doubled",
            "this is the number for clocks whose exponent is doubled",
            "claim 5",
            # Half as many, counted twice, is one off the right number.
            excludes=("channels",),
        ),
        Mistake(
            "channels",
            "channels are counted; a pair of them is one clock",
            "claim 7",
        ),
        Mistake(
            "last_number",
            "this is the number of the last clock that goes round; the first one has number 0",
            "claim 7",
        ),
    ),
)


# The matrix that moves every position


def _move_by(
    k: int,
    d: int,
    *,
    backwards: bool = False,
    one_sign: bool = False,
    halves: bool = False,
    doubled: bool = False,
    halved: bool = False,
    one_clock: bool = False,
    early: bool = False,
) -> torch.Tensor:
    channel = torch.arange(0, d, 2, dtype=torch.float64) - (2 if early else 0)
    speed = BASE ** (-channel * (2 if doubled else 0.5 if halved else 1) / d)
    if one_clock:
        speed = torch.ones_like(speed)
    cosine, sine = (k * speed).cos(), (k * speed).sin()
    if backwards:
        sine = -sine
    lower = sine if one_sign else -sine
    matrix = torch.zeros(d, d, dtype=torch.float64)
    i = torch.arange(d // 2)
    first, second = (i, i + d // 2) if halves else (2 * i, 2 * i + 1)
    matrix[first, first] = matrix[second, second] = cosine
    matrix[first, second], matrix[second, first] = sine, lower
    return matrix


MOVE_BY = Implement(
    name="move_by",
    title="One matrix for every step",
    chapter=3,
    difficulty=2,
    importance=3,
    minutes=12,
    points=2,
    signature="def move_by(k, d):",
    make_inputs=lambda: [(1, 8), (3, 16), (-5, 8), (100, 12)],
    tolerance=lambda k, d: _rounding(float(k)),
    any_float=True,
    reference=_move_by,
    hints=(
        "A block of two by two for each clock, along the diagonal; everything else is 0.",
        "Test it on the table: move_by(3, 8) @ PE(2) must be PE(5), and not PE(-1).",
        "The two sines of a block differ in sign. Write out the sine of a sum to see which is "
        "which.",
    ),
    mistakes=(
        Mistake(
            "backwards",
            "the matrix walks back by k: it turns every hand the other way",
            GITHUB + "skyzh/tiny-llm/pull/25",
            excludes=("one_sign",),
        ),
        Mistake(
            "one_sign",
            "both sines of a block have one sign; this is no rotation, it changes lengths",
            GITHUB + "jingyaogong/minimind/issues/532",
        ),
        Mistake(
            "halves",
            "the blocks join channel i with channel i + d/2; in this table neighbours are a pair",
            GITHUB + "huggingface/transformers/issues/25199",
        ),
        Mistake(
            "doubled",
            "the exponent is doubled, so only the first clock turns as it should",
            GITHUB + "SamLynnEvans/Transformer/issues/25",
            excludes=("halved", "one_clock"),
        ),
        Mistake(
            "halved",
            "the exponent is half of what it should be: pairs are counted, and divided by the "
            "number of channels",
            GITHUB + "rasbt/LLMs-from-scratch/issues/410",
            excludes=("one_clock",),
        ),
        Mistake(
            "one_clock",
            "all blocks turn by the same angle; each clock has its own speed",
            GITHUB + "codertimo/BERT-pytorch/issues/18",
            excludes=("early",),
        ),
        Mistake(
            "early",
            "every clock has the speed of the one before it: pairs are counted from 0, not from 1",
            GITHUB + "bkitano/llama-from-scratch/issues/8",
        ),
    ),
)


# Steps that are no whole numbers, in a dtype that is none


def _encode_steps(
    steps: torch.Tensor,
    d: int,
    dtype: torch.dtype,
    *,
    cast_first: bool = False,
    whole_steps: bool = False,
    row_numbers: bool = False,
    cast_angles: bool = False,
    cast_speeds: bool = False,
    cast_all: bool = False,
) -> torch.Tensor:
    if cast_all:
        cast_first = cast_speeds = cast_angles = True
    p = steps.double()
    if row_numbers:
        p = torch.arange(len(steps), dtype=torch.float64)
    if whole_steps:
        p = p.trunc()
    if cast_first:
        p = p.to(dtype).double()
    speed = BASE ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    if cast_speeds:
        speed = speed.to(dtype).double()
    angle = p[:, None] * speed
    if cast_angles:
        angle = angle.to(dtype).double()
    return torch.stack([angle.sin(), angle.cos()], 2).flatten(1).to(dtype)


def _steps_tolerance(steps: torch.Tensor, d: int, dtype: torch.dtype) -> torch.Tensor:
    # One rounding to the dtype asked for, and float32 angles.
    return torch.finfo(dtype).eps / 2 + _rounding(steps.double()[:, None])


ENCODE_STEPS = Implement(
    name="encode_steps",
    title="Round once, and last",
    chapter=3,
    difficulty=3,
    importance=2,
    minutes=10,
    points=2,
    signature="def encode_steps(steps, d, dtype):",
    make_inputs=lambda: [
        (torch.tensor([0.0, 1.5, 998.3897, 47.25], device="cpu"), 16, torch.bfloat16),
        (torch.tensor([998.3897, 0.25, 301.7, 12.0, 733.1], device="cpu"), 8, torch.float16),
        (torch.tensor([0.5, 17.75, 640.125], device="cpu"), 12, torch.float32),
    ],
    tolerance=_steps_tolerance,
    reference=_encode_steps,
    hints=(
        "How does 998.3897 look in bfloat16? Ask torch.tensor(998.3897).bfloat16().",
        "Everything up to sine and cosine in float32 or better; one .to(dtype) at the end.",
    ),
    mistakes=(
        Mistake(
            "cast_first",
            "the steps are rounded before the angle is computed: a wrong position, not a rounded "
            "sine",
            GITHUB + "modelscope/DiffSynth-Studio/pull/1025",
            excludes=("cast_angles", "cast_speeds", "cast_all", "row_numbers"),
        ),
        Mistake(
            "whole_steps",
            "steps are cut to whole numbers",
            GITHUB + "codertimo/BERT-pytorch/issues/18",
            excludes=("row_numbers",),
        ),
        Mistake(
            "row_numbers",
            "rows are counted; the steps that are given have no effect",
            GITHUB + "cmu-l3/anlp-fall2025-code/issues/1",
            excludes=("cast_angles", "cast_speeds", "cast_all"),
        ),
        Mistake(
            "cast_angles",
            "the angles are rounded before the sine, and large angles lose most of their last turn",
            GITHUB + "EleutherAI/gpt-neox/issues/1003",
            excludes=("cast_speeds", "cast_all"),
        ),
        Mistake(
            "cast_speeds",
            "the frequencies are rounded before they meet a step, which multiplies their error",
            GITHUB + "EleutherAI/gpt-neox/issues/1003",
            excludes=("cast_all",),
        ),
        Mistake(
            "cast_all",
            "steps, frequencies and angles are all rounded before the sine is taken",
            GITHUB + "EleutherAI/gpt-neox/issues/1003",
        ),
    ),
)


WHAT_THE_CLOCKS_KNOW = explain(
    {
        "A": Statement(
            "A linear map takes the row of any position to the row three places further on, but "
            "only approximately.",
            "it is exact, for every position and every offset",
            "claim 6",
        ),
        "B": Statement(
            "The dot product of two rows is the same for a key three places before the query and "
            "for one three places after it."
        ),
        "C": Statement(
            "Scores of positions depend on the distance alone, whatever the query and key "
            "matrices of a head are.",
            "a random head mixes clocks of different speeds, and what it computes depends on "
            "where you are",
            "claim 6",
        ),
        "D": Statement(
            "In a text of 512 tokens, at width 128 and base 10,000, more than half of the clocks "
            "do not complete a turn."
        ),
        "E": Statement(
            "Since a row can be computed for any position, a model trained on short texts can be "
            "used on long ones.",
            "computable is not usable: the slow clocks stand where no training text ever put them",
            "claim 8",
        ),
        "F": Statement(
            "All clocks are of use in a text of 512 tokens, even if the exponent is doubled.",
            "with the doubled exponent many clocks stand still in such a text",
            "claim 5",
        ),
        "G": Statement(
            "Rounding the table to bfloat16 is harmless far out, rounding the positions is not."
        ),
        "H": Statement(
            "What limits the length of a text is that the encoding is absolute.",
            "the limit is that of a table: what is computed has no last row",
            "claim 26",
        ),
    },
    name="what_the_clocks_know",
    title="What the clocks know",
    chapter=3,
    difficulty=3,
    importance=2,
    minutes=8,
    points=2,
    hints=(
        "Three of the eight are true.",
        "B, C: the chapter compares the plain dot product with a random head.",
    ),
)

EXERCISES = (
    SINUSOID_TABLE,
    TURNING_PAIRS,
    MOVE_BY,
    ENCODE_STEPS,
    WHAT_THE_CLOCKS_KNOW,
)
