"""The sinusoidal table, its shift matrix and its module."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_tutorial.frequencies import inverse_frequencies
from posenc_tutorial.sinusoidal import SinusoidalEncoding, shift_matrix, sinusoidal_table

LAYOUTS = ["interleaved", "concatenated"]
even_dims = st.integers(1, 64).map(lambda half: 2 * half)


def exact(positions: torch.Tensor, dim: int, base: float = 10000.0) -> torch.Tensor:
    """sin and cos of each pair side by side, in float64, from the formula."""
    turn = positions.double()[..., None] * inverse_frequencies(dim, base)
    return torch.stack([turn.sin(), turn.cos()], dim=-1).flatten(-2)


# The table


def test_published_row_for_width_eight():
    row = sinusoidal_table(torch.tensor([3]), 8)[0]
    expected = [0.141120, -0.989992, 0.295520, 0.955336, 0.0299955, 0.999550, 0.00299999, 0.9999955]
    assert row.tolist() == pytest.approx(expected, abs=1e-6)


def test_published_row_for_width_four_in_both_layouts():
    """Halves are the even columns, then the odd ones, of the same table."""
    interleaved = sinusoidal_table(2, 4)[1]
    assert interleaved.tolist() == pytest.approx(
        [0.841471, 0.540302, 0.00999983, 0.99995], abs=1e-6
    )
    halves = sinusoidal_table(2, 4, layout="concatenated")[1]
    assert halves.tolist() == pytest.approx([0.841471, 0.00999983, 0.540302, 0.99995], abs=1e-6)


def test_the_third_channel_uses_base_ten_thousand():
    """sin(0.1), not sin(0.177828) of base 1000 (maxjcohen/transformer issue 62)."""
    value = sinusoidal_table(torch.tensor([1]), 8)[0, 2].item()
    assert value == pytest.approx(0.0998334, abs=5e-8)
    assert abs(value - 0.176892) > 0.07


def test_cosine_columns_share_the_frequency_of_their_sine():
    """cos at p=1 is 0.54030, 0.99500, 0.99995, 1.00000 (SamLynnEvans/Transformer issue 25)."""
    row = sinusoidal_table(torch.tensor([1]), 8)[0]
    assert row[1::2].tolist() == pytest.approx([0.54030, 0.99500, 0.99995, 1.00000], abs=5e-6)
    assert row[0::2].tolist() == pytest.approx([0.84147, 0.09983, 0.01000, 0.00100], abs=5e-6)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    dim=even_dims,
    base=st.floats(2, 1e6),
    positions=st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=8),
)
def test_every_pair_lies_on_the_unit_circle_at_its_angle(dim, base, positions):
    positions = torch.tensor(positions)
    table = sinusoidal_table(positions, dim, base=base)
    assert table.shape == (len(positions), dim) and table.dtype == torch.float32
    pairs = table.double().unflatten(-1, (-1, 2))
    norms = pairs.square().sum(-1)
    torch.testing.assert_close(norms, torch.ones_like(norms), rtol=0, atol=2e-7)
    torch.testing.assert_close(table.double(), exact(positions, dim, base), rtol=0, atol=3.1e-8)
    # So every row has the same length, sqrt(dim/2).
    torch.testing.assert_close(
        table.norm(dim=-1), torch.full((len(positions),), (dim / 2) ** 0.5), rtol=1e-6, atol=0
    )


@settings(max_examples=30, deadline=None, derandomize=True)
@given(dim=even_dims, n=st.integers(1, 50))
def test_an_integer_means_the_first_n_positions(dim, n):
    assert torch.equal(sinusoidal_table(n, dim), sinusoidal_table(torch.arange(n), dim))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(dim=even_dims, start=st.integers(-100, 100))
def test_layouts_differ_by_one_permutation_of_channels(dim, start):
    positions = torch.arange(start, start + 7)
    interleaved = sinusoidal_table(positions, dim, layout="interleaved")
    halves = sinusoidal_table(positions, dim, layout="concatenated")
    assert torch.equal(halves, torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], dim=1))
    # A dot product sees no difference, so a model trained from scratch cannot tell.
    torch.testing.assert_close(
        interleaved.double() @ interleaved.double().T, halves.double() @ halves.double().T
    )


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64, torch.float32])
def test_position_dtypes_agree(dtype):
    positions = torch.arange(2040, 2060)
    expected = sinusoidal_table(positions, 32)
    assert torch.equal(sinusoidal_table(positions.to(dtype), 32), expected)


def test_batched_positions_give_batched_rows():
    positions = torch.tensor([[0, 1, 2], [7, 8, 9]])
    table = sinusoidal_table(positions, 8)
    assert table.shape == (2, 3, 8)
    assert torch.equal(table[1], sinusoidal_table(positions[1], 8))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_the_dtype_asked_for_is_rounded_to_once(dtype):
    table = sinusoidal_table(torch.arange(3000), 64, dtype=dtype)
    assert table.dtype == dtype
    assert torch.equal(table, exact(torch.arange(3000), 64).to(dtype))


def test_rows_stay_distinct_far_away():
    """Rows 2048 and 2049, and their like above, differ (NVIDIA/Megatron-LM issue 535)."""
    for start in (256, 2048, 4095, 2**19, 2**20 - 1):
        first, second = sinusoidal_table(torch.tensor([start, start + 1]), 64)
        assert (first - second).abs().max() > 0.4
    table = sinusoidal_table(4096, 64)
    assert table.unique(dim=0).shape[0] == 4096


def test_a_fractional_time_step_is_not_rounded_first():
    """998.3897 is 1000 in bfloat16 (modelscope/DiffSynth-Studio pull 1025)."""
    step = torch.tensor([998.3897], dtype=torch.float64)
    row = sinusoidal_table(step, 64)
    torch.testing.assert_close(row.double(), exact(step, 64), rtol=0, atol=3.1e-8)
    assert (row - sinusoidal_table(torch.tensor([1000]), 64)).abs().max() > 0.5
    # Cast last: the half-precision row is the float32 row rounded.
    half = sinusoidal_table(step, 64, dtype=torch.bfloat16)
    assert (half.float() - row).abs().max() < 2e-3
    with pytest.raises(TypeError, match="bfloat16"):
        sinusoidal_table(step.bfloat16(), 64)


@pytest.mark.parametrize("dim", [1, 5, 7, 0, -4])
def test_an_odd_width_is_an_error_naming_it(dim):
    """codertimo/BERT-pytorch issue 78: a width of 5 dies in a shape mismatch there."""
    for build in (
        lambda: sinusoidal_table(4, dim),
        lambda: shift_matrix(1, dim),
        lambda: SinusoidalEncoding(dim),
    ):
        with pytest.raises(ValueError, match=rf"(?<!\d){dim}\b"):
            build()


@pytest.mark.parametrize("base", [0.0, -10.0, float("nan"), float("inf")])
def test_a_base_without_meaning_is_an_error(base):
    for build in (
        lambda: sinusoidal_table(4, 8, base=base),
        lambda: shift_matrix(1, 8, base=base),
        lambda: SinusoidalEncoding(8, base=base),
    ):
        with pytest.raises(ValueError, match="base"):
            build()


def test_an_unknown_layout_is_named_with_the_known_ones():
    for build in (
        lambda: sinusoidal_table(4, 8, layout="half"),
        lambda: SinusoidalEncoding(8, layout="half"),
    ):
        with pytest.raises(ValueError, match="half") as error:
            build()
        assert all(layout in str(error.value) for layout in LAYOUTS)


def test_a_negative_count_is_an_error():
    with pytest.raises(ValueError, match="-3"):
        sinusoidal_table(-3, 8)


# Shift matrix and dot products


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    dim=even_dims,
    base=st.floats(2, 1e6),
    position=st.integers(-5000, 5000),
    offset=st.integers(-5000, 5000),
)
def test_one_matrix_shifts_every_position(dim, base, position, offset):
    matrix = shift_matrix(offset, dim, base=base)
    assert matrix.shape == (dim, dim) and matrix.dtype == torch.float64
    here, there = sinusoidal_table(
        torch.tensor([position, position + offset]), dim, base=base, dtype=torch.float64
    )
    torch.testing.assert_close(matrix @ here, there, rtol=0, atol=1e-11)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(dim=even_dims, a=st.integers(-3000, 3000), b=st.integers(-3000, 3000))
def test_shifts_compose_and_invert(dim, a, b):
    torch.testing.assert_close(
        shift_matrix(a, dim) @ shift_matrix(b, dim), shift_matrix(a + b, dim), rtol=0, atol=1e-11
    )
    torch.testing.assert_close(shift_matrix(-a, dim), shift_matrix(a, dim).T, rtol=0, atol=1e-15)
    identity = torch.eye(dim, dtype=torch.float64)
    torch.testing.assert_close(shift_matrix(0, dim), identity, rtol=0, atol=0)
    torch.testing.assert_close(
        shift_matrix(a, dim) @ shift_matrix(a, dim).T, identity, rtol=0, atol=1e-13
    )


def test_the_shift_matrix_is_made_of_rotation_blocks():
    """With (sin, cos) pairs the block is [[c, s], [-s, c]]: it turns clockwise."""
    matrix = shift_matrix(3, 4)
    cos, sin = torch.cos(torch.tensor(3.0).double()), torch.sin(torch.tensor(3.0).double())
    torch.testing.assert_close(
        matrix[:2, :2], torch.stack([torch.stack([cos, sin]), torch.stack([-sin, cos])])
    )
    assert not matrix[:2, 2:].any() and not matrix[2:, :2].any()


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    dim=even_dims,
    first=st.integers(-3000, 3000),
    second=st.integers(-3000, 3000),
    shift=st.integers(-3000, 3000),
)
def test_the_dot_product_depends_on_the_distance_alone(dim, first, second, shift):
    positions = torch.tensor([first, second, first + shift, second + shift])
    a, b, c, d = sinusoidal_table(positions, dim, dtype=torch.float64)
    expected = torch.cos((first - second) * inverse_frequencies(dim)).sum()
    for product in (a @ b, c @ d, b @ a):
        torch.testing.assert_close(product, expected, rtol=0, atol=1e-9)


# The module


def encode(module: SinusoidalEncoding, positions: torch.Tensor) -> torch.Tensor:
    return module.add_to_input(torch.zeros(1, positions.shape[-1], 64), positions)[0]


FAR = torch.tensor([0, 1, 257, 2047, 2049, 9000])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_module_adds_the_table(layout):
    module = SinusoidalEncoding(64, base=500.0, layout=layout)
    expected = sinusoidal_table(FAR, 64, base=500.0, layout=layout)
    assert torch.equal(encode(module, FAR), expected)
    x = torch.randn(3, 6, 64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(module.add_to_input(x, FAR), x + expected, rtol=0, atol=1e-6)


def test_scale_multiplies_the_table_only():
    x = torch.randn(1, 6, 64, generator=torch.Generator().manual_seed(0)).double()
    out = SinusoidalEncoding(64, scale=0.25).add_to_input(x, FAR)
    torch.testing.assert_close(
        out, x + 0.25 * sinusoidal_table(FAR, 64).double(), rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_the_output_has_the_dtype_of_the_input(dtype):
    out = SinusoidalEncoding(64).add_to_input(torch.zeros(1, 6, 64, dtype=dtype), FAR)
    assert out.dtype == dtype
    # Rounded once: from float64 for a float64 input, else from the float32 table.
    wide = torch.promote_types(dtype, torch.float32)
    assert torch.equal(out[0], sinusoidal_table(FAR, 64, dtype=wide).to(dtype))


@pytest.mark.parametrize("position", [-1, -7])
def test_a_negative_position_is_not_the_last_row(position):
    """vllm-project/vllm issue 14404."""
    positions = torch.tensor([position])
    assert torch.equal(encode(SinusoidalEncoding(64), positions), sinusoidal_table(positions, 64))


def test_fractional_positions_reach_the_module():
    step = torch.tensor([998.3897], dtype=torch.float64)
    assert torch.equal(encode(SinusoidalEncoding(64), step), sinusoidal_table(step, 64))


def test_rows_of_a_batch_use_their_own_positions():
    module = SinusoidalEncoding(64)
    positions = torch.tensor([[0, 0, 1], [5000, 5001, 5002]])
    out = module.add_to_input(torch.zeros(2, 3, 64), positions)
    assert torch.equal(out, sinusoidal_table(positions, 64))


def round_trip(module):
    return pickle.loads(pickle.dumps(module))


def from_meta(module):
    with torch.device("meta"):
        built = SinusoidalEncoding(64)
    return built.to_empty(device="cpu")


def with_assigned_weights(module):
    """Built without memory, then given the tensors of a checkpoint, which has no table."""
    with torch.device("meta"):
        model = torch.nn.Sequential(SinusoidalEncoding(64), torch.nn.Linear(64, 2))
    weights = torch.nn.Sequential(SinusoidalEncoding(64), torch.nn.Linear(64, 2)).state_dict()
    model.load_state_dict(weights, assign=True)
    return model[0]


TREATMENTS = {
    "bfloat16": lambda module: module.bfloat16(),
    "half": lambda module: module.half(),
    "double": lambda module: module.double(),
    "bfloat16 and back": lambda module: module.bfloat16().float(),
    "to cpu": lambda module: module.to("cpu"),
    "deepcopy": copy.deepcopy,
    "deepcopy after bfloat16": lambda module: copy.deepcopy(module.bfloat16()),
    "pickle": round_trip,
    "meta and to_empty": from_meta,
    "meta and assigned weights": with_assigned_weights,
    "to_empty": lambda module: module.to_empty(device="cpu"),
    "inside a model": lambda module: torch.nn.Sequential(module).bfloat16()[0],
}


@pytest.mark.parametrize("treatment", TREATMENTS)
@pytest.mark.parametrize("used_before", [False, True])
def test_no_treatment_of_the_module_changes_an_angle(treatment, used_before):
    module = SinusoidalEncoding(64)
    expected = sinusoidal_table(FAR, 64)
    if used_before:
        encode(module, FAR)
    module = TREATMENTS[treatment](module)
    assert torch.equal(encode(module, FAR), expected)
    assert torch.equal(encode(module, FAR[:2]), expected[:2])


def test_autocast_changes_no_angle():
    module = SinusoidalEncoding(64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = sinusoidal_table(4096, 64)
        added = encode(module, torch.arange(4096))
    assert torch.equal(inside, sinusoidal_table(4096, 64))
    assert torch.equal(added, inside)


def test_the_default_dtype_changes_no_angle():
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        module = SinusoidalEncoding(64)
        inside = module.add_to_input(torch.zeros(1, 6, 64, dtype=torch.float32), FAR)[0]
    finally:
        torch.set_default_dtype(previous)
    assert torch.equal(inside, sinusoidal_table(FAR, 64))


def test_nothing_is_saved_and_nothing_is_trained():
    module = SinusoidalEncoding(64)
    encode(module, FAR)
    assert not module.state_dict()
    assert not list(module.parameters())
    torch.nn.Sequential(module).load_state_dict({})


def test_a_grown_table_equals_a_fresh_one():
    """A long sequence, then a short one, then a longer one: no state is left behind."""
    module = SinusoidalEncoding(64)
    for n in (10, 5000, 10, 9000, 3):
        assert torch.equal(encode(module, torch.arange(n)), sinusoidal_table(n, 64))


def test_a_position_far_out_needs_no_table_that_long():
    """Any offset is a position: nobody should pay for the rows before it."""
    positions = torch.tensor([0, 10**9, 10**12])
    assert torch.equal(encode(SinusoidalEncoding(64), positions), sinusoidal_table(positions, 64))


def test_shapes_that_do_not_fit_are_rejected():
    module = SinusoidalEncoding(64)
    with pytest.raises(ValueError, match="32"):
        module.add_to_input(torch.zeros(1, 4, 32), torch.arange(4))
    with pytest.raises(ValueError):
        module.add_to_input(torch.zeros(1, 4, 64), torch.arange(5))


def test_gradients_pass_through_unchanged():
    x = torch.zeros(1, 6, 64, requires_grad=True)
    SinusoidalEncoding(64).add_to_input(x, FAR).sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))


def test_a_single_far_position_does_not_fill_the_memory():
    encoding = SinusoidalEncoding(8)
    far = torch.tensor([2**22])
    rows = encoding.add_to_input(torch.zeros(1, 1, 8), far)[0]
    assert torch.equal(rows, sinusoidal_table(far, 8))
    assert encoding.table.rows.shape[0] < 2**16


def test_a_text_that_grows_token_by_token_stays_in_the_table():
    encoding = SinusoidalEncoding(8)
    start = encoding.table.rows.shape[0]
    for p in range(start - 1, start + 2):
        encoding.add_to_input(torch.zeros(1, 1, 8), torch.tensor([p]))
    assert encoding.table.rows.shape[0] == 2 * start
