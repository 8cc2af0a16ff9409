"""One look for all figures: white, quiet, colour-blind safe, readable in grey and in print."""

from __future__ import annotations

from contextlib import contextmanager

import matplotlib as mpl
import matplotlib.pyplot as plt
from cycler import cycler

# Okabe and Ito's palette (2008), ordered so that neighbours also differ in lightness.
INK = "#222222"
GREY = "#8a8a8a"
BLUE = "#0072b2"
ORANGE = "#e69f00"
GREEN = "#009e73"
RED = "#d55e00"
PURPLE = "#cc79a7"
SKY = "#56b4e9"
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)

DIVERGING = "RdBu_r"  # for values around zero
SEQUENTIAL = "cividis"  # for amounts; its lightness is monotone, so grey print keeps the order

_STYLE = {
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=COLOURS),
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "image.interpolation": "nearest",
    "figure.constrained_layout.use": True,
}


@contextmanager
def style():
    """Draw inside this context; settings outside it stay as they were."""
    with mpl.rc_context(_STYLE):
        yield


def new_axes(ax=None, *, figsize=(6.4, 3.6), **subplots):
    """The axes to draw on: those given, or those of a new figure in the book's style.

    Call inside :func:`style`. ``subplots`` goes to :func:`matplotlib.pyplot.subplots`.
    """
    if ax is not None:
        return ax
    _, ax = plt.subplots(figsize=figsize, **subplots)
    return ax


def label_line(ax, x, y, text, *, colour=INK, **kwargs):
    """Write a label beside a line, in the line's colour, in place of a legend entry."""
    options = {"textcoords": "offset points", "xytext": (4, 0), "va": "center", "fontsize": 9}
    return ax.annotate(text, (x, y), color=colour, **{**options, **kwargs})
