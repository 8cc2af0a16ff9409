"""Claims of chapter 1: what attention knows about order, and what it has to be told.

A *layer* here is any function from ``(n, d)`` to ``(n, d_out)``, a row for each token. Two numbers
say what it knows about order, both zero for a layer that knows nothing:
:func:`equivariance_gap` and, after pooling, :func:`invariance_gap`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import islice, permutations

import torch

from ..attention import MultiHeadAttention
from ..encoding import PositionalEncoding
from . import FAILS, HOLDS, HOLDS_IF, Verdict

Layer = Callable[[torch.Tensor], torch.Tensor]

#: Larger than any rounding in float64 here, smaller than any effect.
TOLERANCE = 1e-9
#: Accuracies on a question with two answers: solved, and no better than tossing a coin.
SOLVED, CHANCE, MARGIN = 0.95, 0.5, 0.05


def orders_of(n: int, *, at_most: int = 120) -> list[list[int]]:
    """The orders of ``n`` tokens other than the given one, all or the last ``at_most`` of them.

    Args:
        n: number of tokens.
        at_most: the last orders in dictionary order are kept; they are those that move the most.
    """
    if n <= 7:
        return [list(order) for order in permutations(range(n))][1:][-at_most:]
    return [list(order) for order in islice(permutations(reversed(range(n))), at_most)]


def equivariance_gap(layer: Layer, x: torch.Tensor) -> float:
    """Largest entry of ``layer(P x) - P layer(x)`` over orders ``P``; 0 means equivariant.

    Args:
        layer: ``(n, d)`` to ``(n, d_out)``.
        x: ``(n, d)``.
    """
    y = layer(x)
    return max(_gap(layer(x[order]), y[order]) for order in orders_of(len(x)))


def invariance_gap(function: Layer, x: torch.Tensor) -> float:
    """Largest entry of ``function(P x) - function(x)`` over orders ``P``; 0 means invariant.

    Args:
        function: ``(n, d)`` to anything, the same shape each time.
        x: ``(n, d)``.
    """
    y = function(x)
    return max(_gap(function(x[order]), y) for order in orders_of(len(x)))


def interaction_gap(layer: Layer, x: torch.Tensor, stranger: torch.Tensor) -> float:
    """How far the *other* tokens' outputs move when one token is replaced, at most; 0 means that
    tokens do not interact.

    Args:
        layer: ``(n, d)`` to ``(n, d_out)``.
        x: ``(n, d)``.
        stranger: ``(d,)``, replaces each token in turn.
    """
    y, gaps = layer(x), []
    for replaced in range(len(x)):
        other = x.clone()
        other[replaced] = stranger
        kept = [i for i in range(len(x)) if i != replaced]
        gaps.append(_gap(layer(other)[kept], y[kept]))
    return max(gaps)


def attention_layer(
    encoding: PositionalEncoding, dim: int, num_heads: int, *, causal: bool = False
) -> Layer:
    """A layer with fixed random weights in float64 that uses an encoding, all doors included.

    Args:
        encoding: a copy of it is used, in float64.
        dim: width of the input.
        num_heads: number of heads.
        causal: whether a token sees only itself and the tokens before it.

    Returns:
        A function from ``(n, dim)`` to ``(n, dim)``. Rows are at positions ``0 … n-1``, whatever
        they contain.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = MultiHeadAttention(dim, num_heads, deepcopy(encoding), causal=causal).double()

    @torch.no_grad()
    def run(x: torch.Tensor) -> torch.Tensor:
        x = layer.encoding.add_to_input(x[None], torch.arange(len(x)))
        return layer(x)[0]

    return run


def open_doors(
    encoding: PositionalEncoding, *, dim: int, num_heads: int, n: int = 6
) -> tuple[int, ...]:
    """Which doors an encoding uses, found by sending random tensors through each of them.

    Args:
        encoding: the encoding under test. A table that is still zero opens nothing.
        dim: width of the input.
        num_heads: number of heads; each is ``dim / num_heads`` wide.
        n: number of tokens, at positions ``0 … n-1``.

    Returns:
        The doors behind which something changed, of 1 (input), 2 (score), 3 (query and key).
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, n, dim, generator=generator)
    q, k = torch.randn(2, 1, num_heads, n, dim // num_heads, generator=generator)
    positions = torch.arange(n)
    found = []
    with torch.no_grad():
        if _gap(encoding.add_to_input(x, positions), x):
            found.append(1)
        bias = encoding.score_bias(positions, positions, q=q)
        if bias is not None and bias.abs().max():
            found.append(2)
        new_q, new_k = encoding.rotate_query_key(q, k, positions, positions)
        if _gap(new_q, q) or _gap(new_k, k):
            found.append(3)
    return tuple(found)


def claim_1(layer: Layer, x: torch.Tensor) -> Verdict:
    """Claim: self-attention is permutation *invariant*: any order gives the same output.

    Args:
        layer: the attention layer under test.
        x: ``(n, d)``, float64.
    """
    same = invariance_gap(layer, x)
    along = equivariance_gap(layer, x)
    pooled = invariance_gap(lambda x: layer(x).mean(dim=0), x)
    evidence = (
        f"over all orders the output itself moves by up to {same:.2f}; compared with the reordered "
        f"output {_size(along)}; the mean over tokens moves {_size(pooled)}"
    )
    if same <= TOLERANCE:
        return Verdict(1, HOLDS, evidence)
    if along <= TOLERANCE and pooled <= TOLERANCE:
        correction = "as said: attention is equivariant, and pooling makes it invariant"
        return Verdict(1, f"{FAILS} {correction}", evidence)
    return Verdict(1, f"{FAILS}: neither invariant nor equivariant", evidence)


def claim_2(layer: Layer, masked: Layer, x: torch.Tensor, order: list[int]) -> Verdict:
    """Claim: Cat chases dog and dog chases cat get exactly the same representation.

    Args:
        layer: attention without a mask.
        masked: the same with a causal mask.
        x: ``(n, d)``, the first sentence, float64.
        order: the second sentence has the words of the first in this order.
    """
    rows = _gap(layer(x[order]), layer(x))
    words = _gap(layer(x[order]), layer(x)[order])
    pooled = _gap(layer(x[order]).mean(dim=0), layer(x).mean(dim=0))
    masked_words = _gap(masked(x[order]), masked(x)[order])
    masked_pooled = _gap(masked(x[order]).mean(dim=0), masked(x).mean(dim=0))
    evidence = (
        f"place by place the two differ by {rows:.2f}, word by word {_size(words)}, pooled "
        f"{_size(pooled)}; with a causal mask word by word by {masked_words:.2f}, pooled by "
        f"{masked_pooled:.2f}"
    )
    if rows <= TOLERANCE:
        return Verdict(2, HOLDS, evidence)
    if max(words, pooled) > TOLERANCE:
        return Verdict(2, FAILS, evidence)
    condition = "each word's vector, or a pooled vector, is meant"
    if min(masked_words, masked_pooled) > TOLERANCE:
        condition += ", and nothing is masked"
    return Verdict(2, f"{HOLDS_IF} {condition}", evidence)


def claim_3(order: Mapping[str, float], count: float, causal: float) -> Verdict:
    """Claim: Without positions a model still trains, but it is poor at tasks that need order.

    Args:
        order: accuracy on the order task, by encoding, bidirectional; the one without positions is
            called ``"none"``. Chance is 0.5.
        count: accuracy without positions on a task that does not need order.
        causal: accuracy without positions on the order task, under a causal mask.

    Raises:
        ValueError: no accuracy called ``"none"``, or no other.
    """
    if "none" not in order or len(order) < 2:
        raise ValueError(f"order needs 'none' and at least one encoding, got {sorted(order)}")
    encodings = {name: value for name, value in order.items() if name != "none"}
    solved = [name for name, value in encodings.items() if value > SOLVED]
    blind = [name for name, value in encodings.items() if abs(value - CHANCE) <= MARGIN]
    evidence = (
        f"without positions {order['none']:.2f} on order and {count:.2f} on counting; solved with "
        f"{', '.join(solved) or 'nothing'}; at chance with {', '.join(blind) or 'nothing'}; "
        f"causal, without positions {causal:.2f}"
    )
    if count <= SOLVED or abs(order["none"] - CHANCE) > MARGIN or not solved:
        return Verdict(3, FAILS, evidence)
    verdict = f"{HOLDS_IF} the model is bidirectional" if causal > SOLVED else HOLDS
    return Verdict(3, f"{verdict}; not every encoding is a cure" if blind else verdict, evidence)


def claim_4(layers: Mapping[str, Layer], x: torch.Tensor) -> Verdict:
    """Claim: Convolutions and recurrent networks carry positions implicitly.

    Args:
        layers: what is under test, by name.
        x: ``(n, d)``, float64.
    """
    gaps = {name: equivariance_gap(layer, x) for name, layer in layers.items()}
    alike = x[:1].expand_as(x)  # the same token at every place
    spread = {name: _gap(layer(alike), layer(alike)[len(x) // 2]) for name, layer in layers.items()}
    told = ", ".join(f"{name} {gap:.2f}" for name, gap in gaps.items())
    absolute = [name for name, value in spread.items() if value > TOLERANCE]
    evidence = (
        f"shuffling changes what a token gets by up to: {told}; places of identical tokens are "
        f"told apart by {', '.join(absolute) or 'none of them'}"
    )
    blind = [name for name, gap in gaps.items() if gap <= TOLERANCE]
    if blind:
        return Verdict(4, f"{FAILS} for {', '.join(blind)}", evidence)
    return Verdict(4, HOLDS, evidence)


def claim_27(encodings: Mapping[str, PositionalEncoding], *, dim: int, num_heads: int) -> Verdict:
    """Claim: Position and token embedding are added and fed into the model.

    Args:
        encodings: the encodings under test, by name.
        dim: width of the input.
        num_heads: number of heads.
    """
    doors = {
        name: open_doors(encoding, dim=dim, num_heads=num_heads)
        for name, encoding in encodings.items()
    }
    added = [name for name, found in doors.items() if found == (1,)]
    others = [
        f"{name} (door {found[0]})" for name, found in doors.items() if found and found != (1,)
    ]
    evidence = (
        f"added by {len(added)} of {len(added) + len(others)}: {', '.join(added) or 'none'}; not "
        f"added by {len(others)}: {', '.join(others) or 'none'}"
    )
    if not added:
        return Verdict(27, FAILS, evidence)
    if others:
        return Verdict(27, f"{HOLDS} for door 1 only", evidence)
    return Verdict(27, HOLDS, evidence)


def claim_31(layer: Layer, x: torch.Tensor, stranger: torch.Tensor) -> Verdict:
    """Claim: Without positions the model is a bag of words.

    Args:
        layer: attention without positions.
        x: ``(n, d)``, float64.
        stranger: ``(d,)``, a word that is not in the sentence.
    """
    order = equivariance_gap(layer, x)
    company = interaction_gap(layer, x, stranger)
    evidence = (
        f"another order moves a word's vector {_size(order)}; another word in the sentence moves "
        f"it {_size(company)}"
    )
    if order > TOLERANCE:
        return Verdict(31, FAILS, evidence)
    if company <= TOLERANCE:
        return Verdict(31, HOLDS, evidence)
    return Verdict(31, f"{HOLDS_IF} it means that order is lost; words still interact", evidence)


def claim_32(
    encodings: Mapping[str, PositionalEncoding], x: torch.Tensor, *, num_heads: int
) -> Verdict:
    """Claim: Positions must be encoded *before* attention.

    Each encoding gets an attention layer with the same random weights, and the layer is shuffled.

    Args:
        encodings: the encodings under test, by name.
        x: ``(n, dim)``, float64.
        num_heads: number of heads.
    """
    inside, before = [], []
    for name, encoding in encodings.items():
        if equivariance_gap(attention_layer(encoding, x.shape[1], num_heads), x) > TOLERANCE:
            doors = open_doors(encoding, dim=x.shape[1], num_heads=num_heads)
            (before if 1 in doors else inside).append(name)
    evidence = (
        f"order is seen with the input untouched by {len(inside)} of {len(encodings)}: "
        f"{', '.join(inside) or 'none'}; by changing the input by {len(before)}: "
        f"{', '.join(before) or 'none'}"
    )
    if inside:
        return Verdict(32, f"{FAILS}: doors 2 and 3 open inside attention", evidence)
    if before:
        return Verdict(32, HOLDS, evidence)
    return Verdict(32, f"{FAILS}: no order is seen at all", evidence)


def _gap(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a - b).abs().max().item()


def _size(gap: float) -> str:
    """A gap in words: rounding differs between machines, so its digits are not for printing."""
    return "by less than 1e-12" if gap < 1e-12 else f"by {gap:.2f}"
