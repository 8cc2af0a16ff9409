"""Pictures that the reader can change: drawn by the browser, without a kernel or a network.

Each function returns an :class:`Explorer`, to be the last line of a cell. Its HTML holds range
inputs, a plain SVG drawing and a sentence that says what the drawing shows; next to it there is a
still picture for e-books and print, and a text. The arguments set where the controls stand at
first.
"""

from __future__ import annotations

from ._explorer import Choice, Explorer, Slider
from .alibi_slopes import alibi_slopes
from .rotation_dial import rotation_dial
from .t5_buckets import t5_buckets
from .wave_board import wave_board
from .wavelengths import wavelengths

__all__ = [
    "Choice",
    "Explorer",
    "Slider",
    "alibi_slopes",
    "rotation_dial",
    "t5_buckets",
    "wave_board",
    "wavelengths",
]
