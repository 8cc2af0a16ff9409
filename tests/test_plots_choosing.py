"""Chapter 13's figures: what is drawn is what was given."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from posenc_tutorial.plots import BLUE, RED
from posenc_tutorial.plots import choosing as plots


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_decision_guide_has_every_word_in_order_and_none_outside():
    steps = [
        ("Is there a trained model already?", "yes", "keep its encoding"),
        ("Are all texts short?", "yes", "take what is best there, and stop reading here"),
    ]
    ax = plots.decision_guide(steps, "what is left")
    ax.figure.canvas.draw()
    texts = {" ".join(text.get_text().split()): text for text in ax.texts if text.get_text()}
    for number, (question, _, advice) in enumerate(steps, start=1):
        assert f"{number}. {question}" in texts and advice in texts
        at = texts[f"{number}. {question}"], texts[advice]
        assert at[0].get_position()[1] == at[1].get_position()[1] == 1 - number
    assert texts["what is left"].get_position()[1] == -2
    inside = ax.figure.bbox
    for text in texts.values():
        box = text.get_window_extent()
        assert inside.x0 <= box.x0 and box.x1 <= inside.x1, text.get_text()
    arrows = [text for text in ax.texts if getattr(text, "arrow_patch", None)]
    assert len(arrows) == 2 * len(steps)
    assert sum(text.get_text() == "no" for text in ax.texts) == len(steps)


def test_near_and_far_marks_each_encoding_at_its_losses():
    losses = {"RoPE": (1.5, 3.1), "ALiBi": (1.7, 1.7), "T5": (1.5, 1.6)}
    ax = plots.near_and_far(losses, names=("64 bytes", "1,024 bytes"))
    drawn = {
        line.get_label(): (line.get_xdata()[0], line.get_ydata()[0])
        for line in ax.lines
        if line.get_label() in losses
    }
    assert drawn == losses
    diagonal = ax.lines[0]
    assert diagonal.get_xdata()[0] == diagonal.get_ydata()[0]
    assert "64 bytes" in ax.get_xlabel() and "1,024 bytes" in ax.get_ylabel()
    assert {text.get_text() for text in ax.texts} == {"kept", *losses}


def test_change_costs_colours_what_costs():
    losses = {"as trained": 1.6, "converted": 1.6, "other pairs": 3.0}
    ax = plots.change_costs(losses, reference=1.6)
    assert [bar.get_width() for bar in ax.patches] == list(losses.values())
    assert [to_hex(bar.get_facecolor()) for bar in ax.patches] == [BLUE, BLUE, RED]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(losses)
    assert [text.get_text() for text in ax.texts] == ["1.60", "1.60", "3.00"]
    assert ax.lines[0].get_xdata()[0] == 1.6


def test_fingerprints_fill_what_is_seen():
    seen = {"none": [False, False], "layout": [False, True], "base": [True, True]}
    ax = plots.fingerprints(seen, ["first token", "far token"])
    filled = {
        (int(line.get_xdata()[0]), int(line.get_ydata()[0])): to_hex(line.get_markerfacecolor())
        for line in ax.lines
    }
    for row, values in enumerate(seen.values()):
        for column, value in enumerate(values):
            assert (filled[column, row] == RED) is value
    assert len(ax.texts) == 3  # not by colour alone
    assert [t.get_text().replace("\n", " ") for t in ax.get_xticklabels()] == [
        "first token",
        "far token",
    ]


def test_score_maps_star_the_largest_and_frame_the_wanted():
    flat = np.zeros((4, 6))
    flat[2, 3] = 1
    axial = np.zeros((4, 6))
    axial[1, 4] = 1
    axes = plots.score_maps({"flat": flat, "axial": axial}, query=(2, 4), wanted=(1, 4))
    for ax, values, star in zip(np.ravel(axes), (flat, axial), ((3, 2), (4, 1)), strict=True):
        assert np.array_equal(ax.images[0].get_array(), values)
        assert (ax.lines[0].get_xdata()[0], ax.lines[0].get_ydata()[0]) == star
        assert np.mean(ax.lines[1].get_xdata()[:-1]) == 4
        assert [text.get_text() for text in ax.texts] == ["Q"]
