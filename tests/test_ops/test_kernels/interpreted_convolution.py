"""Run the convolution kernels under Triton's interpreter; see `interpreted_attention.py`."""
import json

import torch
from interpreted_attention import Guarded, error, guarded, margins_intact

from mmflatten.ops.kernels import convolution, launch_convolution

RESULTS = ('y', 'grad_x', 'grad_weight', 'grad_bias')
CASES = {
    '3 x 3': dict(shape=(2, 5, 7, 24), side=3),
    '5 x 5, weights shared, prefix': dict(shape=(1, 7, 7, 36), side=5, shared=3, prefix=2),
    '5 x 5 in bfloat16, 64 channels': dict(shape=(1, 4, 9, 64), side=5, dtype=torch.bfloat16),
}


def run(shape, side, shared=1, prefix=0, dtype=torch.float32):
    torch.manual_seed(0)
    B, H, W, C = shape
    x = guarded(torch.randn(B, prefix + H * W, 3, C).to(dtype)).as_subclass(Guarded)[:, :, 1]
    grad = guarded(torch.randn(B, prefix + H * W, C).to(dtype))
    weight, bias = guarded(torch.randn(C // shared, 1, side, side)), guarded(torch.randn(C // shared))
    y = launch_convolution.forward(x, weight, bias, H, W)
    actual = (y, *launch_convolution.backward(grad, x, weight, H, W))
    plain = x.as_subclass(torch.Tensor).double()
    expected = (convolution._forward(plain, weight.double(), bias.double(), H, W),
                *convolution._backward(grad.double(), plain, weight.double(), H, W))
    return margins_intact(), {name: error(a, b) for name, a, b in zip(RESULTS, actual, expected)}


if __name__ == '__main__':
    print(json.dumps({name: run(**case) for name, case in CASES.items()}))
