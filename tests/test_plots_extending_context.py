"""The figures of chapter 10 show the numbers they are given; checked through the Artists."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest

from posenc_tutorial.plots import BLUE, RED
from posenc_tutorial.plots import extending_context as plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def arc(line) -> tuple[float, float]:
    """First and last angle of an arc."""
    x, y = line.get_data()
    turn = np.unwrap(np.arctan2(y, x))
    return round(float(turn[0]), 6), round(float(turn[-1]), 6)


def test_seen_angles_marks_what_is_new_and_stops_at_a_full_circle():
    rows = {"plain": [(40.0, 160.0), (2.0, 8.0), (0.5, 2.0)], "squeezed": [(40.0, 40.0)] * 3}
    axes = plots.seen_angles(rows, ["a", "b", "c"])
    assert axes.shape == (2, 3)
    arcs = [(arc(line), line.get_color()) for line in axes[0, 1].lines]
    two_pi = round(2 * math.pi, 6)
    expected = [((0, 2.0), BLUE), ((0, 2.0), BLUE), ((2.0, two_pi), RED)]
    for (got, colour), (want, right) in zip(arcs, expected, strict=True):
        assert got == pytest.approx(want, abs=1e-5) and colour == right
    assert texts(axes[0, 0]) == ["0", "a"] and texts(axes[0, 1])[0] == "68 %"
    assert texts(axes[0, 2])[0] == f"{100 * 1.5 / (2 * math.pi):.0f} %"
    assert all(line.get_color() == BLUE for ax in axes[1] for line in ax.lines)
    assert axes[0, 0].get_ylabel() == "plain"


def test_slowing_draws_each_method_and_shades_unfinished_pairs():
    divisors = {"flat": [4.0] * 8, "ramp": np.geomspace(1, 4, 8).tolist()}
    ax = plots.slowing(divisors, critical=5, factor=4)
    curves = {line.get_label(): line.get_ydata() for line in ax.lines if len(line.get_xdata()) == 8}
    for name, values in divisors.items():
        np.testing.assert_allclose(curves[name], values)
    assert ax.patches[0].get_x() == 4.5 and ax.get_yscale() == "log"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["flat", "ramp"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "2", "4"]


def test_two_ramps_show_the_same_shares_over_pairs_and_over_turns():
    turns, shares = [32.0, 8.0, 1.0], {"one": [1.0, 0.6, 0.0], "other": [1.0, 0.2, 0.0]}
    left, right = plots.two_ramps(turns, shares)
    for ax, x in ((left, [0, 1, 2]), (right, turns)):
        for line, values in zip(ax.lines, shares.values(), strict=True):
            np.testing.assert_allclose(line.get_xdata(), x)
            np.testing.assert_allclose(line.get_ydata(), values)


def test_scales_by_length_keeps_labels_apart():
    ax = plots.scales_by_length([0.5, 1, 4], {"a": [1, 1, 7], "b": [1, 3, 7], "c": [1, 1, 4]})
    assert [line.get_ydata()[-1] for line in ax.lines] == [7, 7, 4]
    heights = sorted(text.xy[1] for text in ax.texts)
    assert min(np.diff(heights)) > 0.4 and sorted(texts(ax)) == ["a", "b", "c"]


def test_key_errors_draw_one_point_a_key_and_the_trained_length():
    errors = {"ratio": [0.0, 0.3, 0.2, 0.0], "steps": [0.0, 0.5, 0.0, 0.0]}
    ax = plots.key_errors(errors, trained=2)
    for line, values in zip(ax.lines, errors.values(), strict=False):
        np.testing.assert_allclose(line.get_ydata(), values)
        assert line.get_linestyle() == "None" and line.get_marker() not in ("None", "", None)
    assert ax.lines[-1].get_xdata()[0] == 1.5
    assert ax.get_ylim()[0] == 0 and ax.get_ylim()[1] > 0.5


@pytest.mark.parametrize("log", [False, True])
def test_loss_curves_with_a_mark_and_a_band(log):
    x, curves = [1, 2, 8], {"short": [1.6, 1.7, 1.8], "long": [2.2, 1.9, 2.0]}
    ax = plots.loss_curves(
        x, curves, xlabel="setting", mark=(2, "here"), spread={"long": [0.1, 0.0, 0.1]}, log=log
    )
    drawn = [line for line in ax.lines if len(line.get_xdata()) == 3]
    for line, values in zip(drawn, curves.values(), strict=True):
        np.testing.assert_allclose(line.get_ydata(), values)
    assert texts(ax) == ["short", "long", "here"]
    assert len(ax.collections) == 1 and ax.get_xlabel() == "setting"
    assert ax.get_xscale() == ("log" if log else "linear")


def test_short_and_long_joins_two_losses_of_each_method():
    losses = {"plain": (1.6, 2.2), "other": (1.7, 1.9)}
    ax = plots.short_and_long(
        losses, names=("short", "long"), spread={"other": (0.1, 0.2)}, reference=1.6
    )
    assert [label.get_text() for label in ax.get_yticklabels()] == ["plain", "other"]
    joined = [tuple(line.get_xdata()) for line in ax.lines if len(line.get_xdata()) == 2]
    assert (1.6, 2.2) in joined and (1.7, 1.9) in joined and (1.6, 1.6) in map(tuple, joined)
    dots = [float(line.get_xdata()[0]) for line in ax.lines if len(line.get_xdata()) == 1]
    assert dots == [1.6, 2.2, 1.7, 1.9]
    assert texts(ax) == ["short", "long"]
