"""The figures of chapter 02 show the numbers they are given; checked through the Artists."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from posenc_tutorial.plots import learned as plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_lookup_shows_the_product():
    table = np.arange(12.0).reshape(4, 3) - 5
    one_hot = np.eye(4)[[2, 0]]
    axes = plots.lookup(one_hot, table)
    shown = [ax.images[0].get_array() for ax in axes]
    np.testing.assert_array_equal(shown[0], one_hot)
    np.testing.assert_array_equal(shown[1], table)
    np.testing.assert_array_equal(shown[2], table[[2, 0]])
    # Table and result share one colour scale, symmetric about zero.
    assert axes[1].images[0].get_clim() == axes[2].images[0].get_clim() == (-6, 6)
    assert texts(axes[2]) == ["2", "0"]
    ones = [text for text in axes[0].texts if text.get_color() == "white"]
    assert [text.get_position() for text in ones] == [(2, 0), (0, 1)]


def test_lookup_greys_the_rows_that_no_token_uses():
    axes = plots.lookup(np.eye(4)[[2, 0]], np.ones((4, 3)))
    colours = {text.get_text(): text.get_color() for text in axes[1].texts}
    assert colours["0"] == colours["2"] != colours["1"] == colours["3"]
    heads = [text.get_text() for text in axes[0].texts if text.get_text() != "1"]
    assert heads == ["0", "2", "3"]  # column numbers; "1" is also what stands in the cells


def test_pattern_fits_has_one_panel_for_each_fit():
    pattern = [0, 0, 1, 1]
    fits = {"learned": [0, 0, 1, 1], "waves": [0.1, 0.2, 0.4, 0.3]}
    axes = plots.pattern_fits(pattern, fits)
    assert [ax.get_ylabel() for ax in axes] == list(fits)
    for ax, fit in zip(axes, fits.values(), strict=True):
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), fit)
        assert [bar.get_height() for bar in ax.patches] == pattern


def test_rows_and_loss_marks_where_training_ended():
    moved, loss = np.array([2.0, 2, 0.1, 0.1]), np.array([3.0, 2, 4, 5])
    axes = plots.rows_and_loss(moved, loss, trained=2)
    np.testing.assert_array_equal(axes[0].lines[0].get_ydata(), moved)
    np.testing.assert_array_equal(axes[1].lines[0].get_ydata(), loss)
    for ax, values in zip(axes, (moved, loss), strict=True):
        assert list(ax.lines[1].get_xdata()) == [1.5, 1.5]
        low, high = ax.get_ylim()
        assert low == 0 and high > values.max()


def test_similarity_shows_all_rows_and_a_part_enlarged():
    cosines = np.cos(np.arange(9.0)[:, None] - np.arange(9.0))
    axes = plots.similarity(cosines, zoom=(2, 5))
    for ax in axes:
        np.testing.assert_array_equal(ax.images[0].get_array(), cosines)
        assert ax.images[0].get_clim() == (-1, 1)
    assert axes[0].get_xlim() == (-0.5, 8.5) and axes[0].get_ylim() == (8.5, -0.5)
    assert axes[1].get_xlim() == (1.5, 5.5) and axes[1].get_ylim() == (5.5, 1.5)
    frame = axes[0].patches[0]
    assert (*frame.get_xy(), frame.get_width(), frame.get_height()) == (1.5, 1.5, 4, 4)


def test_spectrum_labels_peaks_with_their_period():
    share = np.zeros(256)
    share[[3, 30]] = 0.6, 0.4
    ax = plots.spectrum(share, peaks=[3, 30])
    assert texts(ax) == ["170 rows", "17 rows"]  # 510 rows / 3, / 30
    line = ax.lines[0]
    assert line.get_xdata()[0] == 1  # no place for zero periods on a logarithmic axis
    np.testing.assert_allclose(line.get_ydata()[[2, 29]], [60, 40])
    assert ax.get_xscale() == "log"


def test_by_offset_draws_a_line_for_each_table_and_the_end():
    offsets = {"published": [0, 64], "tile": [0, 64, 128], "linear": [0, 64, 128]}
    cosines = {"published": [1.0, 0.9], "tile": [1, 0.9, 0.8], "linear": [0.9, 0.85, 0.799]}
    ax = plots.by_offset(offsets, cosines, rows=100, ylabel="cosine")
    for line, name in zip(ax.lines, offsets, strict=False):
        np.testing.assert_array_equal(line.get_xdata(), offsets[name])
        np.testing.assert_array_equal(line.get_ydata(), cosines[name])
    assert list(ax.lines[-1].get_xdata()) == [100, 100]
    labels = {text.get_text(): text for text in ax.texts}
    assert set(offsets) < set(labels)
    # Colour and dashes differ, and labels of lines that end together stay apart.
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines[:3]}) == 3
    assert labels["tile"].xy[1] - labels["linear"].xy[1] >= 0.0119
    assert ax.get_ylabel() == "cosine"
    assert ax.get_xlim()[1] > 128


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.spectrum(np.ones(9), peaks=[2], ax=ax),
        lambda ax: plots.by_offset({"a": [0, 1]}, {"a": [1, 0]}, rows=1, ylabel="b", ax=ax),
    ],
)
def test_figures_draw_on_the_axes_they_are_given(draw):
    _, ax = plt.subplots()
    before = dict(matplotlib.rcParams)
    assert draw(ax) is ax
    assert len(plt.get_fignums()) == 1
    assert dict(matplotlib.rcParams) == before
