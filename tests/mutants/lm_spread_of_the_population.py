"""The spread over seeds is divided by their number, not by one less."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/pytorch/pytorch/issues/2436"
DESCRIPTION = "population deviation in place of the sample's"
TESTS = ["tests/test_lm_sweep.py::test_mean_and_sample_deviation"]


def install() -> None:
    from posenc_tutorial.lm import results

    correct = results.mean_and_spread

    def mutant(rows, by, value):
        summary = correct(rows, by, value)
        for row in summary:
            row["std"] *= ((row["n"] - 1) / row["n"]) ** 0.5
        return summary

    replace("posenc_tutorial.lm.results", "mean_and_spread", mutant)
