"""Every figure of the book is a function here: arrays in, Axes out, no global state.

One module a chapter. Each function draws on the ``ax`` it is given, or on a new figure.
"""

from __future__ import annotations

from ._style import (
    BLUE,
    COLOURS,
    DIVERGING,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    RED,
    SEQUENTIAL,
    SKY,
    label_line,
    new_axes,
    style,
)

__all__ = [
    "BLUE",
    "COLOURS",
    "DIVERGING",
    "GREEN",
    "GREY",
    "INK",
    "ORANGE",
    "PURPLE",
    "RED",
    "SEQUENTIAL",
    "SKY",
    "label_line",
    "new_axes",
    "style",
]
