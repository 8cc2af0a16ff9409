"""The order task: labels are right, blind models stay at one half, seeing ones do not."""

import pytest
import torch

from posenc_tutorial import ALiBi, LearnedEncoding, NoPE, RotaryEmbedding, SinusoidalEncoding
from posenc_tutorial.order_task import (
    VOCABULARY,
    A,
    B,
    OrderClassifier,
    accuracy,
    count_batch,
    order_batch,
    train,
    with_mirror_images,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_order_batch_has_one_a_and_one_b_and_says_which_is_first():
    tokens, labels = order_batch(500, length=9, generator=generator())
    assert tokens.shape == (500, 9) and labels.shape == (500,)
    assert tokens.min() >= 0 and tokens.max() < VOCABULARY
    for row, label in zip(tokens.tolist(), labels.tolist(), strict=True):
        assert row.count(A) == row.count(B) == 1
        assert label == (row.index(A) < row.index(B))
    assert 0.4 < labels.double().mean() < 0.6
    assert {row.index(A) for row in tokens.tolist()} == set(range(9))


def test_shortest_order_sequence():
    tokens, _ = order_batch(20, length=2, generator=generator())
    assert set(map(tuple, tokens.tolist())) == {(A, B), (B, A)}


def test_count_batch_counts_and_never_ties():
    tokens, labels = count_batch(500, length=9, generator=generator())
    seen = set()
    for row, label in zip(tokens.tolist(), labels.tolist(), strict=True):
        more, fewer = (A, B) if label else (B, A)
        assert 1 <= row.count(fewer) < row.count(more) <= 4
        seen.add((row.count(more), row.count(fewer)))
    assert seen == {(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3)}
    assert 0.4 < labels.double().mean() < 0.6


@pytest.mark.parametrize("sample", [order_batch, count_batch])
def test_batches_depend_on_the_generator_alone(sample):
    torch.manual_seed(1)
    first = sample(8, generator=generator(3))
    torch.manual_seed(2)
    second = sample(8, generator=generator(3))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(sample(8, generator=generator(4))[0], first[0])


@pytest.mark.parametrize("sample, shortest", [(order_batch, 2), (count_batch, 7)])
def test_sizes_that_make_no_sense_are_named(sample, shortest):
    with pytest.raises(ValueError, match=f"length must be >= {shortest}.*got {shortest - 1}"):
        sample(4, length=shortest - 1, generator=generator())
    with pytest.raises(ValueError, match="n_sequences must be >= 1, got 0"):
        sample(0, generator=generator())
    assert sample(1, length=shortest, generator=generator())[0].shape == (1, shortest)


def test_mirror_images_have_the_other_answer():
    tokens, labels = with_mirror_images(*order_batch(50, generator=generator()))
    assert tokens.shape == (100, 12)
    assert torch.equal(tokens[50:].flip(1), tokens[:50])
    first_a = (tokens == A).long().argmax(dim=1)
    first_b = (tokens == B).long().argmax(dim=1)
    assert torch.equal(labels, (first_a < first_b).long())


def answers(encoding, tokens, causal=False):
    torch.manual_seed(0)
    with torch.no_grad():
        return OrderClassifier(encoding, causal=causal).double()(tokens)


def test_without_positions_any_order_has_the_same_answer():
    tokens, _ = order_batch(16, generator=generator())
    shuffled = tokens[:, torch.randperm(12, generator=generator())]
    assert (answers(NoPE(), tokens) - answers(NoPE(), shuffled)).abs().max() < 1e-12
    assert (answers(NoPE(), tokens, True) - answers(NoPE(), shuffled, True)).abs().max() > 1e-3


def test_symmetric_bias_is_blind_to_mirroring_and_to_nothing_more():
    tokens, _ = order_batch(16, generator=generator())
    shuffled = tokens[:, torch.randperm(12, generator=generator())]
    straight = answers(ALiBi(2), tokens)
    assert (straight - answers(ALiBi(2), tokens.flip(1))).abs().max() < 1e-6
    assert (straight - answers(ALiBi(2), shuffled)).abs().max() > 1e-3


@pytest.mark.parametrize(
    "make", [lambda: RotaryEmbedding(16), lambda: SinusoidalEncoding(32)], ids=["rope", "sin"]
)
def test_other_encodings_tell_a_sequence_from_its_mirror_image(make):
    tokens, _ = order_batch(16, generator=generator())
    assert (answers(make(), tokens) - answers(make(), tokens.flip(1))).abs().max() > 1e-3


def test_accuracy_counts_the_larger_score():
    tokens = torch.tensor([[0], [1], [2], [3]])
    scores = torch.tensor([[2.0, 1.0], [0.0, 3.0], [5.0, 4.0], [0.0, 1.0]])
    assert accuracy(lambda t: scores[t[:, 0]], tokens, torch.tensor([0, 1, 1, 1])) == 0.75


def test_labels_that_would_be_compared_with_every_score_are_refused():
    tokens = torch.zeros(4, 5, dtype=torch.long)
    with pytest.raises(ValueError, match=r"labels must have shape \(4,\), got \(4, 1\)"):
        accuracy(OrderClassifier(NoPE()), tokens, torch.zeros(4, 1, dtype=torch.long))


def test_training_solves_the_order_task_with_positions_and_not_without():
    test_set = with_mirror_images(*order_batch(256, generator=generator(1)))
    torch.manual_seed(0)
    seeing, blind = OrderClassifier(RotaryEmbedding(16)), OrderClassifier(NoPE())
    losses = train(seeing)
    train(blind, steps=60)
    assert len(losses) == 300 and losses[-1] < 0.2 < losses[0]
    assert accuracy(seeing, *test_set) > 0.95
    assert abs(accuracy(blind, *test_set) - 0.5) < 0.02


def test_training_moves_a_learned_table_and_repeats_itself():
    def run():
        torch.manual_seed(0)
        model = OrderClassifier(LearnedEncoding(12, 32))
        before = model.encoding.weight.detach().clone()
        losses = train(model, count_batch, steps=3, batch_size=8)
        return before, model.encoding.weight.detach(), losses

    before, after, losses = run()
    assert not torch.equal(before, after)
    assert run()[2] == losses
