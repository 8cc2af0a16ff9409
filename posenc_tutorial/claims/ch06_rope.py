"""Claims decided in chapter 06: numbers 11, 12, 23 and 33."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch

from ..attention import attention
from ..encoding import PositionalEncoding
from . import FAILS, HOLDS, Verdict

#: ``turn(x, positions)``: the rotation under test, ``(n, dim)`` and ``(n,)`` to ``(n, dim)``.
Turn = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

#: What float64 may leave of a difference that should be 0.
EXACT = 1e-12
#: A score that moves by so much is another score; scores are about 1 here.
BROKEN = 0.1


def _normal(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator(device="cpu").manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64, device="cpu")


def offset_spread(
    turn: Turn, *, dim: int = 64, length: int = 256, start: int = 0, device=None
) -> float:
    """How much the scores of equal offset differ: 0 if they depend on the offset alone.

    One query and one key stand at every position, so whatever differs is due to the positions.

    Args:
        turn: applied to queries and keys.
        dim: channels of the head.
        length: number of positions; all ``2 * length - 1`` offsets occur.
        start: the first position.
        device: where the vectors are.

    Returns:
        The largest difference between two scores ``q k / sqrt(dim)`` of one offset.
    """
    positions = torch.arange(start, start + length, device=device)
    q, k = (row.expand(length, dim).to(device) for row in _normal(0, 2, 1, dim))
    q, k = turn(q, positions), turn(k, positions)
    scores = q.double() @ k.double().T / math.sqrt(dim)
    offset = (positions[None, :] - positions[:, None] + length - 1).flatten()
    edges = []
    for reduce in ("amax", "amin"):
        empty = torch.zeros(2 * length - 1, dtype=scores.dtype, device=scores.device)
        edges.append(empty.scatter_reduce(0, offset, scores.flatten(), reduce, include_self=False))
    return float((edges[0] - edges[1]).max())


def claim_11(
    exact: Mapping[str, Turn],
    rounded: Mapping[str, Turn] | None = None,
    *,
    dim: int = 64,
    length: int = 256,
    device=None,
) -> Verdict:
    """Claim: the product of R(m) q and R(n) k depends on n - m alone. ([S001], [S004])

    Args:
        exact: rotations in float64, by name.
        rounded: rotations in lower precision, by name.
        dim: channels of the head.
        length: number of positions.
        device: where the vectors are.

    Returns:
        Verdict 11. It holds if the scores of one offset are equal for every rotation in ``exact``;
        which of the others break it is said beside.

    Raises:
        ValueError: nothing to judge.
    """
    if not exact:
        raise ValueError("give at least one rotation in float64")
    sizes = {"dim": dim, "length": length, "device": device}
    wrong = [name for name, turn in exact.items() if offset_spread(turn, **sizes) > EXACT]
    spread = {name: offset_spread(turn, **sizes) for name, turn in (rounded or {}).items()}
    broken = [name for name, value in spread.items() if value > BROKEN]
    blurred = [name for name, value in spread.items() if value <= BROKEN]
    evidence = (
        f"{2 * length - 1} offsets among {length} positions, in float64: scores of one offset "
        f"differ by {'more' if wrong else 'less'} than 1e-12 ({', '.join(wrong or exact)})"
    )
    if blurred:
        evidence += f"; by at most {BROKEN:g} with {', '.join(blurred)}"
    if broken:
        evidence += f"; by more than {BROKEN:g} with {', '.join(broken)}"
    if wrong:
        return Verdict(11, f"{FAILS} for {', '.join(wrong)}", evidence)
    if broken:
        return Verdict(11, f"{HOLDS} exactly, and breaks with {', '.join(broken)}", evidence)
    return Verdict(11, f"{HOLDS} exactly", evidence)


def claim_12(
    turn: Turn,
    turn_key: Turn | None = None,
    *,
    dim: int = 64,
    near: int = 1,
    far: int = 1024,
    draws: int = 1000,
    built: Sequence[int] = (10, 100, 1000),
    device=None,
) -> Verdict:
    """Claim: attention decays with distance; far tokens become near-orthogonal. ([S001])

    Three measurements: the mean score over random ``q = k``; the spread of the scores of
    independent random ``q`` and ``k``; and a query that is built to prefer one distance, which is
    the key turned back by it.

    Args:
        turn: applied to queries.
        turn_key: applied to keys, for negative positions too; default: the same. xPos treats the
            two differently.
        dim: channels of the head.
        near: distance in tokens.
        far: distance in tokens, much larger.
        draws: number of random queries and keys.
        built: distances to build a query for.
        device: where the vectors are.

    Returns:
        Verdict 12. It holds if everything falls: the mean, the spread, and the largest score that
        a query can reach far away. It does not hold if a query can prefer any distance.

    Raises:
        ValueError: ``far`` is not larger than ``near``.
    """
    if far <= near:
        raise ValueError(f"far must be larger than near, got {far} and {near}")
    turn_key = turn_key or turn
    q, k = (part.to(device) for part in _normal(1, 2, draws, dim))

    def scores(q: torch.Tensor, k: torch.Tensor, distance: int) -> torch.Tensor:
        """The key stands ``distance`` before the query, which is at ``far``."""
        here = torch.full((len(q),), far, device=q.device)
        return (turn(q, here) * turn_key(k, here - distance)).sum(-1)

    same = {at: float(scores(q, q, at).mean()) for at in (near, far)}
    spread = {at: float(scores(q, k, at).std()) for at in (near, far)}
    mean_falls = abs(same[far]) < 0.5 * same[near]
    spread_falls = spread[far] < 0.8 * spread[near]

    # One token after another back from a query at the largest of the distances.
    last = max(built)
    back = torch.arange(2 * last + 1, device=q.device)
    key = k[:1]
    keys = turn_key(key.expand(len(back), dim), 2 * last - back)
    found = []
    for distance in built:
        query = turn_key(key, torch.tensor([-distance], device=q.device))
        by_distance = keys @ turn(query, torch.tensor([2 * last], device=q.device))[0]
        found.append(int(by_distance.argmax()))
    anywhere = found == list(built)
    evidence = (
        f"from distance {near} to {far:,}, the mean over q = k "
        f"{'falls to less than half' if mean_falls else 'does not fall to half'} and the spread "
        f"over random q and k {'falls' if spread_falls else 'stays'}; queries built for distances "
        f"{', '.join(map(str, built))} are largest at {', '.join(map(str, found))}"
    )
    if mean_falls and spread_falls and not anywhere:
        return Verdict(12, HOLDS, evidence)
    if mean_falls and not spread_falls and anywhere:
        return Verdict(12, f"{FAILS} in general: only the average over q = k falls", evidence)
    if not mean_falls:
        return Verdict(12, f"{FAILS}: not even the average falls", evidence)
    return Verdict(12, f"{FAILS} in general", evidence)


def moved_output(
    turn: Turn, *, values: str, shift: int, dim: int = 16, length: int = 12, device=None
) -> torch.Tensor:
    """The output of one causal head for a random text that begins at position ``shift``.

    Args:
        turn: applied to queries and keys.
        values: ``"still"``, ``"turned"`` like keys, or ``"turned and back"``: turned like keys,
            and the output turned back by the position of the query.
        shift: position of the first token.
        dim: channels of the head.
        length: number of tokens.
        device: where the vectors are.

    Returns:
        ``(length, dim)``, float64.

    Raises:
        ValueError: an unknown word for ``values``.
    """
    if values not in ("still", "turned", "turned and back"):
        raise ValueError(f"values must be still, turned, or turned and back, got {values!r}")
    positions = torch.arange(shift, shift + length, device=device)
    q, k, v = (part.to(device) for part in _normal(2, 3, length, dim))
    q, k = turn(q, positions), turn(k, positions)
    if values != "still":
        v = turn(v, positions)
    out = attention(q[None, None], k[None, None], v[None, None], causal=True)[0, 0]
    return turn(out, -positions) if values == "turned and back" else out


def claim_23(turn: Turn, *, shift: int = 100, device=None) -> Verdict:
    """Claim: only queries and keys are turned, values are not; they need no position. ([S004])

    A text is moved by ``shift`` tokens, and the output of a head is compared.

    Args:
        turn: applied to queries and keys, for negative positions too.
        shift: how far the text is moved.
        device: where the vectors are.

    Returns:
        Verdict 23. It holds if the output stays with still values and moves with turned ones.
    """
    moves = {}
    for values in ("still", "turned", "turned and back"):
        here, there = (
            moved_output(turn, values=values, shift=s, device=device) for s in (0, shift)
        )
        moves[values] = float((here - there).norm() / here.norm())
    words = ", ".join(
        f"{'less than 1e-12' if moved < EXACT else f'{100 * moved:.0f} %'} with values {values}"
        for values, moved in moves.items()
    )
    evidence = f"a text moved by {shift} tokens changes the output of a head by {words}"
    if moves["still"] > EXACT:
        return Verdict(23, f"{FAILS}: the output moves although values are still", evidence)
    if moves["turned"] < EXACT:
        return Verdict(23, f"{FAILS}: values may be turned as well", evidence)
    back = "; turned values must be turned back" if moves["turned and back"] < EXACT else ""
    return Verdict(23, HOLDS + back, evidence)


def claim_33(
    encodings: Mapping[str, PositionalEncoding],
    of: str,
    *,
    dim: int,
    num_heads: int,
    length: int = 24,
) -> Verdict:
    """Claim: RoPE keeps attention's parallelism, since every position is turned by itself. ([S004])

    Parallel means that nothing has to wait for a neighbour: what an encoding does to every third
    token of a text is the same if it is given these tokens alone.

    Args:
        encodings: the encodings under test, by name.
        of: name of the one that the claim is about.
        dim: width of the input.
        num_heads: number of heads.
        length: number of tokens.

    Returns:
        Verdict 33. It holds if ``of`` is parallel; whether the others are is said beside.

    Raises:
        ValueError: ``of`` is not among them.
    """
    if of not in encodings:
        raise ValueError(f"{of!r} is not one of {', '.join(encodings)}")
    parallel = [
        name for name, e in encodings.items() if _parallel(e, dim // num_heads, num_heads, length)
    ]
    others = [name for name in parallel if name != of]
    waiting = [name for name in encodings if name not in parallel]
    evidence = (
        f"tokens encoded alone come out as in the whole text with {len(parallel)} of "
        f"{len(encodings)}: {', '.join(parallel) or 'none'}"
    )
    if waiting:
        evidence += f"; not so: {', '.join(waiting)}"
    if of not in parallel:
        return Verdict(33, f"{FAILS}: tokens wait for each other", evidence)
    if others:
        return Verdict(33, f"{HOLDS}, but sets nothing apart", evidence)
    return Verdict(33, f"{HOLDS}, and sets {of} apart", evidence)


@torch.no_grad()
def _parallel(encoding: PositionalEncoding, head_dim: int, num_heads: int, length: int) -> bool:
    some, positions = torch.arange(0, length, 3), torch.arange(length)
    x = _normal(3, 1, length, num_heads * head_dim).float()
    q, k = _normal(4, 2, 1, num_heads, length, head_dim).float()
    few = positions[some]
    whole, alone = encoding.add_to_input(x, positions), encoding.add_to_input(x[:, some], few)
    pairs = [(whole[:, some], alone)]
    turned = encoding.rotate_query_key(q, k, positions, positions)
    turned_alone = encoding.rotate_query_key(q[:, :, some], k[:, :, some], few, few)
    pairs += [(a[:, :, some], b) for a, b in zip(turned, turned_alone, strict=True)]
    bias = encoding.score_bias(positions, positions, q=q)
    if bias is not None:
        bias_alone = encoding.score_bias(few, few, q=q[:, :, some])
        pairs.append((bias[..., some, :][..., some], bias_alone))
    return all(torch.allclose(a, b, atol=1e-6) for a, b in pairs)
