"""The dated notes on four programs: their form, and one of them against what is installed."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import inspect
import re

import pytest

from posenc_tutorial.hf_config.dialects import PROGRAMS as WRITTEN
from posenc_tutorial.serving import PROGRAMS, common_rules

BY_NAME = {program.name: program for program in PROGRAMS}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_every_note_is_dated_and_sourced(program):
    assert datetime.date.fromisoformat(program.read) > datetime.date(2026, 1, 1)
    assert re.fullmatch(r"https://\w[\w.]+/\S+", program.source)
    if program.version.startswith("commit "):
        assert f"/blob/{program.version.split()[1]}" in program.source
    assert len(set(program.rules)) == len(program.rules) and program.has("default")


def test_the_same_programs_as_where_settings_are_written():
    assert tuple(program.name.lower() for program in PROGRAMS) == WRITTEN


def test_transformers_is_as_installed():
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    note = BY_NAME["transformers"]
    if transformers.__version__ != note.version:
        pytest.skip(f"the note is about {note.version}")
    assert {*note.rules} == {*ROPE_INIT_FUNCTIONS, "default"}
    # A fixed layer without rotation, and several axes, each in a model that has it.
    assert 0 in transformers.SmolLM3Config().no_rope_layers
    assert "mrope_section" in inspect.getsource(
        importlib.import_module("transformers.models.qwen2_vl.modeling_qwen2_vl")
    )


def test_common_rules():
    assert common_rules() == ("default", "linear", "yarn")
    assert "llama3" in common_rules(PROGRAMS[:3])
    fewer = dataclasses.replace(PROGRAMS[3], rules=("none",))
    assert common_rules((*PROGRAMS[:3], fewer)) == ("default",)
    with pytest.raises(ValueError, match="got none"):
        common_rules(())


def test_a_rule_is_found_under_another_name():
    assert BY_NAME["TensorRT-LLM"].has("default") and BY_NAME["vLLM"].has("yarn")
    assert not BY_NAME["vLLM"].has("proportional") and not BY_NAME["llama.cpp"].has("dynamic")
