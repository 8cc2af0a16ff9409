"""The command: a table, a plot and warnings for every rope type; and the published files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from posenc_tutorial.frequencies import inverse_frequencies, wavelengths
from posenc_tutorial.hf_config import read_rope_config, rope_parameters_from_config
from posenc_tutorial.hf_config.command import main, summary, table
from posenc_tutorial.hf_config.dialects import PROGRAMS, written_for
from posenc_tutorial.hf_config.report import report
from posenc_tutorial.plots.long_context import clocks
from posenc_tutorial.published_configs import PUBLISHED, published

ROOT = Path(__file__).parents[1]
LENGTHS = {"original_max_position_embeddings": 4096}


def config(scaling=None, **fields):
    """A Llama of 4 heads of 128 channels, meant for 16384 tokens; None takes a field out."""
    fields = {
        "model_type": "llama",
        "hidden_size": 512,
        "num_attention_heads": 4,
        "max_position_embeddings": 16384,
        "rope_theta": 10000.0,
        "rope_scaling": scaling,
    } | fields
    return {key: value for key, value in fields.items() if value is not None}


RULES = {
    "default": config(),
    "linear": config({"rope_type": "linear", "factor": 4.0, **LENGTHS}),
    "dynamic": config({"rope_type": "dynamic", "factor": 2.0}),
    "yarn": config({"rope_type": "yarn", "factor": 4.0, **LENGTHS}),
    "llama3": config(
        {
            "rope_type": "llama3",
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            **LENGTHS,
        }
    ),
    "longrope": config(
        {
            "rope_type": "longrope",
            "short_factor": [1.0 + 0.01 * i for i in range(64)],
            "long_factor": [1.0 + 0.5 * i for i in range(64)],
            "factor": 4.0,
            **LENGTHS,
        }
    ),
    "proportional": config({"rope_type": "proportional", "partial_rotary_factor": 0.25}),
}


@pytest.fixture
def file(tmp_path):
    def write(content) -> str:
        path = tmp_path / "config.json"
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


# Every rope type


def theirs(rule: str):
    """Wavelengths and attention factor of transformers, at the length that the report takes."""
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    their_config = transformers.LlamaConfig(**{**RULES[rule], "head_dim": 128})
    if rule == "default":
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        inv_freq, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(their_config)
    else:
        seq_len = {"dynamic": 32768, "longrope": 16384}.get(rule)
        inv_freq, factor = ROPE_INIT_FUNCTIONS[rule](their_config, "cpu", seq_len=seq_len)
    return 2 * torch.pi / inv_freq.double(), factor


@pytest.mark.parametrize("rule", RULES)
def test_every_rope_type_is_drawn_and_equal_to_transformers(rule):
    found = report(RULES[rule])
    ax = clocks(found.plain, found.scaled, trained=found.trained, extended=found.extended)
    waves, factor = theirs(rule)
    drawn = next(line for line in ax.lines if line.get_label() == "as configured")
    turning = waves.isfinite()
    np.testing.assert_array_equal(drawn.get_xdata(), np.flatnonzero(turning))
    np.testing.assert_allclose(drawn.get_ydata(), waves[turning], rtol=2e-6)
    assert found.parameters.attention_factor == pytest.approx(factor, rel=1e-6)
    assert ax.get_yscale() == "log"


@pytest.mark.parametrize("rule", RULES)
def test_the_command_prints_and_draws_every_rope_type(rule, file, tmp_path, capsys):
    image = tmp_path / "clocks.png"
    assert main([file(RULES[rule]), "--all", "--plot", str(image)]) == 0
    assert image.read_bytes().startswith(b"\x89PNG")
    out, err = capsys.readouterr()
    assert f"rope type         {rule}" in out
    assert "warning" not in err
    lines = out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("pair  wave"))
    rows = lines[start + 1 :]
    assert len(rows) == 64 and max(map(len, lines)) <= 79
    waves = wavelengths(
        rope_parameters_from_config(
            RULES[rule], seq_len={"dynamic": 32768, "longrope": 16384}.get(rule)
        ).inv_freq
    )
    for row, wave in zip(rows, waves.tolist(), strict=True):
        stated = re.match(r" *\d+ +([\d.]+|at rest) ", row).group(1)
        if wave == float("inf"):
            assert stated == "at rest"
        else:
            assert float(stated) == pytest.approx(wave, rel=1e-3)


@pytest.mark.parametrize(
    ("rule", "trained", "extended"),
    [
        ("default", 16384, None),
        ("linear", 4096, 16384),
        ("dynamic", 16384, 32768),
        ("yarn", 4096, 16384),
        ("llama3", 4096, 16384),
        ("longrope", 4096, 16384),
        ("proportional", 16384, None),
    ],
)
def test_trained_and_extended_length(rule, trained, extended):
    found = report(RULES[rule])
    assert (found.trained, found.extended) == (trained, extended)
    assert found.notes == ()
    assert torch.equal(found.plain, wavelengths(inverse_frequencies(128, 1e4)))


def test_dynamic_and_longrope_follow_the_length(file, capsys):
    short = report(RULES["longrope"], seq_len=4096)
    assert float(short.slowed[-1]) == pytest.approx(1.63)
    assert float(report(RULES["longrope"]).slowed[-1]) == pytest.approx(32.5)
    main([file(RULES["dynamic"]), "--length", "16384"])
    assert "as trained" not in capsys.readouterr().out


def test_pairs_are_counted():
    found = report(RULES["yarn"])
    lines = "\n".join(summary(found))
    alone = int((found.slowed == 1).sum())
    fully = int(found.slowed.isclose(torch.tensor(4.0).double()).sum())
    assert f"{alone} as trained, {64 - alone - fully} between, {fully} slowed by 4" in lines
    assert "1.1386, on cosine and sine; 1.2965 on the scores" in lines
    slow = int((found.scaled > 4096).sum())
    assert f"no full turn      {slow} of 64 pairs within the trained 4096" in lines
    assert "16384 tokens, 4 times" in lines


def test_the_table_is_a_selection_with_both_ends():
    lines = table(report(RULES["yarn"]))
    numbers = [int(line.split()[0]) for line in lines[1:]]
    assert len(numbers) == 16 and numbers[0] == 0 and numbers[-1] == 63
    bars = [line[line.rindex(" ", 0, 45) :] for line in lines[1:]]
    assert all("|" in bar and ":" in bar for bar in bars)
    assert len({line.index("|") for line in lines[1:]}) == 1


# Wrong configurations


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            config({"rope_type": "yarn", "factor": 4.0}),
            "error: original_max_position_embeddings is missing; rope type 'yarn' needs it",
        ),
        (
            config({"rope_type": "ntk", "factor": 4.0}),
            "error: rope_type must be one of ['default', 'dynamic', 'linear', 'llama3', "
            "'longrope', 'mrope', 'proportional', 'su', 'yarn'], got 'ntk'",
        ),
        (config(rope_theta=None), "error: rope_theta is missing."),
        (config({"rope_type": "linear", "factor": 0.25}), "error: factor must be a finite number"),
        (config({"factor": 4.0}), "error: rope_type is missing beside factor 4.0"),
        ({"model_type": "gpt2", "n_positions": 1024}, "has no rotary positions, but a learned"),
        ("{'rope_theta': 10000}", "is not a JSON file"),
    ],
)
def test_errors_are_named_on_stderr_and_in_the_status(content, message, file, capsys):
    assert main([file(content)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            config({"rope_type": "yarn", "factor": 8.0, **LENGTHS}),
            "factor is 8.0, but max_position_embeddings / original_max_position_embeddings is "
            "16384 / 4096 = 4; the factor is used",
        ),
        (
            config({"rope_type": "linear", "factor": 4.0}),
            "original_max_position_embeddings is missing: whether max_position_embeddings (16384) "
            "counts before or after the division by 4 cannot be told",
        ),
        (
            config({"rope_type": "yarn", "factor": 4.0, **LENGTHS}, max_position_embeddings=4096),
            "max_position_embeddings is still the original 4096: programs that take it as a limit "
            "will stop there, not at 16384",
        ),
        (
            config({"rope_type": "yarn", "factor": 4.0, "attention_factor": 4.0, **LENGTHS}),
            "the attention factor is stated as 4; the rule itself gives 1.1386",
        ),
        (
            config({**RULES["longrope"]["rope_scaling"], "attention_factor": 4.0}),
            "the attention factor is stated as 4; the rule itself gives 1.0801",
        ),
        (
            config({**RULES["llama3"]["rope_scaling"], "beta_fast": 32, "finetuned": True}),
            "not read by rope type 'llama3': beta_fast, finetuned",
        ),
        (
            config({"rope_type": "dynamic", "factor": 2.0, **LENGTHS}),
            "dynamic scaling starts at max_position_embeddings (16384)",
        ),
    ],
)
def test_warnings_are_printed_and_strict_makes_them_failures(content, message, file, capsys):
    path = file(content)
    assert main([path]) == 0
    out, err = capsys.readouterr()
    assert "pair" in out and f"warning: {message}" in err
    assert main([path, "--strict"]) == 1


def test_a_good_file_passes_strictly(file):
    assert all(main([file(content), "--strict"]) == 0 for content in RULES.values())


def test_a_missing_file_is_an_error(tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 2
    assert "error" in capsys.readouterr().err


def test_layer_types_have_to_be_chosen(capsys):
    gemma = str(published("gemma-3-12b").path)
    assert main([gemma]) == 2
    assert "full_attention" in capsys.readouterr().err
    assert main([gemma, "--layer-type", "sliding_attention", "--strict"]) == 0
    assert "rope type         default" in capsys.readouterr().out


def test_it_runs_as_a_module_without_a_word_on_stderr():
    path = published("llama-3.1-8b").path
    command = [sys.executable, "-W", "error", "-m", "posenc_tutorial.hf_config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "29 as trained, 6 between, 29 slowed by 8" in done.stdout
    help_text = subprocess.run([*command[:-1], "--help"], capture_output=True, text=True, cwd=ROOT)
    assert help_text.returncode == 0 and "--layer-type" in help_text.stdout


# The same settings for other programs


def braces(text: str):
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("program", ["transformers", "vllm", "tensorrt-llm"])
def test_what_is_written_reads_back_as_the_same_rule(rule, program):
    read = read_rope_config(RULES[rule])
    if (rule, program) == ("proportional", "tensorrt-llm"):
        with pytest.raises(ValueError, match="not known to read rope type 'proportional'"):
            written_for(read, program)
        return
    bare = {k: v for k, v in RULES[rule].items() if k not in ("rope_theta", "rope_scaling")}
    again = bare | braces(written_for(read, program))
    length = {"dynamic": 20000, "longrope": 16384}.get(rule)
    expected = rope_parameters_from_config(RULES[rule], seq_len=length)
    actual = rope_parameters_from_config(again, seq_len=length)
    assert torch.equal(actual.inv_freq, expected.inv_freq)
    assert actual.attention_factor == expected.attention_factor


def test_what_is_written_is_accepted_by_transformers():
    transformers = pytest.importorskip("transformers")
    for rule, fields in RULES.items():
        block = braces(written_for(read_rope_config(fields), "transformers"))
        config = transformers.LlamaConfig(hidden_size=512, num_attention_heads=4, **block)
        assert config.rope_parameters["rope_type"] == rule


def test_command_lines_by_hand():
    read = read_rope_config(RULES["yarn"])
    assert written_for(read, "llama.cpp") == (
        "llama-server -m MODEL.gguf \\\n"
        "  --ctx-size 16384 \\\n"
        "  --rope-scaling yarn --rope-scale 4 \\\n"
        "  --rope-freq-base 10000 \\\n"
        "  --yarn-orig-ctx 4096"
    )
    vllm = written_for(read, "vllm", max_length=8000)
    assert vllm.startswith("vllm serve MODEL") and vllm.endswith("--max-model-len 8000")
    assert written_for(read, "tensorrt-llm").endswith("trtllm-serve MODEL --max_seq_len 16384")
    linear = written_for(read_rope_config(RULES["linear"]), "llama.cpp")
    assert "--rope-scaling linear --rope-scale 4" in linear and "yarn" not in linear
    assert "--rope-scaling none" in written_for(read_rope_config(RULES["default"]), "llama.cpp")


@pytest.mark.parametrize(
    ("content", "program", "message"),
    [
        (RULES["dynamic"], "llama.cpp", "no option for rope type 'dynamic'"),
        (RULES["llama3"], "llama.cpp", "no option for rope type 'llama3'"),
        (
            config({"rope_type": "yarn", "factor": 4.0, "truncate": False, **LENGTHS}),
            "tensorrt-llm",
            "not known to read truncate",
        ),
        (
            config({"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.0, **LENGTHS}),
            "llama.cpp",
            "no option for attention_factor",
        ),
        (config({"rope_type": "dynamic", "alpha": 1000.0}), "vllm", "no form in other programs"),
        (RULES["yarn"], "ollama", "program must be one of"),
    ],
)
def test_what_a_program_is_not_known_to_do_is_an_error(content, program, message):
    with pytest.raises(ValueError, match=message):
        written_for(read_rope_config(content), program)


def test_the_command_writes_for_a_program(file, capsys):
    path = file(RULES["yarn"])
    for program in PROGRAMS:
        assert main([path, "--for", program]) == 0
        assert capsys.readouterr().out.strip() == written_for(read_rope_config(path), program)
    assert main([file(RULES["dynamic"]), "--for", "llama.cpp"]) == 2


# The published files


def test_fifteen_models_are_read():
    assert len(PUBLISHED) == 15
    assert [entry.released for entry in PUBLISHED] == sorted(e.released for e in PUBLISHED)
    kinds = set()
    for entry in PUBLISHED:
        layer = "full_attention" if entry.name.startswith("gemma-3") else None
        found = report(entry.path, layer_type=layer)
        kinds.add(found.config.rope_type)
        assert entry.source.startswith("https://")
        assert entry.confirmed in ("original", "copy", "library", "weights")
        assert len("\n".join(table(found)).splitlines()) == 17
    assert kinds == {"default", "linear", "dynamic", "yarn", "llama3", "longrope"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-j-6b", (64, 1e4, 2048, None)),
        ("pythia-1b", (64, 1e4, 2048, None)),
        ("codellama-7b", (128, 1e6, 16384, None)),
        ("gemma-2b", (256, 1e4, 8192, None)),
        ("llama-3-8b", (128, 5e5, 8192, None)),
        ("deepseek-v2-lite", (64, 1e4, 4096, 163840)),
        ("mistral-7b-v0.3", (128, 1e6, 32768, None)),
        ("internlm2.5-7b-chat", (128, 1e6, 32768, 65536)),
        ("llama-3.1-8b", (128, 5e5, 8192, 131072)),
        ("phi-3.5-mini", (96, 1e4, 4096, 131072)),
        ("qwen2.5-7b-instruct", (128, 1e6, 32768, None)),
        ("smollm2-135m-instruct", (64, 1e5, 8192, None)),
        ("gpt-oss-20b", (64, 1.5e5, 4096, 131072)),
        ("ministral-3-8b", (128, 1e6, 16384, 262144)),
    ],
)
def test_widths_bases_and_lengths(name, expected):
    found = report(published(name).path)
    read = found.config
    assert (read.rotary_dim, read.base, found.trained, found.extended) == expected


@pytest.mark.parametrize("name", ["gpt-j-6b", "gpt-oss-20b", "ministral-3-8b"])
def test_values_from_the_library_are_its_defaults(name):
    transformers = pytest.importorskip("transformers")
    classes = {
        "gpt-j-6b": transformers.GPTJConfig,
        "gpt-oss-20b": transformers.GptOssConfig,
        "ministral-3-8b": transformers.Ministral3Config,
    }
    theirs = classes[name]().to_dict()
    ours = published(name).load()
    for key, value in ours.items():
        if key == "rope_scaling":
            assert value.items() <= theirs["rope_parameters"].items()
        elif key == "rope_theta":
            assert theirs["rope_parameters"]["rope_theta"] == value
        elif key == "rope_parameters":
            assert value.items() <= theirs[key].items()
        else:
            assert theirs[key] == value, key


def test_the_entry_of_smollm2_is_what_the_weights_say():
    pytest.importorskip("gguf")
    smollm2 = pytest.importorskip("posenc_tutorial.pretrained.smollm2")
    from importlib.util import find_spec

    if find_spec(smollm2.PACKAGE) is None:
        pytest.skip(f"not installed: {smollm2.INSTALL}")
    reader = smollm2._read(smollm2._installed_file())
    held = smollm2._config(reader, "weights")
    ours = published("smollm2-135m-instruct").load()
    assert ours["hidden_size"] == held.dim
    assert ours["num_attention_heads"] == held.num_heads
    assert ours["num_key_value_heads"] == held.num_kv_heads
    assert ours["max_position_embeddings"] == held.context_length
    assert ours["rope_theta"] == held.rope_base


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="must be one of .*got 'llama'"):
        published("llama")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rope_theta": 10**400}, "rope_theta must be a finite number"),
        ({"max_position_embeddings": 10**30}, r"at most 2\*\*53, got 1000"),
        ({"head_dim": 10**15}, "at most 65536, got 1000000000000000"),
        ({"model_type": ["llama"]}, r"model_type must be .*got \['llama'\]"),
        ({"rope_scaling": {"type": "linear", "factor": 10**400}}, "factor must be a finite number"),
    ],
)
def test_a_slip_of_many_digits_or_a_list_is_told_by_name(fields, message, tmp_path, capsys):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config() | fields))
    assert main([str(file)]) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    "fields",
    [
        {"rope_theta": 1e308},
        {"scaling": {"type": "yarn", "factor": 1e300, **LENGTHS}},
        {"scaling": {"type": "yarn", "factor": 1e300, "original_max_position_embeddings": 16384}},
    ],
)
def test_numbers_of_hundreds_of_digits_still_make_a_table(fields, tmp_path, capsys):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config(**fields)))
    assert main([str(file)]) == 0
    assert "no full turn" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", ["a" * 300, "file.json/config.json"])
def test_a_path_that_cannot_be_opened_is_no_traceback(wrong, tmp_path, capsys):
    (tmp_path / "file.json").write_text("{}")
    assert main([str(tmp_path / wrong)]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_brackets_without_end_are_not_json(tmp_path, capsys):
    file = tmp_path / "config.json"
    file.write_text("[" * 100_000)
    assert main([str(file)]) == 2
    assert "is not a JSON file" in capsys.readouterr().err


@pytest.mark.parametrize("image", ["clocks.foo", "missing/clocks.png"])
def test_a_plot_that_cannot_be_written_is_named(image, tmp_path, capsys):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config()))
    assert main([str(file), "--plot", str(tmp_path / image)]) == 2
    assert f"error: --plot {tmp_path / image}: " in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config()))
    command = [sys.executable, "-m", "posenc_tutorial.hf_config", str(file), "--all"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (0, b"")
