"""The figures of chapter 5 show the numbers they are given; checked through the Artists."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from posenc_tutorial.plots import relative_bias as plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def test_every_relative_position_is_written_in_its_cell():
    keys, table = [3, 4, 5], np.array([[0, 1, 2], [-1, 0, 1]])
    first, second = plots.distance_grids({"a": ([3, 4], keys, table), "b": ([9], [9], [[0]])})
    assert texts(first) == ["0", "1", "2", "\N{MINUS SIGN}1", "0", "1"]
    assert np.array_equal(first.images[0].get_array(), table)
    assert [label.get_text() for label in first.get_xticklabels()] == ["3", "4", "5"]
    assert [label.get_text() for label in first.get_yticklabels()] == ["3", "4"]
    assert first.get_xlabel() == "a" and second.get_xlabel() == "b"
    scales = [ax.images[0].get_clim() for ax in (first, second)]
    assert scales[0] == scales[1] and scales[0][0] == -scales[0][1]  # 0 is the neutral colour


def test_three_tables_take_two_rows():
    grids = {name: (range(2), range(2), np.zeros((2, 2), int)) for name in "abc"}
    axes = plots.distance_grids(grids)
    places = [ax.get_subplotspec() for ax in axes]
    assert [(p.rowspan.start, p.colspan.start) for p in places] == [(0, 0), (0, 1), (1, 0)]


def test_preferences_are_labelled_at_their_peak_and_the_clipped_part_is_shaded():
    relative = np.arange(-4, 5)
    curves = {"back": -((relative + 2) ** 2), "ahead": -((relative - 1) ** 2)}
    ax = plots.preference_curves(relative, curves, clipped=3)
    lines = [line for line in ax.get_lines() if len(line.get_xdata()) == 9]
    assert [list(line.get_ydata()) for line in lines] == [list(c) for c in curves.values()]
    assert len({line.get_linestyle() for line in lines}) == 2  # readable without colour
    assert texts(ax) == ["back", "ahead"]
    assert [text.xy[0] for text in ax.texts] == [-2, 1]
    shaded = sorted((p.get_x(), p.get_x() + p.get_width()) for p in ax.patches)
    assert shaded[0] == (-4.0, -3.5) or shaded[0] == (-3.5, -4.0)
    assert {round(abs(edge), 1) for pair in shaded for edge in pair} == {3.5, 4.0}


def test_a_box_holds_what_shares_a_bucket():
    relative = np.arange(-12, 1)
    buckets = np.array([3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 1, 0])
    ax = plots.bucket_rulers({"one": (relative, buckets), "two": (relative, buckets)})
    boxes = [p for p in ax.patches if isinstance(p, Rectangle)]
    spans = [(box.get_x(), box.get_width()) for box in boxes[:4]]
    assert spans == [(-12.5, 8), (-4.5, 3), (-1.5, 1), (-0.5, 1)]
    assert len(boxes) == 8 and boxes[4].get_y() < boxes[0].get_y()
    colours = [box.get_facecolor() for box in boxes[:4]]
    assert all(a != b for a, b in zip(colours, colours[1:], strict=False))
    assert texts(ax) == ["3", "one", "3", "two"]  # only wide boxes have room for a number


def test_stairs_rise_where_the_buckets_do():
    distance = np.arange(1, 9)
    near, far = distance, np.minimum(distance, 4)
    ax = plots.bucket_stairs({"near": (distance, near), "far": (distance, far)}, max_distance=6)
    first, second = (patch.get_data() for patch in ax.patches)
    assert np.array_equal(first.values, near) and np.array_equal(second.values, far)
    assert list(first.edges) == list(range(1, 10))
    assert ax.get_xscale() == "log"
    assert any(list(line.get_xdata()) == [6, 6] for line in ax.get_lines())
    assert texts(ax)[:2] == ["near", "far"]


def test_each_head_has_a_panel_with_its_bias_and_the_marks():
    bias = np.array([[1.0, 0.0, -1.0, -1.0], [2.0, 0.5, 0.0, 0.5]])
    axes = plots.learned_biases(bias, marks=(2, 3))
    assert len(axes) == 2
    for head, ax in enumerate(axes):
        drawn = [list(line.get_ydata()) for line in ax.get_lines()]
        assert list(bias[head]) in drawn
        vertical = [line.get_xdata()[0] for line in ax.get_lines() if len(line.get_xdata()) == 2]
        assert [x for x in vertical if x] == [2, 3]
        assert texts(ax) == [f"head {head}"]
    assert axes[0].get_ylim() == axes[1].get_ylim()


def test_losses_and_the_share_are_drawn_at_their_lengths():
    losses = {"T5": {64: 2.0, 128: 2.1}, "none": {64: 2.5, 128: 2.6}}
    top, bottom = plots.longer_than_trained(losses, {64: 0.1, 128: 0.4}, trained=64)
    drawn = [list(line.get_ydata()) for line in top.get_lines()]
    assert [2.0, 2.1] in drawn and [2.5, 2.6] in drawn
    assert texts(top) == ["T5", "none"]
    (share,) = [line for line in bottom.get_lines() if line.get_marker() == "o"]
    assert list(share.get_xdata()) == [64, 128] and list(share.get_ydata()) == [0.1, 0.4]
    assert bottom.get_ylim() == (0, 1)
    assert any(list(line.get_xdata()) == [64, 64] for line in top.get_lines())
    assert texts(bottom) == ["trained"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.preference_curves([0, 1], {"a": [0, 1]}, clipped=1, ax=ax),
        lambda ax: plots.bucket_rulers({"a": ([-1, 0], [1, 0])}, ax=ax),
        lambda ax: plots.bucket_stairs({"a": ([1, 2], [1, 1])}, max_distance=2, ax=ax),
    ],
)
def test_given_axes_are_used_and_no_figure_is_opened(draw):
    _, ax = plt.subplots()
    settings = dict(matplotlib.rcParams)
    assert draw(ax) is ax
    assert len(plt.get_fignums()) == 1 and ax.get_title() == ""
    assert dict(matplotlib.rcParams) == settings
