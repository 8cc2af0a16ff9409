"""The figures of chapter 8 show the numbers they are given; checked through the Artists."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from posenc_tutorial import alibi_slopes
from posenc_tutorial.plots import alibi as plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_fading_draws_each_weight_and_marks_where_half_is_left():
    slopes = alibi_slopes(8).tolist()
    ax = plots.fading(slopes)
    curves = [line for line in ax.lines if len(line.get_xdata()) > 1]
    dots = [line for line in ax.lines if len(line.get_xdata()) == 1]
    assert len(curves) == len(dots) == 8
    for curve, slope in zip(curves, slopes, strict=True):
        np.testing.assert_allclose(curve.get_ydata(), np.exp(-slope * curve.get_xdata()))
    np.testing.assert_allclose([dot.get_xdata()[0] for dot in dots], np.log(2) / np.array(slopes))
    assert texts(ax) == [f"1/{2**i}" for i in range(1, 9)]


def test_fading_leaves_out_a_mark_that_is_off_the_axis():
    ax = plots.fading([1.0, 1 / 4096], farthest=64)
    assert [line for line in ax.lines if len(line.get_xdata()) == 1] == []


def test_slope_ladders_number_heads_in_their_order_and_open_the_extra_ones():
    ladders = {heads: alibi_slopes(heads).tolist() for heads in (6, 8)}
    ax = plots.slope_ladders(ladders)
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert [dot.get_xdata()[0] for dot in dots] == [*ladders[6], *ladders[8]]
    is_open = [dot.get_markerfacecolor() == "white" for dot in dots]
    assert is_open == [False] * 4 + [True] * 2 + [False] * 8
    assert texts(ax) == [str(i) for heads in (6, 8) for i in range(1, heads + 1)]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["6 heads", "8 heads"]
    left, right = ax.get_xlim()
    assert left > right  # steep heads on the left


def test_two_matrices_write_their_numbers_and_hide_the_future():
    place = np.arange(4.0)
    distance = -np.abs(place[:, None] - place)
    axes = plots.two_matrices({"distance": distance, "index": np.tile(place, (4, 1))})
    assert len(axes) == 2
    shown = axes[0].images[0].get_array()
    assert np.ma.getmaskarray(shown)[np.triu_indices(4, 1)].all()
    np.testing.assert_array_equal(shown[np.tril_indices(4)], distance[np.tril_indices(4)])
    assert texts(axes[0]) == [f"{value + 0.0:g}" for value in distance.ravel()]
    low, high = axes[1].images[0].get_clim()
    assert low == -high


def test_rounding_growth_leaves_out_what_is_not_a_number():
    errors = {"a": {64: 1e-3, 128: 1e-2, 256: np.nan}, "b": {64: 1e-4, 128: 1e-4, 256: 1e-4}}
    ax = plots.rounding_growth(errors)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [64, 128])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [1e-4] * 3)
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert texts(ax) == ["a", "b"]


def test_mass_within_has_a_panel_for_each_head_and_marks_the_trained_length():
    curves = {
        "slope 1/4": {"64 bytes": [0.5, 0.9], "256 bytes": [0.4, 0.8, 0.9]},
        "slope 1/16": {"64 bytes": [0.2, 0.3], "256 bytes": [0.1, 0.2, 0.3]},
    }
    axes = plots.mass_within(curves, trained=64)
    assert len(axes) == 2
    for ax, (panel, lines) in zip(axes, curves.items(), strict=True):
        for line, values in zip(ax.lines, lines.values(), strict=False):
            np.testing.assert_array_equal(line.get_ydata(), values)
            np.testing.assert_array_equal(line.get_xdata(), range(1, len(values) + 1))
        assert list(ax.lines[-1].get_xdata()) == [64, 64]
        assert texts(ax) == [panel]


def test_losses_and_windows_draw_both_and_keep_labels_apart():
    losses = {"ALiBi": {64: 2.2, 128: 2.2}, "RoPE": {64: 2.1, 128: 2.9}}
    windows = {"ALiBi": {8: 2.2, 128: 2.2}, "RoPE": {8: 2.1, 128: 2.21}}
    top, bottom = plots.losses_and_windows(losses, windows, trained=64)
    for ax, data in ((top, losses), (bottom, windows)):
        for line, points in zip(ax.lines, data.values(), strict=True):
            np.testing.assert_array_equal(list(line.get_xdata()), list(points))
            np.testing.assert_array_equal(list(line.get_ydata()), list(points.values()))
        assert sorted(texts(ax)) == ["ALiBi", "RoPE"]
    heights = sorted(text.xy[1] for text in bottom.texts)
    assert heights[1] - heights[0] > 0.007
    assert top.patches and not bottom.patches


def test_retrieval_shows_accuracies_chance_and_what_was_trained():
    found = {"none": {1: 1.0, 1000: 0.9}, "ALiBi": {1: 1.0, 1000: 0.4}}
    ax = plots.retrieval(found, trained=64, chance=0.125)
    guess, *lines = ax.lines
    assert list(guess.get_ydata()) == [0.125, 0.125]
    for line, points in zip(lines, found.values(), strict=True):
        np.testing.assert_array_equal(list(line.get_ydata()), list(points.values()))
    assert texts(ax) == ["a guess", "none", "ALiBi"]
    shaded = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert shaded.x0 == pytest.approx(64)


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.fading([0.5, 0.25], ax=ax),
        lambda ax: plots.slope_ladders({2: [0.1, 0.2]}, ax=ax),
        lambda ax: plots.rounding_growth({"a": {1: 0.1, 2: 0.2}}, ax=ax),
        lambda ax: plots.retrieval({"a": {1: 1.0, 2: 0.5}}, trained=1, chance=0.1, ax=ax),
    ],
)
def test_given_axes_are_used_and_no_figure_is_opened(draw):
    _, ax = plt.subplots()
    settings = dict(matplotlib.rcParams)
    assert draw(ax) is ax
    assert len(plt.get_fignums()) == 1 and ax.get_title() == ""
    assert dict(matplotlib.rcParams) == settings
