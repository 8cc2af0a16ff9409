"""One two-layer causal model, every encoding of the package, and the ways text is really fed.

Two layers, because one cannot see a layer that counts positions by itself
(fla-org/flash-linear-attention issue 766): the second layer's keys come from what the first one
made of the same tokens at the same positions.
"""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

from posenc_tutorial import (
    ALiBi,
    LearnedEncoding,
    NoPE,
    RotaryEmbedding,
    ShawRelative,
    SinusoidalEncoding,
    T5Bias,
    dynamic_ntk,
    llama3,
    longrope,
    ntk_aware,
    position_interpolation,
    yarn,
)
from posenc_tutorial.attention import KeyValueCache, MultiHeadAttention

VOCABULARY, HEADS, HEAD_DIM = 11, 2, 8
DIM = HEADS * HEAD_DIM
N = 12
PAIRS = HEAD_DIM // 2
SHORT, LONG = [1.0, 1.1, 1.2, 1.3], [1.0, 2.0, 4.0, 6.0]


def rope(**options):
    return lambda: RotaryEmbedding(HEAD_DIM, **options)


ENCODINGS = {
    "nope": NoPE,
    "learned": lambda: LearnedEncoding(64, DIM),
    "sinusoidal": lambda: SinusoidalEncoding(DIM),
    "sinusoidal concatenated": lambda: SinusoidalEncoding(DIM, layout="concatenated", scale=0.5),
    "shaw": lambda: ShawRelative(HEAD_DIM, 4),
    "t5": lambda: T5Bias(HEADS, bidirectional=False, num_buckets=8, max_distance=16),
    "alibi": lambda: ALiBi(HEADS),
    "rope half": rope(),
    "rope interleaved": rope(layout="interleaved"),
    "rope partial": rope(rotary_dim=4),
    "position interpolation": rope(parameters=position_interpolation(HEAD_DIM, 1e4, 4.0)),
    "ntk-aware": rope(parameters=ntk_aware(HEAD_DIM, 1e4, 4.0)),
    "yarn": rope(parameters=yarn(HEAD_DIM, 1e4, 4.0, 8)),
    "llama3": rope(parameters=llama3(HEAD_DIM, 1e4, 4.0, 8)),
    "longrope at one length": rope(
        parameters=longrope(HEAD_DIM, 1e4, SHORT, LONG, 8, 32, seq_len=N)
    ),
}
ABSOLUTE = ["learned", "sinusoidal", "sinusoidal concatenated"]
RELATIVE = [name for name in ENCODINGS if name not in ABSOLUTE]
POSITIONAL = [name for name in ENCODINGS if name != "nope"]


class Toy(nn.Module):
    """Embedding, two pre-norm blocks of attention and MLP, logits."""

    def __init__(self, encoding, layers=2):
        super().__init__()
        self.encoding = encoding
        self.embedding = nn.Embedding(VOCABULARY, DIM)
        self.attention = nn.ModuleList(
            MultiHeadAttention(DIM, HEADS, encoding, causal=True) for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(2 * layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))
            for _ in range(layers)
        )
        self.head = nn.Linear(DIM, VOCABULARY, bias=False)

    def caches(self):
        return [KeyValueCache() for _ in self.attention]

    def forward(self, tokens, positions=None, *, mask=None, caches=None, layer_positions=None):
        """layer_positions: what each layer is told, where it differs from the embedding.

        Without positions every layer counts for itself, continuing its own cache.
        """
        if layer_positions is None:
            layer_positions = [positions] * len(self.attention)
        if positions is None:
            if caches is not None and len(caches[0]):
                positions = caches[0].next_positions(tokens.shape[1])
            else:
                positions = torch.arange(tokens.shape[1])
        x = self.encoding.add_to_input(self.embedding(tokens), positions)
        for index, attend in enumerate(self.attention):
            x = x + attend(
                self.norms[2 * index](x),
                positions=layer_positions[index],
                mask=mask,
                cache=None if caches is None else caches[index],
            )
            x = x + self.mlps[index](self.norms[2 * index + 1](x))
        return self.head(x)

    def forward_sharded(self, tokens, shards):
        """Every worker holds the queries of its shard and gets all keys, in any order."""
        gathered = torch.cat(shards)  # positions, in the order in which the workers are gathered
        parts = [self.encoding.add_to_input(self.embedding(tokens[:, s]), s) for s in shards]
        for index, attend in enumerate(self.attention):
            normed = [self.norms[2 * index](part) for part in parts]
            everything = torch.cat(normed, dim=1)
            parts = [
                part + attend(own, context=everything, positions=s, context_positions=gathered)
                for part, own, s in zip(parts, normed, shards, strict=True)
            ]
            parts = [part + self.mlps[index](self.norms[2 * index + 1](part)) for part in parts]
        logits = torch.empty(*tokens.shape, VOCABULARY, dtype=parts[0].dtype)
        for part, s in zip(parts, shards, strict=True):
            logits[:, s] = self.head(part)
        return logits


@functools.cache
def build(name, dtype=torch.float64):
    """One model for each encoding. Nothing in it changes, so the tests share it."""
    return toy(ENCODINGS[name](), dtype)


def toy(encoding, dtype=torch.float64, layers=2):
    """Every table is filled with numbers large enough to matter."""
    torch.manual_seed(0)
    model = Toy(encoding, layers).to(dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        for attend in model.attention:  # sharp and loud, or position hardly moves the output
            attend.query.weight.mul_(4)
            attend.out.weight.mul_(4)
    return model.eval()


def tokens(batch=2, n=N, seed=5):
    return torch.randint(0, VOCABULARY, (batch, n), generator=torch.Generator().manual_seed(seed))


def gap(a, b):
    return (a - b).abs().max().item()


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


# Decoding with a cache


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("chunks", [[1] * N, [6, 1, 1, 1, 1, 1, 1], [5, 4, 3]])
def test_cached_decoding_equals_one_full_pass(name, chunks):
    for dtype, limit in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        model, text = build(name, dtype), tokens()
        full = model(text)
        caches = model.caches()
        parts = [model(chunk, caches=caches) for chunk in text.split(chunks, dim=1)]
        assert gap(torch.cat(parts, dim=1), full) < limit
        assert all(len(cache) == N for cache in caches)


@pytest.mark.parametrize("name", ENCODINGS)
def test_cached_decoding_from_a_distant_start_equals_one_full_pass(name):
    model, text = build(name), tokens()
    positions = torch.arange(40, 40 + N)
    caches = model.caches()
    first = model(text[:, :5], positions[:5], caches=caches)
    rest = [model(text[:, t : t + 1], caches=caches) for t in range(5, N)]
    assert gap(torch.cat([first, *rest], dim=1), model(text, positions)) < 1e-12


@pytest.mark.parametrize("name", POSITIONAL)
def test_position_really_moves_the_output(name):
    """The power of the tests here: a model that ignored its encoding would pass them all."""
    model, text = build(name), tokens()
    stretched = torch.arange(N) * 3
    assert gap(model(text), model(text, stretched)) > 1e-2


def test_prefill_six_decode_three_uses_positions_up_to_eight():
    """Blaizzy/mlx-vlm issue 1983: 0..5, then 6, 7, 8; in every layer."""
    model, text = build("rope half"), tokens(n=9)
    caches = model.caches()
    model(text[:, :6], caches=caches)
    for t in range(6, 9):
        model(text[:, t : t + 1], caches=caches)
    for cache in caches:
        assert cache.positions.tolist() == [list(range(9))] * 2


@pytest.mark.parametrize("name", POSITIONAL)
def test_every_decoded_token_at_position_zero_would_be_seen(name):
    model, text = build(name), tokens(n=9)
    caches = model.caches()
    model(text[:, :6], caches=caches)
    wrong = model(text[:, 6:7], torch.tensor([0]), caches=caches)
    assert gap(wrong, model(text)[:, 6:7]) > 1e-2


@pytest.mark.parametrize("name", [name for name in POSITIONAL if name not in ABSOLUTE])
def test_shifting_the_second_layer_from_the_fifth_token_on_moves_the_output(name):
    """0.54 for RoPE and 0.022 for ALiBi were seen in another toy (issue 766).

    Absolute encodings enter before the first layer, so there is nothing to shift in the second.
    """
    model, text = build(name), tokens()
    true = torch.arange(N)
    late = true + (true >= 4)
    assert gap(model(text), model(text, layer_positions=[true, late])) > 1e-3


@pytest.mark.parametrize("name", RELATIVE)
def test_a_common_shift_of_all_positions_is_invisible_to_relative_encodings(name):
    model, text = build(name), tokens()
    assert gap(model(text), model(text, torch.arange(N) + 1000)) < 1e-10


@pytest.mark.parametrize("name", ["learned", "sinusoidal"])
def test_a_common_shift_of_all_positions_moves_absolute_encodings(name):
    model, text = build(name), tokens()
    assert gap(model(text), model(text, torch.arange(N) + 20)) > 1e-2


# Left padding

PADS = [5, 0, 2]


def padded_batch(n=8):
    """Three texts of 3, 8 and 6 tokens in rows of 8, padded on the left."""
    text = tokens(batch=len(PADS), n=n)
    real = torch.arange(n)[None, :] >= torch.tensor(PADS)[:, None]
    positions = (torch.arange(n)[None, :] - torch.tensor(PADS)[:, None]).clamp(min=0)
    return text, real, positions


@pytest.mark.parametrize("name", ENCODINGS)
def test_left_padding_with_positions_and_mask_equals_the_unpadded_run(name):
    """mask 0,0,1,1,1 goes with positions 0,1,2 of its real tokens (transformers 22161)."""
    model = build(name)
    text, real, positions = padded_batch()
    out = model(text, positions, mask=real[:, None, :])
    assert bool(torch.isfinite(out).all())
    for row, pad in enumerate(PADS):
        assert gap(out[row, pad:], model(text[row : row + 1, pad:])[0]) < 1e-12


@pytest.mark.parametrize("name", ENCODINGS)
def test_what_stands_in_a_padded_slot_is_never_seen(name):
    model = build(name)
    text, real, positions = padded_batch()
    other = torch.where(real, text, (text + 1) % VOCABULARY)
    moved = torch.where(real, positions, 3)  # nor where it is said to stand
    out = model(text, positions, mask=real[:, None, :])
    for changed in (
        model(other, positions, mask=real[:, None, :]),
        model(text, moved, mask=real[:, None, :]),
    ):
        for row, pad in enumerate(PADS):
            assert gap(out[row, pad:], changed[row, pad:]) < 1e-13


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_left_padded_batch_decodes_like_its_unpadded_rows(name):
    """Prefill 8 with padding, then 4 tokens: every row counts on from its own end."""
    model = build(name)
    text, real, positions = padded_batch()
    more = tokens(batch=len(PADS), n=4, seed=6)
    caches = model.caches()
    parts = [model(text, positions, mask=real[:, None, :], caches=caches)]
    for t in range(4):
        seen = torch.cat([real, torch.ones(len(PADS), t + 1, dtype=torch.bool)], dim=1)
        parts.append(model(more[:, t : t + 1], mask=seen[:, None, :], caches=caches))
    out, whole = torch.cat(parts, dim=1), torch.cat([text, more], dim=1)
    for row, pad in enumerate(PADS):
        assert gap(out[row, pad:], model(whole[row : row + 1, pad:])[0]) < 1e-12
        assert caches[1].positions[row, pad:].tolist() == list(range(12 - pad))


@pytest.mark.parametrize("name", ["learned", "sinusoidal"])
def test_one_position_vector_for_all_padded_rows_is_wrong_for_absolute_encodings(name):
    """9.5 (learned) and 2.9 (sinusoidal) in another toy."""
    model = build(name)
    text, real, _ = padded_batch()
    out = model(text, torch.arange(8), mask=real[:, None, :])
    assert gap(out[0, 5:], model(text[:1, 5:])[0]) > 0.1
    assert gap(out[1], model(text[1:2])[0]) < 1e-12  # the row without padding is right


@pytest.mark.parametrize("name", RELATIVE)
def test_one_position_vector_for_all_padded_rows_is_right_for_relative_encodings(name):
    """A constant shift of a row is invisible to them."""
    model = build(name)
    text, real, _ = padded_batch()
    out = model(text, torch.arange(8), mask=real[:, None, :])
    for row, pad in enumerate(PADS):
        assert gap(out[row, pad:], model(text[row : row + 1, pad:])[0]) < 1e-12


@pytest.mark.parametrize("name", ENCODINGS)
def test_positions_without_the_mask_are_not_enough(name):
    """Positions say where a token is; only the mask says who may see it."""
    model = build(name)
    text, _, positions = padded_batch()
    assert gap(model(text, positions)[0, 5:], model(text[:1, 5:])[0]) > 1e-2


# Packing


def packed():
    lengths = [5, 7]
    document = torch.repeat_interleave(torch.arange(2), torch.tensor(lengths))
    positions = torch.cat([torch.arange(n) for n in lengths])
    return tokens(), document[:, None] == document[None, :], positions, lengths


@pytest.mark.parametrize("name", ENCODINGS)
def test_two_packed_documents_equal_two_separate_runs(name):
    model = build(name)
    text, same_document, positions, (first, _) = packed()
    out = model(text, positions, mask=same_document)
    assert gap(out[:, :first], model(text[:, :first])) < 1e-12
    assert gap(out[:, first:], model(text[:, first:])) < 1e-12


@pytest.mark.parametrize("name", ENCODINGS)
def test_packing_needs_the_mask(name):
    """Restarted positions alone let the second document read the first."""
    model = build(name)
    text, _, positions, (first, _) = packed()
    out = model(text, positions)
    assert gap(out[:, first:], model(text[:, first:])) > 1e-2


@pytest.mark.parametrize("name", ABSOLUTE)
def test_packing_needs_the_positions(name):
    model = build(name)
    text, same_document, _, (first, _) = packed()
    out = model(text, torch.arange(N), mask=same_document)
    assert gap(out[:, first:], model(text[:, first:])) > 1e-2


# Shards


SHARDS = {
    "contiguous": [range(0, 6), range(6, 12)],
    "zig-zag": [[0, 1, 2, 9, 10, 11], [3, 4, 5, 6, 7, 8]],
    "striped": [range(0, 12, 2), range(1, 12, 2)],
    "unequal": [range(0, 3), range(3, 4), range(4, 12)],
}


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("kind", SHARDS)
def test_sharded_queries_with_their_true_positions_equal_the_whole(name, kind):
    model, text = build(name), tokens()
    shards = [torch.tensor(list(shard)) for shard in SHARDS[kind]]
    assert gap(model.forward_sharded(text, shards), model(text)) < 1e-12


@pytest.mark.parametrize("name", POSITIONAL)
def test_counting_from_zero_in_every_shard_would_be_seen(name):
    model, text = build(name), tokens()
    true = torch.arange(N)
    assert gap(model(text), model(text, true % 6, mask=true[:, None] >= true)) > 1e-2


# Parameters that depend on the length

ORIGINAL = 8


def dynamic(n):
    return dynamic_ntk(HEAD_DIM, 1e4, 4.0, ORIGINAL, n)


def two_lists(n):
    return longrope(HEAD_DIM, 1e4, SHORT, LONG, ORIGINAL, 32, n)


SCHEDULES = {"dynamic ntk": dynamic, "longrope": two_lists}


def scheduled(name, layers, dtype=torch.float64):
    return toy(RotaryEmbedding(HEAD_DIM, parameters=SCHEDULES[name]), dtype, layers)


def decoded(model, text, chunks=None):
    caches = model.caches()
    pieces = text.split(chunks or [1] * text.shape[1], dim=1)
    return torch.cat([model(piece, caches=caches) for piece in pieces], dim=1)


def fresh_last_rows(model, text):
    return torch.cat([model(text[:, : t + 1])[:, -1:] for t in range(text.shape[1])], dim=1)


@pytest.mark.parametrize("name", SCHEDULES)
def test_one_layer_decodes_like_a_fresh_pass_over_each_prefix(name):
    """Also beyond the original length: keys are cached before rotation and turned anew."""
    model, text = scheduled(name, layers=1), tokens(n=2 * ORIGINAL + 3)
    assert model.encoding.length_dependent
    assert gap(decoded(model, text), fresh_last_rows(model, text)) < 1e-12


@pytest.mark.parametrize("name", SCHEDULES)
def test_keys_rotated_at_their_own_length_would_be_seen(name):
    """The power of the test above: huggingface/transformers issue 25104."""
    model, text = scheduled(name, layers=1), tokens(n=2 * ORIGINAL + 3)
    expected = fresh_last_rows(model, text)

    class Stale(RotaryEmbedding):
        """Claims fixed parameters, so its keys are cached as they were rotated."""

        length_dependent = False

        def rotate_query_key(self, q, k, q_positions, k_positions):
            inner = model.encoding
            return inner.rotate_query_key(q, k, q_positions, k_positions)

    stale = toy(Stale(HEAD_DIM), layers=1)
    wrong = decoded(stale, text)
    assert gap(wrong[:, :ORIGINAL], expected[:, :ORIGINAL]) < 1e-12
    assert gap(wrong, expected) > 1e-2


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("chunks", [None, [3, 3, 2], [6, 1, 1]])
def test_two_layers_decode_exactly_inside_the_original_length(name, chunks):
    model, text = scheduled(name, layers=2), tokens(n=ORIGINAL)
    assert gap(decoded(model, text, chunks), model(text)) < 1e-12
    plain = build("rope half")
    if name == "dynamic ntk":  # and there it is plain RoPE, to the last bit
        assert torch.equal(model(text), plain(text))


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("total", [ORIGINAL + 1, 2 * ORIGINAL + 3])
def test_two_layers_decode_exactly_when_the_length_is_fixed_for_the_sequence(name, total):
    """Parameters computed once, for the length the text will reach: the documented remedy."""
    fixed = RotaryEmbedding(HEAD_DIM, parameters=SCHEDULES[name](total))
    assert not fixed.length_dependent
    model, text = toy(fixed), tokens(n=total)
    whole = scheduled(name, layers=2)(text)
    assert gap(model(text), whole) < 1e-12
    assert gap(decoded(model, text), whole) < 1e-12


@pytest.mark.parametrize("name", SCHEDULES)
def test_two_layers_beyond_the_original_length_keep_hidden_states_of_older_parameters(name):
    """A documented limit, not a wish: no cache of keys can undo it.

    The upper layer's cached keys and values were computed from outputs of the lower layer, and
    those were computed with the parameters of a shorter text. Keys cached before rotation repair
    the rotation of each layer, not the inputs of the layer above. The first token decoded beyond
    the original length still sees only states that are older, and differs already.
    """
    model, text = scheduled(name, layers=2), tokens(n=2 * ORIGINAL + 3)
    stepwise, fresh = decoded(model, text), fresh_last_rows(model, text)
    assert gap(stepwise[:, :ORIGINAL], fresh[:, :ORIGINAL]) < 1e-12
    assert gap(stepwise[:, ORIGINAL:], fresh[:, ORIGINAL:]) > 1e-3


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("layers", [1, 2])
def test_rows_of_different_length_have_their_own_parameters(name, layers):
    """Left padding: a row of 5 real tokens stays plain beside rows of 14 and 9."""
    model = scheduled(name, layers)
    n, pads = 14, [9, 0, 5]
    text = tokens(batch=3, n=n)
    real = torch.arange(n)[None, :] >= torch.tensor(pads)[:, None]
    positions = (torch.arange(n)[None, :] - torch.tensor(pads)[:, None]).clamp(min=0)
    out = model(text, positions, mask=real[:, None, :])
    for row, pad in enumerate(pads):
        assert gap(out[row, pad:], model(text[row : row + 1, pad:])[0]) < 1e-12
    # One vector of positions for all rows gives the short row the parameters of the long one.
    shared = model(text, torch.arange(n), mask=real[:, None, :])
    assert gap(shared[0, 9:], model(text[:1, 9:])[0]) > 1e-3


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_left_padded_batch_decodes_each_row_at_its_own_length(name):
    model = scheduled(name, layers=1)
    pads, n, steps = [5, 0, 2], 8, 6
    text = tokens(batch=3, n=n + steps)
    real = torch.arange(n + steps)[None, :] >= torch.tensor(pads)[:, None]
    positions = (torch.arange(n)[None, :] - torch.tensor(pads)[:, None]).clamp(min=0)
    caches = model.caches()
    model(text[:, :n], positions, mask=real[:, None, :n], caches=caches)
    for t in range(n, n + steps):
        step = model(text[:, t : t + 1], mask=real[:, None, : t + 1], caches=caches)
        for row, pad in enumerate(pads):
            fresh = model(text[row : row + 1, pad : t + 1])
            assert gap(step[row, 0], fresh[0, -1]) < 1e-12


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_long_text_leaves_nothing_behind(name):
    """4096 tokens, then L, then 100, in one module: the last two as in a fresh one."""
    model = scheduled(name, layers=2)
    model(tokens(n=40))
    for n in (ORIGINAL, 3, 19, ORIGINAL + 1):
        assert torch.equal(model(tokens(n=n)), scheduled(name, layers=2)(tokens(n=n)))
