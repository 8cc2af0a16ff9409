"""Distance is rewarded."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/meta-pytorch/attention-gym/pull/86"
DESCRIPTION = "the bias is +slope * |q - k|"
TESTS = [
    "tests/test_alibi.py::test_the_nearest_key_weighs_most",
    "tests/test_alibi.py::test_a_steeper_slope_attends_nearer",
]


def install() -> None:
    from posenc_tutorial import alibi

    correct = alibi.alibi_bias
    replace("posenc_tutorial.alibi", "alibi_bias", lambda *args: -correct(*args))
