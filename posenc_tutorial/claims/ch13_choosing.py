"""The sources' advice, checked in chapter 13: three criteria, four pitfalls, five recommendations.

[S004] names the criteria, [S001] the pitfalls and the recommendations. Most of them rest on claims
that earlier chapters have decided; here the numbers are put together again for the advice itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

from ..serving import OWN_NAMES, Program, common_rules
from . import FAILS, HOLDS, HOLDS_IF, check_verdict
from .ch09_train_short import claim_25
from .ch10_extending_context import claim_29

#: Nats per byte; smaller differences between small models are not worth a verdict.
MARGIN = 0.03
#: Nats per byte; a loss that rises by no more than this is kept on longer texts.
KEPT = 0.1
#: Nats per byte; a loss that rises by more than this has fallen apart.
SHARP = 0.5
#: What float64 may leave of a difference that should be 0.
EXACT = 1e-9


@dataclass(frozen=True)
class Advice:
    """What the book's measurements say about one piece of advice.

    Attributes:
        name: such as ``"criterion 1"``.
        verdict: begins with ``"holds"``, ``"holds if"`` or ``"does not hold"``.
        evidence: the measured numbers, in a few words.

    Raises:
        ValueError: a verdict that begins otherwise, or no evidence.
    """

    name: str
    verdict: str
    evidence: str

    def __post_init__(self) -> None:
        check_verdict(self.name, self.verdict, self.evidence)

    def __repr__(self) -> str:
        lines = f"{self.name.capitalize()}: {self.verdict}.", f"Evidence: {self.evidence}"
        return "\n".join(fill(line, 78, subsequent_indent="  ") for line in lines)


def _ends(losses: Mapping[str, Mapping[int, float]], trained: int) -> int:
    lengths = sorted(next(iter(losses.values()), {}))
    if trained not in lengths or lengths[-1] <= trained:
        raise ValueError(f"need losses at {trained} and at a longer text, got {lengths}")
    return lengths[-1]


def criterion_1(
    losses: Mapping[str, Mapping[int, float]],
    *,
    trained: int,
    table: str = "learned",
    rope: str = "RoPE",
) -> Advice:
    """Fixed, short texts: a learned table suffices. Long or growing ones: RoPE first. ([S004])

    Args:
        losses: encoding to length to loss, nats per byte, on the same bytes.
        trained: the trained length.
        table: name of the learned table.
        rope: name of RoPE, without any extension.

    Returns:
        It holds if the table is within ``MARGIN`` of the best at the trained length, and RoPE
        within it at the longest.
    """
    longest = _ends(losses, trained)
    best = {n: min(losses, key=lambda name, n=n: losses[name][n]) for n in (trained, longest)}
    near = losses[table][trained] - losses[best[trained]][trained]
    far = losses[rope][longest] - losses[best[longest]][longest]
    evidence = (
        f"at {trained} bytes a table costs {near:.2f} nats per byte more than {best[trained]}; at "
        f"{longest:,}, untouched RoPE costs {far:.2f} more than {best[longest]}"
    )
    suffices, reaches = near <= MARGIN, far <= MARGIN
    if suffices and reaches:
        return Advice("criterion 1", HOLDS, evidence)
    if not suffices and not reaches:
        said = f"{FAILS} as said for a language model, in either half"
    elif suffices:
        said = f"{HOLDS} for fixed lengths; for long texts RoPE alone is no answer"
    else:
        said = f"{HOLDS} for long texts; a table is not sufficient at its own length"
    return Advice("criterion 1", said, evidence)


def criterion_2(
    plentiful: Mapping[str, float],
    scarce: Mapping[str, float],
    *,
    fixed: str = "sinusoidal",
    learned: str = "learned",
    spread: float = 0.0,
) -> Advice:
    """Plentiful data: learned positions. Scarce data: sinusoids, which need no training. ([S004])

    Args:
        plentiful: encoding to held-out loss after training on much text, nats per byte.
        scarce: the same after training on little.
        fixed: the one that has nothing to learn.
        learned: the other one.
        spread: of the losses over seeds.

    Returns:
        The verdict of claim 25.
    """
    decided = claim_25({1: scarce, 2: plentiful}, spread=spread, fixed=fixed, learned=learned)
    gaps = ", ".join(
        f"{losses[learned] - losses[fixed]:+.2f} with {size} data"
        for size, losses in (("scarce", scarce), ("plentiful", plentiful))
    )
    return Advice("criterion 2", decided.verdict, f"{learned} minus {fixed}, nats per byte: {gaps}")


def criterion_3(programs: Sequence[Program]) -> Advice:
    """With RoPE the whole chain of tools works out of the box. ([S004])

    Args:
        programs: what each supports.

    Returns:
        It holds if all have plain RoPE and all have the same rules for longer texts.
    """
    common = common_rules(programs)
    known = {OWN_NAMES.get(rule, rule) for p in programs for rule in p.rules} - {"default"}
    scaling = [rule for rule in common if rule != "default"]
    evidence = (
        f"{sum(p.has('default') for p in programs)} of {len(programs)} programs know plain RoPE; "
        f"of {len(known)} rules for longer texts, all of them have "
        f"{' and '.join(scaling) or 'none'}"
    )
    if "default" not in common:
        return Advice("criterion 3", FAILS, evidence)
    if all(set(p.rules) == set(programs[0].rules) for p in programs):
        return Advice("criterion 3", HOLDS, evidence)
    rules = f", and with the rules {', '.join(scaling)}" if scaling else ""
    return Advice("criterion 3", f"{HOLDS_IF} RoPE is plain{rules}", evidence)


def pitfall_1(
    shuffled: Mapping[str, float],
    losses: Mapping[str, float],
    *,
    trained: int,
    nope: str = "NoPE",
) -> Advice:
    """Forgotten positions: training runs, tasks that need order fail, and nobody notices. ([S001])

    Args:
        shuffled: ``"encoder"`` and ``"decoder"``: by how much the mean output of attention without
            positions changes when its input is shuffled.
        losses: encoding to loss at the trained length, decoders.
        trained: the trained length, for the evidence.
        nope: name of the model without positions.

    Returns:
        It holds if both are blind and the loss shows it.
    """
    blind = [name for name, change in shuffled.items() if change < EXACT]
    best = min(losses, key=losses.get)
    cost = losses[nope] - losses[best]
    evidence = (
        f"shuffled input, without positions: {' and '.join(blind) or 'nobody'} cannot tell; a "
        f"decoder without positions costs {cost:.2f} nats per byte more than {best} at "
        f"{trained} bytes"
    )
    if cost <= MARGIN or not blind:
        return Advice("pitfall 1", FAILS, evidence)
    if set(blind) == set(shuffled):
        return Advice("pitfall 1", HOLDS, evidence)
    return Advice(
        "pitfall 1",
        f"{HOLDS_IF} nothing is masked; a causal decoder is worse, and not blind",
        evidence,
    )


def pitfall_2(losses: Mapping[str, float]) -> Advice:
    """RoPE needs neighbouring channels as pairs; a wrong order ruins the model. ([S001])

    Args:
        losses: of one trained model: ``"own"`` with its own pairs, ``"other"`` with the other
            layout, ``"converted"`` with the other layout and converted weights.

    Returns:
        It holds if the model fails with any pairs but its own.
    """
    worse = losses["other"] - losses["own"]
    left = losses["converted"] - losses["own"]
    evidence = (
        f"the other pairs cost {worse:.1f} nats per byte, with converted weights "
        f"{'nothing' if abs(left) < 1e-3 else f'{left:.1f}'}"
    )
    if worse <= KEPT:
        return Advice("pitfall 2", FAILS, evidence)
    if abs(left) < 1e-3:
        said = f"{HOLDS} for a trained model; either way of pairing is right if the weights fit it"
        return Advice("pitfall 2", said, evidence)
    return Advice("pitfall 2", HOLDS, evidence)


def pitfall_3(
    losses: Mapping[str, Mapping[int, float]],
    *,
    trained: int,
    table: str = "learned",
    spread: float = 0.0,
) -> Advice:
    """Texts beyond the trained length: quality falls sharply, learned tables most of all. ([S001])

    Args:
        losses: encoding to length to loss, nats per byte, on the same bytes.
        trained: the trained length.
        table: name of the learned table.
        spread: of the losses over seeds at the longest text; a lead within it is none.

    Returns:
        It holds if every encoding loses more than ``SHARP`` at the longest text, and the table
        more than all others.
    """
    longest = _ends(losses, trained)
    rises = {name: loss[longest] - loss[trained] for name, loss in losses.items()}
    order = sorted(rises, key=rises.get, reverse=True)
    lost = [name for name in order if rises[name] > SHARP]
    little = [name for name in order if SHARP >= rises[name] > KEPT]
    kept = [name for name in order if rises[name] <= KEPT]
    evidence = f"from {trained} to {longest:,} bytes the loss rises by " + ", ".join(
        f"{rises[name]:.2f} with {name}" for name in order
    )
    if not lost:
        return Advice("pitfall 3", FAILS, evidence)
    others = max((rise for name, rise in rises.items() if name != table), default=0.0)
    worst = table in lost and rises[table] > others + spread
    if worst and len(lost) == len(order):
        return Advice("pitfall 3", HOLDS, evidence)
    said = f"{HOLDS} for {' and '.join(lost)}"
    said += f"; less for {' and '.join(little)}" if little else ""
    said += f"; not for {' and '.join(kept)}" if kept else ""
    said += "" if worst else "; a table is no worse than the worst of the others"
    return Advice("pitfall 3", said, evidence)


def pitfall_4(losses: Mapping[float, tuple[float, float]], *, factor: float) -> Advice:
    """A small α does not reach far enough, a large one blurs what is near. ([S001])

    Args:
        losses: α to the loss at the trained length and at ``factor`` times it, nats.
        factor: how many times longer the long texts are.

    Returns:
        The verdict of claim 29.
    """
    best = min(losses, key=lambda alpha: losses[alpha][1])
    most = max(losses)
    price = losses[most][0] - losses[min(losses)][0]
    evidence = (
        f"at {factor:g} times the length α = {factor:g} leaves "
        f"{losses[factor][1] - losses[best][1]:.2f} nats per byte to α = {best:g}; at the trained "
        f"length α = {most:g} costs {price:.2f}"
    )
    return Advice("pitfall 4", claim_29(losses, factor=factor).verdict, evidence)


def recommendation_1(
    losses: Mapping[str, Mapping[int, float]],
    programs: Sequence[Program],
    *,
    trained: int,
    rope: str = "RoPE",
) -> Advice:
    """A new project takes RoPE by default. ([S001])

    Args:
        losses: encoding to length to loss.
        programs: what each supports.
        trained: the trained length.
        rope: name of RoPE.

    Returns:
        It holds if RoPE is within ``MARGIN`` of the best at the trained length and every program
        knows it; on condition if it then is not at the longest text.
    """
    longest = _ends(losses, trained)
    best = {n: min(losses, key=lambda name, n=n: losses[name][n]) for n in (trained, longest)}
    near = losses[rope][trained] - losses[best[trained]][trained]
    far = losses[rope][longest] - losses[best[longest]][longest]
    everywhere = all(program.has("default") for program in programs)
    others = {name: loss[trained] for name, loss in losses.items() if name != rope}
    next_best = min(others, key=others.get)
    if near > MARGIN:
        first = f"{near:.2f} nats per byte behind the best"
    elif others[next_best] - losses[rope][trained] > MARGIN:
        first = "the best"
    else:
        first = f"level with the best, {next_best}"
    evidence = (
        f"at {trained} bytes RoPE is {first}; at {longest:,} it is {far:.2f} behind "
        f"{best[longest]}; {'all' if everywhere else 'not all'} of {len(programs)} programs know it"
    )
    if near > MARGIN or not everywhere:
        return Advice("recommendation 1", FAILS, evidence)
    if far > KEPT:
        said = f"{HOLDS_IF} texts stay within the trained length, or are provided for"
        return Advice("recommendation 1", said, evidence)
    return Advice("recommendation 1", HOLDS, evidence)


def recommendation_2(
    changed: Mapping[str, float], trained_long: float, *, length: int, plain: str = "plain RoPE"
) -> Advice:
    """Train at the longest length that is expected, and rely on extension less. ([S001])

    Args:
        changed: method to the loss at ``length`` of a model trained on shorter texts, without
            further training.
        trained_long: the loss there after plain training on texts of this length.
        length: of the texts, for the evidence.
        plain: what "no method" is called.

    Returns:
        It holds if training beats every method without it.
    """
    best = min(changed, key=changed.get)
    lead = changed[best] - trained_long
    evidence = (
        f"at {length} bytes: {changed[plain]:.2f} untouched, {changed[best]:.2f} with {best}, "
        f"{trained_long:.2f} after plain training on such texts"
    )
    return Advice("recommendation 2", HOLDS if lead > MARGIN else FAILS, evidence)


def recommendation_3(
    far: Mapping[str, Mapping[float, float]],
    near: Mapping[str, float],
    *,
    named: Sequence[str] = ("NTK-aware", "YaRN"),
    plain: str = "plain RoPE",
) -> Advice:
    """To extend, use NTK-aware scaling or YaRN, and verify near the target length. ([S001])

    Args:
        far: method to factor to the loss at so many times the trained length.
        near: method to its loss at the trained length, with the largest factor.
        named: the methods that the advice names.
        plain: what "no method" is called.

    Returns:
        It holds if both beat plain RoPE at every factor, and if the order at the trained length
        would not have told the best at the target.
    """
    better = [
        name for name in named if all(far[name][s] < far[plain][s] - MARGIN for s in far[name])
    ]
    largest = max(far[plain])
    at_home = min(near, key=near.get)
    at_target = min(far, key=lambda name: far[name][largest])
    order = f"at the trained length {at_home} is best, at {largest:g} times it {at_target}"
    evidence = (
        f"better than plain RoPE at every factor: {' and '.join(better) or 'none'}; with factor "
        f"{largest:g}, {order}"
    )
    if not better:
        return Advice("recommendation 3", FAILS, evidence)
    if len(better) < len(named):
        return Advice("recommendation 3", f"{HOLDS} for {' and '.join(better)}", evidence)
    if at_home == at_target:
        said = f"{HOLDS}; here a look at the trained length would have told as much"
        return Advice("recommendation 3", said, evidence)
    return Advice("recommendation 3", HOLDS, evidence)


def recommendation_4(
    small: Mapping[int, float], large: Mapping[int, float], *, trained: int
) -> Advice:
    """The base is worth tuning; a larger one helps with long contexts. ([S001])

    Args:
        small: length to loss of the model with the small base.
        large: the same of one trained alike with the large base.
        trained: the trained length.

    Returns:
        It holds if the larger base helps at every longer length, on condition if at some.
    """
    longer = [n for n in sorted(small) if n > trained]
    gains = {n: small[n] - large[n] for n in longer}
    helps = [n for n in longer if gains[n] > MARGIN]
    evidence = "gain of the larger base, nats per byte: " + ", ".join(
        f"{gain:+.2f} at {n:,}" for n, gain in gains.items()
    )
    if helps == longer:
        return Advice("recommendation 4", HOLDS, evidence)
    if not helps:
        return Advice("recommendation 4", f"{FAILS} for a model trained on short texts", evidence)
    if helps == longer[: len(helps)]:
        times = max(helps) / trained
        said = f"{HOLDS_IF} texts are no more than {times:g} times the trained length"
        return Advice("recommendation 4", said, evidence)
    return Advice(
        "recommendation 4", f"{HOLDS_IF} texts have {' or '.join(map(str, helps))} bytes", evidence
    )


def recommendation_5(
    before: Mapping[str, float],
    after: Mapping[str, float],
    *,
    length: int,
    plain: str = "plain RoPE",
) -> Advice:
    """Scaling may be used in the fine-tuning phase. ([S001])

    Args:
        before: method to the loss at ``length`` before fine-tuning on such texts.
        after: the same afterwards.
        length: of the texts, for the evidence.
        plain: what "no method" is called.

    Returns:
        It holds if fine-tuning with a method ends lower than without one; if the two end alike,
        scaling works and is not needed.
    """
    scaled = {name: loss for name, loss in after.items() if name != plain}
    best, worst = min(scaled, key=scaled.get), max(scaled, key=scaled.get)
    gap = after[plain] - scaled[best]
    evidence = (
        f"at {length} bytes, before and after fine-tuning: {plain} {before[plain]:.2f} and "
        f"{after[plain]:.2f}, {best} {before[best]:.2f} and {after[best]:.2f}, {worst} "
        f"{before[worst]:.2f} and {after[worst]:.2f}"
    )
    if gap > MARGIN:
        return Advice("recommendation 5", HOLDS, evidence)
    if gap >= -MARGIN:
        said = f"{HOLDS}; here fine-tuning without scaling ends nearly as low"
        return Advice("recommendation 5", said, evidence)
    return Advice("recommendation 5", FAILS, evidence)
