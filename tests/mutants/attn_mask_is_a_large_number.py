"""Padding keys get a large negative number, not minus infinity: a strong key outweighs it."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/meta-pytorch/attention-gym/issues/74"
DESCRIPTION = "padded keys keep some weight"
TESTS = ["tests/test_attention.py::test_padding_keys_get_a_weight_of_exactly_zero"]


def install() -> None:
    from posenc_tutorial import attention as module

    correct = module.attention

    def mutant(q, k, v, *, bias=None, mask=None, **options):
        if mask is not None:
            soft = (~mask).to(q.dtype) * -10000.0
            bias = soft if bias is None else bias + soft
        return correct(q, k, v, bias=bias, **options)

    replace("posenc_tutorial.attention", "attention", mutant)
