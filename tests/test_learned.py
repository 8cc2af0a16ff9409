"""The learned table: what it looks up, where it ends, and what resizing keeps."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_tutorial.learned import LearnedEncoding

MODES = ["linear", "half_pixel", "random", "tile"]


def table(rows: int, dim: int = 3, seed: int = 0) -> LearnedEncoding:
    torch.manual_seed(seed)
    return LearnedEncoding(rows, dim)


def column(values) -> LearnedEncoding:
    """A table of width two whose first column counts and whose second runs backwards."""
    encoding = LearnedEncoding(len(values), 2)
    first = torch.tensor(values, dtype=torch.float32)
    with torch.no_grad():
        encoding.weight.copy_(torch.stack([first, 10 - first], dim=1))
    return encoding


# What it adds


@pytest.mark.parametrize("shape", [(5,), (2, 5)])
def test_row_p_is_added_at_position_p(shape):
    encoding = table(9)
    generator = torch.Generator().manual_seed(1)
    positions = torch.randint(0, 9, shape, generator=generator)
    x = torch.randn(2, 5, 3, generator=generator)
    out = encoding.add_to_input(x, positions)
    rows = positions.expand(2, 5)
    for b in range(2):
        for t in range(5):
            assert torch.equal(out[b, t], x[b, t] + encoding.weight[rows[b, t]])


def test_row_zero_serves_position_zero():
    """No padding offset: positions start at 0, not at padding_idx + 1 (transformers 9116)."""
    encoding = table(4)
    out = encoding.add_to_input(torch.zeros(1, 1, 3), torch.tensor([0]))
    assert torch.equal(out[0, 0], encoding.weight[0])
    # All max_positions rows are usable: the last one serves position max_positions - 1.
    out = encoding.add_to_input(torch.zeros(1, 1, 3), torch.tensor([3]))
    assert torch.equal(out[0, 0], encoding.weight[3])


def test_the_parameter_is_one_table_of_small_numbers():
    encoding = table(400, 64)
    assert [name for name, _ in encoding.named_parameters()] == ["weight"]
    assert encoding.weight.shape == (400, 64) and encoding.weight.requires_grad
    assert list(encoding.state_dict()) == ["weight"]
    assert encoding.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert abs(encoding.weight.mean().item()) < 0.001


def test_only_the_rows_that_were_used_get_a_gradient():
    encoding = table(6)
    encoding.add_to_input(torch.zeros(1, 3, 3), torch.tensor([0, 2, 2])).sum().backward()
    assert encoding.weight.grad.tolist() == [[1.0] * 3, [0.0] * 3, [2.0] * 3] + [[0.0] * 3] * 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_output_has_the_dtype_of_the_input(dtype):
    out = table(4).add_to_input(torch.zeros(1, 2, 3, dtype=dtype), torch.arange(2))
    assert out.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_any_integer_dtype_of_positions_will_do(dtype):
    encoding = table(4)
    x = torch.zeros(1, 4, 3)
    expected = encoding.add_to_input(x, torch.arange(4))
    assert torch.equal(encoding.add_to_input(x, torch.arange(4).to(dtype)), expected)


# Where it ends


@pytest.mark.parametrize("position", [4, 5, 1000, -1, -4])
def test_a_position_outside_the_table_is_an_index_error_naming_both(position):
    """Also -1, which indexing would read as the last row (fairseq 757, vllm 14404)."""
    encoding = table(4)
    with pytest.raises(IndexError, match=rf"(?<!\d){position}\b") as error:
        encoding.add_to_input(torch.zeros(1, 3, 3), torch.tensor([0, position, 1]))
    assert "4" in str(error.value).replace(str(position), "", 1)
    with pytest.raises(IndexError, match=rf"(?<!\d){position}\b"):
        encoding.add_to_input(torch.zeros(2, 2, 3), torch.tensor([[0, 1], [position, 1]]))


def test_the_error_comes_before_the_lookup():
    """Nothing is computed first: on the meta device a lookup could never fail by itself."""
    encoding = table(4)
    with pytest.raises(IndexError, match="4"):
        encoding.to("meta").add_to_input(torch.zeros(1, 1, 3, device="meta"), torch.tensor([4]))


def test_fractional_positions_have_no_row():
    with pytest.raises(TypeError, match="float"):
        table(4).add_to_input(torch.zeros(1, 1, 3), torch.tensor([1.5]))


def test_half_precision_positions_are_rejected():
    with pytest.raises(TypeError, match="bfloat16"):
        table(4).add_to_input(torch.zeros(1, 1, 3), torch.tensor([1.0], dtype=torch.bfloat16))


@pytest.mark.parametrize("bad", [0, -3])
def test_a_table_needs_at_least_one_row(bad):
    with pytest.raises(ValueError, match=str(bad)):
        LearnedEncoding(bad, 8)
    with pytest.raises(ValueError, match=str(bad)):
        LearnedEncoding(8, bad)
    with pytest.raises(ValueError, match=str(bad)):
        LearnedEncoding(8, 8).resized(bad)


def test_shapes_that_do_not_fit_are_rejected():
    encoding = table(8)
    with pytest.raises(ValueError, match="4"):
        encoding.add_to_input(torch.zeros(1, 2, 4), torch.arange(2))  # width 4, table 3
    with pytest.raises(ValueError):
        encoding.add_to_input(torch.zeros(1, 2, 3), torch.arange(5))  # five positions, two tokens


# Resizing


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_the_same_size_is_the_identity(mode, rows):
    encoding = table(rows, 4)
    resized = encoding.resized(rows, mode)
    assert torch.equal(resized.weight, encoding.weight)
    assert resized is not encoding and resized.weight is not encoding.weight


def test_published_values_of_both_interpolations():
    """0, 1, 2, 3 resized to 7 (ggml-org/llama.cpp pull 25781)."""
    encoding = column([0, 1, 2, 3])
    aligned = encoding.resized(7, "linear").weight
    assert aligned[:, 0].tolist() == pytest.approx([0, 0.5, 1, 1.5, 2, 2.5, 3], abs=1e-6)
    half_pixel = encoding.resized(7, "half_pixel").weight
    expected = [0, 0.3571, 0.9286, 1.5, 2.0714, 2.6429, 3]
    assert half_pixel[:, 0].tolist() == pytest.approx(expected, abs=5e-5)
    for resized in (aligned, half_pixel):  # both columns are interpolated alike
        torch.testing.assert_close(resized.sum(dim=1), torch.full((7,), 10.0))
    assert torch.equal(encoding.resized(7).weight, aligned)  # "linear" is the default


@settings(max_examples=40, deadline=None, derandomize=True)
@given(old=st.integers(2, 20), new=st.integers(2, 40))
def test_linear_interpolation_keeps_the_ends_and_straight_lines(old, new):
    resized = column(list(range(old))).resized(new, "linear").weight[:, 0]
    expected = torch.linspace(0, old - 1, new)
    torch.testing.assert_close(resized, expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(old=st.integers(1, 20), new=st.integers(1, 40))
def test_half_pixel_interpolation_follows_its_formula(old, new):
    """Row i reads the old table at (i + 1/2) old/new - 1/2, clamped to its ends."""
    resized = column(list(range(old))).resized(new, "half_pixel").weight[:, 0]
    source = ((torch.arange(new) + 0.5) * old / new - 0.5).clamp(0, old - 1)
    torch.testing.assert_close(resized, source, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["random", "tile"])
def test_enlarging_keeps_the_first_rows_bit_for_bit(mode):
    """The origin of the new rows is in the name of the mode (transformers pull 13559)."""
    encoding = table(5, 16)
    resized = encoding.resized(12, mode)
    assert resized.weight.shape == (12, 16)
    assert torch.equal(resized.weight[:5], encoding.weight)
    x = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(
        resized.add_to_input(x, torch.arange(5)), encoding.add_to_input(x, torch.arange(5))
    )


def test_tile_repeats_the_table():
    encoding = table(5, 4)
    resized = encoding.resized(12, "tile")
    assert torch.equal(resized.weight, encoding.weight[torch.arange(12) % 5])


def test_random_rows_have_the_spread_of_the_table():
    torch.manual_seed(3)
    encoding = LearnedEncoding(50, 64)
    with torch.no_grad():
        encoding.weight.mul_(25)  # a trained table does not keep its initial 0.02
    resized = encoding.resized(400, "random")
    new = resized.weight[50:]
    assert new.std().item() == pytest.approx(encoding.weight.std().item(), rel=0.05)
    assert abs(new.mean().item()) < 0.02
    assert new.unique(dim=0).shape[0] == 350  # not one row copied


def test_random_rows_of_a_table_of_one_number_are_finite():
    assert bool(torch.isfinite(table(1, 1).resized(3, "random").weight).all())


@pytest.mark.parametrize("mode", ["random", "tile"])
def test_shrinking_keeps_the_first_rows(mode):
    encoding = table(9, 4)
    assert torch.equal(encoding.resized(4, mode).weight, encoding.weight[:4])


@pytest.mark.parametrize("mode", MODES)
def test_resizing_returns_a_new_module_and_leaves_the_old_one_alone(mode):
    encoding = table(4)
    before = encoding.weight.detach().clone()
    resized = encoding.resized(9, mode)
    assert isinstance(resized, LearnedEncoding) and resized is not encoding
    assert torch.equal(encoding.weight, before) and encoding.weight.shape == (4, 3)
    with torch.no_grad():
        resized.weight.fill_(1.0)
    assert torch.equal(encoding.weight, before)
    # All nine positions are usable, and the tenth is an error that names the new size.
    resized.add_to_input(torch.zeros(1, 9, 3), torch.arange(9))
    with pytest.raises(IndexError, match="9"):
        resized.add_to_input(torch.zeros(1, 1, 3), torch.tensor([9]))


@pytest.mark.parametrize("mode", MODES)
def test_an_optimizer_of_the_new_module_trains_every_row(mode):
    resized = table(3).resized(7, mode)
    assert isinstance(resized.weight, torch.nn.Parameter)
    assert resized.weight.is_leaf and resized.weight.grad_fn is None
    optimizer = torch.optim.SGD(resized.parameters(), lr=1.0)
    before = resized.weight.detach().clone()
    resized.add_to_input(torch.zeros(1, 7, 3), torch.arange(7)).sum().backward()
    optimizer.step()
    torch.testing.assert_close(resized.weight.detach(), before - 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_dtype_device_and_requires_grad_are_kept(mode, dtype, requires_grad):
    encoding = table(3).to(dtype)
    encoding.weight.requires_grad_(requires_grad)
    resized = encoding.resized(7, mode)
    assert resized.weight.dtype == dtype
    assert resized.weight.device == encoding.weight.device
    assert resized.weight.requires_grad is requires_grad
    assert bool(torch.isfinite(resized.weight).all())


def test_an_unknown_mode_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match="cubic") as error:
        table(3).resized(7, "cubic")
    for mode in MODES:
        assert mode in str(error.value)


def test_copy_and_state_dict_round_trip():
    encoding = table(5)
    assert torch.equal(copy.deepcopy(encoding).weight, encoding.weight)
    other = table(5, seed=9)
    assert not torch.equal(other.weight, encoding.weight)
    other.load_state_dict(encoding.state_dict())
    assert torch.equal(other.weight, encoding.weight)


def test_a_table_cannot_extrapolate():
    """What the resize modes are for: the 2nd half of an enlarged table was never trained."""
    encoding = table(8)
    assert math.isfinite(encoding.weight.sum().item())
    with pytest.raises(IndexError):
        encoding.add_to_input(torch.zeros(1, 9, 3), torch.arange(9))
