"""The figures of chapter 06 show the numbers they are given; checked through the Artists."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Arc, Circle, Wedge

from posenc_tutorial.plots import rope as plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


# Hands


def test_hands_turn_anticlockwise_from_the_right():
    queries, keys = np.array([0.3, 2.0]), np.array([1.1, 4.0])
    ax = plots.hand_pairs(queries, keys, labels=["a", "b"])
    tips = np.array([np.diff(line.get_xydata(), axis=0)[0] for line in ax.lines]) / 0.4
    want = np.array([[np.cos(a), np.sin(a)] for pair in zip(queries, keys) for a in pair])  # noqa: B905
    np.testing.assert_allclose(tips, want, atol=1e-12)
    assert texts(ax) == ["q", "k", "a", "q", "k", "b"]


@pytest.mark.parametrize(("query", "key"), [(0.3, 1.1), (1.1, 0.3), (3.0, 9.0), (6.0, 0.5)])
def test_the_shaded_angle_is_the_smaller_one_between_the_hands(query, key):
    ax = plots.hand_pairs([query], [key], labels=["a"])
    (wedge,) = [patch for patch in ax.patches if isinstance(patch, Wedge)]
    span = np.radians(wedge.theta2 - wedge.theta1)
    assert 0 <= span <= np.pi + 1e-9
    assert np.cos(span) == pytest.approx(np.cos(key - query))
    ends = {round(float(np.cos(np.radians(t))), 6) for t in (wedge.theta1, wedge.theta2)}
    assert ends == {round(float(np.cos(a)), 6) for a in (query, key)}


def test_hands_before_the_turn_are_drawn_once_a_dial():
    ax = plots.hand_pairs([1, 2, 3], [2, 3, 4], labels="abc", start=(0.1, 0.7))
    assert len(ax.lines) == 3 * 4
    circles = [patch for patch in ax.patches if isinstance(patch, Circle)]
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    for circle in circles:
        assert left < circle.center[0] - 0.5 and circle.center[0] + 0.5 < right
    assert bottom < -0.68 and top > 0.5


# Pairs of channels


def test_arcs_join_the_pairs_and_what_stands_still_is_white():
    schemes = {"one": ([(0, 2), (1, 3)], [1.0, 0.0]), "two": ([(0, 1)], [0.01])}
    ax = plots.pair_map(schemes, dim=4)
    arcs = [patch for patch in ax.patches if isinstance(patch, Arc)]
    assert [(arc.center[0] - arc.width / 2, arc.center[0] + arc.width / 2) for arc in arcs] == [
        (0, 2),
        (0, 1),
    ]
    circles = [patch for patch in ax.patches if isinstance(patch, Circle)]
    faces = [circle.get_facecolor() for circle in circles]
    white = (1.0, 1.0, 1.0, 1.0)
    assert [face == white for face in faces] == [False, True, False, True] + [
        False,
        False,
        True,
        True,
    ]
    assert faces[0] == faces[2] != faces[4] == faces[5]
    assert "one" in texts(ax) and "two" in texts(ax)
    assert texts(ax).count("1") == 1 + 2 and texts(ax).count("0.01") == 1  # speed, and channel 1


def test_faster_pairs_are_lighter():
    ax = plots.pair_map({"a": ([(0, 1), (2, 3), (4, 5)], [1.0, 0.1, 0.001])}, dim=6)
    circles = [patch for patch in ax.patches if isinstance(patch, Circle)]
    lightness = [sum(circle.get_facecolor()[:3]) for circle in circles]
    assert lightness[0] > lightness[2] > lightness[4]


# Curves


def test_shift_errors_leave_out_zeros():
    ax = plots.shift_errors([1, 10, 100], {"a": [0.0, 1e-3, 1.0], "b": [1e-9] * 3})
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [10, 100])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1e-3, 1.0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert ax.lines[0].get_marker() != ax.lines[1].get_marker()
    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_wave_sum_shows_each_wave_and_their_sum():
    x = np.linspace(-5, 5, 50)
    waves = np.stack([np.cos(x), 2 * np.cos(x / 3 + 1)])
    axes = plots.wave_sum(x, waves, labels=["pair 0", "pair 1"])
    assert len(axes) == 3
    for ax, wave, label in zip(axes, [*waves, waves.sum(0)], ["pair 0", "pair 1", "score"],
                               strict=True):  # fmt: skip
        assert any(np.array_equal(line.get_ydata(), wave) for line in ax.lines)
        assert texts(ax) == [label]
    assert axes[0].get_ylim() == axes[1].get_ylim()
    dot = axes[-1].lines[-1]
    assert float(dot.get_ydata()[0]) == pytest.approx(waves.sum(0).max())


def test_score_by_distance_marks_the_largest_of_each_query():
    distance = np.arange(1, 101)
    mean, spread = np.log(distance), np.ones(100)
    curves = {"near": -np.abs(distance - 1.0), "far": -np.abs(distance - 40.0)}
    top, bottom = plots.score_by_distance(distance, {"equal": (mean, spread)}, curves)
    assert any(np.array_equal(line.get_ydata(), mean) for line in top.lines)
    edges = top.collections[0].get_paths()[0].vertices[:, 1]
    assert edges.max() == pytest.approx(mean.max() + 1) and edges.min() == pytest.approx(-1)
    dots = [float(line.get_xdata()[0]) for line in bottom.lines if line.get_marker() == "o"]
    assert dots == [1.0, 40.0]
    assert texts(bottom) == ["near", "far"]
    sides = [text.get_horizontalalignment() for text in bottom.texts]
    assert sides == ["left", "right"]  # no label runs into the axis
    assert bottom.get_xscale() == "log"


def test_bound_curves_draw_scores_as_dots_and_bounds_as_lines():
    scores, bound = np.array([[1.0, 2.0], [3.0, 0.5]]), [10.0, 5.0]
    ax = plots.bound_curves([1, 10], scores, {"bound": bound})
    dots = [line for line in ax.lines if line.get_marker() == "."]
    np.testing.assert_array_equal([line.get_ydata() for line in dots], scores)
    assert any(np.array_equal(line.get_ydata(), bound) for line in ax.lines)
    assert texts(ax) == ["bound"]


# Manners


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.hand_pairs([0], [1], labels="a", ax=ax),
        lambda ax: plots.pair_map({"a": ([(0, 1)], [1.0])}, dim=2, ax=ax),
        lambda ax: plots.shift_errors([1, 2], {"a": [1, 1]}, ax=ax),
        lambda ax: plots.bound_curves([1, 2], [[1, 1]], {"a": [2, 2]}, ax=ax),
    ],
)
def test_given_axes_are_used_and_no_figure_is_opened(draw):
    _, ax = plt.subplots()
    settings = dict(matplotlib.rcParams)
    assert draw(ax) is ax
    assert len(plt.get_fignums()) == 1
    assert ax.get_title() == ""
    assert dict(matplotlib.rcParams) == settings
