"""The keys that query heads share are converted as if they were one wide head."""

from __future__ import annotations

from tools.mutation import replace

CASE = "https://github.com/huggingface/transformers/pull/31788"
DESCRIPTION = "W_k of a model with grouped queries is permuted without its own number of heads"
TESTS = ["tests/test_pretrained_llama.py::test_to_layout_changes_rows_and_rotation_together"]


def install() -> None:
    from posenc_tutorial.pretrained import llama

    correct = llama._converted

    def mutant(linear, num_heads, layout, rotary_dim):
        shared = linear.out_features < linear.in_features
        return correct(linear, 1 if shared else num_heads, layout, rotary_dim)

    replace("posenc_tutorial.pretrained.llama", "_converted", mutant)
