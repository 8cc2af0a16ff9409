"""The figures of chapter 11 show the numbers they are given; checked through the Artists."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from posenc_tutorial.plots import long_context as plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_clocks_draw_both_curves_and_both_lengths():
    plain = np.array([6.0, 60.0, 600.0, 6000.0])
    scaled = np.array([6.0, 120.0, 2400.0, np.inf])
    ax = plots.clocks(plain, scaled, trained=1000, extended=4000)
    grey, blue, trained, extended = ax.lines
    np.testing.assert_array_equal(grey.get_ydata(), plain)
    np.testing.assert_array_equal(blue.get_xdata(), [0, 1, 2])
    np.testing.assert_array_equal(blue.get_ydata(), scaled[:3])
    assert trained.get_ydata()[0] == 1000 and extended.get_ydata()[0] == 4000
    assert trained.get_linestyle() == "-" and extended.get_linestyle() == "--"
    assert texts(ax) == ["plain", "as configured", "trained: 1,000 tokens",
                         "extended: 4,000 tokens"]  # fmt: skip
    assert ax.get_yscale() == "log"


def test_clocks_without_a_rule_have_one_label_less():
    ax = plots.clocks([6.0, 60.0], [6.0, 60.0], trained=50)
    assert texts(ax) == ["trained: 50 tokens"] and len(ax.lines) == 3


def test_published_clocks_divide_at_the_longest_text():
    models = {
        "A": ([6.0, 100.0, 9000.0], 200, None),
        "B": ([6.0, 100.0, 9000.0], 200, 10000),
        "C": ([6.0, 9000.0], None, 8000),
    }
    ax = plots.published_clocks(models)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["A", "B", "C"]
    ticks = [line for line in ax.lines if line.get_marker() == "|"]
    seen = [line.get_xdata().tolist() for line in ticks]
    assert seen == [[6, 100], [9000], [6, 100, 9000], [], [6], [9000]]
    rows = [line.get_ydata()[0] for line in ticks if len(line.get_ydata())]
    assert rows == [2, 2, 1, 0, 0]
    marks = [(line.get_marker(), line.get_xdata()[0]) for line in ax.lines
             if line.get_marker() in ("o", ">") and len(line.get_xdata())]  # fmt: skip
    assert marks == [("o", 200), ("o", 200), (">", 10000), (">", 8000)]


def test_census_stacks_the_counts():
    table = {"2024": {"rotary": 3, "none": 1}, "2025": {"rotary": 5, "table": 2}}
    ax = plots.census(table)
    heights = {}
    for bars in ax.containers:
        heights[bars.get_label()] = [bar.get_height() for bar in bars]
    assert heights["RoPE"] == [3, 5] and heights["added table"] == [0, 2]
    assert heights["no positions"] == [1, 0]
    tops = [max(bar.get_y() + bar.get_height() for bars in ax.containers for bar in [bars[i]])
            for i in (0, 1)]  # fmt: skip
    assert tops == [4, 7]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["2024", "2025"]


def test_gap_curves_draw_means_and_ranges():
    shares = {"plain": [[0.125, 0.25], [1.0, 1.5]], "YaRN": [[0.125, 0.125], [0.25, 0.5]]}
    ax = plots.gap_curves([0, 10000], shares, trained=8192)
    means = [bar.lines[0].get_ydata().tolist() for bar in ax.containers]
    assert means == [[0.1875, 1.25], [0.125, 0.375]]
    ranges = [bar.lines[2][0].get_segments() for bar in ax.containers]
    assert [float(segment[0][1]) for segment in ranges[0]] == [0.125, 1.0]
    assert [float(segment[1][1]) for segment in ranges[0]] == [0.25, 1.5]
    assert {"plain", "YaRN", "nothing copied", "8,192"} <= set(texts(ax))
    dotted = next(line for line in ax.lines if line.get_linestyle() == ":")
    assert dotted.get_ydata()[0] == 1.0
    edge = next(line for line in ax.lines if line.get_linestyle() == "--")
    assert edge.get_xdata()[0] == 0.5


def test_short_cost_draws_two_standard_errors():
    values = np.array([0.1, 0.2, 0.3, 0.4])
    ax = plots.short_cost({"NTK": values, "dynamic": np.zeros(4)})
    first = ax.containers[0]
    assert first.lines[0].get_xdata()[0] == pytest.approx(0.25)
    (segment,) = first.lines[2][0].get_segments()
    half = 2 * values.std(ddof=1) / 2
    assert segment[:, 0].tolist() == pytest.approx([0.25 - half, 0.25 + half])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["NTK", "dynamic"]


def test_loss_by_length_draws_means_and_spans():
    losses = {"plain": {8192: [2.0, 3.0], 16384: [7.0, 8.0]}, "YaRN": {16384: [2.5, 2.7]}}
    ax = plots.loss_by_length(losses, trained=8192)
    lines = [line for line in ax.lines if line.get_marker() in ("o", "D")]
    assert lines[0].get_ydata().tolist() == [2.5, 7.5]
    assert lines[1].get_xdata().tolist() == [1]
    assert lines[1].get_ydata().tolist() == pytest.approx([2.6])
    spans = [line.get_ydata() for line in ax.lines if line.get_marker() == "_"]
    assert [list(values) for values in spans] == [[2.0, 3.0], [7.0, 8.0], [2.5, 2.7]]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["8,192", "16,384"]
    assert set(texts(ax)) == {"plain", "YaRN"}


def test_loss_by_length_leaves_out_what_was_not_measured():
    ax = plots.loss_by_length({"plain": {8192: [2.0]}, "PI": {}}, trained=8192)
    assert texts(ax) == ["plain"]


def test_shards_colour_rows_by_owner_and_hide_the_future():
    axes = plots.shards({"contiguous": [0, 0, 1, 1], "zigzag": [0, 1, 1, 0]})
    for ax, owners in zip(axes, ([0, 0, 1, 1], [0, 1, 1, 0]), strict=True):
        grid = np.ma.filled(ax.images[0].get_array().astype(float), np.nan)
        for m, owner in enumerate(owners):
            assert (grid[m, : m + 1] == owner).all()
            assert np.isnan(grid[m, m + 1 :]).all()
    assert texts(axes[0]) == ["rank 0", "rank 1"]
    assert sorted(texts(axes[1])) == ["rank 0", "rank 0", "rank 1"]
