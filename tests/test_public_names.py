"""The public names: importable, with exactly these parameters, documented; and the package root."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import types

import pytest
import torch

import posenc_tutorial

BASE = "base=10000.0"
HOOKS = {
    "add_to_input": "self, x, positions",
    "score_bias": "self, q_positions, k_positions, *, q=None",
    "rotate_query_key": "self, q, k, q_positions, k_positions",
}

# The contract. Parameters are written as a signature; types are documentation and not compared.
FUNCTIONS = {
    "frequencies": {
        "inverse_frequencies": f"dim, {BASE}",
        "wavelengths": "inv_freq",
        "angles": "positions, inv_freq",
    },
    "attention": {
        "attention_scores": "q, k, *, scale=None, bias=None",
        "attention": "q, k, v, *, bias=None, mask=None, causal=False, q_positions=None, "
        "k_positions=None, scale=None, return_weights=False",
    },
    "sinusoidal": {
        "sinusoidal_table": f"positions, dim, *, {BASE}, layout='interleaved', dtype=torch.float32",
        "shift_matrix": f"offset, dim, *, {BASE}",
    },
    "relative": {
        "relative_positions": "q_positions, k_positions",
        "t5_bucket": "relative_position, *, bidirectional, num_buckets=32, max_distance=128",
    },
    "alibi": {
        "alibi_slopes": "num_heads",
        "alibi_bias": "num_heads, q_positions, k_positions",
    },
    "rope": {
        "rope_cos_sin": "positions, inv_freq, *, attention_factor=1.0, dtype=torch.float32",
        "rotate": "x, cos, sin, *, layout='half'",
        "rotation_matrix": "position, inv_freq, *, layout",
        "interleaved_to_half": "x",
        "half_to_interleaved": "x",
        "convert_projection": "weight, num_heads, *, to, rotary_dim=None",
    },
    "context_extension": {
        "default_rope": "dim, base",
        "position_interpolation": "dim, base, factor",
        "ntk_aware": "dim, base, factor",
        "dynamic_ntk": "dim, base, factor, original_max_positions, seq_len, *, "
        "variant='transformers'",
        "yarn": "dim, base, factor, original_max_positions, *, beta_fast=32.0, beta_slow=1.0, "
        "attention_factor=None, mscale=None, mscale_all_dim=None, truncate=True",
        "llama3": "dim, base, factor, original_max_positions, *, low_freq_factor=1.0, "
        "high_freq_factor=4.0",
        "longrope": "dim, base, short_factor, long_factor, original_max_positions, "
        "max_positions, seq_len, *, attention_factor=None",
        "proportional": "dim, base, rotary_fraction",
    },
    "hf_config": {
        "rope_parameters_from_config": "config, *, seq_len=None, layer_type=None",
    },
}
# Not at the root: what only speed needs is imported from posenc_tutorial.kernels.
KERNELS = {
    "kernels.rotary": {
        "apply_rope": "q, k, cos, sin, *, layout='half', backend='auto', out=None",
        "why_not": "backend, device='cpu', dtype=torch.float32",
    },
    "kernels.biased": {
        "biased_attention": "q, k, v, encoding, *, mask=None, causal=False, q_positions=None, "
        "k_positions=None, scale=None, chunk=None, backend='auto'",
    },
}
CLASSES = {
    "frequencies": {"RopeParameters": ("inv_freq, attention_factor=1.0", {})},
    "encoding": {"PositionalEncoding": (None, HOOKS), "NoPE": (None, HOOKS)},
    "attention": {
        "MultiHeadAttention": (
            "dim, num_heads, encoding, *, causal",
            {
                "forward": "self, x, *, context=None, positions=None, context_positions=None, "
                "mask=None, cache=None"
            },
        ),
        "KeyValueCache": ("", {"next_positions": "self, n"}),
    },
    "learned": {
        "LearnedEncoding": (
            "max_positions, dim",
            {"resized": "self, new_max_positions, mode='linear'", **HOOKS},
        )
    },
    "sinusoidal": {
        "SinusoidalEncoding": (f"dim, *, {BASE}, layout='interleaved', scale=1.0", HOOKS)
    },
    "relative": {
        "ShawRelative": ("head_dim, max_distance", HOOKS),
        "T5Bias": ("num_heads, *, bidirectional, num_buckets=32, max_distance=128", HOOKS),
    },
    "alibi": {"ALiBi": ("num_heads", HOOKS)},
    "rope": {
        "RotaryEmbedding": (
            f"head_dim, *, {BASE}, rotary_dim=None, layout='half', parameters=None",
            {"forward": "self, q, k, positions=None", **HOOKS},
        )
    },
}
# Names that raise nothing of their own: nothing a caller passes can be wrong in kind or size.
RAISE_NOTHING = {"PositionalEncoding", "NoPE", "KeyValueCache"}
# Where a shape is not the point: a class or a function between sizes and numbers.
NO_TENSORS = {"NoPE", "MultiHeadAttention", "SinusoidalEncoding", "T5Bias", "ALiBi", "why_not"}

ALL_FUNCTIONS = [(module, name) for module, names in FUNCTIONS.items() for name in names]
ALL_KERNELS = [(module, name) for module, names in KERNELS.items() for name in names]
ALL_CLASSES = [(module, name) for module, names in CLASSES.items() for name in names]


def load(module: str, name: str):
    return getattr(importlib.import_module(f"posenc_tutorial.{module}"), name)


def shape_of(signature: inspect.Signature) -> list[tuple]:
    return [(p.name, p.kind.name, p.default) for p in signature.parameters.values()]


def written(parameters: str) -> inspect.Signature:
    scope: dict = {"torch": torch}
    exec(f"def contract({parameters}): ...", scope)
    return inspect.signature(scope["contract"])


@pytest.mark.parametrize(("module", "name"), ALL_FUNCTIONS + ALL_KERNELS)
def test_functions_have_the_signature_of_the_contract(module, name):
    function = load(module, name)
    assert isinstance(function, types.FunctionType)
    contract = (FUNCTIONS | KERNELS)[module][name]
    assert shape_of(inspect.signature(function)) == shape_of(written(contract))
    assert function.__module__ == f"posenc_tutorial.{module}"


@pytest.mark.parametrize(("module", "name"), ALL_CLASSES)
def test_classes_have_the_signature_of_the_contract(module, name):
    cls = load(module, name)
    parameters, methods = CLASSES[module][name]
    assert inspect.isclass(cls) and cls.__module__ == f"posenc_tutorial.{module}"
    if parameters is not None:
        assert shape_of(inspect.signature(cls)) == shape_of(written(parameters))
    for method, expected in methods.items():
        actual = inspect.signature(getattr(cls, method))
        assert shape_of(actual) == shape_of(written(expected)), method


def test_everything_public_is_typed():
    """Parameters and results carry types, for the API pages and for editors."""
    untyped = []
    for module, name in ALL_FUNCTIONS + ALL_KERNELS:
        signature = inspect.signature(load(module, name))
        if signature.return_annotation is inspect.Signature.empty:
            untyped.append(f"{name} -> ?")
        untyped += [
            f"{name}({p.name})"
            for p in signature.parameters.values()
            if p.annotation is inspect.Parameter.empty
        ]
    assert untyped == []


# Documentation

SHAPE = re.compile(r"``\([^`]*\)``|[Ss]ame shape|any shape|shape ")
SECTION = "(?m)^ *{}:$"


def has_section(docstring: str, section: str) -> bool:
    return re.search(SECTION.format(section), docstring) is not None


@pytest.mark.parametrize(("module", "name"), ALL_FUNCTIONS + ALL_KERNELS)
def test_functions_are_documented_with_shapes_and_errors(module, name):
    function = load(module, name)
    docstring = inspect.getdoc(function) or ""
    assert has_section(docstring, "Args") and has_section(docstring, "Returns")
    assert has_section(docstring, "Raises")
    assert name in NO_TENSORS or SHAPE.search(docstring) or "RopeParameters" in docstring
    arguments = re.search(r"(?ms)^Args:\n(.*?)(?=^\S|\Z)", docstring).group(1)
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"(?m)^ +{parameter}:", arguments), f"{name}: {parameter} not described"
    # One sentence first, and its end: the summary line of the API table.
    assert docstring.splitlines()[0].rstrip(".:`").strip()


@pytest.mark.parametrize(("module", "name"), ALL_CLASSES)
def test_classes_are_documented_with_shapes_and_errors(module, name):
    cls = load(module, name)
    docstring = cls.__dict__.get("__doc__") or ""
    assert len(docstring.splitlines()[0]) > 10
    if name not in RAISE_NOTHING:
        assert has_section(docstring, "Raises")
    parameters, methods = CLASSES[module][name]
    whole = docstring + "".join(inspect.getdoc(getattr(cls, m)) or "" for m in methods)
    assert name in NO_TENSORS or SHAPE.search(whole)
    for parameter in written(parameters or "").parameters:
        assert re.search(rf"(?m)^ +{parameter}:", docstring), f"{name}: {parameter} not described"


@pytest.mark.parametrize(("module", "name"), ALL_CLASSES)
def test_methods_of_the_contract_are_documented(module, name):
    cls = load(module, name)
    for method in CLASSES[module][name][1]:
        docstring = inspect.getdoc(getattr(cls, method)) or ""
        assert docstring, f"{name}.{method}"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("frequencies", "inverse_frequencies"),
        ("attention", "attention_scores"),
        ("attention", "attention"),
        ("attention", "MultiHeadAttention"),
        ("learned", "LearnedEncoding"),
        ("sinusoidal", "sinusoidal_table"),
        ("sinusoidal", "shift_matrix"),
        ("relative", "ShawRelative"),
        ("relative", "t5_bucket"),
        ("relative", "T5Bias"),
        ("alibi", "alibi_slopes"),
        ("alibi", "alibi_bias"),
        ("rope", "rotate"),
        ("rope", "rotation_matrix"),
        ("rope", "RotaryEmbedding"),
        *(("context_extension", name) for name in FUNCTIONS["context_extension"]),
        ("kernels.rotary", "apply_rope"),
        ("kernels.biased", "biased_attention"),
    ],
)
def test_formulas_name_their_source(module, name):
    docstring = inspect.getdoc(load(module, name))
    assert re.search(r"(19|20)\d\d|arXiv|https://|transformers", docstring)


@pytest.mark.parametrize("module", sorted(FUNCTIONS.keys() | CLASSES.keys() | KERNELS.keys()))
def test_modules_say_what_they_are_about(module):
    assert len((importlib.import_module(f"posenc_tutorial.{module}").__doc__ or "").strip()) > 20


# The package root and its kernels


def test_the_kernels_are_exported_where_the_contract_says():
    import posenc_tutorial.kernels as kernels

    names = [name for _, name in ALL_KERNELS]
    assert kernels.__all__ == sorted(names)
    for module, name in ALL_KERNELS:
        assert getattr(kernels, name) is load(module, name)
    assert not set(names) & set(posenc_tutorial.__all__)


def test_the_root_exports_what_it_lists():
    assert posenc_tutorial.__all__ == sorted(posenc_tutorial.__all__)
    for name in posenc_tutorial.__all__:
        value = getattr(posenc_tutorial, name)
        home = importlib.import_module(value.__module__)
        assert getattr(home, name) is value


def test_the_root_exports_every_encoding_and_every_method_of_extension():
    """All names of the contract except the one that would shadow a module."""
    contract = {name for _, name in ALL_FUNCTIONS + ALL_CLASSES} - {"attention"}
    assert contract | {"device"} <= set(posenc_tutorial.__all__)


def test_the_attention_module_is_not_shadowed_by_its_function():
    import posenc_tutorial.attention as module

    assert isinstance(module, types.ModuleType)
    assert posenc_tutorial.attention is module
    assert "attention" not in posenc_tutorial.__all__
    for name in sorted(FUNCTIONS.keys() | CLASSES.keys()):
        assert isinstance(getattr(posenc_tutorial, name), types.ModuleType), name


def test_the_version_is_the_one_of_the_distribution():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.?[a-z]+\d+)?", posenc_tutorial.__version__)


def test_a_layer_refuses_what_is_no_encoding():
    with pytest.raises(TypeError, match="PositionalEncoding"):
        posenc_tutorial.MultiHeadAttention(8, 2, None, causal=True)


# Nothing happens on import

PROBE = """
import json, sys, warnings
warnings.simplefilter("error")
import torch
before = torch.get_rng_state().sum().item(), torch.get_default_dtype(), torch.get_num_threads()
import posenc_tutorial
{imports}
after = torch.get_rng_state().sum().item(), torch.get_default_dtype(), torch.get_num_threads()
suspects = ("matplotlib", "transformers", "IPython", "numba", "triton")
heavy = [name for name in suspects if name in sys.modules]
print("RESULT" + json.dumps({{"same": before == after, "heavy": heavy}}))
"""


def in_a_fresh_interpreter(code: str, **environment: str) -> subprocess.CompletedProcess:
    root = os.path.dirname(os.path.dirname(os.path.abspath(posenc_tutorial.__file__)))
    keep = {k: v for k, v in os.environ.items() if k != "POSENC_DEVICE"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**keep, "PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_importing_the_package_prints_nothing_and_loads_nothing_heavy():
    modules = sorted(FUNCTIONS.keys() | CLASSES.keys() | KERNELS.keys())
    imports = "\n".join(f"import posenc_tutorial.{module}" for module in modules)
    result = in_a_fresh_interpreter(PROBE.format(imports=imports))
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.startswith("RESULT"), "something was printed on import"
    outcome = json.loads(result.stdout.removeprefix("RESULT"))
    assert outcome == {"same": True, "heavy": []}


# device()


def test_the_device_is_what_the_environment_says(monkeypatch):
    monkeypatch.setenv("POSENC_DEVICE", "cpu")
    assert posenc_tutorial.device() == torch.device("cpu")
    monkeypatch.delenv("POSENC_DEVICE")
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert posenc_tutorial.device() == torch.device(expected)
    monkeypatch.setenv("POSENC_DEVICE", "")
    assert posenc_tutorial.device() == torch.device(expected)


def test_asking_for_a_gpu_that_is_not_there_is_an_error(monkeypatch):
    """Never a silent run on the CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("POSENC_DEVICE", "cuda")
    with pytest.raises(RuntimeError, match="POSENC_DEVICE"):
        posenc_tutorial.device()


def test_a_gpu_that_is_there_is_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("POSENC_DEVICE", "cuda")
    assert posenc_tutorial.device() == torch.device("cuda")
    monkeypatch.delenv("POSENC_DEVICE")
    assert posenc_tutorial.device() == torch.device("cuda")
    monkeypatch.setenv("POSENC_DEVICE", "cpu")
    assert posenc_tutorial.device() == torch.device("cpu")


@pytest.mark.parametrize("value", ["gpu", "mps", "CUDA", "cuda:0", "1"])
def test_an_unknown_device_is_named(monkeypatch, value):
    monkeypatch.setenv("POSENC_DEVICE", value)
    with pytest.raises(ValueError, match=re.escape(value)) as error:
        posenc_tutorial.device()
    assert "cpu" in str(error.value) and "cuda" in str(error.value)
