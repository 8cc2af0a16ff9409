"""The rotation in Triton: one program turns a block of tokens of a few heads.

Imported by ``_triton.py`` only. Chapter 12 builds this file line by line.
"""

import triton
import triton.language as tl


@triton.jit
def turn_heads(
    x, x_head, x_token, x_channel, out, out_head, out_token, out_channel,
    first, heads, token, n, c, s,
    PAIRS: tl.constexpr, REST: tl.constexpr, INTERLEAVED: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_R: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Turn ``GROUP`` heads from ``first`` on, at the tokens ``token``, by the same angles."""
    for step in tl.static_range(GROUP):
        head = (first + step).to(tl.int64)
        seen = token < tl.where(head < heads, n, 0)  # the last group may be smaller
        source = x + head * x_head + token[:, None] * x_token
        target = out + head * out_head + token[:, None] * out_token
        if INTERLEAVED:
            # Two neighbours are a pair: read whole rows, and take them apart in registers.
            channel = tl.arange(0, 2 * BLOCK_P)[None, :].to(tl.int64)
            mask = seen[:, None] & (channel < 2 * PAIRS)
            row = tl.load(source + channel * x_channel, mask=mask, other=0.0)
            left, right = tl.split(tl.reshape(row, (BLOCK_N, BLOCK_P, 2)))
            u, v = left.to(c.dtype), right.to(c.dtype)
            turned = tl.join(u * c - v * s, u * s + v * c)
            turned = tl.reshape(turned, (BLOCK_N, 2 * BLOCK_P)).to(out.dtype.element_ty)
            tl.store(target + channel * out_channel, turned, mask=mask)
        else:
            pair = tl.arange(0, BLOCK_P)[None, :].to(tl.int64)
            mask = seen[:, None] & (pair < PAIRS)
            left = tl.load(source + pair * x_channel, mask=mask, other=0.0)
            right = tl.load(source + (pair + PAIRS) * x_channel, mask=mask, other=0.0)
            u, v = left.to(c.dtype), right.to(c.dtype)
            new_left = (u * c - v * s).to(out.dtype.element_ty)
            new_right = (u * s + v * c).to(out.dtype.element_ty)
            tl.store(target + pair * out_channel, new_left, mask=mask)
            tl.store(target + (pair + PAIRS) * out_channel, new_right, mask=mask)
        if REST > 0:
            still = tl.arange(0, BLOCK_R)[None, :].to(tl.int64)
            mask = seen[:, None] & (still < REST)
            still += 2 * PAIRS
            passed = tl.load(source + still * x_channel, mask=mask, other=0.0)
            tl.store(target + still * out_channel, passed, mask=mask)


@triton.jit(do_not_specialize=["n"])
def turn_kernel(
    q, k, out_q, out_k, cos, sin,
    n, q_heads, k_heads, q_groups,
    q_batch, q_head, q_token, q_channel, k_batch, k_head, k_token, k_channel,
    oq_batch, oq_head, oq_token, oq_channel, ok_batch, ok_head, ok_token, ok_channel,
    table_batch,
    PAIRS: tl.constexpr, REST: tl.constexpr, INTERLEAVED: tl.constexpr, INVERSE: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_R: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Program (i, j): block i of the tokens of the whole batch, group j of the heads."""
    blocks = (n + BLOCK_N - 1) // BLOCK_N
    batch = (tl.program_id(0) // blocks).to(tl.int64)
    token = (tl.program_id(0) % blocks * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    inside = token < n

    # The angles of these tokens, read once for all heads of the group.
    pair = tl.arange(0, BLOCK_P)[None, :]
    at = batch * table_batch + token[:, None] * PAIRS + pair
    mask = inside[:, None] & (pair < PAIRS)
    c = tl.load(cos + at, mask=mask, other=0.0)
    s = tl.load(sin + at, mask=mask, other=0.0)
    if INVERSE:
        s = -s

    group = tl.program_id(1)
    if group < q_groups:
        turn_heads(
            q + batch * q_batch, q_head, q_token, q_channel,
            out_q + batch * oq_batch, oq_head, oq_token, oq_channel,
            group * GROUP, q_heads, token, n, c, s,
            PAIRS, REST, INTERLEAVED, BLOCK_N, BLOCK_P, BLOCK_R, GROUP,
        )  # fmt: skip
    else:
        turn_heads(
            k + batch * k_batch, k_head, k_token, k_channel,
            out_k + batch * ok_batch, ok_head, ok_token, ok_channel,
            (group - q_groups) * GROUP, k_heads, token, n, c, s,
            PAIRS, REST, INTERLEAVED, BLOCK_N, BLOCK_P, BLOCK_R, GROUP,
        )  # fmt: skip
