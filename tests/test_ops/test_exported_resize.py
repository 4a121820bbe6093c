"""Tables in exported graphs of open sizes are resized as by PyTorch's operator."""

import pytest
import torch
from torch.export import Dim

from mmflatten.ops.resize import RESIZE_MODES, resize_grid


class Resize(torch.nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = mode
        generator = torch.Generator().manual_seed(0)
        self.register_buffer('table', torch.randn(1, 99, 3, generator=generator))

    def forward(self, x):
        return resize_grid(self.table, (9, 11), (x.shape[0], x.shape[1]), self.mode)


@pytest.mark.parametrize('mode', RESIZE_MODES)
def test_exported_table_equals_the_one_of_pytorch(mode):
    module = Resize(mode).eval()
    sides = {0: Dim('height', min=2, max=64), 1: Dim('width', min=2, max=64)}
    with torch.no_grad():
        graph = torch.export.export(
            module, (torch.zeros(5, 17),), strict=False, dynamic_shapes=(sides,)
        ).module()
        for size in ((3, 4), (9, 11), (20, 13), (37, 64)):
            x = torch.zeros(size)
            torch.testing.assert_close(graph(x), module(x), rtol=1e-4, atol=1e-5)
