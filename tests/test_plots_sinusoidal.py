"""The figures of chapter 03 show the numbers they are given; checked through the Artists."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Circle, Wedge

from posenc_tutorial.plots import sinusoidal as plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def hand_tips(ax) -> np.ndarray:
    """Tips relative to the centre, in the order of drawing."""
    hands = [line for line in ax.lines if line.get_linewidth() == 2.2]
    return np.array([np.diff(line.get_xydata(), axis=0)[0] for line in hands])


# The wall of clocks


def test_a_hand_ends_in_its_sine_and_cosine():
    """Twelve o'clock at 0, then clockwise: sine to the right, cosine up."""
    angles = np.array([[0.0, 1.0, np.pi / 2], [np.pi, 5.0, 100.0]])
    ax = plots.clock_wall(angles, row_labels=["p = 0", "p = 1"], column_labels=["a", "b", "c"])
    tips = hand_tips(ax) / 0.40
    np.testing.assert_allclose(tips[:, 0], np.sin(angles).ravel(), atol=1e-12)
    np.testing.assert_allclose(tips[:, 1], np.cos(angles).ravel(), atol=1e-12)
    assert texts(ax) == ["p = 0", "p = 1", "a", "b", "c"]
    assert sum(isinstance(patch, Circle) for patch in ax.patches) == 6


def test_the_first_row_is_on_top_and_all_clocks_are_inside():
    ax = plots.clock_wall(np.zeros((3, 2)), row_labels="abc", column_labels="xy")
    centres = [patch.center for patch in ax.patches if isinstance(patch, Circle)]
    assert centres[0] == (0, 0) and centres[-1] == (1, -2)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    for x, y in centres:
        assert left < x - 0.45 and x + 0.45 <= right and bottom <= y - 0.45 and y + 0.45 < top


def test_the_sector_spans_the_turn_clockwise():
    before, after = np.array([[0.5, 2.0]]), np.array([[0.5 + 0.3, 2.0 + 2 * np.pi + 1.0]])
    ax = plots.clock_wall(before, moved=after, row_labels=["r"], column_labels=["a", "b"])
    wedges = [patch for patch in ax.patches if isinstance(patch, Wedge)]
    for wedge, start, turn in zip(wedges, (0.5, 2.0), (0.3, 1.0), strict=True):
        assert wedge.theta2 == pytest.approx(90 - np.degrees(start))  # anticlockwise from the right
        assert wedge.theta2 - wedge.theta1 == pytest.approx(np.degrees(turn))
    assert len(hand_tips(ax)) == 4


# Tables as pictures


def test_counter_and_waves_show_both_tables():
    bits, waves = np.arange(10).reshape(5, 2) % 2, np.linspace(-1, 1, 10).reshape(5, 2)
    left, right = plots.counter_and_waves(bits, waves)
    np.testing.assert_array_equal(left.images[0].get_array(), bits)
    np.testing.assert_array_equal(right.images[0].get_array(), waves)
    # One colour map, so that 0 looks like -1 and 1 like 1.
    assert left.images[0].get_cmap().name == right.images[0].get_cmap().name
    assert left.images[0].get_clim() == (0, 1) and right.images[0].get_clim() == (-1, 1)


def test_heat_map_has_tokens_down_and_pairs_across():
    values = np.random.default_rng(0).uniform(-1, 1, (7, 4))
    ax = plots.heat_map(values)
    np.testing.assert_array_equal(ax.images[0].get_array(), values)
    assert ax.images[0].get_clim() == (-1, 1)
    assert "position" in ax.get_ylabel() and "pair" in ax.get_xlabel()
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # position 0 on top


def test_matrix_row_shares_one_scale():
    matrices = {"k = 1": np.eye(4), "k = 2": -np.eye(4)}
    axes = plots.matrix_row(matrices)
    for ax, (label, matrix) in zip(axes, matrices.items(), strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), matrix)
        assert ax.images[0].get_clim() == (-1, 1) and ax.get_xlabel() == label


def test_score_panels_put_queries_down_and_keys_across():
    scores = {"one": np.arange(9.0).reshape(3, 3), "two": -np.eye(3)}
    axes = plots.score_panels(scores)
    for ax, (label, values) in zip(axes, scores.items(), strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), values)
        assert label in ax.get_xlabel() and "key" in ax.get_xlabel()
    assert axes[0].get_ylabel() == "query position"


# Curves


def test_wavelength_chart_draws_every_pair_and_length():
    waves = {"paper": [6.3, 63.0, 630.0], "printed": [6.3, 630.0, 63000.0]}
    ax = plots.wavelength_chart(waves, lengths=(512, 4096))
    dotted = [line for line in ax.lines if line.get_marker() == "o"]
    for line, values in zip(dotted, waves.values(), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2])
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert ax.get_yscale() == "log"
    assert texts(ax) == ["512 tokens", "4,096 tokens", "paper", "printed"]


def test_similarity_curves_and_their_trends():
    distances, curve, trend = [1, 10, 100], np.array([0.9, 0.6, 0.3]), np.array([1, 0.5, 0])
    ax = plots.similarity_curves(distances, {"a": curve, "b": curve / 2}, trends={"a": trend})
    drawn = [line.get_ydata() for line in ax.lines]
    for values in (curve, curve / 2, trend):
        assert any(np.array_equal(values, line) for line in drawn)
    assert ax.get_xscale() == "log" and ax.get_ylim()[0] < 0 < 1 < ax.get_ylim()[1]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]


def test_a_trend_without_its_curve_is_an_error():
    with pytest.raises(ValueError, match="'c'.*a, b"):
        plots.similarity_curves([1, 2], {"a": [1, 1], "b": [1, 1]}, trends={"c": [1, 1]})


def test_error_curves_leave_out_zeros_and_overflow():
    errors = {"a": [0.0, 1e-3, 2.0, np.nan], "b": [1e-8] * 4}
    places = {"a": (2, 1.0), "b": (2, 1e-7)}
    ax = plots.error_curves([2, 4, 8, 16], errors, labels_at=places)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [4, 8])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1e-3, 2.0])
    assert texts(ax) == ["a", "b"] and ax.get_xscale() == ax.get_yscale() == "log"


# Manners


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.clock_wall(np.zeros((1, 1)), row_labels="a", column_labels="b", ax=ax),
        lambda ax: plots.heat_map(np.zeros((2, 2)), ax=ax),
        lambda ax: plots.wavelength_chart({"a": [1, 2]}, ax=ax),
        lambda ax: plots.similarity_curves([1, 2], {"a": [1, 1]}, ax=ax),
        lambda ax: plots.error_curves([1, 2], {"a": [1, 1]}, labels_at={"a": (1, 1)}, ax=ax),
    ],
)
def test_given_axes_are_used_and_no_figure_is_opened(draw):
    _, ax = plt.subplots()
    settings = dict(matplotlib.rcParams)
    assert draw(ax) is ax
    assert len(plt.get_fignums()) == 1
    assert ax.get_title() == ""
    assert dict(matplotlib.rcParams) == settings
