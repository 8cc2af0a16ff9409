"""The three doors of the base class: every hook passes through, and each encoding uses one."""

from __future__ import annotations

import inspect

import pytest
import torch

from posenc_tutorial import (
    ALiBi,
    LearnedEncoding,
    NoPE,
    PositionalEncoding,
    RotaryEmbedding,
    ShawRelative,
    SinusoidalEncoding,
    T5Bias,
)

HEADS, HEAD_DIM = 4, 8
DIM = HEADS * HEAD_DIM

DOORS = {
    "base": (PositionalEncoding, None),
    "nope": (NoPE, None),
    "learned": (lambda: LearnedEncoding(32, DIM), 1),
    "sinusoidal": (lambda: SinusoidalEncoding(DIM), 1),
    "shaw": (lambda: ShawRelative(HEAD_DIM, 4), 2),
    "t5": (lambda: T5Bias(HEADS, bidirectional=True), 2),
    "alibi": (lambda: ALiBi(HEADS), 2),
    "rope": (lambda: RotaryEmbedding(HEAD_DIM), 3),
}


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_base_class_is_abstract_about_nothing():
    """NoPE is the base class with a name: no hook of it differs from the base."""
    for hook in ("add_to_input", "score_bias", "rotate_query_key"):
        assert getattr(NoPE, hook) is getattr(PositionalEncoding, hook)
    assert issubclass(NoPE, PositionalEncoding)
    assert not list(NoPE().parameters()) and not list(NoPE().buffers())


@pytest.mark.parametrize("name", DOORS)
def test_every_encoding_is_a_positional_encoding(name):
    encoding = DOORS[name][0]()
    assert isinstance(encoding, PositionalEncoding)
    assert encoding.length_dependent is False


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("batched", [False, True])
def test_each_encoding_opens_exactly_its_own_door(name, batched):
    build, door = DOORS[name]
    encoding = build()
    with torch.no_grad():
        for parameter in encoding.parameters():  # a fresh table may be all zeros
            parameter.copy_(random(*parameter.shape, seed=7))
    positions = torch.arange(1, 7)
    if batched:
        positions = torch.stack([positions, positions + 5])
    x, q, k = (
        random(2, 6, DIM),
        random(2, HEADS, 6, HEAD_DIM, seed=1),
        random(2, HEADS, 6, HEAD_DIM, seed=2),
    )

    added = encoding.add_to_input(x, positions)
    assert added.shape == x.shape and added.dtype == x.dtype
    assert (not torch.equal(added, x)) == (door == 1)

    bias = encoding.score_bias(positions, positions, q=q)
    if door == 2:
        expected = (2, HEADS, 6, 6) if batched or name == "shaw" else (HEADS, 6, 6)
        assert bias.shape == expected and bool((bias != 0).any())
    else:
        assert bias is None

    q_rotated, k_rotated = encoding.rotate_query_key(q, k, positions, positions)
    assert q_rotated.shape == q.shape and k_rotated.shape == k.shape
    assert (not torch.equal(q_rotated, q)) == (door == 3)
    assert (not torch.equal(k_rotated, k)) == (door == 3)


@pytest.mark.parametrize("name", ["base", "nope"])
def test_without_a_door_the_same_objects_come_back(name):
    encoding = DOORS[name][0]()
    x, q, k, positions = random(1, 3, 8), random(1, 2, 3, 4), random(1, 2, 3, 4), torch.arange(3)
    assert encoding.add_to_input(x, positions) is x
    q_out, k_out = encoding.rotate_query_key(q, k, positions, positions)
    assert q_out is q and k_out is k
    assert encoding.score_bias(positions, positions) is None


def test_the_hooks_have_the_names_of_the_contract():
    hooks = {
        "add_to_input": ["self", "x", "positions"],
        "score_bias": ["self", "q_positions", "k_positions", "q"],
        "rotate_query_key": ["self", "q", "k", "q_positions", "k_positions"],
    }
    for build, _ in DOORS.values():
        for hook, parameters in hooks.items():
            signature = inspect.signature(getattr(type(build()), hook))
            assert list(signature.parameters) == parameters
            if hook == "score_bias":
                assert signature.parameters["q"].kind is inspect.Parameter.KEYWORD_ONLY
                assert signature.parameters["q"].default is None


@pytest.mark.parametrize("name", [name for name, (_, door) in DOORS.items() if door == 2])
def test_a_bias_depends_on_the_difference_of_positions_alone(name):
    encoding = DOORS[name][0]().double()
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.copy_(random(*parameter.shape, seed=7))
    q = random(2, HEADS, 6, HEAD_DIM, seed=1).double()
    positions = torch.tensor([3, 0, 9, 4, 5, 200])
    near = encoding.score_bias(positions, positions, q=q)
    far = encoding.score_bias(positions + 100000, positions + 100000, q=q)
    torch.testing.assert_close(near, far, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, (_, door) in DOORS.items() if door in (2, 3)])
def test_rows_of_batched_positions_are_independent(name):
    """Row b of a batch gets what it would get alone, with its own positions."""
    encoding = DOORS[name][0]().double()
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.copy_(random(*parameter.shape, seed=7))
    positions = torch.stack([torch.arange(6), torch.arange(6) * 3 + 11])
    q = random(2, HEADS, 6, HEAD_DIM, seed=1).double()
    k = random(2, HEADS, 6, HEAD_DIM, seed=2).double()
    bias = encoding.score_bias(positions, positions, q=q)
    q_rotated, k_rotated = encoding.rotate_query_key(q, k, positions, positions)
    for row in range(2):
        alone = slice(row, row + 1)
        expected = encoding.score_bias(positions[row], positions[row], q=q[alone])
        if expected is not None:
            torch.testing.assert_close(bias[row], expected.reshape(bias[row].shape))
        q_alone, k_alone = encoding.rotate_query_key(
            q[alone], k[alone], positions[row], positions[row]
        )
        torch.testing.assert_close(q_rotated[alone], q_alone, rtol=0, atol=0)
        torch.testing.assert_close(k_rotated[alone], k_alone, rtol=0, atol=0)
