"""What a configuration means for each pair of channels, and what looks wrong in it."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..context_extension import longrope_attention_factor, yarn_attention_factor
from ..frequencies import RopeParameters, inverse_frequencies, wavelengths
from . import RopeConfig, read_rope_config

# What each rule reads from its block, beside rope_type, the base, the width and the lengths.
_READ = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "alpha"),
    "qwen": (),
    "yarn": (
        *("factor", "beta_fast", "beta_slow", "attention_factor"),
        *("mscale", "mscale_all_dim", "truncate"),
    ),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": (
        *("factor", "short_factor", "long_factor", "attention_factor"),
        *("short_mscale", "long_mscale"),
    ),
    "proportional": ("factor",),
}
_EVERYWHERE = (
    *("rope_type", "type", "rope_theta", "rotary_emb_base"),
    *("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction"),
    *("original_max_position_embeddings", "max_position_embeddings"),
)


@dataclass(frozen=True)
class Report:
    """A configuration, worked out pair by pair.

    Attributes:
        config: what the file says.
        parameters: frequencies and attention factor.
        plain: ``(pairs,)``, wavelengths without the rule, tokens.
        scaled: ``(pairs,)``, wavelengths with it, tokens; infinite for a pair at rest.
        trained: tokens of the texts before the extension, or None if the file does not say it.
        extended: tokens of the texts the model is meant for, or None if there is no extension.
        notes: what looks wrong, one sentence each.
    """

    config: RopeConfig
    parameters: RopeParameters
    plain: torch.Tensor
    scaled: torch.Tensor
    trained: int | None
    extended: int | None
    notes: tuple[str, ...]

    @property
    def slowed(self) -> torch.Tensor:
        """``(pairs,)``: by how much each pair is slowed; 1 for a pair that is left alone."""
        return self.scaled / self.plain

    def turning(self, tokens: int) -> int:
        """Pairs that complete at least one turn within so many tokens."""
        return int((self.scaled <= float(tokens)).sum())


def report(
    config: Mapping[str, Any] | str | Path | object,
    *,
    layer_type: str | None = None,
    seq_len: int | None = None,
) -> Report:
    """Work out a configuration, and collect what looks wrong in it.

    Args:
        config: as for :func:`~posenc_tutorial.hf_config.rope_parameters_from_config`.
        layer_type: as there.
        seq_len: as there; by default, for rules that depend on the length, the longest text that
            the model is meant for.

    Returns:
        The report. Its notes are about: warnings of the reader (a factor that disagrees with the
        lengths); a missing original length where the rule does without; an attention factor that
        is not the rule's own; lengths that do not show the extension; fields that nothing reads.

    Raises:
        FileNotFoundError: as :func:`~posenc_tutorial.hf_config.rope_parameters_from_config`.
        TypeError: as there.
        ValueError: as there: a missing base, an unknown rope type, a missing original length
            where the rule needs it, …
    """
    read = read_rope_config(config, layer_type=layer_type)
    trained, extended = _lengths(read)
    if seq_len is None and read.rope_type in ("dynamic", "longrope", "qwen"):
        seq_len = extended
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parameters = read.parameters(seq_len)
    notes = [str(warning.message) for warning in caught]
    notes += _doubts(read, parameters, trained, extended)
    return Report(
        config=read,
        parameters=parameters,
        plain=wavelengths(inverse_frequencies(read.rotary_dim, read.base)),
        scaled=wavelengths(parameters.inv_freq),
        trained=trained,
        extended=extended,
        notes=tuple(notes),
    )


def _lengths(read: RopeConfig) -> tuple[int | None, int | None]:
    """Trained and extended length, as far as the file settles them."""
    original, most, factor = (
        read.original_max_positions,
        read.max_positions,
        read.block.get("factor"),
    )
    # What is no factor at all is refused where the rule is worked out, soon after this.
    known = isinstance(factor, (int, float)) and factor >= 1
    if known and factor * max(original or 1, most or 1) <= sys.float_info.max:
        stretch = factor
    else:
        stretch = None
    if read.rope_type in ("default", "proportional"):
        return most, None
    if read.rope_type == "dynamic":  # it starts from the maximum and has no end of its own
        return most, None if most is None or stretch is None else int(stretch * most)
    if read.rope_type == "qwen":
        return original, None if most in (None, original) else most
    if original is None:  # linear: the maximum may be meant before or after the division
        return None, most
    if most in (None, original) and stretch is not None:
        return original, int(stretch * original)
    return original, most


def _doubts(
    read: RopeConfig, parameters: RopeParameters, trained: int | None, extended: int | None
) -> list[str]:
    found = []
    kind, block = read.rope_type, read.block
    if kind == "linear" and read.original_max_positions is None and read.max_positions:
        found.append(
            "original_max_position_embeddings is missing: whether max_position_embeddings "
            f"({read.max_positions}) counts before or after the division by "
            f"{block['factor']:g} cannot be told from the file"
        )
    if kind in ("yarn", "llama3", "longrope") and read.max_positions == trained and extended:
        if block.get("factor", 1) > 1:
            found.append(
                f"max_position_embeddings is still the original {trained}: programs that take it "
                f"as a limit will stop there, not at {extended}"
            )
    usual = _usual_magnitude(read, trained, extended)
    if usual is not None and not math.isclose(parameters.attention_factor, usual, rel_tol=0.01):
        found.append(
            f"the attention factor is stated as {parameters.attention_factor:g}; "
            f"the rule itself gives {usual:.4f}, and scores grow by the square"
        )
    known = {*_EVERYWHERE, *_READ[kind]}
    unread = sorted(name for name in block if name not in known and block[name] is not None)
    if unread:
        found.append(f"not read by rope type {kind!r}: {', '.join(unread)}")
    return found


def _usual_magnitude(read: RopeConfig, trained: int | None, extended: int | None) -> float | None:
    """The attention factor without the field that states it; None for rules that have none."""
    block = read.block
    if read.rope_type == "yarn" and block.get("mscale") is None:
        return yarn_attention_factor(block["factor"])
    if read.rope_type == "longrope" and trained and extended and block.get("long_mscale") is None:
        return longrope_attention_factor(extended / trained, trained)
    return None
