"""A mask for the one new key is broadcast over all cached keys: nothing is masked any more."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/issues/22161"
DESCRIPTION = "with a cache, a mask of length 1 counts for every cached key"
TESTS = ["tests/test_attention.py::test_with_a_cache_the_mask_covers_old_and_new_keys"]


def install() -> None:
    from posenc_tutorial.attention import MultiHeadAttention

    correct = MultiHeadAttention.forward

    def mutant(self, x, *, mask=None, cache=None, **options):
        if mask is not None and cache is not None and mask.shape[-1] == 1:
            mask = mask.expand(*mask.shape[:-1], len(cache) + x.shape[1])
        return correct(self, x, mask=mask, cache=cache, **options)

    replace("posenc_tutorial.attention", "MultiHeadAttention.forward", mutant)
