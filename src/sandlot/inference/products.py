"""Matrix products by oneDNN where torch would use a slower library: float32 on AMD processors with AVX-512.

Invariants: the same sums in another order, so that results differ by rounding only; a module keeps its parameters,
their names and its gradients; which library is used follows from the processor alone, so that a run is repeatable.

Measured on one core of an AMD EPYC (Zen 5), torch 2.13, 48×576 by 576×1536: torch's choice (MKL, which runs its AVX2
code there) 105 GFLOP/s, oneDNN 216; the two products of the backward pass 106 and 108 against 240 and 218.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


def product(left_MK: Tensor, right_NK: Tensor) -> Tensor:
    """`left · rightᵀ`, `[M, N]`, by the faster library. Without gradients; leading axes of `left` are kept."""
    if onednn_is_faster() and _served(left_MK) and _served(right_NK):
        return _by_onednn(left_MK, right_NK)
    return left_MK @ right_NK.t()


def use_fast_products(module: nn.Module) -> nn.Module:
    """Makes the linear layers of `module` compute by oneDNN if that is the faster library here. Returns `module`."""
    if onednn_is_faster():
        for layer in module.modules():
            # Only plain layers: a subclass computes what it wants.
            if type(layer) is nn.Linear and _served(layer.weight):
                layer.__class__ = OneDnnLinear
    return module


class OneDnnLinear(nn.Linear):
    """A linear layer on the CPU in float32. What it cannot serve it computes as any other."""

    def forward(self, input: Tensor) -> Tensor:
        """`input · weightᵀ + bias`."""
        if not _served(input) or not _served(self.weight) or torch.is_autocast_enabled("cpu"):
            return super().forward(input)
        if torch.is_grad_enabled() and (input.requires_grad or self.weight.requires_grad):
            out: Tensor = _Product.apply(input, self.weight)  # type: ignore[no-untyped-call]
        else:
            out = _by_onednn(input, self.weight)
        return out if self.bias is None else out + self.bias


class _Product(torch.autograd.Function):
    """`input · weightᵀ` and its two gradients, which are products of the same kind."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(input, weight)
        return _by_onednn(input, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        input, weight = ctx.saved_tensors
        of_input = _by_onednn(grad, weight.t()) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return of_input, None
        grad_MN, input_MK = grad.reshape(-1, grad.shape[-1]), input.reshape(-1, input.shape[-1])
        return of_input, _by_onednn(grad_MN.t(), input_MK.t())


def _by_onednn(left: Tensor, right_NK: Tensor) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise(left, right_NK, None, "none", [], "")
    return out


def _served(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype is torch.float32 and tensor.numel() > 0 and onednn_is_there()


@cache
def onednn_is_there() -> bool:
    """Whether this torch can multiply by oneDNN."""
    backend: Any = torch.backends.mkldnn
    return bool(backend.is_available()) and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def onednn_is_faster() -> bool:
    """Whether oneDNN is there, and the processor is of the kind on which it was measured to be faster."""
    if not onednn_is_there() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
