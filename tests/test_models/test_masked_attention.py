"""Masked attention of queries: its schedule, the keys that stay, and blocks that cannot mask."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mmflatten.models.layers import pre_norm_block
from mmflatten.models.mask_head.masked_attention import can_mask, mask_probabilities, visible_keys
from mmflatten.registry import MODELS

GRID = dict(embed_dims=8, num_heads=2, grid_size=(2, 2))


def test_masks_are_annealed_block_by_block():
    expected = {  # EoMT-L, four blocks: sixths of the training
        0: (1, 1, 1, 1),
        100: (1, 1, 1, 1),
        150: (0.5**0.9, 1, 1, 1),
        200: (0, 1, 1, 1),
        475: (0, 0, 0, 0.25**0.9),
        500: (0, 0, 0, 0),
        900: (0, 0, 0, 0),
    }
    for step, probabilities in expected.items():
        ours = mask_probabilities(torch.tensor(step), 4, 600)
        torch.testing.assert_close(ours, torch.tensor(probabilities).float())
    assert not mask_probabilities(torch.tensor(0), 4, 0).any()


def test_annealing_frees_whole_queries():
    torch.manual_seed(0)
    masks = torch.randn(8, 50, 12, 16)
    prefix = 2
    visible = visible_keys(masks, (3, 4), 50 + prefix + 12, torch.tensor(0.4))
    inside = F.interpolate(masks, size=(3, 4), mode='bilinear').flatten(2) > 0
    rows = visible[:, :50, 50 + prefix :]
    is_masked = (rows == inside).all(-1)
    assert (rows.all(-1) | is_masked).all()
    assert is_masked.float().mean().item() == pytest.approx(0.4, abs=0.08)
    assert visible[:, 50:].all() and visible[:, :, : 50 + prefix].all()


@pytest.mark.parametrize(
    'mixer, expected',
    [
        ('SoftmaxAttention', True),
        ('FocusedLinearAttention', False),
        ('GatedSoftmaxAttention', True),
    ],
)
def test_only_attention_with_logits_can_be_masked(mixer, expected):
    block = pre_norm_block(MODELS.build(dict(type=mixer, **GRID)), nn.Identity(), 8)
    assert can_mask(block) == expected


def test_a_mask_in_windows_is_rejected():
    mixer = MODELS.build(dict(type='SoftmaxAttention', **GRID))
    block = pre_norm_block(mixer, nn.Identity(), 8, window_size=(2, 2))
    assert not can_mask(block)
    with pytest.raises(ValueError, match='mask'):
        block(torch.randn(1, 4, 8), (2, 2), torch.ones(1, 4, 4, dtype=torch.bool))
