"""Exercises of chapter 9: windows, seeds, gains by place, buckets, and what may be moved."""

from __future__ import annotations

import torch

from ..relative import t5_bucket
from .registry import Implement, Mistake, Predict, Statement, explain

GITHUB = "https://github.com/"


# Windows over the same bytes


def _cut_windows(
    data: torch.Tensor,
    starts: torch.Tensor,
    chunk: int,
    length: int,
    *,
    current: bool = False,
    twice: bool = False,
    rolled: bool = False,
    first_only: bool = False,
    strided: bool = False,
    shared_target_lost: bool = False,
    rolled_chunk: bool = False,
    exchanged: bool = False,
) -> torch.Tensor:
    if shared_target_lost:
        rows = data[starts[:, None] + torch.arange(chunk // (length + 1) * (length + 1))]
        blocks = rows.reshape(-1, length + 1)
        both = torch.stack([blocks[:, :-1], blocks[:, 1:]])
        return both.flip(0) if exchanged else both
    chunks = data[starts[:, None] + torch.arange(chunk)]
    step = 0 if current else (2 if twice else 1)
    after = data[starts[:, None] + torch.arange(step, chunk + step)]
    if rolled_chunk:
        after = chunks.roll(-1, 1)

    def cut(rows: torch.Tensor) -> torch.Tensor:
        if first_only:
            return rows[:, :length]
        if strided:
            return rows.view(len(rows), length, -1).mT.reshape(-1, length)
        return rows.reshape(-1, length)

    inputs = cut(chunks)
    both = torch.stack([inputs, inputs.roll(-1, 1) if rolled else cut(after)])
    return both.flip(0) if exchanged else both


CUT_WINDOWS = Implement(
    name="cut_windows",
    title="The same bytes at every length",
    chapter=9,
    difficulty=1,
    importance=3,
    minutes=10,
    points=2,
    signature="def cut_windows(data, starts, chunk, length):",
    make_inputs=lambda: [
        (torch.arange(100, 160), torch.tensor([0, 30]), 12, 4),
        (torch.arange(60).flip(0) * 3, torch.tensor([5, 11, 40]), 12, 6),
        (torch.arange(40) ** 2, torch.tensor([7]), 12, 3),
    ],
    tolerance=0,
    reference=_cut_windows,
    hints=(
        "The targets are the same bytes for every length. How many are there?",
        "A chunk that starts at s has the inputs s to s + chunk - 1 and the targets s + 1 to "
        "s + chunk.",
        "Index with `starts[:, None] + torch.arange(chunk)` and cut the rows with a reshape.",
    ),
    mistakes=(
        Mistake(
            "current",
            "the targets are the inputs themselves; a model that copies gets a loss of zero",
            GITHUB + "lucidrains/perceiver-ar-pytorch/pull/10",
            excludes=("twice", "rolled", "rolled_chunk", "exchanged"),
        ),
        Mistake(
            "twice",
            "the targets are two bytes ahead of the inputs: they have been shifted twice",
            GITHUB + "huggingface/transformers/issues/47394",
            excludes=("rolled", "rolled_chunk"),
        ),
        Mistake(
            "rolled",
            "the last target of a window is its own first byte: a roll within the window wraps",
            GITHUB + "huggingface/transformers/issues/47394",
            excludes=("rolled_chunk",),
        ),
        Mistake(
            "rolled_chunk",
            "the last target of a chunk is the chunk's own first byte: a roll wraps, and the byte "
            "after the chunk is never read",
            GITHUB + "huggingface/transformers/issues/47394",
            excludes=("first_only",),
        ),
        Mistake(
            "first_only",
            "only the first window of each chunk is there, so another length scores other bytes",
            GITHUB + "jquesnelle/yarn/issues/13",
            excludes=("strided",),
        ),
        Mistake(
            "strided",
            "the bytes of a window do not follow each other in the text",
            GITHUB + "EleutherAI/lm-evaluation-harness/issues/369",
        ),
        Mistake(
            "shared_target_lost",
            "blocks of length + 1 are cut, so some bytes of the text are never predicted, and "
            "which ones depends on the length",
            GITHUB + "VectorInstitute/odyssey/pull/236",
            excludes=("current", "twice", "rolled", "rolled_chunk", "first_only", "strided"),
        ),
        Mistake(
            "exchanged",
            "inputs and targets are exchanged: the model would be asked for the byte before",
            GITHUB + "huggingface/transformers/issues/47394",
        ),
    ),
)


# Over seeds


def _over_seeds(
    losses: torch.Tensor,
    *,
    population: bool = False,
    of_the_mean: bool = False,
    squared: bool = False,
    across: bool = False,
    half_range: bool = False,
    columns: bool = False,
) -> torch.Tensor:
    losses = losses.double()
    mean = losses.mean(1)
    n = losses.shape[1]
    if half_range:
        spread = (losses.amax(1) - losses.amin(1)) / 2
    else:
        around = losses - (losses.mean() if across else mean[:, None])
        power = around.square().sum(1) / (n if population else n - 1)
        spread = power if squared else power.sqrt()
    if of_the_mean:
        spread = spread / n**0.5
    return torch.stack([mean, spread], 0 if columns else 1).float()


OVER_SEEDS = Implement(
    name="over_seeds",
    title="Mean and spread over seeds",
    chapter=9,
    difficulty=1,
    importance=2,
    minutes=6,
    points=1,
    signature="def over_seeds(losses):",
    make_inputs=lambda: [
        (torch.tensor([[3.1, 3.9, 3.3, 3.6, 2.7]]),),
        (torch.tensor([[1.71, 1.52, 1.66], [2.40, 2.95, 2.87]]),),
        (torch.tensor([[1.0, 2.0], [2.0, 5.0], [0.5, 0.75]]),),
    ],
    tolerance=2e-6,
    any_float=True,
    reference=_over_seeds,
    hints=(
        "Which axis are the seeds on?",
        "A few seeds are a sample; the spread asked for is that of the population that they come "
        "from.",
        "Of 1 and 2 the standard deviation is 0.7071.",
    ),
    mistakes=(
        Mistake(
            "population",
            "the squares are divided by the number of seeds; for a sample it is one less",
            GITHUB + "pytorch/pytorch/issues/2436",
            excludes=("half_range",),
        ),
        Mistake(
            "of_the_mean",
            "this is the error of the mean; asked for is how far single runs scatter",
            GITHUB + "WuYichen-97/SD-Lora-CL/issues/14",
        ),
        Mistake(
            "squared",
            "this is the variance; take the root, so that the spread has the unit of a loss",
            GITHUB + "pytorch/pytorch/issues/2436",
            excludes=("half_range",),
        ),
        Mistake(
            "across",
            "deviations are taken from the mean of all encodings, not from the encoding's own",
            GITHUB + "WuYichen-97/SD-Lora-CL/issues/14",
            excludes=("half_range",),
        ),
        Mistake(
            "half_range",
            "this is half the distance between the extremes, not a standard deviation",
            GITHUB + "WuYichen-97/SD-Lora-CL/issues/14",
        ),
        Mistake(
            "columns",
            "rows and columns are exchanged: each row of the result is an encoding",
            GITHUB + "pytorch/pytorch/issues/2436",
        ),
    ),
)


# What a longer window gains, by place


def _gain_by_place(
    short: torch.Tensor,
    long: torch.Tensor,
    *,
    reversed_sign: bool = False,
    beginning: bool = False,
    end: bool = False,
    interleaved: bool = False,
    summed: bool = False,
    overall: bool = False,
    start_left_out: bool = False,
) -> torch.Tensor:
    length = len(short)
    if beginning:
        other = long[:length]
    elif end:
        other = long[-length:]
    elif overall:
        other = long.mean().expand(length)
    elif interleaved:
        other = long.view(length, -1).mean(1)
    else:
        windows = long.view(-1, length)[1 if start_left_out else 0 :]
        other = windows.sum(0) if summed else windows.mean(0)
    return other - short if reversed_sign else short - other


def _losses(seed: int, n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 1 + torch.rand(n, generator=generator, dtype=torch.float64, device="cpu")


GAIN_BY_PLACE = Implement(
    name="gain_by_place",
    title="Where a longer window helps",
    chapter=9,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    signature="def gain_by_place(short, long):",
    make_inputs=lambda: [
        (_losses(0, 4), _losses(1, 12)),
        (_losses(2, 8), _losses(3, 32)),
        (_losses(4, 5), _losses(5, 10)),
    ],
    tolerance=1e-6,
    any_float=True,
    reference=_gain_by_place,
    hints=(
        "At which places of the long window do the bytes stand that stood at place r of short "
        "windows?",
        "At r, at r + T, at r + 2T, and so on, with T the length of the short window.",
        "The mean of what you return is the mean of short minus the mean of long.",
    ),
    mistakes=(
        Mistake(
            "reversed_sign",
            "the sign is reversed: a gain is a loss that became smaller",
            "claim 19",
        ),
        Mistake(
            "beginning",
            "only the beginning of the long window is compared, where nothing differs yet",
            GITHUB + "jquesnelle/yarn/issues/13",
            excludes=("end", "interleaved", "summed", "overall", "start_left_out"),
        ),
        Mistake(
            "end",
            "only the end of the long window is compared; all its parts stand for the same bytes "
            "as the short windows",
            GITHUB + "EleutherAI/lm-evaluation-harness/issues/369",
            excludes=("interleaved", "summed", "overall", "start_left_out"),
        ),
        Mistake(
            "interleaved",
            "neighbours in the long window are averaged; those that belong together are one short "
            "window apart",
            GITHUB + "EleutherAI/lm-evaluation-harness/issues/369",
            excludes=("summed", "overall", "start_left_out"),
        ),
        Mistake(
            "summed",
            "the losses in the long window are added up; take their mean over the short windows",
            "claim 19",
            excludes=("overall",),
        ),
        Mistake(
            "start_left_out",
            "the first part of the long window is left out; nothing is gained there, and it counts "
            "in the mean like the others",
            GITHUB + "jquesnelle/yarn/issues/13",
            excludes=("overall",),
        ),
        Mistake(
            "overall",
            "the mean of the whole long window is subtracted, so bytes are compared with other "
            "bytes",
            "claim 19",
        ),
    ),
)


# Buckets that training never meets

_T5_CASES = ((128, False), (64, False), (1024, False), (128, True))


def _untaught_buckets(
    *,
    nothing_new: bool = False,
    one_far_bucket: bool = False,
    trained_twice_as_far: bool = False,
    all_that_are_met: bool = False,
) -> list[int]:
    found = []
    for max_distance, bidirectional in _T5_CASES:

        def met(length: int, max_distance=max_distance, bidirectional=bidirectional) -> set[int]:
            distance = torch.arange(length, device="cpu")
            keys = torch.cat([-distance, distance]) if bidirectional else -distance
            return set(
                t5_bucket(
                    keys, bidirectional=bidirectional, num_buckets=32, max_distance=max_distance
                ).tolist()
            )

        new = met(1024) - met(128 if trained_twice_as_far else 64)
        if all_that_are_met:
            new = met(1024)
        if nothing_new:
            new = set()
        found.append(min(1, len(new)) if one_far_bucket else len(new))
    return found


UNTAUGHT_BUCKETS = Predict(
    name="untaught_buckets",
    title="Buckets that training never meets",
    chapter=9,
    difficulty=2,
    importance=3,
    minutes=10,
    points=2,
    parts=(
        "causal, max_distance 128",
        "causal, max_distance 64",
        "causal, max_distance 1,024",
        "both directions, max_distance 128",
    ),
    reference=_untaught_buckets,
    hints=(
        "Half of the buckets of a direction hold one distance each. Where do the others begin?",
        "Causal, with 32 buckets: bucket 16 + floor(16 ln(distance / 16) / ln(max_distance / 16)) "
        "for distances from 16 on, and 31 at most. The largest distance in training is 63.",
        "In both directions each has 16 buckets, 8 of them for one distance each, and training "
        "stops at the same distance in both.",
    ),
    mistakes=(
        Mistake(
            "nothing_new",
            "all distances beyond max_distance share a bucket, but distances between the trained "
            "length and max_distance have buckets of their own",
            GITHUB + "google-research/text-to-text-transfer-transformer/issues/273",
            excludes=("one_far_bucket", "trained_twice_as_far", "all_that_are_met"),
        ),
        Mistake(
            "one_far_bucket",
            "there is not one far bucket: beyond half of the buckets their widths grow by a "
            "constant ratio up to max_distance",
            GITHUB + "lucidrains/x-transformers/pull/11",
            excludes=("trained_twice_as_far", "all_that_are_met"),
        ),
        Mistake(
            "trained_twice_as_far",
            "a text of 64 tokens has distances up to 63, not up to 127",
            GITHUB + "lucidrains/x-transformers/pull/11",
            excludes=("all_that_are_met",),
        ),
        Mistake(
            "all_that_are_met",
            "these are the buckets that occur in long texts; subtract those that training has met",
            GITHUB + "lucidrains/x-transformers/pull/11",
        ),
    ),
)


# What may be moved

_MODELS = ("NoPE", "learned", "sinusoidal", "T5", "ALiBi", "RoPE")


def _may_be_moved(
    *,
    computable_is_usable: bool = False,
    rope_knows_places: bool = False,
    bias_knows_places: bool = False,
    nothing_may: bool = False,
    nope_knows_places: bool = False,
    untrained_rows_are_alike: bool = False,
) -> list[bool]:
    answer = dict.fromkeys(_MODELS, True) | {"learned": False, "sinusoidal": False}
    if computable_is_usable:
        answer["sinusoidal"] = True
    if rope_knows_places:
        answer["RoPE"] = False
    if bias_knows_places:
        answer |= {"T5": False, "ALiBi": False}
    if nope_knows_places:
        answer["NoPE"] = False
    if untrained_rows_are_alike:
        answer["learned"] = True
    if nothing_may:
        answer = dict.fromkeys(_MODELS, False)
    return [answer[name] for name in _MODELS]


MAY_BE_MOVED = Predict(
    name="may_be_moved",
    title="Moved, and not longer",
    chapter=9,
    difficulty=2,
    importance=3,
    minutes=6,
    points=2,
    parts=_MODELS,
    reference=_may_be_moved,
    hints=(
        "Moving a text changes all places and no distance.",
        "Which of the six put a place into the input?",
    ),
    mistakes=(
        Mistake(
            "computable_is_usable",
            "the sinusoidal rows at the new places can be computed, but the model has never met "
            "them",
            "claim 8",
            excludes=("nothing_may",),
        ),
        Mistake(
            "rope_knows_places",
            "RoPE turns by places, but scores see differences of angles only; a common shift "
            "cancels",
            "claim 20",
            excludes=("nothing_may",),
        ),
        Mistake(
            "bias_knows_places",
            "the biases of T5 and ALiBi are functions of the distance, and no distance has changed",
            "claim 19",
            excludes=("nothing_may",),
        ),
        Mistake(
            "nope_knows_places",
            "what NoPE can count is the tokens before each one, not the numbers of their places",
            "claim 20",
            excludes=("nothing_may",),
        ),
        Mistake(
            "untrained_rows_are_alike",
            "the rows behind the 64th hold the noise of their initialisation: each adds a random "
            "vector that the model has never met",
            GITHUB + "huggingface/transformers/pull/13559",
            excludes=("nothing_may",),
        ),
        Mistake(
            "nothing_may",
            "not every encoding sees places; for those that see distances nothing has changed",
            "claim 20",
        ),
    ),
)


# What the comparison shows

WHAT_LENGTHS_SHOW = explain(
    {
        "A": Statement(
            "An encoding that depends on distances only keeps its loss on longer texts.",
            "longer texts contain distances that training never showed, and RoPE fails on them",
            "claim 20",
        ),
        "B": Statement(
            "At the trained length, ALiBi costs more than RoPE, on the same model and bytes."
        ),
        "C": Statement(
            "ALiBi's loss is a little lower in long windows because it makes use of the far "
            "context.",
            "the gain sits in bytes that no longer stand at the start of a window",
            "claim 19",
        ),
        "D": Statement(
            "A model without any positions can be ahead of RoPE on texts many times as long as "
            "those of training."
        ),
        "E": Statement(
            "Sinusoidal positions can be computed for every place, so a model that was trained "
            "with them can be used there.",
            "the rows exist, and the model has never met them; its attention drifts and its loss "
            "rises",
            "claim 8",
        ),
        "F": Statement(
            "A T5 bucket that training never meets keeps its initial zero, and zero is neutral.",
            "next to far buckets that have learned to be negative, zero is an invitation",
            GITHUB + "lucidrains/x-transformers/pull/11",
        ),
        "G": Statement(
            "With a larger base, a model that is trained on 64 tokens reads 1,024 better.",
            "a larger base leaves more pairs that training does not take round",
            "claim 17",
        ),
        "H": Statement(
            "The model with the lowest loss on long texts is also the one that remembers most.",
            "loss is won near by; NoPE has a high loss and a long memory of a quote",
            "claim 19",
        ),
    },
    name="what_lengths_show",
    title="What the comparison shows",
    chapter=9,
    difficulty=3,
    importance=2,
    minutes=8,
    points=2,
    hints=(
        "Two of the eight are true.",
        "For each of the others the chapter has a figure or a verdict that says otherwise.",
    ),
)

EXERCISES = (
    CUT_WINDOWS,
    OVER_SEEDS,
    GAIN_BY_PLACE,
    UNTAUGHT_BUCKETS,
    MAY_BE_MOVED,
    WHAT_LENGTHS_SHOW,
)
