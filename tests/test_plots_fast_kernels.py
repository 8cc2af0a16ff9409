"""The figures of chapter 12 show the numbers they are given."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from posenc_tutorial.plots import fast_kernels as plots


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_pass_bars_lie_end_to_end():
    ax = plots.pass_bars({"eager": [("mul", 1.0, 1.0), ("add", 2.0, 1.0)], "copy": [("c", 1, 1)]})
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == [1.0, 1.0, 2.0, 1.0, 1, 1]
    starts = [bar.get_x() for bar in ax.patches]
    assert starts == [0.0, 1.0, 2.0, 4.0, 0.0, 1.0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["eager", "copy"]
    assert "5.0" in [text.get_text() for text in ax.texts]
    assert ax.lines[0].get_xdata()[0] == 2


def test_roofline_has_its_corner_where_copying_and_computing_meet():
    ax = plots.roofline(20.0, 200.0, {"rotation": 0.5, "matmul": 100.0})
    roof = ax.lines[0]
    np.testing.assert_allclose(
        roof.get_ydata(), np.minimum(20.0 * np.asarray(roof.get_xdata()), 200.0)
    )
    assert ax.lines[1].get_xdata()[0] == 10.0
    assert [line.get_ydata()[0] for line in ax.lines[2:]] == [10.0, 200.0]


def test_ratio_dots_stand_at_their_ratio():
    panels = {
        "float32": {"numba": {"half": 1.2, "interleaved": 1.1}, "peer": {"half": 10.0}},
        "bfloat16": {"numba": {"half": 1.4}},
    }
    axes = plots.ratio_dots(panels, target=1.35)
    dots = [line for line in axes[0].lines if line.get_marker() in "oD"]
    assert [line.get_xdata()[0] for line in dots] == [1.2, 1.1, 10.0]
    assert [line.get_ydata()[0] for line in dots] == [0, 0, 1]
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["numba", "peer"]
    assert axes[0].get_xscale() == "log"


@pytest.mark.parametrize("in_turn", [False, True])
def test_drift_keeps_the_order_of_measurement(in_turn):
    ax = plots.drift([1.0, 2.0], [3.0, 4.0], names=("a", "b"), in_turn=in_turn)
    dots = [line for line in ax.lines if line.get_marker() in "oD"]
    assert list(dots[0].get_xdata()) == ([0, 2] if in_turn else [0, 1])
    assert list(dots[1].get_xdata()) == ([1, 3] if in_turn else [2, 3])
    assert list(dots[1].get_ydata()) == [3.0, 4.0]


def test_memory_growth_is_in_mebibytes_on_logarithmic_scales():
    ax = plots.memory_growth([256, 512], {"bias": [2**20, 2**22], "chunks": [2**20, 2**21]})
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [1, 4])
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [1, 2])
    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_given_axes_are_used_and_settings_stay():
    _, ax = plt.subplots()
    settings = dict(matplotlib.rcParams)
    assert plots.roofline(1.0, 10.0, {"a": 1.0}, ax=ax) is ax
    assert len(plt.get_fignums()) == 1 and ax.get_title() == ""
    assert dict(matplotlib.rcParams) == settings
