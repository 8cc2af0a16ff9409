"""What the explorers share: controls, the HTML around a drawing, the still picture, the text.

An explorer is drawn by the reader's browser, from native range inputs, into plain SVG. Nothing is
loaded and no kernel is needed, so it works from the stored output in a static page, without a
network, in JupyterLab and in Colab, with a keyboard, in the colours of the page. Where scripts do
not run there is a still picture (e-book, print) or a sentence.

The formulas stand in small JavaScript files beside this one, as named functions without side
effects; ``tests/test_explorers.py`` compares them with the package. ``explorer.js`` holds what
the drawings share.
"""

from __future__ import annotations

import base64
import html
import io
import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from matplotlib.figure import Figure

from posenc_tutorial.plots import style

# The colours of lines and text are the page's own (currentColor) but for two, which have a
# contrast of more than 3 : 1 on white and on the dark theme's background.
CSS = """
.posenc-explorer{border:1px solid #8886;border-radius:.5rem;padding:.75rem;max-width:44rem;
margin:.5rem 0;font-size:.95rem;line-height:1.4}
.posenc-explorer label{display:grid;grid-template-columns:11rem 1fr 5.5rem;gap:.5rem;
align-items:center;margin:.2rem 0;font-size:inherit}
.posenc-explorer :is(input,select){width:100%;min-height:1.6rem;margin:0;accent-color:#2f7ed8;
font:inherit;color:inherit;background:transparent}
.posenc-explorer option{color:#000;background:#fff}
.posenc-explorer :is(input,select):focus-visible{outline:2px solid #2f7ed8;outline-offset:2px}
.posenc-explorer .value{text-align:right;font-variant-numeric:tabular-nums}
.posenc-explorer svg{display:block;width:100%;height:auto;margin:.5rem 0;overflow:visible}
.posenc-explorer text{fill:currentColor;font-size:12px}
.posenc-explorer .axis{stroke:currentColor;opacity:.3;fill:none}
.posenc-explorer .faint{stroke:currentColor;opacity:.55;fill:none;stroke-dasharray:4 3}
.posenc-explorer .one{stroke:#2f7ed8;stroke-width:2.2;fill:none}
.posenc-explorer .two{stroke:#d9730d;stroke-width:2.2;fill:none}
.posenc-explorer .dashed{stroke-dasharray:7 4}
.posenc-explorer .solid{stroke-dasharray:none}
.posenc-explorer .dot-one{fill:#2f7ed8}
.posenc-explorer .dot-two{fill:#d9730d}
.posenc-explorer .dot{fill:currentColor}
.posenc-explorer p{margin:.25rem 0 0}
@media(max-width:500px){.posenc-explorer label{grid-template-columns:1fr auto}
.posenc-explorer label :is(input,select){grid-column:1/-1;grid-row:2}}
@media print{.posenc-explorer form{display:none}}
"""


@dataclass(frozen=True)
class Slider:
    """A range input.

    Attributes:
        name: under which the drawing reads it.
        label: what the reader sees, with a unit.
        values: what it can be set to, in order: a ``range``, or any numbers.
        start: the first setting, one of ``values``.
    """

    name: str
    label: str
    values: range | tuple[float, ...]
    start: float

    def __post_init__(self) -> None:
        if self.start not in self.values:
            named = str(self.values) if isinstance(self.values, range) else f"one of {self.values}"
            raise ValueError(f"{self.name} must be in {named}, got {self.start!r}")

    def html(self) -> str:
        if isinstance(self.values, range):
            low, high, step = self.values[0], self.values[-1], self.values.step
            at, stops = self.start, ""
        else:
            low, high, step = 0, len(self.values) - 1, 1
            at = self.values.index(self.start)
            stops = f" data-values='{json.dumps(list(self.values), separators=(',', ':'))}'"
        return (
            f'<label><span>{html.escape(self.label)}</span><input type="range" '
            f'name="{self.name}" min="{low}" max="{high}" step="{step}" value="{at}"{stops}/>'
            f'<span class="value" aria-hidden="true">{number(self.start)}</span></label>'
        )


@dataclass(frozen=True)
class Choice:
    """A list to choose from: see :class:`Slider`, with texts as values."""

    name: str
    label: str
    values: tuple[str, ...]
    start: str

    def __post_init__(self) -> None:
        if self.start not in self.values:
            raise ValueError(f"{self.name} must be one of {self.values}, got {self.start!r}")

    def html(self) -> str:
        options = "".join(
            f'<option selected="selected">{v}</option>'
            if v == self.start
            else f"<option>{v}</option>"
            for v in self.values
        )
        return (
            f'<label><span>{html.escape(self.label)}</span><select name="{self.name}">{options}'
            "</select><span></span></label>"
        )


@dataclass(frozen=True)
class Explorer:
    """A drawing that the reader can change, shown when it is the last line of a cell.

    Attributes:
        name: of the explorer, and of its JavaScript file.
        alt: what one sees, for readers who do not.
        controls: in the order shown.
        sentence: what it says at the start; the drawing says it anew after every change.
        draw: makes the still picture.
    """

    name: str
    alt: str
    controls: tuple[Slider | Choice, ...]
    sentence: str
    draw: Callable[[Figure], None]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> tuple:
        data = {
            "text/html": self.html(),
            "image/png": base64.b64encode(self.png()).decode("ascii"),
            "text/plain": repr(self),
        }
        return data, {"image/png": {"alt": self.alt}}

    def html(self) -> str:
        """The explorer as a piece of a page; also well-formed XML, with no id in it."""
        controls = "\n".join(control.html() for control in self.controls)
        return (
            f'<div class="posenc-explorer" data-explorer="{self.name}">\n'
            f"<style>{CSS}</style>\n"
            f'<form onsubmit="return false" aria-label="{html.escape(self.alt)}">\n'
            f"{controls}\n</form>\n"
            f'<svg viewBox="0 0 640 320" role="img" aria-label="{html.escape(self.alt)}"></svg>\n'
            f'<p class="say" aria-live="polite">{html.escape(self.sentence, quote=False)}</p>\n'
            "<noscript><p>The drawing needs JavaScript.</p></noscript>\n"
            f"<script>//<![CDATA[\n(() => {{\n{script(self.name)}"
            f'startExplorer("{self.name}", draw);\n}})();\n//]]></script>\n</div>'
        )

    def png(self) -> bytes:
        """The drawing at the start, as a picture."""
        buffer = io.BytesIO()
        with style():
            figure = Figure(figsize=(6.4, 3.4))
            self.draw(figure)
            figure.savefig(buffer, format="png", metadata={"Software": None})
        return buffer.getvalue()

    def __repr__(self) -> str:
        settings = ", ".join(f"{c.label} {_shown(c.start)}" for c in self.controls)
        parts = [f"Explorer: {self.alt}", f"At the start: {settings}.", self.sentence]
        return "\n".join(textwrap.fill(part, 88) for part in parts)


def script(name: str) -> str:
    """The JavaScript of an explorer, with what all of them share in front."""
    here = files(__package__)
    return "".join(here.joinpath(f"{file}.js").read_text("utf-8") for file in ("explorer", name))


def number(value: float, digits: int | None = None) -> str:
    """A number as the drawings write it: commas between thousands, ``digits`` decimals."""
    if digits is not None:
        return f"{value:,.{digits}f}".replace("-", "\N{MINUS SIGN}")
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)
