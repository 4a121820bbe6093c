"""Complexities of Factorized Attention, Table 9: twice the counted multiply-accumulates of each
module.
"""

import pytest
import torch
from mmdet.models.backbones.resnet import BasicBlock, Bottleneck

from mmflatten.measure.flops.counter import count_operations
from mmflatten.models.attention import ConventionalAttention, FactorizedAttention

C, B, M, H, SIDE = 32, 16, 24, 4, 20
S, FFN = SIDE**2, 4 * C
BOT, MULTI = dict(value_channels=M), dict(value_channels=M, num_heads=H)
TFM = dict(MULTI, feed_forward_channels=FFN)
LINEAR, SQUARE = 4 * B * C + 4 * M * C, (2 * B + 2 * M) * S
# As printed, with the corrections of docs/factorized.md to CA-dot, CA-multi and the Tfm forms; per
# location.
ROWS = {
    'FA-dot': (FactorizedAttention, dict(reprojection=False), 8 * B * C + 2 * C**2),
    'CA-dot': (
        ConventionalAttention,
        dict(reprojection=False),
        4 * B * C + 2 * C**2 + (2 * B + 2 * C) * S,
    ),
    'FA-bot': (FactorizedAttention, BOT, LINEAR + 4 * B * M),
    'CA-bot': (ConventionalAttention, BOT, LINEAR + SQUARE),
    'FA-multi': (FactorizedAttention, MULTI, LINEAR + 4 * B * M // H),
    'CA-multi': (ConventionalAttention, MULTI, LINEAR + SQUARE),
    'FA-Tfm': (FactorizedAttention, TFM, LINEAR + 4 * B * M // H + 4 * C * FFN),
    'CA-Tfm': (ConventionalAttention, TFM, LINEAR + SQUARE + 4 * C * FFN),
}


def operations(module):
    counts = count_operations(
        module.to('meta').eval(), torch.empty(1, C, SIDE, SIDE, device='meta')
    )
    assert not counts.uncounted
    return 2 * counts.macs


@pytest.mark.parametrize('name', ROWS)
def test_attention_modules_cost_what_table_9_prints(name):
    cls, arguments, expected = ROWS[name]
    assert operations(cls(C, basis_channels=B, normalization='dot', **arguments)) == expected * S


def test_residual_blocks_cost_what_table_9_prints():
    assert operations(BasicBlock(C, C)) == 36 * C**2 * S
    middle = C // Bottleneck.expansion
    assert operations(Bottleneck(C, middle)) == (4 * middle * C + 18 * middle**2) * S
