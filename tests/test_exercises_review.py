"""Chapter 14's exercises, answered by other means than the references: loops, edited text."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pytest
import torch
from exercise_answers import Answers
from torch.nn.functional import scaled_dot_product_attention

from posenc_tutorial import RotaryEmbedding
from posenc_tutorial.exercises import evaluate, exercise, exercises, planted, progress
from posenc_tutorial.exercises.registry import Repair
from posenc_tutorial.exercises.selftest import count

ANSWERS = Answers()
WRONG, RIGHT, wrong, right = ANSWERS.WRONG, ANSWERS.RIGHT, ANSWERS.wrong, ANSWERS.right


# An encoding from its formula


def kerple_loop(r1, r2, q, k, bias=lambda a, b, m, n: -a * math.log1p(b * abs(m - n))):
    heads = zip(r1.tolist(), r2.tolist(), strict=True)
    return torch.tensor(
        [[[bias(a, b, m, n) for n in k.tolist()] for m in q.tolist()] for a, b in heads]
    )


def kerple_numpy(r1, r2, q, k):
    distance = np.abs(np.subtract.outer(q.numpy(), k.numpy()))
    return torch.from_numpy(
        -np.einsum("h,hqk->hqk", r1.numpy(), np.log1p(np.einsum("h,qk->hqk", r2.numpy(), distance)))
    )


right("kerple_log", kerple_loop)
right("kerple_log", kerple_numpy)
right(
    "kerple_log",
    lambda r1, r2, q, k: r1.view(-1, 1, 1) * (1 / (1 + r2.view(-1, 1, 1) * (q[:, None] - k).abs()))
    .log(),
)  # fmt: skip

wrong("kerple_log", "reward", lambda *a: -kerple_numpy(*a))
wrong(
    "kerple_log",
    "no_one",
    lambda r1, r2, q, k: -r1.view(-1, 1, 1) * (r2.view(-1, 1, 1) * (q[:, None] - k).abs()).log(),
)
wrong("kerple_log", "base_two", lambda r1, r2, q, k: kerple_loop(
    r1, r2, q, k, lambda a, b, m, n: -a * math.log2(1 + b * abs(m - n))))  # fmt: skip
wrong("kerple_log", "swapped", lambda r1, r2, q, k: kerple_numpy(r2, r1, q, k))
wrong("kerple_log", "outside", lambda r1, r2, q, k: kerple_loop(
    r1, r2, q, k, lambda a, b, m, n: -a * b * math.log(1 + abs(n - m))))  # fmt: skip
wrong("kerple_log", "power", lambda r1, r2, q, k: kerple_loop(
    r1, r2, q, k, lambda a, b, m, n: -a * abs(m - n) ** b))  # fmt: skip
wrong("kerple_log", "ahead_free", lambda r1, r2, q, k: kerple_loop(
    r1, r2, q, k, lambda a, b, m, n: -a * math.log1p(b * max(m - n, 0))))  # fmt: skip
wrong(
    "kerple_log",
    "counted",
    lambda r1, r2, q, k: kerple_numpy(r1, r2, torch.arange(len(q)), torch.arange(len(k))),
)
wrong("kerple_log", "base_ten", lambda *a: kerple_numpy(*a) / math.log(10))
wrong("kerple_log", "straight", lambda r1, r2, q, k: kerple_loop(
    r1, r2, q, k, lambda a, b, m, n: -a * b * abs(m - n)))  # fmt: skip
wrong(
    "kerple_log",
    "signed",
    lambda r1, r2, q, k: -r1.view(-1, 1, 1) * torch.log1p(r2.view(-1, 1, 1) * (q[:, None] - k)),
)
wrong("kerple_log", "reward swapped", lambda r1, r2, q, k: -kerple_loop(r2, r1, q, k))

# Five planted bugs, repaired in the text of the function

FIXES = {
    "restarts": [("torch.arange(new)", "torch.arange(past, past + new)")],
    "neighbours": [
        ("x[..., 0::2], x[..., 1::2]", "x[..., : d // 2], x[..., d // 2 :]"),
        ("torch.stack([", "torch.cat(["),
        ("return turned.flatten(-2)", "return turned"),
    ],
    "values_turned": [("turn(q), turn(k), turn(v)", "turn(q), turn(k), v")],
    "model_width": [("(heads * d) ** 0.5", "d**0.5")],
    "one_ahead": [("triu(past + 2)", "triu(past + 1)")],
}
SUBSETS = [
    keys for size in range(len(FIXES) + 1) for keys in itertools.combinations(FIXES, size)
]  # of bugs that are left


def with_bugs(*left):
    """The printed function, repaired but for some bugs."""
    source = inspect.getsource(planted.attention_with_cache)
    for key, edits in FIXES.items():
        for old, new in edits if key not in left else ():
            assert source.count(old) == 1, old
            source = source.replace(old, new)
    space = {"torch": torch}
    exec(source, space)
    return space["attention_with_cache"]


for _keys in SUBSETS[1:]:
    wrong("attention_with_cache", " ".join(_keys), with_bugs(*_keys))


def rewritten(*edits):
    """The printed function, repaired, and then changed in its text."""
    source = inspect.getsource(planted.attention_with_cache)
    for old, new in [pair for pairs in FIXES.values() for pair in pairs] + list(edits):
        assert old in source, old
        source = source.replace(old, new)
    space = {"torch": torch}
    exec(source, space)
    return space["attention_with_cache"]


STACKED = (
    ("torch.cat([a * cos", "torch.stack([a * cos"),
    ("return turned\n", "return turned.flatten(-2)\n"),
)
wrong("attention_with_cache", "stacked", rewritten(*STACKED))
wrong("attention_with_cache", "values_turned stacked", rewritten(
    *STACKED, ("turn(k), v", "turn(k), turn(v)")))  # fmt: skip
wrong("attention_with_cache", "hides", rewritten(("triu(past + 1)", "triu(past)")))
wrong("attention_with_cache", "hides", rewritten(("triu(past + 1)", "triu(1)")))


def by_complex_numbers(q, k, v, past_k, past_v, base):
    d, past, new = q.shape[-1], past_k.shape[1], q.shape[1]
    angle = torch.outer(
        torch.arange(past, past + new).double(), base ** (-torch.arange(0, d, 2) / d)
    )

    def turn(x):
        z = torch.complex(*x.double().chunk(2, -1)) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([z.real, z.imag], -1).float()

    scores = turn(q) @ torch.cat([past_k, turn(k)], 1).mT * d**-0.5
    hidden = torch.arange(past + new) > torch.arange(past, past + new)[:, None]
    weights = torch.where(hidden, -1e9, scores).softmax(-1)
    return [weights @ torch.cat([past_v, v], 1), weights]


def by_the_package(q, k, v, past_k, past_v, base):
    past, new = past_k.shape[1], q.shape[1]
    places = torch.arange(past, past + new)
    rope = RotaryEmbedding(q.shape[-1], base=base, layout="half")
    q, k = (x[0] for x in rope.rotate_query_key(q[None], k[None], places, places))
    keys, values = torch.cat([past_k, k], 1), torch.cat([past_v, v], 1)
    mask = torch.arange(past + new) <= places[:, None]
    one_hot = torch.eye(past + new).expand(len(q), -1, -1)
    weights = scaled_dot_product_attention(q, keys, one_hot, attn_mask=mask)
    return scaled_dot_product_attention(q, keys, values, attn_mask=mask), weights


right("attention_with_cache", with_bugs())
right("attention_with_cache", by_complex_numbers)
right("attention_with_cache", by_the_package)


(
    test_mistakes_are_recognised_in_code_of_another_make,
    test_odd_right_answers_are_right,
) = ANSWERS.tests()


# The planted bugs: found by the tests meant for them, and by nothing trivial


def smoke_test(function) -> bool:
    """What is often all that is tested: shapes, no nan, weights that add up, one token."""
    generator = torch.Generator().manual_seed(0)
    for heads, new, past, d in ((1, 1, 0, 8), (2, 6, 0, 8), (3, 1, 5, 16), (2, 4, 3, 4)):
        q, k, v = (torch.randn(heads, new, d, generator=generator) for _ in range(3))
        past_k, past_v = (torch.randn(heads, past, d, generator=generator) for _ in range(2))
        out, weights = function(q, k, v, past_k, past_v, 10000.0)
        sums = weights.sum(-1)
        if out.shape != q.shape or weights.shape != (heads, new, past + new):
            return False
        if not (out.isfinite().all() and (weights >= 0).all()):
            return False
        if not torch.allclose(sums, torch.ones_like(sums)):
            return False
        if new == 1 and past == 0 and not torch.allclose(out, v):
            return False
    return True


@pytest.mark.parametrize("left", SUBSETS, ids=lambda left: "+".join(left) or "none")
def test_a_smoke_test_passes_whatever_is_left(left):
    assert smoke_test(with_bugs(*left))


def test_a_smoke_test_can_fail():
    assert not smoke_test(lambda q, k, v, *_: (v, torch.ones(q.shape[0], q.shape[1], q.shape[1])))


def test_every_subset_of_bugs_is_reported_as_what_it_is():
    entry = exercise("attention_with_cache")
    assert isinstance(entry, Repair)
    assert [m.key for m in entry.mistakes] == [*FIXES, "stacked", "hides"]
    assert len(SUBSETS) == 32
    for left in SUBSETS:
        found = evaluate("attention_with_cache", with_bugs(*left))
        assert found.mistakes == left
        assert (found.status == "correct") == (not left)
        if left:
            assert found.message.startswith(f"{len(left)} of 7 tests fail: ")


def test_each_bug_fails_its_own_test_and_no_other():
    entry = exercise("attention_with_cache")
    for key in FIXES:
        function = with_bugs(key)
        outputs = [list(function(*arguments)) for arguments in entry.inputs()]
        cases = list(zip(entry.inputs(), entry.expected(), outputs, strict=True))
        failing = [mistake.key for mistake in entry.mistakes if mistake.symptom(cases)]
        assert failing == [key]


def test_the_printed_function_has_all_five():
    entry = exercise("attention_with_cache")
    every = entry.expected(list(FIXES))
    for arguments, (out, weights) in zip(entry.inputs(), every, strict=True):
        got = planted.attention_with_cache(*arguments)
        torch.testing.assert_close(got[0], out)
        torch.testing.assert_close(got[1], weights)


@pytest.mark.parametrize(
    "answer",
    [
        lambda q, k, v, *_: v,
        lambda q, k, v, past_k, past_v, base: (v, v),
        lambda *a: [out * 1.1 for out in with_bugs()(*a)],
        lambda *a: [with_bugs()(*a)[0] + 1, with_bugs()(*a)[1]],
        # A repair that forgets the cache: none of the planted bugs, and wrong.
        lambda q, k, v, past_k, past_v, base: with_bugs()(
            q, k, v, past_k[:, :0], past_v[:, :0], base
        ),
    ],
)
def test_other_wrong_answers_are_wrong(answer):
    assert evaluate("attention_with_cache", answer).status in ("wrong", "error")


@pytest.mark.parametrize("turned", ["k", "turn(-k)", "k * cos.mean()"])
def test_keys_that_are_not_turned_are_not_called_too_small(turned):
    found = evaluate("attention_with_cache", rewritten(("turn(k), v", f"{turned}, v")))
    assert found.status == "wrong" and "model_width" not in found.mistakes


def test_one_tensor_is_not_called_a_list_that_is_missing():
    found = evaluate("attention_with_cache", lambda q, *_: q)
    assert found.message.startswith("returned a torch.Tensor, expected 2 tensors")


def test_a_new_mistake_gets_the_name_of_no_planted_bug():
    def mask_forgets_the_cache(*arguments):
        source = inspect.getsource(planted.attention_with_cache)
        for key, edits in FIXES.items():
            for old, new in edits:
                source = source.replace(old, "triu(1)" if key == "one_ahead" else new)
        space = {"torch": torch}
        exec(source, space)
        return space["attention_with_cache"](*arguments)

    found = evaluate("attention_with_cache", mask_forgets_the_cache)
    assert found.status == "wrong"
    assert found.mistakes == ("hides",)  # and none of those that were planted


# As a whole


def test_progress_can_show_one_chapter(capsys):
    progress(chapter=14)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:-1]] == [entry.name for entry in exercises(14)]
    points = sum(entry.points for entry in exercises(14))
    assert lines[-1].endswith(f"of {points} points")


def test_there_are_as_many_as_the_chapter_says():
    found = count(exercises(14))
    assert found["exercises"] == 4
    assert len(exercise("what_the_course_found").statements) - 4 == 6
