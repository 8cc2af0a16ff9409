"""The rotary parameters of a published model, read from its ``config.json``.

A configuration says which rule of :mod:`~posenc_tutorial.context_extension` a model uses, and with
which numbers, but the files have grown for years and say it in several dialects:

- ``rope_theta`` with a ``rope_scaling`` block, or one ``rope_parameters`` block with everything;
- ``rope_parameters`` with a block for each layer type (Gemma 3, ModernBERT), or the older
  ``rope_local_base_freq`` and ``local_rope_theta`` beside the global base;
- the rule named by ``rope_type`` or ``type``, LongRoPE formerly called ``"su"``;
- the rotated width from ``head_dim`` or ``hidden_size / num_attention_heads``, times
  ``partial_rotary_factor`` or ``rotary_pct``, or stated as ``rotary_dim`` or ``qk_rope_head_dim``.

Reading must not guess. A base that is lost on the way changes nothing that one sees in a short
text and ruins long ones, so a field that is missing, absurd, or stated twice with two values is a
``ValueError`` that names it.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..context_extension import (
    MOST_TOKENS,
    check_length,
    default_rope,
    dynamic_ntk,
    llama3,
    longrope,
    longrope_attention_factor,
    ntk_aware,
    position_interpolation,
    proportional,
    yarn,
)
from ..frequencies import RopeParameters

# The same thing under the names that different architectures give it.
_BASE = ("rope_theta", "rotary_emb_base")
_FRACTION = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction")
_ORIGINAL = ("original_max_position_embeddings",)
_HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_MAX_POSITIONS = ("max_position_embeddings", "n_positions")
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
_BLOCKS = ("rope_parameters", "rope_scaling")
_ANY_ROPE_FIELD = (*_BASE, *_BLOCKS, "global_rope_theta")

# Architectures whose base is a constant of their code: their files have no field for it.
_FIXED_BASE = {"codegen": 10000.0, "gptj": 10000.0, "roformer": 10000.0}

# Architectures that turn a part of each head by default, so the part has to be stated.
_PARTIAL = frozenset(
    "bamba glm glm4 glm4_moe glm4v_moe_text gpt_neox moonshine nemotron persimmon phi "
    "qwen3_5_moe_text qwen3_5_text qwen3_next recurrent_gemma stablelm".split()
)

_TABLE, _BUCKETS, _ALIBI = "a learned table", "relative position buckets", "ALiBi"
_NOT_ROTARY = {
    "albert": _TABLE,
    "bart": _TABLE,
    "bert": _TABLE,
    "biogpt": _TABLE,
    "bloom": _ALIBI,
    "deberta": _BUCKETS,
    "deberta-v2": _BUCKETS,
    "distilbert": _TABLE,
    "electra": _TABLE,
    "gpt2": _TABLE,
    "gpt_bigcode": _TABLE,
    "gpt_neo": _TABLE,
    "longt5": _BUCKETS,
    "mamba": "a recurrence",
    "mpt": _ALIBI,
    "mt5": _BUCKETS,
    "openai-gpt": _TABLE,
    "opt": _TABLE,
    "roberta": _TABLE,
    "t5": _BUCKETS,
    "umt5": _BUCKETS,
    "whisper": _TABLE,
    "xlm-roberta": _TABLE,
}
_MOST_CHANNELS = 2**16  # a hundred times what models have; more is a slip, and fills the memory
# Scaling in dialects of single models. Leaving it out would be a guess, so it is refused.
_OTHER_SCALING = ("rotary_scaling_factor", "rope_ratio", "rope_position_scale")
# A base for some of the layers, in dialects of single models (DeepSeek-V4, Granite, MiMo).
_OTHER_BASES = ("compress_rope_theta", "layer_rope_theta", "swa_rope_theta")
# Architectures whose layers with a sliding window have a base of their own, 10000 by default.
_LOCAL_BASE = frozenset("gemma3_text gemma3n_text t5gemma2_text t5gemma2_decoder".split())
# Values of position_embedding_type, which files of rotary models may carry as well, unused.
_OTHER_POSITIONS = ("absolute", "alibi", "learned", "relative_key", "relative_key_query")


@dataclass(frozen=True)
class RopeConfig:
    """What a configuration says about rotary positions, in one vocabulary.

    Attributes:
        rope_type: ``"default"``, ``"linear"``, ``"dynamic"``, ``"yarn"``, ``"llama3"``,
            ``"longrope"``, ``"proportional"``, or ``"qwen"`` (dynamic, by Qwen's own formula).
        base: ``rope_theta``.
        head_dim: channels of a head (for multi-head latent attention, of its rotary part).
        rotary_fraction: share of the head that turns, above 0, at most 1.
        rotary_dim: channels that the frequencies cover. With ``"proportional"`` that is the
            whole head, the pairs at rest included.
        original_max_positions: tokens the model was trained on before its extension, or None.
        max_positions: tokens the model is meant for now, its extension included, or None.
        layer_type: the kind of layer this holds for, or None for all.
        block: all fields of the rule (``factor``, ``beta_fast``, …), as they are in the file.
    """

    rope_type: str
    base: float
    head_dim: int
    rotary_fraction: float
    rotary_dim: int
    original_max_positions: int | None
    max_positions: int | None
    layer_type: str | None
    block: Mapping[str, Any]

    def parameters(self, seq_len: int | None = None) -> RopeParameters:
        """Frequencies and attention factor; see :func:`rope_parameters_from_config`."""
        if seq_len is not None:
            check_length("seq_len", seq_len)
        return _RULES[self.rope_type](self, seq_len)


def rope_parameters_from_config(
    config: Mapping[str, Any] | str | Path | object,
    *,
    seq_len: int | None = None,
    layer_type: str | None = None,
) -> RopeParameters:
    """Frequencies and attention factor of a model, from its configuration.

    Covers the rope types default, linear, dynamic, yarn, llama3, longrope (or ``"su"``) and
    proportional. ``"mrope"`` (Qwen2-VL) counts as default: its frequencies are plain, and what is
    new, a position of three numbers for an image patch, is no matter of frequencies. Of a
    multimodal model the text part is read. ``"dynamic"`` with an ``alpha`` (Hunyuan) is NTK-aware
    scaling by that number; ``use_dynamic_ntk`` is the rule of the first Qwen models.

    The pair layout (half or interleaved) is no part of this, nor is which layers rotate at all:
    some models leave every fourth layer without positions (``no_rope_layers``).

    Where transformers fills in a default, this function asks: for the base, also that of Gemma 3's
    local layers, for the partial rotary factor of architectures that have one, and for the original
    length of yarn, llama3 and longrope. Apart from that the two are tested to agree.

    Args:
        config: a dict, the path of a ``config.json`` or of the folder that holds it, or an object
            with ``to_dict()`` such as a transformers configuration. It is not changed.
        seq_len: tokens in the text, for the two rules that depend on it. None means the trained
            length: "dynamic" then scales nothing and "longrope" takes its short list. The other
            types ignore it.
        layer_type: for models with one set of parameters for each kind of layer, which one, for
            example ``"full_attention"`` or ``"sliding_attention"``.

    Returns:
        RopeParameters with ``(rotary_dim/2,)`` frequencies, radians per token, float64, on the
        CPU. ``rotary_dim`` is the head width times the partial rotary factor.

    Raises:
        FileNotFoundError: no such file.
        TypeError: ``config`` is none of the above, or ``seq_len`` is not an integer.
        ValueError: a file that is not JSON; a field that is missing, absurd or contradictory,
            named with its value; an unknown rope type; several layer types and none chosen; a
            model without rotary positions (GPT-2, BERT, T5, MPT, BLOOM, …).

    Warns:
        UserWarning: yarn or longrope state a ``factor`` that is not ``max_position_embeddings /
            original_max_position_embeddings``; dynamic states an original length beside the
            ``max_position_embeddings`` that it scales from. The factor, and the latter, are used.
    """
    return read_rope_config(config, layer_type=layer_type).parameters(seq_len)


def read_rope_config(
    config: Mapping[str, Any] | str | Path | object, *, layer_type: str | None = None
) -> RopeConfig:
    """Rope type, base, widths and lengths of a model, without computing frequencies.

    Args:
        config: as for :func:`rope_parameters_from_config`.
        layer_type: as for :func:`rope_parameters_from_config`.

    Returns:
        RopeConfig.

    Raises:
        FileNotFoundError: as :func:`rope_parameters_from_config`.
        TypeError: as :func:`rope_parameters_from_config`.
        ValueError: as :func:`rope_parameters_from_config`, except for the fields that only one
            rule reads (``factor`` and the like), which are checked when parameters are computed.
    """
    fields = _text_part(_as_dict(config))
    _refuse_others(fields)
    block = _block(fields, layer_type)
    rope_type, base = _rope_type(block), _base(block)
    head_dim = _head_dim(fields, layer_type)
    fraction, rotary_dim = _rotary_part(fields, block, head_dim)
    if rope_type == "proportional":  # its frequencies cover the whole head
        rotary_dim = head_dim
    if rotary_dim > _MOST_CHANNELS:
        raise ValueError(
            f"the rotated width must be at most {_MOST_CHANNELS}, got {rotary_dim} "
            f"(head_dim {head_dim}, partial rotary factor {fraction:g})"
        )
    if rotary_dim < 2 or rotary_dim % 2:
        raise ValueError(
            "the rotated width must be even and at least 2, got "
            f"{rotary_dim} (head_dim {head_dim}, partial rotary factor {fraction:g})"
        )
    return RopeConfig(
        rope_type=rope_type,
        base=base,
        head_dim=head_dim,
        rotary_fraction=fraction,
        rotary_dim=rotary_dim,
        original_max_positions=_length(block, _ORIGINAL),
        max_positions=_length(fields, _MAX_POSITIONS),
        layer_type=layer_type,
        block=block,
    )


# The rules: from a RopeConfig to parameters.


def _default(config: RopeConfig, seq_len: int | None) -> RopeParameters:
    return default_rope(config.rotary_dim, config.base)


def _linear(config: RopeConfig, seq_len: int | None) -> RopeParameters:
    return position_interpolation(config.rotary_dim, config.base, _factor(config))


def _dynamic(config: RopeConfig, seq_len: int | None) -> RopeParameters:
    if config.block.get("alpha") is not None:
        alpha = _number("alpha", config.block["alpha"], at_least=1.0)
        return ntk_aware(config.rotary_dim, config.base, alpha)
    trained, original = config.max_positions, config.original_max_positions
    if trained is None:
        raise _missing("max_position_embeddings", config)
    if original not in (None, trained):
        warnings.warn(
            f"dynamic scaling starts at max_position_embeddings ({trained}), as in transformers; "
            f"original_max_position_embeddings ({original}) is not used",
            stacklevel=4,
        )
    seq_len = trained if seq_len is None else seq_len
    return dynamic_ntk(config.rotary_dim, config.base, _factor(config), trained, seq_len)


def _qwen(config: RopeConfig, seq_len: int | None) -> RopeParameters:
    trained = config.original_max_positions
    if trained is None:
        raise _missing("seq_length", config)
    seq_len = trained if seq_len is None else seq_len
    return dynamic_ntk(config.rotary_dim, config.base, 1.0, trained, seq_len, variant="qwen")


def _yarn(config: RopeConfig, seq_len: int | None) -> RopeParameters:
    factor, original = _factor(config), _original_length(config)
    _warn_if_factor_disagrees(config, factor, original)
    truncate = config.block.get("truncate")
    if not isinstance(truncate, bool | None):  # 0 equals False, but a test for False misses it
        raise ValueError(f"truncate must be true or false, got {truncate!r}")
    optional = ("beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim")
    stated = {
        name: _number(name, config.block[name])
        for name in optional
        if config.block.get(name) is not None
    }
    pair = stated.get("mscale"), stated.get("mscale_all_dim")
    if 0 in pair and pair != (1, 0) and "attention_factor" not in stated:
        raise ValueError(
            f"mscale is {pair[0]} and mscale_all_dim {pair[1]}: transformers takes a 0 as not "
            "stated, DeepSeek's code as a weight of 0; state attention_factor"
        )
    return yarn(
        config.rotary_dim, config.base, factor, original, truncate=truncate is not False, **stated
    )


def _llama3(config: RopeConfig, seq_len: int | None) -> RopeParameters:
    for name in ("low_freq_factor", "high_freq_factor"):
        if config.block.get(name) is None:
            raise _missing(name, config)
    return llama3(
        config.rotary_dim,
        config.base,
        _factor(config),
        _original_length(config),
        low_freq_factor=_number("low_freq_factor", config.block["low_freq_factor"]),
        high_freq_factor=_number("high_freq_factor", config.block["high_freq_factor"]),
    )


def _longrope(config: RopeConfig, seq_len: int | None) -> RopeParameters:
    original = _original_length(config)
    if config.max_positions is None:
        raise _missing("max_position_embeddings", config)
    seq_len = original if seq_len is None else seq_len
    return longrope(
        config.rotary_dim,
        config.base,
        _numbers(config, "short_factor"),
        _numbers(config, "long_factor"),
        original,
        config.max_positions,
        seq_len,
        attention_factor=_longrope_magnitude(config, original, seq_len),
    )


def _longrope_magnitude(config: RopeConfig, original: int, seq_len: int) -> float | None:
    """The attention factor that is stated, or follows from a stated factor; else None."""
    # Phi-3.5-MoE states one for each of the two lists.
    for name in ("attention_factor", "long_mscale" if seq_len > original else "short_mscale"):
        if config.block.get(name) is not None:
            return _number(name, config.block[name])
    if config.block.get("factor") is None:
        return None
    factor = _factor(config)
    _warn_if_factor_disagrees(config, factor, original)
    return longrope_attention_factor(factor, original)


def _proportional(config: RopeConfig, seq_len: int | None) -> RopeParameters:
    params = proportional(config.rotary_dim, config.base, config.rotary_fraction)
    if config.block.get("factor") is None:
        return params
    return RopeParameters(params.inv_freq / _factor(config))


_RULES = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "qwen": _qwen,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
    "proportional": _proportional,
}
_OLD_NAMES = {"su": "longrope", "mrope": "default"}


# Fields of a rule.


def _missing(name: str, config: RopeConfig) -> ValueError:
    return ValueError(f"{name} is missing; rope type {config.rope_type!r} needs it")


def _number(name: str, value: Any, *, at_least: float = 0.0) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # The second test also catches what is nan, and integers that no float can hold.
    if not (number and at_least <= value <= sys.float_info.max):
        raise ValueError(f"{name} must be a finite number >= {at_least:g}, got {value!r}")
    return value


def _numbers(config: RopeConfig, name: str) -> list[float]:
    values = config.block.get(name)
    if values is None:
        raise _missing(name, config)
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"{name} must be a list of {config.rotary_dim // 2} numbers, got {values}")
    return [_number(f"{name}[{i}]", value) for i, value in enumerate(values)]


def _factor(config: RopeConfig) -> float:
    if config.block.get("factor") is None:
        raise _missing("factor", config)
    return _number("factor", config.block["factor"], at_least=1.0)


def _original_length(config: RopeConfig) -> int:
    original, extended = config.original_max_positions, config.max_positions
    if original is None:
        raise _missing("original_max_position_embeddings", config)
    if extended is not None and extended < original:
        raise ValueError(
            f"max_position_embeddings must be at least original_max_position_embeddings "
            f"({original}), got {extended}"
        )
    return original


def _warn_if_factor_disagrees(config: RopeConfig, factor: float, original: int) -> None:
    """Warn unless the lengths say the same; llama3 is exempt, whose files never do."""
    # Equal lengths mean that the file was edited by hand to switch the extension on.
    if config.max_positions in (None, original):
        return
    implied = config.max_positions / original
    if not math.isclose(factor, implied, rel_tol=0.01):
        warnings.warn(
            f"factor is {factor}, but max_position_embeddings / original_max_position_embeddings "
            f"is {config.max_positions} / {original} = {implied:g}; the factor is used",
            stacklevel=5,
        )


# Fields of the model.


def _as_dict(config: Any) -> dict[str, Any]:
    if isinstance(config, (str, Path)):
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        try:
            text = path.read_text(encoding="utf-8-sig")  # with or without its mark
            config = json.loads(text, object_pairs_hook=_each_name_once)
        except _StatedTwice as error:
            raise ValueError(f"{path}: {error}") from None
        except (ValueError, RecursionError) as error:  # the latter: brackets nested too deeply
            raise ValueError(f"{path} is not a JSON file in UTF-8: {error}") from error
        if not isinstance(config, dict):
            raise ValueError(f"{path} must hold a JSON object, got {type(config).__name__}")
    elif hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise TypeError(
            "config must be a dict, the path of a config.json, or an object with to_dict(), "
            f"got {type(config).__name__}"
        )
    return dict(config)


class _StatedTwice(ValueError):
    pass


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dictionary; JSON itself would let the last of two equal names win."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found and found[name] != value:
            raise _StatedTwice(f"{name} is stated twice, {found[name]!r} and {value!r}")
        found[name] = value
    return found


def _text_part(fields: dict[str, Any]) -> dict[str, Any]:
    """The part about the text model: multimodal files keep it in a dictionary of its own.

    Some repeat its fields outside. Then both must say the same.
    """
    for part in _TEXT_PARTS:
        if isinstance(fields.get(part), Mapping):
            inner = _text_part(dict(fields[part]))
            outside, inside = ([f.get(name) for name in _ANY_ROPE_FIELD] for f in (fields, inner))
            if not any(outside):
                return inner
            for name, out, within in zip(_ANY_ROPE_FIELD, outside, inside, strict=True):
                if any(inside) and out != within:
                    raise ValueError(f"{name} is {out!r}, but {within!r} in {part}")
            return fields
    return fields


def _refuse_others(fields: Mapping[str, Any]) -> None:
    """Raise for models that place their tokens otherwise, or in a dialect that is not read."""
    model_type = fields.get("model_type")
    if not isinstance(model_type, str | None):
        raise ValueError(f"model_type must be a string or null, got {model_type!r}")
    attn_config = fields.get("attn_config")
    flags = [fields, attn_config if isinstance(attn_config, Mapping) else {}]
    kind = fields.get("position_embedding_type")
    stated = any(fields.get(name) is not None for name in _ANY_ROPE_FIELD)
    instead = _NOT_ROTARY.get(model_type) if isinstance(model_type, str) else None
    if any(part.get("alibi") is True or part.get("use_alibi") is True for part in flags):
        instead = _ALIBI
    elif instead is None and fields.get("relative_attention_num_buckets") is not None:
        instead = _BUCKETS
    elif instead is None and not stated and kind in _OTHER_POSITIONS:
        instead = f"position_embedding_type {kind!r}"
    if instead is not None:
        raise ValueError(
            f"this model (model_type {model_type!r}) has no rotary positions, but {instead}"
        )
    if fields.get("patch_size") is not None and fields.get("vocab_size") is None:
        raise ValueError(
            f"this is an image model (model_type {model_type!r}, patch_size "
            f"{fields['patch_size']!r}), which rotates along two axes; only text models are read"
        )
    for name in _OTHER_SCALING:
        if fields.get(name) not in (None, 1):
            raise ValueError(f"{name} is {fields[name]!r}: scaling in this form is not covered")


def _block(fields: Mapping[str, Any], layer_type: str | None) -> dict[str, Any]:
    """The fields of the rule for one layer type, and those that may stand outside its block."""
    block = _stated_block(fields)
    if any(isinstance(value, Mapping) for value in block.values()):
        # Null instead of a block marks layers without rotary positions.
        layers = {k: v for k, v in block.items() if v is None or isinstance(v, Mapping)}
        if beside := sorted(block.keys() - layers.keys()):
            raise ValueError(
                f"{beside[0]} is {block[beside[0]]!r} beside blocks for layer types "
                f"{sorted(layers)}; it must stand in each block that it is meant for"
            )
    else:
        layers = _local_and_global(fields, block)
        _refuse_other_bases(fields, block)
    if layers:
        return _with_shared_fields(fields, _chosen(layers, layer_type), layered=True)
    if layer_type is not None and layer_type not in _layer_types(fields):
        raise ValueError(
            f"layer_type must be left out, got {layer_type!r}: "
            "this configuration has one set of rotary parameters for all layers"
        )
    if fields.get("use_dynamic_ntk") is True and not block:  # the first Qwen models
        block = {"rope_type": "qwen", _ORIGINAL[0]: fields.get("seq_length")}
    return _with_shared_fields(fields, block, layered=False)


def _stated_block(fields: Mapping[str, Any]) -> dict[str, Any]:
    for name in _BLOCKS:
        if not isinstance(fields.get(name) or {}, Mapping):
            raise ValueError(f"{name} must be a dictionary or null, got {fields[name]!r}")
    new, old = (fields.get(name) or {} for name in _BLOCKS)
    for key in new.keys() & old.keys():
        if new[key] != old[key]:
            raise ValueError(
                f"{key} is {new[key]!r} in rope_parameters and {old[key]!r} in rope_scaling"
            )
    return {**old, **new}


def _local_and_global(fields: Mapping[str, Any], block: dict[str, Any]) -> dict[str, Any]:
    """Blocks by layer type from older files, which state a second base for the local layers."""
    if fields.get("rope_local_base_freq") is not None:  # Gemma 3 scales its global layers only
        return {
            "full_attention": block,
            "sliding_attention": {"rope_theta": fields["rope_local_base_freq"]},
        }
    model_type, base = fields.get("model_type"), block.get("rope_theta")
    if model_type in _LOCAL_BASE:
        raise ValueError(
            f"rope_local_base_freq is missing; models of type {model_type!r} have a base of their "
            "own in layers with a sliding window"
        )
    if model_type == "olmo3" and block:  # OLMo 3 scales its global layers only
        return {"full_attention": block, "sliding_attention": {"rope_theta": base}}
    if fields.get("global_rope_theta") is not None:  # ModernBERT; null means the global base
        everywhere, local = fields["global_rope_theta"], fields.get("local_rope_theta")
        return {
            "full_attention": {**block, "rope_theta": everywhere},
            "sliding_attention": {**block, "rope_theta": everywhere if local is None else local},
        }
    return {}


def _refuse_other_bases(fields: Mapping[str, Any], block: Mapping[str, Any]) -> None:
    base = block.get("rope_theta", fields.get("rope_theta"))
    for name in _OTHER_BASES:
        stated = fields.get(name)
        each = stated if isinstance(stated, (list, tuple)) else [stated]
        if any(value not in (None, 0, base) for value in each):  # 0: a layer that does not turn
            raise ValueError(
                f"{name} is {stated!r} beside rope_theta {base!r}: a base for some of the layers "
                "in this form is not covered"
            )


def _chosen(layers: Mapping[str, Any], layer_type: str | None) -> Mapping[str, Any]:
    if layer_type is None and len(layers) == 1:
        layer_type = next(iter(layers))
    if layer_type not in layers:
        raise ValueError(
            f"layer_type must be one of {sorted(layers)}, got {layer_type!r}: this configuration "
            "has rotary parameters by layer type"
        )
    if layers[layer_type] is None:
        raise ValueError(f"layers of type {layer_type!r} have no rotary positions in this model")
    return layers[layer_type]


def _with_shared_fields(
    fields: Mapping[str, Any], block: Mapping[str, Any], *, layered: bool
) -> dict[str, Any]:
    """The block, completed by what stands beside it: base, rotary fraction, original length.

    A block for one layer type may differ from what stands outside; a block for all may not.
    """
    shared = {}
    for names in (_BASE, _FRACTION, _ORIGINAL):
        values = [part[n] for part in (block, fields) for n in names if part.get(n) is not None]
        if not layered and any(value != values[0] for value in values[1:]):
            raise ValueError(f"{names[0]} is stated with different values: {values}")
        shared[names[0]] = values[0] if values else None
    if shared["rope_theta"] is None:
        shared["rope_theta"] = _FIXED_BASE.get(fields.get("model_type"))
    return {**block, **shared}


def _rope_type(block: Mapping[str, Any]) -> str:
    names = [block[key] for key in ("rope_type", "type") if block.get(key) is not None]
    names = [_OLD_NAMES.get(name, name) if isinstance(name, str) else name for name in names]
    if not names and block.get("factor") is not None:
        raise ValueError(f"rope_type is missing beside factor {block['factor']!r}")
    rope_type = names[0] if names else "default"
    if not isinstance(rope_type, str) or rope_type not in _RULES:
        accepted = sorted({*_RULES, *_OLD_NAMES} - {"qwen"})
        raise ValueError(f"rope_type must be one of {accepted}, got {rope_type!r}")
    if names and names[-1] != rope_type:
        raise ValueError(f"rope_type is {rope_type!r}, but type is {names[-1]!r}")
    return rope_type


def _base(block: Mapping[str, Any]) -> float:
    if block["rope_theta"] is None:
        raise ValueError(
            "rope_theta is missing. If the model's code has a default (often 10000, not always), "
            "add it to the configuration; or the model has no rotary positions"
        )
    base = _number("rope_theta", block["rope_theta"])
    if base == 0:
        raise ValueError(f"rope_theta must be a finite number > 0, got {base}")
    return float(base)


def _length(fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The first of these fields that is stated, a whole number of at least 1; None if none is."""
    for name in names:
        value = fields.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
        if value > MOST_TOKENS:
            raise ValueError(f"{name} must be an integer of at most 2**53, got {value}")
        return value
    return None


def _head_dim(fields: Mapping[str, Any], layer_type: str | None) -> int:
    latent = _length(fields, ("qk_rope_head_dim",))  # DeepSeek: a rotary part beside the rest
    own = _length({"head_dim": _layer_head_dim(fields, layer_type)}, ("head_dim",))
    head_dim = latent or own or _length(fields, _HEAD_DIM)
    if head_dim is not None:
        return head_dim
    hidden, heads = _length(fields, _HIDDEN), _length(fields, _HEADS)
    if hidden is None or heads is None:
        absent = "hidden_size" if hidden is None else "num_attention_heads"
        raise ValueError(f"{absent} is missing, and so is head_dim, which would replace it")
    if hidden % heads:
        raise ValueError(
            f"hidden_size {hidden} is not a multiple of num_attention_heads {heads}, "
            "and head_dim is missing"
        )
    return hidden // heads


def _layer_head_dim(fields: Mapping[str, Any], layer_type: str | None) -> Any:
    """The head width that Gemma 4 states for one kind of layer, in either of two dialects."""
    if layer_type == "full_attention" and fields.get("global_head_dim") is not None:
        return fields["global_head_dim"]
    layer_types, layers = _layer_types(fields), fields.get("per_layer_config") or {}
    if not isinstance(layers, Mapping):
        raise ValueError(f"per_layer_config must be a dictionary or null, got {layers!r}")
    for index, overrides in layers.items():
        if not str(index).isdecimal() or not isinstance(overrides, Mapping):
            raise ValueError(
                "per_layer_config must hold a dictionary for the number of a layer, "
                f"got {index!r}: {overrides!r}"
            )
        if int(index) < len(layer_types) and layer_types[int(index)] == layer_type:
            return overrides.get("head_dim")
    return None


def _layer_types(fields: Mapping[str, Any]) -> list[Any]:
    layer_types = fields.get("layer_types") or []
    if not isinstance(layer_types, (list, tuple)):
        raise ValueError(f"layer_types must be a list or null, got {layer_types!r}")
    return list(layer_types)


def _rotary_part(
    fields: Mapping[str, Any], block: Mapping[str, Any], head_dim: int
) -> tuple[float, int]:
    """The share of the head that turns, and its width in channels."""
    if fields.get("qk_rope_head_dim") is not None:
        return 1.0, head_dim  # head_dim is the rotary part already
    fraction = block["partial_rotary_factor"]
    if fraction is not None and not 0 < _number("partial_rotary_factor", fraction) <= 1:
        raise ValueError(f"partial_rotary_factor must be > 0 and <= 1, got {fraction}")
    stated = _length(fields, ("rotary_dim",))  # GPT-J
    if stated is None and fraction is None and fields.get("model_type") in _PARTIAL:
        raise ValueError(
            f"partial_rotary_factor is missing; models of type {fields['model_type']!r} turn a "
            "part of each head"
        )
    if stated is None:
        fraction = 1.0 if fraction is None else float(fraction)
        return fraction, int(head_dim * fraction)
    if stated > head_dim:
        raise ValueError(f"rotary_dim must be at most head_dim ({head_dim}), got {stated}")
    if fraction is not None and int(head_dim * fraction) != stated:
        raise ValueError(
            f"rotary_dim is {stated}, but head_dim {head_dim} times "
            f"partial_rotary_factor {fraction} is {int(head_dim * fraction)}"
        )
    return stated / head_dim, stated
