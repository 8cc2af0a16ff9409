"""What chapter 5 says of T5's buckets and of Shaw's term, beyond what test_relative.py says."""

from __future__ import annotations

import ast

import pytest
import torch

from posenc_tutorial.relative import ShawRelative, t5_bucket
from tools.notebooks import BOOK, read


def published():
    """The literal that the chapter calls FROM_TRANSFORMERS."""
    for cell in read(BOOK / "05-relative-bias.ipynb").cells:
        if cell.cell_type == "code" and "FROM_TRANSFORMERS = " in cell.source:
            first = ast.parse(cell.source).body[0]
            return ast.literal_eval(first.value)
    raise AssertionError("the chapter has no cell with FROM_TRANSFORMERS")


def first_distances(bucket):
    """First distance behind of every bucket from the first shared one on."""
    behind = bucket(-torch.arange(5001))
    sizes = behind.bincount()
    shared = int((sizes > 1).nonzero()[0])
    return [int((behind == b).nonzero()[0]) for b in range(shared, int(behind.max()) + 1)]


def test_first_distances_of_the_chapter():
    found = published()
    assert len(found) >= 5 and {key[0] for key in found} == {True, False}
    for (both, num_buckets, max_distance), firsts in found.items():
        kinds = {"num_buckets": num_buckets, "max_distance": max_distance}
        own = first_distances(lambda r, b=both, k=kinds: t5_bucket(r, bidirectional=b, **k))
        assert own == firsts, (both, num_buckets, max_distance)


def test_first_distances_of_the_chapter_are_those_of_transformers():
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    theirs = t5.T5Attention._relative_position_bucket
    for (both, num_buckets, max_distance), firsts in published().items():
        kinds = {"num_buckets": num_buckets, "max_distance": max_distance}
        found = first_distances(lambda r, b=both, k=kinds: theirs(r, bidirectional=b, **k))
        assert found == firsts, (both, num_buckets, max_distance)


#: A distance that is a whole number and exactly an edge: (buckets of a decoder, maximum, distance,
#: bucket in T5's float32). In float64 each of the first three comes out one lower.
EDGES = [(40, 640, 40, 24), (40, 640, 80, 28), (20, 320, 40, 14), (32, 256, 64, 24)]


@pytest.mark.parametrize(("num_buckets", "max_distance", "distance", "bucket"), EDGES)
def test_an_edge_is_rounded_as_t5_rounds_it(num_buckets, max_distance, distance, bucket):
    kinds = {"num_buckets": num_buckets, "max_distance": max_distance}
    assert int(t5_bucket(torch.tensor(-distance), bidirectional=False, **kinds)) == bucket


def test_edges_are_rounded_as_transformers_does():
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    for num_buckets, max_distance, distance, bucket in EDGES:
        kinds = {"num_buckets": num_buckets, "max_distance": max_distance}
        theirs = t5.T5Attention._relative_position_bucket
        found = theirs(torch.tensor([-distance]), bidirectional=False, **kinds)
        assert found.item() == bucket


@pytest.mark.parametrize("num_buckets", [8, 32, 64])
def test_one_bucket_of_an_encoder_is_never_used(num_buckets):
    kinds = {"num_buckets": num_buckets, "max_distance": 128}
    used = t5_bucket(torch.arange(-1000, 1001), bidirectional=True, **kinds).unique().tolist()
    assert sorted(set(range(num_buckets)) - set(used)) == [num_buckets // 2]
    used = t5_bucket(torch.arange(-1000, 1001), bidirectional=False, **kinds).unique()
    assert used.tolist() == list(range(num_buckets))


def test_a_decoders_row_zero_is_constant():
    row = t5_bucket(torch.arange(300), bidirectional=False)
    assert row.tolist() == [0] * 300


def test_shaw_term_is_linear_in_its_own_query_alone():
    torch.manual_seed(0)
    shaw = ShawRelative(8, 3).double()
    q = torch.randn(1, 2, 6, 8, dtype=torch.float64)
    places = torch.arange(6)
    before = shaw.score_bias(places, places, q=q)
    louder = q.clone()
    louder[:, :, 4] *= 3
    after = shaw.score_bias(places, places, q=louder)
    others = [0, 1, 2, 3, 5]
    assert torch.equal(after[:, :, others], before[:, :, others])
    assert torch.allclose(after[:, :, 4], 3 * before[:, :, 4], rtol=1e-12, atol=0)
