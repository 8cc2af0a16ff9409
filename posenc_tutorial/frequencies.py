"""Frequencies, wavelengths and angles: what sinusoidal encodings and RoPE have in common.

Both read a position ``p`` as a row of clocks. Clock ``i`` turns by ``inv_freq[i]`` radians per
token, so at position ``p`` its hand stands at the angle ``p * inv_freq[i]``. Everything up to
the angle is computed in float64 on the CPU, because a float32 angle at position 2**20 is wrong
by two hundredths of a radian; only its cosine and sine are rounded.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

_INTEGER_DTYPES = ("uint8", "uint16", "uint32", "int8", "int16", "int32", "int64")
_FLOAT_DTYPES = ("float32", "float64")


def check_even_dim(dim: int, name: str = "dim") -> None:
    """Raise unless ``dim`` is an even integer of at least 2, since channels come in pairs."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"{name} must be an even integer >= 2, got {dim!r}")
    if dim < 2 or dim % 2:
        raise ValueError(f"{name} must be an even integer >= 2, got {dim}")


def check_count(value: int, name: str, *, at_least: int = 1) -> None:
    """Raise unless ``value`` is an integer of ``at_least`` (one of NumPy's will do as well)."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer >= {at_least}, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be an integer >= {at_least}, got {value}")


def check_base(base: float) -> None:
    """Raise unless ``base`` is a finite number above 0."""
    if isinstance(base, bool) or not isinstance(base, (int, float)):
        raise TypeError(f"base must be a finite number > 0, got {base!r}")
    if not 0 < base <= sys.float_info.max:  # also false for nan, and an integer beyond float64
        raise ValueError(f"base must be a finite number > 0, got {base}")


def scalar_position(position: float, name: str) -> torch.Tensor:
    """One position, given as a number, as a float64 tensor without axes."""
    if isinstance(position, torch.Tensor):
        position = position.detach()
    try:
        position = torch.as_tensor(position, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise TypeError(f"{name} must be a number, got {position!r}") from error
    if position.dim():
        raise ValueError(f"{name} must be one number, got shape {tuple(position.shape)}")
    return position


def as_positions(positions: torch.Tensor, name: str = "positions") -> torch.Tensor:
    """Check that a tensor can serve as positions, and return it unchanged.

    Args:
        positions: any shape; an integer dtype, or float32 or float64 for fractional positions
            (diffusion time steps, interpolated positions).
        name: what error messages call it.

    Raises:
        TypeError: not a tensor, or a dtype that cannot hold positions. Half precision is
            refused: bfloat16 cannot tell token 256 from 257, float16 cannot tell 2048 from 2049.
        ValueError: a position that is nan or infinite.
    """
    if not isinstance(positions, torch.Tensor):
        raise TypeError(
            f"{name} must be a tensor of integers (for example torch.arange(n)), "
            f"got {type(positions).__name__}"
        )
    dtype = str(positions.dtype).removeprefix("torch.")
    if dtype not in _INTEGER_DTYPES + _FLOAT_DTYPES:
        raise TypeError(
            f"{name} must be integers of at most 64 bits with a sign, float32 or float64, got "
            f"{dtype} (half precision cannot count tokens: bfloat16 stops at 256, float16 at 2048)"
        )
    fractional = dtype in _FLOAT_DTYPES and not positions.is_meta  # where nothing has a value
    if fractional and not bool(torch.isfinite(positions).all()):
        raise ValueError(f"{name} must be finite, got nan or inf")
    return positions


def token_positions(
    positions: torch.Tensor, batch: int, n: int, name: str = "positions"
) -> torch.Tensor:
    """Check the positions of ``n`` tokens, one row for the whole batch or one row each.

    Returns:
        ``(n,)`` or ``(batch, n)``; int64, or float32/float64 if they were.

    Raises:
        TypeError: a dtype that cannot hold positions, see :func:`as_positions`.
        ValueError: another shape, or a position that is not finite.
    """
    positions = as_positions(positions, name)
    if tuple(positions.shape) not in ((n,), (batch, n)):
        raise ValueError(
            f"{name} must have shape ({n},) or ({batch}, {n}), got {tuple(positions.shape)}"
        )
    return positions if positions.is_floating_point() else positions.long()


def inverse_frequencies(dim: int, base: float = 10000.0) -> torch.Tensor:
    """Angular speed of every channel pair: ``base ** (-2 i / dim)`` radians per token.

    Pair 0 turns by one radian per token; each further pair is slower by the same ratio
    ``base ** (-2 / dim)``. Source: Vaswani et al. 2017, section 3.5; Su et al. 2021, eq. 15.

    Args:
        dim: number of channels, even. For rotary encodings the *rotated* width, which can be
            smaller than the head.
        base: the ratio between the slowest and the fastest wavelength, nearly.

    Returns:
        ``(dim/2,)``, float64, on the CPU, strictly decreasing for ``base > 1``.

    Raises:
        TypeError: ``dim`` is not an integer or ``base`` is not a number.
        ValueError: ``dim`` is odd or below 2; ``base`` is not a finite number above 0.
    """
    check_even_dim(dim)
    check_base(base)
    # The loop index already counts pairs. Doubling it once more is the commonest slip there is.
    pair = torch.arange(dim // 2, dtype=torch.float64, device="cpu")
    return float(base) ** (-2.0 * pair / dim)


def wavelengths(inv_freq: torch.Tensor) -> torch.Tensor:
    """Tokens per full turn of each pair: ``2 pi / inv_freq``. A pair at rest has ``inf``.

    Args:
        inv_freq: ``(pairs,)``, radians per token, not negative.

    Returns:
        ``(pairs,)``, tokens, float64, on the CPU.

    Raises:
        ValueError: ``inv_freq`` is not one-dimensional, or holds a negative or non-finite value.
    """
    return 2 * math.pi / _checked_inv_freq(inv_freq)


def angles(positions: torch.Tensor, inv_freq: torch.Tensor) -> torch.Tensor:
    """Angle of every clock hand at every position: ``positions[..., None] * inv_freq``.

    Args:
        positions: any shape, integers (or float32/float64), any device.
        inv_freq: ``(pairs,)``, radians per token. No gradient flows to it.

    Returns:
        ``(*positions.shape, pairs)``, radians, float64, on the CPU (of meta positions, on the meta
        device). Nothing is reduced modulo 2 pi: float64 keeps about ten decimal places at position
        2**20.

    Raises:
        TypeError: positions of a dtype that cannot count tokens.
        ValueError: non-finite positions, or frequencies that are negative or not finite.
    """
    positions = as_positions(positions)
    inv_freq = _checked_inv_freq(inv_freq)
    # An element-wise product, not a matmul: autocast would run a matmul in half precision.
    device = "meta" if positions.is_meta else "cpu"
    return positions.to(device=device, dtype=torch.float64)[..., None] * inv_freq.to(device)


def _checked_inv_freq(inv_freq: torch.Tensor) -> torch.Tensor:
    if not isinstance(inv_freq, torch.Tensor):
        raise TypeError(f"inv_freq must be a tensor, got {type(inv_freq).__name__}")
    if inv_freq.dim() != 1 or inv_freq.numel() == 0:
        raise ValueError(f"inv_freq must have shape (pairs,), got {tuple(inv_freq.shape)}")
    inv_freq = inv_freq.detach().to(device="cpu", dtype=torch.float64)
    if torch.compiler.is_compiling():  # where numbers have no values; they were checked before
        return inv_freq
    wrong = ~(torch.isfinite(inv_freq) & (inv_freq >= 0))
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        raise ValueError(f"inv_freq[{at}] is {float(inv_freq[at])}; it must be finite and >= 0")
    return inv_freq


@dataclass(frozen=True, eq=False)
class RopeParameters:
    """All that a rotary encoding needs to know: how fast each pair turns, and a magnitude.

    Attributes:
        inv_freq: ``(rotary_dim/2,)``, radians per token; a copy, kept as float64 on the CPU. It is
            fixed: no gradient flows to the tensor that was given.
        attention_factor: multiplies cosine and sine, so attention scores are multiplied by its
            square (YaRN's temperature, Peng et al. 2023, section 3.4). 1 for plain RoPE.

    Raises:
        TypeError: ``inv_freq`` is not a tensor or ``attention_factor`` not a number.
        ValueError: a frequency that is negative or not finite, or a factor that is not a finite
            number above 0.
    """

    inv_freq: torch.Tensor
    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        # A copy: a table grown later must not follow changes to the caller's tensor.
        object.__setattr__(self, "inv_freq", _checked_inv_freq(self.inv_freq).clone())
        factor = self.attention_factor
        if isinstance(factor, bool) or not isinstance(factor, (int, float)):
            raise TypeError(f"attention_factor must be a finite number > 0, got {factor!r}")
        if not 0 < factor <= sys.float_info.max:
            raise ValueError(f"attention_factor must be a finite number > 0, got {factor}")
        object.__setattr__(self, "attention_factor", float(factor))

    @property
    def rotary_dim(self) -> int:
        """Number of channels that turn, two per pair."""
        return 2 * self.inv_freq.numel()


class PositionTable(nn.Module):
    """Rows of a position table, computed in float64, stored in float32, looked up by position.

    Sinusoidal and rotary encodings keep their cosines and sines here. The table is not a
    parameter and is not saved. It is rebuilt whenever the module is moved, cast or materialised
    (``to``, ``bfloat16``, ``to_empty`` after initialisation on the meta device), so none of these
    can change an angle. It grows as a text grows past its end; a single position far beyond the end
    is computed directly, so that one token at position 2**20 does not fill the memory.

    Args:
        build: positions ``(n,)`` to rows ``(n, width)``, float32, on the CPU.
        num_rows: positions ``0 … num_rows - 1`` are tabulated at first.
    """

    def __init__(self, build: Callable[[torch.Tensor], torch.Tensor], num_rows: int = 2048) -> None:
        super().__init__()
        self._build = build
        rows = build(torch.arange(num_rows, device="cpu"))
        # On the meta device there is no memory to fill; `_apply` fills it once there is.
        self.register_buffer("rows", rows.to(torch.empty(0).device), persistent=False)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self._fill(self.rows.shape[0], self.rows.device)
        return self

    def _fill(self, num_rows: int, device: torch.device) -> None:
        self.rows = self._build(torch.arange(num_rows, device="cpu")).to(device)

    def reserve(self, num_rows: int) -> None:
        """Make sure that positions ``0 … num_rows - 1`` are tabulated."""
        if num_rows > self.rows.shape[0]:
            # Doubling keeps the number of rebuilds small when a text grows token by token.
            self._fill(max(num_rows, 2 * self.rows.shape[0]), self.rows.device)

    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        """Rows of the given positions.

        Args:
            positions: any shape, integers. Outside a compiled region the table grows as needed,
                and negative, fractional and far-off positions are computed directly. Inside one,
                positions must lie in the table: call :meth:`reserve` beforehand.

        Returns:
            ``(*positions.shape, width)``, float32, on the positions' device.

        Raises:
            RuntimeError: inside a compiled region, a position outside the table.
            TypeError: a dtype that cannot hold positions, or fractional positions inside a
                compiled region.
        """
        if self.rows.is_meta and not positions.is_meta:
            # Weights came by load_state_dict(assign=True), which knows nothing of this table.
            self._fill(self.rows.shape[0], positions.device)
        if torch.compiler.is_compiling():
            if positions.is_floating_point():
                raise TypeError(f"a compiled region needs integer positions, got {positions.dtype}")
            inside = (positions >= 0) & (positions < self.rows.shape[0])
            torch._assert_async(
                inside.all(),
                "a position lies outside the table: call reserve(n) before the compiled region",
            )
            return self.rows[positions.long()]
        positions = as_positions(positions)
        if positions.is_meta:  # shapes only
            return self._build(positions)
        if positions.numel() == 0:
            return self.rows.new_empty(*positions.shape, self.rows.shape[1])
        if not positions.is_floating_point():
            positions = positions.long()  # unsigned and narrow integers count like any other
        if positions.is_floating_point() or int(positions.min()) < 0:
            return self._build(positions).to(positions.device)
        end, num_rows = int(positions.max()) + 1, self.rows.shape[0]
        if end > max(2 * num_rows, 2 * positions.numel()):
            return self._build(positions).to(positions.device)
        self.reserve(end)
        return self.rows.to(positions.device)[positions]
