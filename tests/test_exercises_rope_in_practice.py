"""Chapter 7's checks meet code that they have never seen: other idioms, right and wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posenc_tutorial import (
    convert_projection,
    half_to_interleaved,
    interleaved_to_half,
    rope_cos_sin,
    rotate,
)
from posenc_tutorial.exercises import evaluate

RIGHT, WRONG = [], []


def right(exercise):
    return lambda answer: RIGHT.append((exercise, answer)) or answer


def wrong(exercise, *mistakes):
    return lambda answer: WRONG.append((exercise, mistakes, answer)) or answer


# next_places


@right("next_places")
def places_in_a_loop(mask, n_new):
    return torch.tensor([[int(row.sum()) + t for t in range(n_new)] for row in mask])


@right("next_places")
def places_by_a_running_sum(mask, n_new):
    grown = torch.cat([mask, torch.ones(len(mask), n_new, dtype=mask.dtype)], 1)
    return (grown.cumsum(1) - 1)[:, -n_new:]


@wrong("next_places", "slots")
def after_the_slots(mask, n_new):
    return (torch.arange(n_new) + mask.size(1)).repeat(mask.size(0), 1)


@wrong("next_places", "restart")
def from_nothing(mask, n_new):
    return torch.arange(n_new).repeat(len(mask), 1)


@wrong("next_places", "restart", "one_for_all")
def always_zero(mask, n_new):
    return torch.zeros(len(mask), n_new, dtype=torch.long)


@wrong("next_places", "one_behind")
def last_place_again(mask, n_new):
    last = (mask.cumsum(1) - 1).max(1).values
    return torch.stack([last + t for t in range(n_new)], 1)


@wrong("next_places", "twice")
def counted_by_two(mask, n_new):
    seen = mask.sum(1)
    return seen[:, None] + (torch.arange(n_new) + seen[:, None])


@wrong("next_places", "longest")
def one_end_for_all(mask, n_new):
    end = max(int(row.sum()) for row in mask)
    return torch.tensor([[end + t for t in range(n_new)]] * len(mask))


@wrong("next_places", "one_ahead")
def counted_from_one(mask, n_new):
    return mask.sum(1, keepdim=True) + torch.arange(1, n_new + 1)


# convert_rows


@right("convert_rows")
def by_reshaping(W, num_heads, rotary_dim, to):
    blocks = W.reshape(num_heads, -1, W.shape[1])
    turning, still = blocks[:, :rotary_dim], blocks[:, rotary_dim:]
    if to == "half":
        turning = turning.reshape(num_heads, rotary_dim // 2, 2, -1).transpose(1, 2)
    else:
        turning = turning.reshape(num_heads, 2, rotary_dim // 2, -1).transpose(1, 2)
    turning = turning.reshape(num_heads, rotary_dim, -1)
    return torch.cat([turning, still], 1).reshape(W.shape)


@right("convert_rows")
def row_by_row(W, num_heads, rotary_dim, to):
    out, d = W.clone(), W.shape[0] // num_heads
    for h in range(num_heads):
        for i in range(rotary_dim // 2):
            for part in range(2):
                inter, half = 2 * i + part, i + part * (rotary_dim // 2)
                source, target = (inter, half) if to == "half" else (half, inter)
                out[h * d + target] = W[h * d + source]
    return out


@right("convert_rows")
def by_a_matrix(W, num_heads, rotary_dim, to):
    d = W.shape[0] // num_heads
    P = torch.eye(d)
    P[:rotary_dim] = torch.cat([P[0:rotary_dim:2], P[1:rotary_dim:2]])
    return torch.block_diag(*[P if to == "half" else P.T] * num_heads) @ W


@wrong("convert_rows", "inverted")
def wrong_way_by_reshaping(W, num_heads, rotary_dim, to):
    return by_reshaping(W, num_heads, rotary_dim, "half" if to == "interleaved" else "interleaved")


@wrong("convert_rows", "whole_head")
def published_recipe_for_whole_heads(W, num_heads, rotary_dim, to):
    return convert_projection(W, num_heads, to=to)


@wrong("convert_rows", "whole_axis")
def one_block_of_rows(W, num_heads, rotary_dim, to):
    return convert_projection(W, 1, to=to)


@wrong("convert_rows", "first_head")
def one_wide_head(W, num_heads, rotary_dim, to):
    return convert_projection(W, 1, to=to, rotary_dim=rotary_dim)


@wrong("convert_rows", "columns")
def for_row_vectors(W, num_heads, rotary_dim, to):
    return by_reshaping(W.T, num_heads, rotary_dim, to).T


@wrong("convert_rows", "always_half")
def one_direction(W, num_heads, rotary_dim, to):
    return by_reshaping(W, num_heads, rotary_dim, "half")


@wrong("convert_rows", "heads_last")
def heads_fastest(W, num_heads, rotary_dim, to):
    x = W.reshape(-1, num_heads, W.shape[1])
    reorder = interleaved_to_half if to == "half" else half_to_interleaved
    order = torch.cat([reorder(torch.arange(rotary_dim)), torch.arange(rotary_dim, len(x))])
    return x[order].reshape(W.shape)


@wrong("convert_rows", "again")
def twice(W, num_heads, rotary_dim, to):
    return by_reshaping(by_reshaping(W, num_heads, rotary_dim, to), num_heads, rotary_dim, to)


@wrong("convert_rows", "always_interleaved")
def never_halves(W, num_heads, rotary_dim, to):
    return by_reshaping(W, num_heads, rotary_dim, "interleaved")


@wrong("convert_rows", "last_rows")
def the_end_of_each_head(W, num_heads, rotary_dim, to):
    heads = []
    for head in W.chunk(num_heads):
        still, turning = head.split([len(head) - rotary_dim, rotary_dim])
        heads += [still, by_reshaping(turning, 1, rotary_dim, to)]
    return torch.cat(heads)


@wrong("convert_rows", "unchanged")
def left_alone(W, num_heads, rotary_dim, to):
    return 1 * W


# move_keys


@right("move_keys")
def back_and_forth(keys, old, new, inv_freq):
    for places in (-old, new):
        keys = rotate(keys, *rope_cos_sin(places, inv_freq))
    return keys


@right("move_keys")
def by_complex_numbers(keys, old, new, inv_freq):
    pairs = len(inv_freq)
    z = torch.complex(keys[..., :pairs].double(), keys[..., pairs : 2 * pairs].double())
    angle = (new - old)[:, None] * inv_freq
    z = z * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([z.real, z.imag, keys[..., 2 * pairs :]], -1).to(keys.dtype)


@right("move_keys")
def in_the_dtype_of_the_keys(keys, old, new, inv_freq):
    theta = (new - old).double()[:, None] * inv_freq
    cos, sin = theta.cos().to(keys.dtype), theta.sin().to(keys.dtype)
    a, b, rest = keys.tensor_split((len(inv_freq), 2 * len(inv_freq)), dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)


@right("move_keys")
def token_by_token(keys, old, new, inv_freq):
    out = keys.clone()
    for t in range(keys.shape[2]):
        for i, w in enumerate(inv_freq.tolist()):
            c, s = np.cos(w * int(new[t] - old[t])), np.sin(w * int(new[t] - old[t]))
            a, b = keys[:, :, t, i], keys[:, :, t, i + len(inv_freq)]
            out[:, :, t, i], out[:, :, t, i + len(inv_freq)] = a * c - b * s, a * s + b * c
    return out


def moved_by(step):
    return lambda keys, old, new, w: rotate(keys, *rope_cos_sin(step(old, new), w))


wrong("move_keys", "backwards")(moved_by(lambda old, new: old - new))
wrong("move_keys", "from_scratch")(moved_by(lambda old, new: new))
wrong("move_keys", "only_back")(moved_by(lambda old, new: -old))
wrong("move_keys", "slots")(moved_by(lambda old, new: new - torch.arange(len(new))))
wrong("move_keys", "one_step")(moved_by(lambda old, new: (new[0] - old[0]).repeat(len(new))))


wrong("move_keys", "summed")(moved_by(lambda old, new: new + old))


@wrong("move_keys", "whole_head_pairs")
def partner_half_a_head_away(keys, old, new, inv_freq):
    out, half = keys.clone(), keys.shape[-1] // 2
    for i, w in enumerate(inv_freq.tolist()):
        z = torch.complex(keys[..., i].double(), keys[..., i + half].double())
        z = z * torch.exp(1j * w * (new - old))
        out[..., i], out[..., i + half] = z.real.to(keys.dtype), z.imag.to(keys.dtype)
    return out


wrong("move_keys", "unmoved")(lambda keys, old, new, inv_freq: keys)


@wrong("move_keys", "interleaved")
def neighbours(keys, old, new, inv_freq):
    pairs = keys[..., : 2 * len(inv_freq)].double().unflatten(-1, (-1, 2))
    z = torch.view_as_complex(pairs.contiguous())
    z = z * torch.exp(1j * (new - old)[:, None] * inv_freq)
    turned = torch.view_as_real(z).flatten(-2).to(keys.dtype)
    return torch.cat([turned, keys[..., 2 * len(inv_freq) :]], -1)


# channel_table


@right("channel_table")
def with_numpy(positions, inv_freq, layout, dtype):
    theta = np.outer(positions.numpy(), inv_freq.numpy())
    theta = np.tile(theta, 2) if layout == "half" else np.repeat(theta, 2, axis=1)
    return torch.from_numpy(np.stack([np.cos(theta), np.sin(theta)])).to(dtype)


@right("channel_table")
def one_angle_at_a_time(positions, inv_freq, layout, dtype):
    d = 2 * len(inv_freq)
    pair = [c % (d // 2) if layout == "half" else c // 2 for c in range(d)]
    angle = [[int(p) * float(inv_freq[i]) for i in pair] for p in positions]
    return torch.tensor(np.array([np.cos(angle), np.sin(angle)])).to(dtype)


@wrong("channel_table", "float32_angles")
def in_float32(positions, inv_freq, layout, dtype):
    theta = torch.outer(positions.float(), inv_freq.float())
    theta = torch.cat([theta, theta], -1)
    table = torch.stack([theta.cos(), theta.sin()])
    return (table if layout == "half" else half_to_interleaved(table)).to(dtype)


@wrong("channel_table", "always_half")
def only_two_halves(positions, inv_freq, layout, dtype):
    theta = torch.outer(positions.double(), inv_freq).repeat(1, 2)
    return torch.stack([theta.cos(), theta.sin()]).to(dtype)


@wrong("channel_table", "always_interleaved")
def only_neighbours(positions, inv_freq, layout, dtype):
    return with_numpy(positions, inv_freq, "interleaved", dtype)


@wrong("channel_table", "cast_speeds")
def speeds_first(positions, inv_freq, layout, dtype):
    return with_numpy(positions, inv_freq.to(dtype).double(), layout, dtype)


@wrong("channel_table", "cast_angles")
def angles_rounded(positions, inv_freq, layout, dtype):
    theta = torch.outer(positions.double(), inv_freq).to(dtype).double()
    theta = theta.repeat(1, 2) if layout == "half" else theta.repeat_interleave(2, 1)
    return torch.stack([theta.cos(), theta.sin()]).to(dtype)


@wrong("channel_table", "exchanged")
def the_other_table(positions, inv_freq, layout, dtype):
    return with_numpy(positions, inv_freq, {"half": "interleaved"}.get(layout, "half"), dtype)


@wrong("channel_table", "cast_all")
def everything_in_the_dtype(positions, inv_freq, layout, dtype):
    theta = (positions.to(dtype)[:, None] * inv_freq.to(dtype)).double()
    theta = torch.cat([theta, theta], -1)
    table = torch.stack([theta.cos(), theta.sin()])
    return (table if layout == "half" else half_to_interleaved(table)).to(dtype)


@wrong("channel_table", "cast_positions")
def positions_first(positions, inv_freq, layout, dtype):
    return with_numpy(positions.to(dtype).double(), inv_freq, layout, dtype)


@wrong("channel_table", "negative")
def conjugate(positions, inv_freq, layout, dtype):
    return with_numpy(-positions, inv_freq, layout, dtype)


@wrong("channel_table", "row_numbers")
def rows(positions, inv_freq, layout, dtype):
    return with_numpy(torch.arange(len(positions)), inv_freq, layout, dtype)


@wrong("channel_table", "sine_first")
def sines(positions, inv_freq, layout, dtype):
    return with_numpy(positions, inv_freq, layout, dtype).flip(0)


@pytest.mark.parametrize("exercise, answer", RIGHT)
def test_a_right_answer_in_another_form_is_accepted(exercise, answer):
    result = evaluate(exercise, answer)
    assert result.status == "correct", result.message


@pytest.mark.parametrize("exercise, mistakes, answer", WRONG)
def test_a_mistake_made_by_other_means_gets_its_name(exercise, mistakes, answer):
    result = evaluate(exercise, answer)
    assert result.status == "wrong" and result.mistakes == mistakes, result.message


@pytest.mark.parametrize(
    "exercise, answer",
    [
        ("next_places", lambda mask, n_new: mask[:, :n_new].long()),
        ("convert_rows", lambda W, num_heads, rotary_dim, to: W.flip(0)),
        ("move_keys", lambda keys, old, new, inv_freq: 2 * keys),
        ("channel_table", lambda positions, w, layout, dtype: torch.zeros(2, 3, 4, dtype=dtype)),
    ],
)
def test_an_unknown_error_gets_no_name(exercise, answer):
    result = evaluate(exercise, answer)
    assert result.status == "wrong" and result.mistakes == ()


def test_weights_and_keys_must_not_change_in_place():
    def convert(W, num_heads, rotary_dim, to):
        W[:] = by_reshaping(W.clone(), num_heads, rotary_dim, to)
        return W

    result = evaluate("convert_rows", convert)
    assert result.status == "wrong" and "in place" in result.message


def test_moved_keys_have_the_dtype_of_the_keys():
    def in_float64(keys, old, new, inv_freq):
        return rotate(keys.double(), *rope_cos_sin(new - old, inv_freq, dtype=torch.float64))

    result = evaluate("move_keys", in_float64)
    assert result.status == "wrong" and "the dtype is float64" in result.message
