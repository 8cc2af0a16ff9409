"""Exercises of chapter 12: bytes, addresses, a fused rotation, its backward, honest timing."""

from __future__ import annotations

import torch

from ..kernels.traffic import memory_passes, total_bytes
from .registry import Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"


def _normal(generator: torch.Generator, *shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, dtype=dtype, device="cpu")


# Bytes moved


def _bytes_moved(
    *,
    one_way: bool = False,
    read_for_every_product: bool = False,
    view: bool = False,
    free_sign: bool = False,
    casts_free: bool = False,
    still_half: bool = False,
) -> list[float]:
    x = torch.ones(4, 256, 64, dtype=torch.bfloat16, device="cpu")
    size = x.numel() * x.element_size()
    number = torch.ones((), device="cpu")

    def five_passes(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim=-1)
        return x * number + torch.cat([-b, a], dim=-1) * number

    def count(function) -> float:
        passes = memory_passes(function)
        skipped = ("cat",) if view else ()
        skipped += ("neg",) if free_sign else ()
        return round(total_bytes([p for p in passes if p.name not in skipped]) / size)

    copied = count(lambda: torch.empty_like(x).copy_(x))
    eager = count(lambda: five_passes(x))
    widened = 2 * eager
    casts = count(lambda: x.float()) + count(lambda: x.float().bfloat16()) - count(x.float)
    if still_half:
        widened = eager
    if not casts_free:
        widened += casts
    fused = copied + (2 if read_for_every_product else 0)
    if one_way:
        copied, fused = copied // 2, fused // 2
    return [copied, fused, eager, widened]


BYTES_MOVED = Predict(
    name="bytes_moved",
    title="Predict the bytes",
    chapter=12,
    difficulty=2,
    importance=3,
    minutes=8,
    points=2,
    reference=_bytes_moved,
    tolerance=0.5,  # the page's own count has the tables in it, a quarter and a half of a size
    parts=("copy_", "one fused loop", "the line of the task", "the same in float32"),
    hints=(
        "Every operation reads its inputs from memory and writes its output to it.",
        "The line has five operations, and one of them works on half of the channels.",
        "A float32 number is twice as long as a bfloat16 one, and the two conversions are "
        "operations too.",
    ),
    mistakes=(
        Mistake(
            "one_way",
            "copy_ and the loop: what is written has to be read first, and both cross the wire",
            GITHUB + "huggingface/kernels-community/pull/943",
        ),
        Mistake(
            "read_for_every_product",
            "the loop: a number that occurs in two products is read once and stays in a register",
            GITHUB + "pytorch/pytorch/pull/176223",
        ),
        Mistake(
            "view",
            "the line: cat makes a new tensor; it reads all it joins and writes it again",
            GITHUB + "pytorch/pytorch/pull/176223",
            excludes=("free_sign",),
        ),
        Mistake(
            "free_sign",
            "the line: outside a kernel even a minus sign is a pass over its half of the channels",
            GITHUB + "pytorch/pytorch/pull/176223",
        ),
        Mistake(
            "casts_free",
            "float32: a conversion reads one tensor and writes another, of a different size",
            GITHUB + "linkedin/Liger-Kernel/pull/238",
        ),
        Mistake(
            "still_half",
            "float32: between the two conversions every number is twice as long",
            GITHUB + "vllm-project/semantic-router/issues/3736",
        ),
    ),
)


# A fused rotation, in place


def _turn_in_place(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    overwritten: bool = False,
    right_overwritten: bool = False,
    other_way: bool = False,
    neighbours: bool = False,
    split_in_the_middle: bool = False,
    rest_lost: bool = False,
    two_plus: bool = False,
) -> torch.Tensor:
    y = x.clone()
    pairs = cos.shape[-1]
    if neighbours:
        left, right = y[:, 0 : 2 * pairs : 2], y[:, 1 : 2 * pairs : 2]
    else:
        middle = y.shape[-1] // 2 if split_in_the_middle else pairs
        left, right = y[:, :pairs], y[:, middle : middle + pairs]
    if other_way:
        sin = -sin
    a = left if overwritten else left.clone()
    b = right.clone()
    if right_overwritten:
        b = a * sin + b * cos
        right.copy_(b)
    left.copy_(a * cos + b * sin if two_plus else a * cos - b * sin)
    if not right_overwritten:
        right.copy_(a * sin + b * cos)
    if rest_lost:
        y = y[:, : 2 * pairs]
    return y


def _turn_inputs() -> list[tuple]:
    generator = torch.Generator(device="cpu").manual_seed(121)
    inputs = []
    for n, width, pairs, dtype in ((5, 8, 4, torch.float32), (4, 10, 3, torch.float64)):
        angle = 6 * torch.rand(n, pairs, generator=generator, dtype=dtype, device="cpu")
        inputs.append((_normal(generator, n, width, dtype=dtype), angle.cos(), angle.sin()))
    return inputs


TURN_IN_PLACE = Implement(
    name="turn_in_place",
    title="One loop in place of five passes",
    chapter=12,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    signature="def turn_in_place(x, cos, sin):",
    make_inputs=_turn_inputs,
    tolerance=1e-5,  # three shears, which need no copy of a row, divide by the sine
    any_float=True,
    reference=_turn_in_place,
    hints=(
        "Both new numbers of a pair need both old ones.",
        "In PyTorch a slice is a window on the same memory: what you write through it changes "
        "what you read through it.",
        "How many channels turn? Ask the tables, not the width of x.",
    ),
    mistakes=(
        Mistake(
            "overwritten",
            "the second number of a pair is made from a first one that has been overwritten",
            GITHUB + "DaVikingCode/Citrus-Engine/pull/108",
            excludes=("rest_lost", "neighbours", "split_in_the_middle", "two_plus", "other_way"),
        ),
        Mistake(
            "right_overwritten",
            "the first number of a pair is made from a second one that has been overwritten",
            GITHUB + "DaVikingCode/Citrus-Engine/pull/108",
            excludes=(
                "overwritten",
                "rest_lost",
                "neighbours",
                "split_in_the_middle",
                "two_plus",
                "other_way",
            ),
        ),
        Mistake(
            "other_way",
            "the pairs turn the other way",
            GITHUB + "huggingface/transformers/issues/30900",
            excludes=("two_plus",),
        ),
        Mistake(
            "neighbours",
            "neighbouring channels are taken as pairs; this task has the half layout",
            GITHUB + "huggingface/transformers/issues/25199",
            excludes=("split_in_the_middle",),
        ),
        Mistake(
            "split_in_the_middle",
            "the partner is looked for half a head away, not half of the rotated width",
            GITHUB + "vllm-project/vllm/pull/30384",
        ),
        Mistake(
            "rest_lost",
            "channels that do not turn have to be there as they were",
            GITHUB + "labmlai/annotated_deep_learning_paper_implementations/issues/215",
        ),
        Mistake(
            "two_plus",
            "with two plus signs it is a mirror and a stretch, no rotation",
            GITHUB + "huggingface/transformers/issues/30900",
        ),
    ),
)


# The backward pass


def _turn_backward(
    grad: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    same_angle: bool = False,
    inverse: bool = False,
    factor_lost: bool = False,
    cosine_too: bool = False,
    rest_blocked: bool = False,
    neighbours: bool = False,
) -> torch.Tensor:
    size = (cos.square() + sin.square())[:, :1]
    if inverse:
        cos, sin = cos / size, sin / size
    if factor_lost:
        cos, sin = cos / size.sqrt(), sin / size.sqrt()
    if cosine_too:
        cos = -cos
    sin = sin if same_angle else -sin
    result = torch.zeros_like(grad) if rest_blocked else grad.clone()
    pairs = cos.shape[-1]
    left = slice(0, 2 * pairs, 2) if neighbours else slice(0, pairs)
    right = slice(1, 2 * pairs, 2) if neighbours else slice(pairs, 2 * pairs)
    a, b = grad[:, left], grad[:, right]
    result[:, left] = a * cos - b * sin
    result[:, right] = a * sin + b * cos
    return result


def _backward_inputs() -> list[tuple]:
    return [(x, 1.25 * cos, 1.25 * sin) for x, cos, sin in _turn_inputs()]


TURN_BACKWARD = Implement(
    name="turn_backward",
    title="The way back",
    chapter=12,
    difficulty=2,
    importance=3,
    minutes=8,
    points=2,
    signature="def turn_backward(grad, cos, sin):",
    make_inputs=_backward_inputs,
    tolerance=2e-6,
    any_float=True,
    reference=_turn_backward,
    hints=(
        "Write one pair as a matrix times a vector. The gradient is the transposed matrix times "
        "the gradient that arrives.",
        "A transpose is not an inverse, unless the matrix is orthogonal; with a factor it is not.",
        "A channel that passes through unchanged passes its gradient through unchanged.",
    ),
    mistakes=(
        Mistake(
            "same_angle",
            "the gradient is turned onwards; it has to be turned back",
            GITHUB + "huggingface/transformers/issues/30900",
            excludes=("cosine_too",),
        ),
        Mistake(
            "inverse",
            "this undoes the forward pass, factor included; a gradient is not an inverse",
            GITHUB + "turboderp-org/exllamav3/issues/259",
            excludes=("factor_lost",),
        ),
        Mistake(
            "factor_lost",
            "the direction is right, and the factor that the tables hold has been divided out",
            GITHUB + "turboderp-org/exllamav3/issues/259",
        ),
        Mistake(
            "cosine_too",
            "both signs are changed: the cosine of a negative angle is the same cosine",
            GITHUB + "baidu-baige/LoongForge/pull/106",
        ),
        Mistake(
            "rest_blocked",
            "channels that do not turn get no gradient, although they reach the output",
            GITHUB + "huggingface/candle/pull/3612",
        ),
        Mistake(
            "neighbours",
            "neighbouring channels are taken as pairs; this task has the half layout",
            GITHUB + "huggingface/transformers/issues/25199",
        ),
    ),
)


# Addresses


def _pair_addresses(
    shape: tuple,
    strides: tuple,
    index: tuple,
    pairs: int,
    *,
    packed: bool = False,
    axes_exchanged: bool = False,
    channels_adjacent: bool = False,
    split_in_the_middle: bool = False,
    neighbours: bool = False,
    in_bytes: bool = False,
) -> list[int]:
    batch, head, token, pair = index
    if packed:
        _, heads, n, width = shape
        strides = (heads * n * width, n * width, width, 1)
    by_batch, by_head, by_token, by_channel = strides
    if axes_exchanged:
        by_head, by_token = by_token, by_head
    if channels_adjacent:
        by_channel = 1
    row = batch * by_batch + head * by_head + token * by_token
    apart = shape[3] // 2 if split_in_the_middle else pairs
    left, right = (2 * pair, 2 * pair + 1) if neighbours else (pair, pair + apart)
    size = 4 if in_bytes else 1
    return [size * (row + left * by_channel), size * (row + right * by_channel)]


def _address_inputs() -> list[tuple]:
    shape = (2, 3, 5, 8)
    return [
        (shape, (120, 8, 24, 1), (1, 2, 3, 2), 4),  # heads inside tokens, as projections leave it
        (shape, (720, 16, 144, 2), (1, 1, 4, 2), 3),  # every other channel of something packed
        (shape, (0, 40, 8, 1), (1, 2, 3, 1), 4),  # expanded along the batch
    ]


PAIR_ADDRESSES = Implement(
    name="pair_addresses",
    title="Find the stride bug",
    chapter=12,
    difficulty=2,
    importance=2,
    minutes=8,
    points=2,
    signature="def pair_addresses(shape, strides, index, pairs):",
    make_inputs=_address_inputs,
    reference=_pair_addresses,
    hints=(
        "x.stride() says how far apart in memory two neighbours along each axis are.",
        "Where does the kernel of the task take its distances from, and when are they right?",
        "The two channels of a pair are `pairs` apart, in steps of the last axis.",
    ),
    mistakes=(
        Mistake(
            "packed",
            "the distances are computed from the shape, which is right for packed tensors only",
            GITHUB + "ROCm/aiter/pull/1631",
            excludes=("axes_exchanged", "channels_adjacent"),
        ),
        Mistake(
            "axes_exchanged",
            "the strides of heads and tokens have changed places",
            GITHUB + "kyegomez/MGQA/issues/11",
        ),
        Mistake(
            "channels_adjacent",
            "neighbouring channels need not be neighbours in memory: the last stride is missing",
            GITHUB + "ROCm/aiter/pull/1631",
        ),
        Mistake(
            "split_in_the_middle",
            "the partner is looked for half a head away, not half of the rotated width",
            GITHUB + "vllm-project/vllm/pull/30384",
            excludes=("neighbours",),
        ),
        Mistake(
            "neighbours",
            "neighbouring channels are taken as pairs; this task has the half layout",
            GITHUB + "huggingface/transformers/issues/25199",
        ),
        Mistake(
            "in_bytes",
            "strides count elements; these are bytes",
            GITHUB + "triton-lang/triton/issues/2231",
        ),
    ),
)


# Measuring, and what it is good for

HONEST_NUMBERS = explain(
    {
        "A": Statement(
            "A rotation of large tensors into other memory cannot take less time than copying them "
            "there, whatever the processor can compute."
        ),
        "B": Statement(
            "The first call may count, since a user has to wait for it too.",
            "it measures the compiler and the first touch of memory, once, and not the kernel",
            GITHUB + "pytorch/pytorch/pull/23910",
        ),
        "C": Statement(
            "On a GPU the time until the call returns is the time that the kernel takes.",
            "the call returns when the kernel is in the queue; wait for the device first",
            GITHUB + "TristanBilot/mlx-benchmark/pull/21",
        ),
        "D": Statement(
            "Measuring two versions in turn, again and again, protects the ratio from a machine "
            "that gets busier."
        ),
        "E": Statement(
            "A rotation that is ten times as fast makes a transformer about ten times as fast.",
            "only its own share of a step shrinks, and that share is small",
            GITHUB + "lucidrains/rotary-embedding-torch/issues/36",
        ),
        "F": Statement(
            "The interleaved layout is slower by nature, because its pairs lie side by side.",
            "a loop over pairs is no slower for it; only tensor expressions are",
            GITHUB + "Tencent/ncnn/pull/6768",
        ),
        "G": Statement(
            "If a kernel is exact for contiguous inputs, it is exact for all.",
            "a view with other strides has the same shape, and only some kernels look at strides",
            GITHUB + "ROCm/aiter/pull/1631",
        ),
    },
    name="honest_numbers",
    title="Which numbers to believe",
    chapter=12,
    difficulty=2,
    importance=2,
    minutes=6,
    points=1,
    hints=(
        "Two of the seven are true.",
        "Think of what a clock that you start and stop yourself cannot know.",
    ),
)

EXERCISES = (
    BYTES_MOVED,
    TURN_IN_PLACE,
    TURN_BACKWARD,
    PAIR_ADDRESSES,
    HONEST_NUMBERS,
)
