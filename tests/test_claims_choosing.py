"""Chapter 13's verdicts: each is fed what the chapter measures, and a case that flips it."""

from __future__ import annotations

import dataclasses

import pytest

from posenc_tutorial.claims.ch13_choosing import (
    Advice,
    criterion_1,
    criterion_2,
    criterion_3,
    pitfall_1,
    pitfall_2,
    pitfall_3,
    pitfall_4,
    recommendation_1,
    recommendation_2,
    recommendation_3,
    recommendation_4,
    recommendation_5,
)
from posenc_tutorial.lm.results import read_table
from posenc_tutorial.serving import PROGRAMS

NAMES = {
    "nope": "NoPE",
    "learned": "learned",
    "sinusoidal": "sinusoidal",
    "t5": "T5",
    "alibi": "ALiBi",
    "rope": "RoPE",
    "rope500000": "RoPE 500,000",
}
METHODS = {
    "none": "plain RoPE",
    "position_interpolation": "interpolation",
    "ntk_aware": "NTK-aware",
    "yarn_1_8": "YaRN",
}
LENGTH = {name: {} for name in NAMES.values()}
for row in read_table("length_mean"):
    if row["encoding"] in NAMES:
        LENGTH[NAMES[row["encoding"]]][row["length"]] = row["mean"]
AT_64 = {name: loss[64] for name, loss in LENGTH.items()}
EXTENSION = {
    (METHODS[r["method"]], r["factor"], r["length"]): r["mean"]
    for r in read_table("extension_mean")
    if r["method"] in METHODS
}
TUNED = {
    steps: {
        METHODS[r["method"]]: r["mean"]
        for r in read_table("fine_tune_mean")
        if (r["encoding"], r["steps"], r["length"]) == ("rope", steps, 256)
    }
    for steps in (0, 60)
}


def changed(losses, name, **new):
    return {**losses, name: {**losses[name], **{int(n): loss for n, loss in new.items()}}}


# Criteria


def test_criterion_1():
    found = criterion_1(LENGTH, trained=64)
    assert found.verdict == "does not hold as said for a language model, in either half"
    assert "0.30 nats per byte more than RoPE" in found.evidence
    good_table = changed(LENGTH, "learned", **{"64": 1.5})
    assert criterion_1(good_table, trained=64).verdict.startswith("holds for fixed lengths;")
    far_rope = changed(LENGTH, "RoPE", **{"1024": 1.6})
    assert criterion_1(far_rope, trained=64).verdict.startswith("holds for long texts;")
    both = changed(good_table, "RoPE", **{"1024": 1.6})
    assert criterion_1(both, trained=64).verdict == "holds"


def test_criterion_2():
    by_size = {}
    for r in read_table("data_size_mean"):
        by_size.setdefault(r["train_bytes"], {})[r["encoding"]] = r["mean"]
    little, much = (by_size[size] for size in sorted(by_size))
    found = criterion_2(much, little)
    assert found.verdict == "holds if the data are plentiful"
    assert found.evidence.endswith("-0.04 with scarce data, -0.15 with plentiful data")
    fixed_wins = {"learned": 2.5, "sinusoidal": 2.3}
    assert criterion_2(much, fixed_wins).verdict == "holds"
    assert criterion_2(fixed_wins, fixed_wins).verdict == "holds if the data are scarce"
    assert criterion_2(fixed_wins, little).verdict == "does not hold"
    assert criterion_2(much, fixed_wins, spread=0.3).verdict == "does not hold"


def test_criterion_3():
    found = criterion_3(PROGRAMS)
    assert found.verdict == "holds if RoPE is plain, and with the rules linear, yarn"
    assert found.evidence.startswith("4 of 4 programs know plain RoPE; of 10 rules")
    assert criterion_3(PROGRAMS[:1] * 4).verdict == "holds"
    bare = [dataclasses.replace(program, rules=("default",)) for program in PROGRAMS[:1]]
    assert criterion_3([*PROGRAMS, *bare]).verdict == "holds if RoPE is plain"
    none = dataclasses.replace(PROGRAMS[0], rules=("linear",))
    assert criterion_3([*PROGRAMS, none]).verdict == "does not hold"


# Pitfalls


def test_pitfall_1():
    seen = {"encoder": 0.0, "decoder": 0.3}
    found = pitfall_1(seen, AT_64, trained=64)
    assert found.verdict.startswith("holds if nothing is masked")
    assert "encoder cannot tell" in found.evidence and "0.56" in found.evidence
    assert pitfall_1(dict.fromkeys(seen, 0.0), AT_64, trained=64).verdict == "holds"
    assert pitfall_1(dict.fromkeys(seen, 0.3), AT_64, trained=64).verdict == "does not hold"
    assert pitfall_1(seen, {**AT_64, "NoPE": 1.53}, trained=64).verdict == "does not hold"


def test_pitfall_2():
    losses = {"own": 1.6, "other": 3.0, "converted": 1.6}
    assert pitfall_2(losses).verdict.startswith("holds for a trained model; either way")
    assert pitfall_2({**losses, "converted": 2.9}).verdict == "holds"
    assert pitfall_2({**losses, "other": 1.62}).verdict == "does not hold"


def test_pitfall_3():
    found = pitfall_3(LENGTH, trained=64)
    assert found.verdict == (
        "holds for RoPE 500,000 and learned and RoPE and sinusoidal; less for NoPE and T5; not for "
        "ALiBi; a table is no worse than the worst of the others"
    )
    assert found.evidence.index("1.62 with RoPE 500,000") < found.evidence.index("1.60 with lea")
    both = {name: LENGTH[name] for name in ("learned", "sinusoidal")}
    assert pitfall_3(both, trained=64).verdict == "holds"
    unclear = pitfall_3(both, trained=64, spread=0.8).verdict
    assert unclear.startswith("holds for learned and sinusoidal; a table is no worse")
    assert pitfall_3({"ALiBi": LENGTH["ALiBi"]}, trained=64).verdict == "does not hold"
    small = {name: LENGTH[name] for name in ("T5", "NoPE", "ALiBi")}
    assert pitfall_3(small, trained=64).verdict == "does not hold"
    table = {name: LENGTH[name] for name in ("learned", "T5", "ALiBi")}
    assert pitfall_3(table, trained=64).verdict == "holds for learned; less for T5; not for ALiBi"


def test_pitfall_4():
    losses = {}
    for r in read_table("alpha_mean"):
        if r["method"] == "ntk_aware":
            losses.setdefault(r["alpha"], {})[r["length"]] = r["mean"]
    pairs = {alpha: (loss[64], loss[256]) for alpha, loss in losses.items()}
    found = pitfall_4(pairs, factor=4)
    assert found.verdict.startswith("holds") and "0.13" in found.evidence
    flat = {alpha: (1.5, 1.5) for alpha in pairs}
    assert pitfall_4(flat, factor=4).verdict == "does not hold"


# Recommendations


def test_recommendation_1():
    found = recommendation_1(LENGTH, PROGRAMS, trained=64)
    assert found.verdict == "holds if texts stay within the trained length, or are provided for"
    assert "at 64 bytes RoPE is level with the best, T5;" in found.evidence
    alone = changed(LENGTH, "RoPE", **{"64": 1.4})
    assert "at 64 bytes RoPE is the best;" in recommendation_1(alone, PROGRAMS, trained=64).evidence
    far = changed(LENGTH, "RoPE", **{"1024": 1.75})
    assert recommendation_1(far, PROGRAMS, trained=64).verdict == "holds"
    bad = changed(LENGTH, "RoPE", **{"64": 1.7})
    assert recommendation_1(bad, PROGRAMS, trained=64).verdict == "does not hold"
    none = [dataclasses.replace(PROGRAMS[0], rules=("linear",))]
    assert recommendation_1(LENGTH, none, trained=64).verdict == "does not hold"


def test_recommendation_2():
    untrained = {name: EXTENSION[name, 4, 256] for name in METHODS.values()}
    found = recommendation_2(untrained, TUNED[60]["plain RoPE"], length=256)
    assert found.verdict == "holds" and "1.73 with YaRN" in found.evidence
    assert recommendation_2(untrained, 1.72, length=256).verdict == "does not hold"


def test_recommendation_3():
    far = {name: {s: EXTENSION[name, s, 64 * s] for s in (2, 4, 8)} for name in METHODS.values()}
    near = {name: EXTENSION[name, 8, 64] for name in METHODS.values()}
    assert recommendation_3(far, near).verdict == "holds"
    worse = {**far, "YaRN": {**far["YaRN"], 8: 2.7}}
    assert recommendation_3(worse, near).verdict == "holds for NTK-aware"
    neither = {**worse, "NTK-aware": far["interpolation"]}
    assert recommendation_3(neither, near).verdict == "does not hold"
    told = recommendation_3(far, {**near, "YaRN": 1.4})
    assert told.verdict.startswith("holds; here a look")


def test_recommendation_4():
    small, large = LENGTH["RoPE"], LENGTH["RoPE 500,000"]
    found = recommendation_4(small, large, trained=64)
    assert found.verdict == "holds if texts are no more than 2 times the trained length"
    assert "+0.11 at 128, -0.10 at 256" in found.evidence
    better = {n: loss - 0.2 for n, loss in small.items()}
    assert recommendation_4(small, better, trained=64).verdict == "holds"
    assert recommendation_4(better, small, trained=64).verdict.startswith("does not hold")
    odd = {**small, 512: small[512] - 0.2}
    assert recommendation_4(small, odd, trained=64).verdict == "holds if texts have 512 bytes"


def test_recommendation_5():
    found = recommendation_5(TUNED[0], TUNED[60], length=256)
    assert found.verdict == "holds; here fine-tuning without scaling ends nearly as low"
    needed = {**TUNED[60], "plain RoPE": 1.7}
    assert recommendation_5(TUNED[0], needed, length=256).verdict == "holds"
    harmful = {**TUNED[60], "plain RoPE": 1.4}
    assert recommendation_5(TUNED[0], harmful, length=256).verdict == "does not hold"


# Form


def test_an_advice_reads_in_short_lines():
    lines = repr(pitfall_3(LENGTH, trained=64)).splitlines()
    assert lines[0].startswith("Pitfall 3: holds for RoPE 500,000 and learned")
    assert any(line.startswith("Evidence: from 64 to 1,024") for line in lines)
    assert max(map(len, lines)) <= 78


@pytest.mark.parametrize(("verdict", "evidence"), [("perhaps", "2 of 3"), ("holds", "")])
def test_no_verdict_without_a_word_or_evidence(verdict, evidence):
    with pytest.raises(ValueError, match="pitfall 9"):
        Advice("pitfall 9", verdict, evidence)


@pytest.mark.parametrize("losses", [{}, {"RoPE": {64: 1.5}}, {"RoPE": {32: 1.5, 128: 2.0}}])
def test_losses_must_include_the_trained_length_and_a_longer_one(losses):
    for judge in (criterion_1, pitfall_3):
        with pytest.raises(ValueError, match="need losses at 64"):
            judge(losses, trained=64)
