"""Padded keys keep a little weight."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/meta-pytorch/attention-gym/issues/74"
DESCRIPTION = "masked scores are lowered by 10 instead of removed"
TESTS = [
    "tests/test_alibi.py::test_padded_keys_weigh_nothing_and_real_tokens_do_not_notice",
]


def install() -> None:
    from posenc_tutorial import attention

    correct = attention.attention

    def mutant(q, k, v, *, bias=None, mask=None, **kwargs):
        if mask is not None:
            bias = (0 if bias is None else bias) - 10.0 * (~mask).to(q.dtype)
        return correct(q, k, v, bias=bias, **kwargs)

    replace("posenc_tutorial.attention", "attention", mutant)
