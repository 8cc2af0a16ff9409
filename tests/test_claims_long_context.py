"""The verdicts of chapter 11 depend on what was measured: each flips on a counter-example."""

from __future__ import annotations

import pytest

from posenc_tutorial.claims.ch11_long_context import claim_24, claim_30, lengths_reached
from posenc_tutorial.published_configs.census import Row, read_census, shares

PLAIN = {8192: [2.60, 2.50], 12288: [4.37, 4.2], 16384: [7.8, 7.5], 32768: [9.0, 8.8]}
PROBE = {"plain": {0: (14.0, 2.5), 10000: (14.0, 13.3)}, "YaRN": {24000: (14.0, 5.0)}}


def measured(yarn):
    return {"plain": PLAIN, "YaRN": yarn}


def test_lengths_reached_stop_at_the_first_failure():
    reached = lengths_reached(
        measured({12288: [2.55, 2.5], 16384: [2.9, 2.5], 32768: [2.5, 2.5]}), trained=8192
    )
    assert reached == {"plain": 8192, "YaRN": 12288}


def test_every_span_has_to_stay_within_the_margin():
    one_span = measured({12288: [2.5, 2.61]})
    assert lengths_reached(one_span, trained=8192)["YaRN"] == 8192
    assert lengths_reached(one_span, trained=8192, margin=0.2)["YaRN"] == 12288


def test_claim_24_depends_on_how_far_a_method_gets():
    good = {8192: [2.6, 2.5], 12288: [2.55, 2.45], 16384: [2.54, 2.5]}
    verdict = claim_24(measured(good | {32768: [2.6, 2.5]}), PROBE, trained=8192)
    assert verdict.claim == 24 and verdict.verdict == "holds if 4 times is enough"
    assert "plain to 8,192" in verdict.evidence and "(YaRN) to 32,768" in verdict.evidence
    assert "gap of 24,000 with YaRN" in verdict.evidence
    fails = claim_24(measured(good | {16384: [3.0, 3.0]}), PROBE, trained=8192)
    assert fails.verdict == "does not hold without training"
    holds = claim_24(measured({65536: [2.6, 2.5]}), PROBE, trained=8192)
    assert holds.verdict == "holds"


def test_claim_24_says_how_far_was_tested():
    near = {"plain": {8192: [2.6], 12288: [4.1]}, "YaRN": {8192: [2.6], 12288: [2.6]}}
    verdict = claim_24(near, PROBE, trained=8192)
    assert verdict.verdict == "holds if 1.5 times is enough"
    assert "tested to 12,288" in verdict.evidence
    near["YaRN"][12288] = [3.0]
    assert claim_24(near, PROBE, trained=8192).verdict == "does not hold without training"


def test_claim_24_without_longer_texts_rests_on_the_probe():
    short = {"plain": {8192: [2.6, 2.5]}, "YaRN": {8192: [2.6, 2.5]}}
    verdict = claim_24(short, PROBE, trained=8192)
    assert verdict.verdict == "holds if copying across a gap is enough"
    assert verdict.evidence.startswith("no text of more than 8,192 tokens was measured")
    near = {"YaRN": {10000: (14.0, 5.0), 24000: (14.0, 9.0)}}
    assert claim_24(short, near, trained=8192).verdict.startswith("does not hold")
    assert claim_24(short, {}, trained=8192).verdict.startswith("does not hold")


def test_claim_24_needs_something_to_compare():
    with pytest.raises(ValueError, match="'plain' at 8192"):
        claim_24({"YaRN": {8192: [2.6]}}, PROBE, trained=8192)
    with pytest.raises(ValueError, match="beside 'plain'"):
        claim_24({"plain": PLAIN}, PROBE, trained=8192)


def rows(rotary, none, table, year=2025):
    kinds = ["rotary"] * rotary + ["none"] * none + ["table"] * table
    return [Row(f"m{i}", year, kind) for i, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("counted", "verdict"),
    [
        (rows(19, 1, 0), "holds"),
        (rows(18, 2, 0), "holds if models without explicit positions are left aside"),
        (rows(18, 0, 2), "does not hold"),
        (rows(0, 5, 0), "does not hold"),
        (rows(19, 0, 1) + rows(0, 0, 50, year=2022) + rows(0, 0, 9, year=None), "holds"),
    ],
)
def test_claim_30_counts_what_it_says(counted, verdict):
    assert claim_30(counted).verdict == verdict


def test_claim_30_on_the_committed_table():
    verdict = claim_30(read_census())
    assert verdict.verdict == "holds if models without explicit positions are left aside"
    assert "105 of 117" in verdict.evidence
    with pytest.raises(ValueError, match="no rows of a year after 2030"):
        claim_30(read_census(), after=2030)


# The census


def test_the_table_says_what_the_installed_library_says():
    transformers = pytest.importorskip("transformers")
    from posenc_tutorial.published_configs import census

    if transformers.__version__ != census.VERSION:
        pytest.skip(f"the table was made with transformers {census.VERSION}")
    assert census.count() == read_census()


def test_well_known_models_are_of_the_right_kind():
    kinds = {row.folder: row.kind for row in read_census()}
    for folder in ("llama", "gptj", "gpt_neox", "falcon", "qwen3", "gemma3", "deepseek_v3", "phi"):
        assert kinds[folder] == "rotary", folder
    for folder in ("gpt2", "bert", "opt", "gpt_bigcode", "whisper"):
        assert kinds[folder] == "table", folder
    assert kinds["mpt"] == kinds["bloom"] == "slope"
    # Jamba and Nemotron-H define a rotation that nothing calls.
    for folder in ("mamba", "jamba", "nemotron_h", "rwkv", "kimi_linear"):
        assert kinds[folder] == "none", folder


def test_shares_add_up(tmp_path):
    table = shares(read_census())
    assert list(table) == sorted(table)
    assert sum(sum(kinds.values()) for kinds in table.values()) == len(read_census())
    assert table["2025"]["rotary"] == 44
    bad = tmp_path / "bad.csv"
    bad.write_text("folder,year,kind\na,2024,rope\n", encoding="utf-8")
    with pytest.raises(ValueError, match="got 'rope'"):
        read_census(bad)


def test_the_command_prints_the_table(capsys):
    from posenc_tutorial.published_configs.census import main

    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["year", "rotary", "table", "buckets", "slope", "other", "none"]
    assert lines[-1].split() == ["?", "7", "0", "0", "0", "0", "0"]
