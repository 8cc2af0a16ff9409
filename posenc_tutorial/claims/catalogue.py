"""The 36 claims, in short, and where they were read.

The verdicts are not here: cells of the chapters compute them, and the page "Claims, checked" puts
both together.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A statement from one or more of the three source articles.

    Attributes:
        number: in the book's list, from 1.
        sources: labels of the articles, ``("S000", "S004")``.
        text: the claim in short, in our words; Markdown.
    """

    number: int
    sources: tuple[str, ...]
    text: str


CLAIMS = (
    Claim(
        1,
        ("S001", "S004"),
        "Without positions, attention is permutation invariant: any order gives the same output",
    ),
    Claim(
        2,
        ("S004",),
        "“Cat chases dog” and “dog chases cat” get exactly the same representation",
    ),
    Claim(
        3,
        ("S001",),
        "A model without positions still trains, and is bad at what depends on order",
    ),
    Claim(
        4,
        ("S004",),
        "Convolutional and recurrent networks know about order without being told",
    ),
    Claim(
        5,
        ("S004",),
        "The printed code, `10000 ** (2*i/d)` with `i` in steps of 2, is the sinusoid of the paper",
    ),
    Claim(
        6,
        ("S000", "S001"),
        "The sinusoid of $p + k$ is a linear function of the sinusoid of $p$, the same for all $p$",
    ),
    Claim(
        7,
        ("S000", "S001"),
        "Low channels change fast and high channels slowly: several scales are seen at once",
    ),
    Claim(8, ("S001",), "In theory, sinusoids extrapolate"),
    Claim(9, ("S001", "S004"), "A learned table ends at its last row"),
    Claim(
        10,
        ("S000",),
        "A position that is added to the input reaches query, key and value; "
        "RoPE leaves the value alone",
    ),
    Claim(
        11,
        ("S001", "S004"),
        "The product of a turned query and a turned key depends on nothing but their distance",
    ),
    Claim(
        12,
        ("S001",),
        "With RoPE attention fades with distance, until far tokens are almost orthogonal",
    ),
    Claim(
        13,
        ("S001",),
        "NTK-aware scaling is the base times $\\alpha$: high frequencies change more slowly",
    ),
    Claim(14, ("S001",), "Dynamic NTK makes the base grow during training"),
    Claim(
        15,
        ("S001",),
        "Position interpolation maps a longer text into the trained range, and loses resolution",
    ),
    Claim(
        16,
        ("S001",),
        "YaRN is NTK by parts with a temperature, and the best method at present",
    ),
    Claim(17, ("S001",), "A larger base, 500,000 for 10,000, helps with long texts"),
    Claim(18, ("S001",), "The slopes of ALiBi are 1/2, 1/4, 1/8, …"),
    Claim(
        19,
        ("S001",),
        "ALiBi keeps its loss on longer texts, because its bias depends on distance only",
    ),
    Claim(20, ("S001",), "Relative encodings extrapolate by nature"),
    Claim(
        21,
        ("S004",),
        "A checkpoint has to be run with the pairs it was trained with, neighbours or halves",
    ),
    Claim(22, ("S004",), "The printed function `rope_encode` computes RoPE"),
    Claim(23, ("S004",), "Queries and keys are turned, values need no turning"),
    Claim(
        24,
        ("S004",),
        "Interpolation takes a model from 4,000 to 32,000 tokens with little or no training",
    ),
    Claim(
        25,
        ("S004",),
        "With little data sinusoids are the better choice, with plenty a learned table is",
    ),
    Claim(
        26,
        ("S001",),
        "Absolute encodings have a maximal length, relative ones have none",
    ),
    Claim(27, ("S001",), "Position and token embedding are added and fed into the model"),
    Claim(28, ("S001",), "At its best, ALiBi is slightly behind RoPE"),
    Claim(
        29,
        ("S001",),
        "Too small an $\\alpha$ does not reach far enough, too large a one blurs what is near",
    ),
    Claim(30, ("S001",), "Almost all large models since 2023 use RoPE"),
    Claim(31, ("S004",), "Without positions a model sees a bag of words"),
    Claim(32, ("S004",), "Positions must be in the words before they enter attention"),
    Claim(33, ("S004",), "RoPE keeps attention parallel"),
    Claim(34, ("S004",), "Absolute encodings can hardly be extended"),
    Claim(
        35,
        ("S000",),
        "Beyond the trained length, the attention of a model with sinusoids drifts",
    ),
    Claim(
        36,
        ("S000", "S004"),
        "A learned table can express any pattern, and is enough for short texts of fixed length",
    ),
)
