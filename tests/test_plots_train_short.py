"""Chapter 9's figures: what is drawn is what was given."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgba

from posenc_tutorial.plots import train_short as plots

NAMES = ("NoPE", "learned", "sinusoidal", "T5", "ALiBi", "RoPE", "RoPE, base 500,000")
LENGTHS = (64, 128, 256)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def some(n, seed=0):
    rng = np.random.default_rng(seed)
    return {name: (2 + rng.random(n)).tolist() for name in NAMES}


def test_loss_by_length():
    losses = some(3)
    ax = plots.loss_by_length(LENGTHS, losses, trained=64)
    curves = [line for line in ax.lines if len(line.get_xdata()) == 3]
    assert [line.get_ydata().tolist() for line in curves] == list(losses.values())
    assert [text.get_text() for text in ax.texts] == list(NAMES)
    assert ax.get_xlim()[1] > 256 and ax.get_xscale() == "log"
    assert "nats" in ax.get_ylabel()


def test_labels_keep_apart():
    same = dict.fromkeys(NAMES, [2.0, 2.5, 2.5]) | {"NoPE": [1.0, 1.0, 1.0]}
    ax = plots.loss_by_length(LENGTHS, same, trained=64)
    heights = sorted(text.xy[1] for text in ax.texts)
    assert min(np.diff(heights)) > 0.05


def test_error_bars_only_if_given():
    losses = some(3)
    ax = plots.loss_by_length(LENGTHS, losses, trained=64)
    assert not any(container.has_yerr for container in ax.containers)
    ax = plots.loss_by_length(LENGTHS, losses, trained=64, spread=dict.fromkeys(NAMES, [0.1] * 3))
    assert all(container.has_yerr for container in ax.containers)
    low = ax.containers[0][2][0].get_segments()[0][:, 1]
    assert low.tolist() == pytest.approx([losses["NoPE"][0] - 0.1, losses["NoPE"][0] + 0.1])


def test_difference_along_has_a_panel_for_each():
    losses = some(4)
    axes = plots.difference_along((0, 64, 256, 512, 1024), losses, trained=64)
    shown = [ax for ax in axes.flat if ax.get_visible()]
    assert len(shown) == 7
    for ax, name in zip(shown, NAMES, strict=True):
        own = next(steps for steps in ax.patches if steps.get_label() == name)
        assert own.get_data().values.tolist() == losses[name]
        assert own.get_data().edges.tolist() == [0, 64, 256, 512, 1024]
        assert own.get_zorder() > max(s.get_zorder() for s in ax.patches if s is not own)
        assert name in [text.get_text() for text in ax.texts]
        assert len(ax.patches) == 7  # the others behind it
        assert ax.lines[0].get_xdata()[0] == 64 and ax.get_xlim() == (32, 1024)


def test_gain_by_place():
    gains = {"ALiBi": [0.5, 0.1, 0.0], "T5": [0.2, 0.0, -0.1]}
    ax = plots.gain_by_place(gains)
    assert [line.get_ydata().tolist() for line in ax.lines[:2]] == list(gains.values())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(gains)


def test_an_encoding_has_one_colour_in_all_figures():
    names = [name.replace("RoPE, base", "RoPE") for name in NAMES]
    by_length = plots.loss_by_length(LENGTHS, {n: [1.0, 2.0, 3.0] for n in names}, trained=64)
    want = {c.get_label(): c[0].get_color() for c in by_length.containers}
    along = plots.difference_along((0, 64, 128), {n: [0.0, 1.0] for n in names}, trained=64)
    for name, ax in zip(names, along.flat, strict=False):
        own = next(steps for steps in ax.patches if steps.get_label() == name)
        assert own.get_edgecolor() == to_rgba(want[name])
    gain = plots.gain_by_place({n: [0.5, 0.1] for n in reversed(names)})
    assert {c.get_label(): c.get_color() for c in gain.lines[: len(names)]} == want
    assert len(set(want.values())) == len(names)


def test_new_pairs():
    axes = plots.new_pairs(64, begins=144, moved=32, longest=192)
    regions = [{p.get_label(): p.get_xy()[:-1].tolist() for p in ax.patches} for ax in axes]
    assert [list(region) for region in regions] == [
        ["moved", "trained"],
        ["new distances", "old distances", "trained"],
    ]
    for key, query in regions[0]["moved"]:  # beyond what was trained, and no distance is new
        assert min(key, query) >= 144 and 0 <= query - key <= 32
    for key, query in regions[1]["new distances"]:
        assert 64 <= query - key and query >= 64
    for key, query in regions[1]["old distances"]:
        assert 0 <= query - key <= 64 and query >= 64
    for region in regions:
        assert region["trained"] == [[0, 0], [0, 64], [64, 64]]
    assert all(ax.yaxis_inverted() for ax in axes)


def test_mass_beyond():
    ax = plots.mass_beyond({"ALiBi": 0.02, "RoPE": 0.5}, uniform=0.8)
    assert [bar.get_width() for bar in ax.patches] == [0.02, 0.5]
    assert [text.get_text() for text in ax.texts] == ["2 %", "50 %"]
    assert ax.lines[0].get_xdata()[0] == 0.8
    assert ax.yaxis_inverted()
    assert [tick.get_text() for tick in ax.get_xticklabels()][::4] == ["0 %", "100 %"]
    assert [text.get_ha() for text in ax.texts] == ["left", "right"]  # beside a bar, or in it


def test_drift():
    axes = plots.drift((0, 16, 64), (1.0, 1.1, 1.4), (0.6, 0.6, 0.4), trained=64)
    assert axes[0].lines[0].get_ydata().tolist() == [1.0, 1.1, 1.4]
    assert axes[1].lines[0].get_ydata().tolist() == [0.6, 0.6, 0.4]
    assert [ax.lines[1].get_xdata()[0] for ax in axes] == [1.5, 1.5]
    assert [label.get_text() for label in axes[0].get_xticklabels()] == ["0", "16", "64"]


def test_recall():
    scores = some(4)
    ax = plots.recall((4, 16, 64, 128), scores, trained=64)
    curves = [line for line in ax.lines if len(line.get_xdata()) == 4]
    assert [line.get_ydata().tolist() for line in curves] == list(scores.values())


@pytest.mark.parametrize("draw", [
    lambda ax: plots.loss_by_length(LENGTHS, some(3), trained=64, ax=ax),
    lambda ax: plots.gain_by_place({"a": [0.0, 1.0]}, ax=ax),
    lambda ax: plots.mass_beyond({"a": 0.5}, uniform=0.5, ax=ax),
    lambda ax: plots.recall((4, 8), {"a": [1.0, 0.0]}, trained=64, ax=ax),
])  # fmt: skip
def test_axes_of_ones_own(draw):
    _, ax = plt.subplots()
    assert draw(ax) is ax and len(plt.get_fignums()) == 1
