"""Matrix products by another library are the same products."""

import copy

import pytest
import torch
from torch import nn

from sandlot.inference import product, use_fast_products
from sandlot.inference.products import OneDnnLinear, onednn_is_faster, onednn_is_there

pytestmark = pytest.mark.skipif(not onednn_is_there(), reason="this torch was built without oneDNN")


def as_onednn(layer: nn.Linear) -> nn.Linear:
    other = copy.deepcopy(layer)
    other.__class__ = OneDnnLinear
    return other


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(5, 24), (2, 7, 24), (1, 24), (3, 1, 4, 24)])
def test_outputs_and_all_gradients_are_those_of_a_linear_layer(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(24, 40, bias=bias)
    fast = as_onednn(plain)
    input = torch.randn(shape)
    slope = torch.randn(*shape[:-1], 40)
    outputs = []
    for layer in (plain, fast):
        given = input.clone().requires_grad_()
        out = layer(given)
        (out * slope).sum().backward()
        outputs.append([out, given.grad, *(parameter.grad for parameter in layer.parameters())])
    for expected, found in zip(*outputs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("frozen", ["weight", "input"])
def test_what_needs_no_gradient_gets_none(frozen: str) -> None:
    layer = as_onednn(nn.Linear(6, 4, bias=False))
    layer.weight.requires_grad_(frozen != "weight")
    given = torch.randn(3, 6, requires_grad=frozen != "input")
    layer(given).sum().backward()
    assert (layer.weight.grad is None) == (frozen == "weight")
    assert (given.grad is None) == (frozen == "input")


def test_a_strided_gradient_as_a_sum_or_an_expanded_tensor_gives_it_is_taken(
) -> None:  # fmt: skip
    torch.manual_seed(1)
    plain = nn.Linear(6, 4)
    fast = as_onednn(plain)
    given = torch.randn(3, 6)
    for layer in (plain, fast):
        layer(given).mean().backward()
        layer(given.expand(2, 3, 6).transpose(0, 1)).sum(0)[0].sum().backward()
    torch.testing.assert_close(fast.weight.grad, plain.weight.grad)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_another_precision_is_computed_as_ever(dtype: torch.dtype) -> None:
    plain = nn.Linear(6, 4).to(dtype)
    given = torch.randn(3, 6, dtype=dtype)
    assert torch.equal(as_onednn(plain)(given), plain(given))


def test_only_plain_layers_change_and_copies_and_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(nn.Linear):
        pass

    module = nn.Sequential(nn.Linear(3, 3), Own(3, 3), nn.Linear(3, 3).double())
    names = list(module.state_dict())
    use_fast_products(module)
    kinds = [type(layer) for layer in module]
    assert kinds == [OneDnnLinear if onednn_is_faster() else nn.Linear, Own, nn.Linear]
    assert list(module.state_dict()) == names
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin[0].weight.add_(1)
    given = torch.ones(1, 3)
    torch.testing.assert_close(twin[0](given), module[0](given) + 3)


def test_a_product_is_left_times_right_transposed() -> None:
    left, right = torch.randn(5, 7), torch.randn(4, 7)
    torch.testing.assert_close(product(left, right), left @ right.t())
    torch.testing.assert_close(product(left.t(), right.new_ones(3, 5)), left.t() @ torch.ones(5, 3))
