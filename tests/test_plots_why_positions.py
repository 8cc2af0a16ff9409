"""Figures of chapter 1, through what is drawn and not through pixels."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from posenc_tutorial.plots import BLUE, GREY
from posenc_tutorial.plots import why_positions as plots


@pytest.fixture(autouse=True)
def close_figures():
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before  # the book's style stays inside


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_attention_shapes_draws_every_matrix_to_scale():
    ax = plots.attention_shapes(3, 5, 2, 4)
    boxes = [patch for patch in ax.patches if isinstance(patch, plots.Rectangle)]
    unit = boxes[0].get_height() / 3
    sides = [(round(b.get_height() / unit), round(b.get_width() / unit)) for b in boxes]
    assert sides == [(3, 5), (3, 2), (3, 2), (3, 4), (3, 3), (3, 3), (3, 4)]
    for text in ("X", "Q", "K", "V", "S", "A", "Y", "3 × 5", "3 × 2", "3 × 4", "3 × 3"):
        assert text in texts(ax)


def test_attention_shapes_uses_the_axes_it_is_given():
    _, ax = plt.subplots()
    assert plots.attention_shapes(2, 3, 2, 2, ax=ax) is ax


def test_weight_tables_show_numbers_and_words():
    first = np.array([[0.9, 0.1], [0.25, 0.75]])
    axes = plots.weight_tables([first, first[::-1, ::-1]], [["wo", "ni"], ["ni", "wo"]])
    assert len(axes) == 2
    assert texts(axes[0]) == ["0.90", "0.10", "0.25", "0.75"]
    assert texts(axes[1]) == ["0.75", "0.25", "0.10", "0.90"]
    assert [label.get_text() for label in axes[1].get_yticklabels()] == ["ni", "wo"]
    assert [label.get_text() for label in axes[1].get_xticklabels()] == ["ni", "wo"]
    assert axes[0].images[0].get_clim() == (0.0, 1.0)


def test_numbers_are_light_on_dark_and_dark_on_light():
    axes = plots.weight_tables([np.array([[0.0, 1.0], [1.0, 0.0]])], [["a", "b"]])
    ax = axes[0]
    brightness = [sum(to_rgb(text.get_color())) for text in ax.texts]
    assert brightness[0] > 2 > 1 > brightness[1]


def test_equivariance_square_shows_all_four_corners():
    x, y, wrong = np.arange(4.0).reshape(2, 2), np.ones((2, 3)), np.full((2, 3), 7.0)
    axes = plots.equivariance_square(x, y, [1, 0], ["a", "b"], wrong)
    assert axes.shape == (2, 2)
    assert np.array_equal(axes[0, 0].images[0].get_array(), x)
    assert np.array_equal(axes[1, 0].images[0].get_array(), x[::-1])
    assert np.array_equal(axes[0, 1].images[0].get_array(), y)
    # what is measured for the shuffled input is drawn, not what the theorem says it should be
    assert np.array_equal(axes[1, 1].images[0].get_array(), wrong)
    assert [label.get_text() for label in axes[1, 0].get_yticklabels()] == ["b", "a"]
    assert axes[0, 0].images[0].get_clim() == (-7.0, 7.0)


def test_identical_tokens_draws_a_line_for_each_layer():
    profiles = {"one": np.zeros(5), "two": np.arange(5.0)}
    ax = plots.identical_tokens(profiles)
    assert [line.get_label() for line in ax.lines] == ["one", "two"]
    assert np.array_equal(ax.lines[1].get_ydata(), np.arange(5.0))
    assert len({line.get_marker() for line in ax.lines}) == 2  # told apart without colour
    assert ax.get_legend() is not None


def test_causal_counter_hides_the_future():
    weights = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    left, right = plots.causal_counter(weights, weights[:, 0], ["start", "ha", "ha", "ha"])
    assert len(texts(left)) == 10  # the visible half and the diagonal
    assert "0.00" not in texts(left)
    hatched = [patch for patch in left.patches if patch.get_hatch()]
    assert len(hatched) == 6
    assert np.allclose(right.lines[0].get_ydata(), [1, 1 / 2, 1 / 3, 1 / 4])


def test_order_accuracy_rounds_and_marks_chance():
    ax = plots.order_accuracy({"none": 0.4999, "RoPE": 0.998})
    assert [bar.get_width() for bar in ax.patches] == [0.5, 1.0]
    assert [bar.get_facecolor()[:3] for bar in ax.patches] == [to_rgb(GREY), to_rgb(BLUE)]
    assert ax.lines[0].get_xdata()[0] == 0.5
    assert {"0.50", "1.00", "chance"} <= set(texts(ax))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["none", "RoPE"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.identical_tokens({"one": np.zeros(3)}, ax=ax),
        lambda ax: plots.order_accuracy({"none": 0.5}, ax=ax),
    ],
    ids=["identical tokens", "order accuracy"],
)
def test_given_axes_are_used(draw):
    _, ax = plt.subplots()
    assert draw(ax) is ax and len(plt.get_fignums()) == 1
