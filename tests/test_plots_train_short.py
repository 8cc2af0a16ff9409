"""Chapter 9's figures: what is drawn is what was given."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

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


def test_loss_along_has_a_panel_for_each():
    losses = some(5)
    axes = plots.loss_along((8, 48, 192, 500, 900), losses, trained=64)
    shown = [ax for ax in axes.flat if ax.get_visible()]
    assert len(shown) == 7
    for ax, name in zip(shown, NAMES, strict=True):
        own = next(line for line in ax.lines if line.get_label() == name)
        assert own.get_ydata().tolist() == losses[name]
        assert name in [text.get_text() for text in ax.texts]
        assert len(ax.lines) == 8  # the others behind it, and the trained length


def test_gain_by_place():
    gains = {"ALiBi": [0.5, 0.1, 0.0], "T5": [0.2, 0.0, -0.1]}
    ax = plots.gain_by_place(gains)
    assert [line.get_ydata().tolist() for line in ax.lines[:2]] == list(gains.values())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(gains)


def test_mass_beyond():
    ax = plots.mass_beyond({"ALiBi": 0.02, "RoPE": 0.5}, uniform=0.8)
    assert [bar.get_width() for bar in ax.patches] == [0.02, 0.5]
    assert [text.get_text() for text in ax.texts] == ["2 %", "50 %"]
    assert ax.lines[0].get_xdata()[0] == 0.8
    assert ax.yaxis_inverted()


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
