"""The figures of chapter 7 show the numbers they are given; checked through the Artists."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from posenc_tutorial.plots import COLOURS
from posenc_tutorial.plots import rope_in_practice as plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def rgb(colour) -> tuple:
    return matplotlib.colors.to_rgb(colour)


def test_pairings_join_and_colour_the_two_channels_of_a_pair():
    layouts = {"interleaved": [(0, 1), (2, 3)], "half": [(0, 2), (1, 3)]}
    axes = plots.pairings(layouts)
    assert len(axes) == 2
    for ax, (name, pairs) in zip(axes, layouts.items(), strict=True):
        assert name in texts(ax)
        assert texts(ax).count("pair 0") == texts(ax).count("pair 1") == 2
        for i, (arc, pair) in enumerate(zip(ax.lines, pairs, strict=True)):
            ends = arc.get_xdata()[[0, -1]]
            np.testing.assert_allclose(sorted(ends), pair)
            boxes = [p for p in ax.patches if round(p.get_x() + 0.4) in pair]
            assert len(boxes) == 2
            assert all(box.get_facecolor()[:3] == rgb(COLOURS[i]) for box in boxes)


def test_matrices_share_a_scale_around_zero():
    matrices = {"a": np.eye(4), "b": -0.5 * np.ones((4, 4))}
    axes = plots.two_matrices(matrices)
    for ax, (name, matrix) in zip(axes, matrices.items(), strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), matrix)
        assert ax.images[0].get_clim() == (-1, 1)
        assert ax.get_xlabel() == name
        assert ax.get_ylim()[0] > ax.get_ylim()[1]  # channel 0 on top


def test_errors_by_position_begin_at_zero_and_are_labelled():
    errors = {"largest": [0, 1.0, 2.0], "mean": [0, 0.5, 0.2]}
    ax = plots.error_by_position(range(3), errors)
    for line, values in zip(ax.lines, errors.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert texts(ax) == ["largest", "mean"]
    assert ax.get_ylim()[0] == 0 and max(ax.get_xticks()) <= 2


def test_moved_scores_keep_flat_lines_flat():
    ax = plots.moved_scores(range(4), {"same": [1.0] * 4, "mixed": [0, 1, -1, 0]})
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1.0] * 4)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [0, 1, -1, 0])
    assert texts(ax) == ["same", "mixed"] and "3 further" in ax.get_xlabel()


def test_rounding_curves_are_logarithmic_and_their_labels_do_not_touch():
    errors = {"a": [1e-6, 1e-4], "b": [1e-3, 2.0], "c": [1e-2, 2.0], "d": [1e-2, 1.9]}
    ax = plots.rounding_curves([1, 1024], errors, limit=2e-3)
    assert ax.get_xscale() == ax.get_yscale() == "log"
    for line, values in zip(ax.lines, errors.values(), strict=False):
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert list(ax.lines[-1].get_ydata()) == [2e-3, 2e-3]
    heights = sorted(np.log10(text.xy[1]) for text in ax.texts)
    assert len(heights) == 4 and np.diff(heights).min() > 0.3
    # The labels stand in the order of the lines' ends.
    lowest_first = [text.get_text() for text in sorted(ax.texts, key=lambda text: text.xy[1])]
    assert lowest_first[0] == "a" and lowest_first[1] == "d"


def test_position_strips_name_texts_and_leave_padding_white():
    rows = [
        ("padded", ["", "A", "A"], [None, 0, 1]),
        ("packed", ["A", "B", "B"], [0, 0, 1]),
    ]
    ax = plots.position_strips(rows)
    assert texts(ax) == ["–", "A0", "A1", "padded", "A0", "B0", "B1", "packed"]
    faces = [patch.get_facecolor()[:3] for patch in ax.patches]
    assert faces[0] == rgb("white") and faces[1] == faces[2] == faces[3]
    assert faces[4] == faces[5] != faces[3]
    levels = [patch.get_y() for patch in ax.patches]
    assert levels[0] > levels[3]  # the first row on top


def test_loss_bars_show_the_losses_in_their_order():
    losses = {"right": 2.75, "converted": 2.75, "wrong": 5.76}
    ax = plots.loss_bars(losses, right=("right", "converted"))
    assert [bar.get_width() for bar in ax.patches] == list(losses.values())
    tops = [bar.get_y() for bar in ax.patches]
    assert tops == sorted(tops, reverse=True)
    colours = [bar.get_facecolor() for bar in ax.patches]
    assert colours[0] == colours[1] != colours[2]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(losses)
    assert [text.strip() for text in texts(ax)] == ["2.75", "2.75", "5.76"]
    assert ax.get_xlim()[0] == 0


def test_loss_by_base_marks_the_own_base():
    ax = plots.loss_by_base([1e3, 1e4, 1e5], [3.7, 2.85, 2.75], own=1e5)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [3.7, 2.85, 2.75])
    assert set(ax.lines[1].get_xdata()) == {1e5}
    assert ax.get_xscale() == "log" and texts(ax) == ["trained with"]


def test_loss_by_offset_lets_equal_lines_share_a_label():
    losses = {"right": [2.75, 2.75], "last": [2.76, 2.75], "positions": [3.0, 4.0]}
    ax = plots.loss_by_offset([0, 1000], losses)
    assert len(ax.lines) == 2
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), losses["right"])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), losses["positions"])
    assert texts(ax) == ["right\nlast", "positions"]
    assert list(ax.get_xticks()) == [0, 1000]
