"""The gap probe: positions with a gap, and a loss that tells a copier from one that cannot see."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from posenc_tutorial.gap_probe import Probe, gap_positions, gap_probe, random_copies

VOCABULARY = 50


class Copier(nn.Module):
    """Says what followed the last occurrence of the token, if that is not too far back."""

    def __init__(self, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.seen: list[torch.Tensor] = []

    def forward(self, tokens, positions):
        self.seen.append(positions)
        logits = torch.zeros(*tokens.shape, VOCABULARY)
        for row, text in enumerate(tokens):
            for i, token in enumerate(text):
                for j in range(i - 1, -1, -1):
                    if text[j] == token and positions[i] - positions[j] <= self.reach:
                        logits[row, i, text[j + 1]] = 20.0
                        break
        return logits


def distinct(length=12, sequences=2):
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randperm(VOCABULARY, generator=generator)[:length] for _ in range(sequences)]
    return torch.stack(rows).repeat(1, 2)


def test_positions_of_the_second_copy_are_moved():
    assert gap_positions(3, 0).tolist() == [0, 1, 2, 3, 4, 5]
    assert gap_positions(3, 100).tolist() == [0, 1, 2, 103, 104, 105]
    with pytest.raises(ValueError, match="length must be at least 0, got -2"):
        gap_positions(-2, 1)
    for gap in (1.5, float("nan"), 2**63):
        with pytest.raises(ValueError, match=rf"at most 2\*\*62, got {gap}"):
            gap_positions(3, gap)
    with pytest.raises(ValueError, match="gap must be at least 0, got -1"):
        gap_positions(3, -1)


def test_copies_are_the_same_every_time_and_twice_in_a_row():
    tokens = random_copies(5000, length=10, sequences=3)
    assert tokens.shape == (3, 20) and tokens.dtype == torch.int64
    assert torch.equal(tokens[:, :10], tokens[:, 10:])
    assert torch.equal(tokens, random_copies(5000, length=10, sequences=3))
    assert int(tokens.min()) >= 1000 and int(tokens.max()) < 5000
    assert not torch.equal(tokens, random_copies(5000, length=10, sequences=3, seed=1))


@pytest.mark.parametrize("options", [{"length": 1}, {"sequences": 0}, {"first": 5000}])
def test_impossible_copies_are_refused(options):
    with pytest.raises(ValueError, match="expected length >= 2"):
        random_copies(5000, **options)


def test_the_loss_falls_exactly_when_the_gap_is_within_reach():
    tokens = distinct()
    near, far = (gap_probe(Copier(reach=100), tokens, gap) for gap in (88, 89))
    blind = math.log(VOCABULARY)
    assert near.copies and not far.copies
    assert near.gap == 88 and near.second.shape == near.first.shape == (2,)
    torch.testing.assert_close(near.first, torch.full((2,), blind), rtol=0, atol=1e-5)
    torch.testing.assert_close(far.second, torch.full((2,), blind), rtol=0, atol=1e-5)
    assert float(near.second.max()) < 1e-3


def test_the_model_is_given_positions_and_not_the_last_token():
    model = Copier(reach=100)
    gap_probe(model, distinct(), 30)
    assert torch.equal(model.seen[0], gap_positions(12, 30)[:-1])


def test_the_first_token_of_the_second_copy_does_not_count():
    """Nothing announces it, so even a perfect copier cannot know it."""
    tokens = distinct()
    probe = gap_probe(Copier(reach=1000), tokens, 0)
    assert float(probe.second.max()) < 1e-3


def test_copies_needs_every_sequence():
    first = torch.tensor([10.0, 10.0])
    assert Probe(0, first, torch.tensor([4.0, 4.9])).copies
    assert not Probe(0, first, torch.tensor([1.0, 5.1])).copies


def test_an_odd_number_of_tokens_is_refused():
    with pytest.raises(ValueError, match=r"\(sequences, 2 \* length\)"):
        gap_probe(Copier(1), torch.zeros(1, 5, dtype=torch.long), 0)


@pytest.mark.parametrize("shape", [(0, 6), (2, 2), (2, 0)])
def test_what_tells_nothing_is_refused(shape):
    with pytest.raises(ValueError, match=r"length >= 2, at least one sequence, got"):
        gap_probe(Copier(1), torch.zeros(shape, dtype=torch.long), 0)


def test_tokens_may_be_narrow_integers():
    tokens = distinct()
    wide, narrow = (gap_probe(Copier(12), t, 0) for t in (tokens, tokens.int()))
    assert torch.equal(wide.second, narrow.second)
