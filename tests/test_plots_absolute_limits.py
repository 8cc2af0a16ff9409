"""The figures of chapter 4 show the numbers they are given; checked through the Artists."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from posenc_tutorial.plots import absolute_limits as plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_street_numbers_the_houses_and_marks_two_of_them():
    ax = plots.street([(0, 5, 2), (1013, 1018, 1015)], houses=8)
    numbers = [text for text in texts(ax) if text.isdigit()]
    assert numbers == [str(n) for start in (0, 1013) for n in range(start, start + 8)]
    assert [text for text in texts(ax) if "left" in text] == ["3 to the left"] * 2
    white = matplotlib.colors.to_rgb("white")
    marked = [p for p in ax.patches if p.get_facecolor()[:3] != white and hasattr(p, "get_xy")]
    places = [round(p.get_xy()[0] + 0.4) for p in marked if p.get_width() == 0.8]
    assert places == [2, 5, 2, 5]


def test_term_grid_shows_four_terms_and_their_sum_on_one_scale():
    terms = np.random.default_rng(0).normal(size=(4, 6, 6))
    axes = plots.term_grid(terms)
    assert len(axes) == 5
    limit = np.abs(terms).max()
    for ax, panel in zip(axes, [*terms, terms.sum(0)], strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), panel)
        assert ax.images[0].get_clim() == (-limit, limit)
        assert ax.get_ylim()[0] > ax.get_ylim()[1]  # query 0 on top
    labels = [ax.get_xlabel() for ax in axes]
    assert labels[1] == "content · position" and labels[2] == "position · content"


def test_value_curves_share_a_line_where_nothing_moves():
    moves = {"learned": [0, 1.0, 2.0], "sinusoidal": [0, 0.5, 0.25]}
    ax = plots.value_curves([0, 1, 2], {**moves, "RoPE": [0, 0, 0], "NoPE": [0, 0, 0]})
    assert len(ax.lines) == 3
    for line, values in zip(ax.lines, moves.values(), strict=False):
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert texts(ax) == ["learned", "sinusoidal", "RoPE, NoPE: exactly 0"]


def test_sharpness_draws_the_weights_and_keeps_labels_apart():
    weights = {"gain 1": [0.1, 0.5], "gain 2": [0.2, 0.99], "gain 4": [0.3, 1.0]}
    ax = plots.sharpness([2, 64], weights)
    for line, values in zip(ax.lines, weights.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values)
    heights = {text.get_text(): text.xy[1] for text in ax.texts}
    assert heights["gain 4"] == 1.0 and heights["gain 4"] - heights["gain 2"] >= 0.05
    assert heights["gain 1"] == 0.5
    assert [int(tick) for tick in ax.get_xticks()] == [2, 64]


def test_visible_part_hides_the_future_and_centres_rows():
    scores = np.arange(9.0).reshape(3, 3) ** 2
    seen = plots.visible_part(scores)
    assert np.isnan(seen[np.triu_indices(3, 1)]).all()
    np.testing.assert_allclose(np.nanmean(seen, axis=1), 0, atol=1e-12)
    assert seen[2, 2] - seen[2, 0] == scores[2, 2] - scores[2, 0]
    assert scores[0, 1] == 1  # the argument is left as it was


def test_position_scores_show_what_the_softmax_sees():
    scores = {"a": np.arange(16.0).reshape(4, 4), "b": np.eye(4), "c": np.eye(4) * 2}
    axes = plots.position_scores(scores)
    assert len(axes) == 3
    for ax, (label, values) in zip(axes, scores.items(), strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), plots.visible_part(values))
        assert texts(ax) == [label]
        low, high = ax.images[0].get_clim()
        assert low == -high


def test_moved_text_shades_what_was_never_trained():
    mass = {"offset 0": [0.5, 0.3], "offset 64": [0.4, 0.2]}
    losses = {"all": {0: 2.0, 64: 2.4, 128: 2.3}, "fast": {0: 2.0, 64: 2.1, 128: 2.0}}
    top, bottom = plots.moved_text(mass, losses, trained=64)
    for line, values in zip(top.lines, mass.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values)
    for line, values in zip(bottom.lines, losses.values(), strict=True):
        np.testing.assert_array_equal(list(line.get_ydata()), list(values.values()))
    assert [tick.get_text() for tick in bottom.get_xticklabels()] == ["0", "64", "128"]
    shaded = bottom.patches[0].get_extents().transformed(bottom.transData.inverted())
    assert 0 < shaded.x0 < 1 and shaded.x1 > 2
    assert texts(bottom) == ["all", "fast"]


def test_longer_texts_measure_costs_from_the_trained_length():
    blocks = [2.2, 2.1, 2.6, 2.7]
    extended = {"random": (2.2, 2.6, 2.4), "linear": (2.2, 2.25, 2.2)}
    top, bottom = plots.longer_texts(blocks, extended, trained=64, block=32)
    values, edges, _ = top.patches[0].get_data()
    np.testing.assert_array_equal(values, blocks)
    np.testing.assert_array_equal(edges, [0, 32, 64, 96, 128])
    assert top.lines[0].get_xdata()[0] == 64
    at_once = [line for line in bottom.lines if line.get_marker() == "o"]
    tuned = [line for line in bottom.lines if line.get_marker() == "D"]
    labels = [label.get_text() for label in bottom.get_yticklabels()]
    rows = dict(zip(labels, bottom.get_yticks(), strict=True))
    for before, after, (name, (old, new, later)) in zip(
        at_once, tuned, extended.items(), strict=True
    ):
        assert before.get_xdata()[0] == pytest.approx(new - old)
        assert after.get_xdata()[0] == pytest.approx(later - old)
        assert before.get_ydata()[0] == after.get_ydata()[0] == rows[name]
    assert texts(bottom) == ["at once", "tuned"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.street([(0, 5, 2)], ax=ax),
        lambda ax: plots.value_curves([0, 1], {"a": [0, 1], "b": [0, 0]}, ax=ax),
        lambda ax: plots.sharpness([2, 4], {"a": [0, 1]}, ax=ax),
    ],
)
def test_given_axes_are_used_and_no_figure_is_opened(draw):
    _, ax = plt.subplots()
    settings = dict(matplotlib.rcParams)
    assert draw(ax) is ax
    assert len(plt.get_fignums()) == 1 and ax.get_title() == ""
    assert dict(matplotlib.rcParams) == settings
