"""Basis masks over images: their place on the image, and the choice of module and masks."""

from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch
from attention_study.basis import (
    BasisMasks,
    basis_of_image,
    draw_basis_masks,
    find_attention,
    most_used,
)
from mmcv.transforms import Compose
from mmdet.models import DetDataPreprocessor
from mmengine.dataset import pseudo_collate
from mmengine.model import BaseModel
from mmengine.registry import MODELS, init_default_scope
from torch import nn

from mmflatten.models.attention import FactorizedAttention

PIPELINE = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(88, 88), keep_ratio=True),
    dict(type='PackDetInputs'),
]
ATTENTION = dict(basis_channels=8, num_heads=2, normalization='gaussian')
DETECTOR = dict(
    type='RetinaNet',
    data_preprocessor=dict(type='DetDataPreprocessor', pad_size_divisor=32),
    backbone=dict(
        type='mmflatten.AttentionResNet',
        depth=18,
        base_channels=8,
        attention_after=(3,),
        attention=ATTENTION,
    ),
    neck=dict(
        type='mmflatten.AttentionFPN',
        in_channels=[8, 16, 32, 64],
        out_channels=16,
        num_outs=4,
        attention_after=(1, 2),
        attention=ATTENTION,
    ),
    bbox_head=dict(
        type='RetinaHead',
        num_classes=3,
        in_channels=16,
        feat_channels=16,
        stacked_convs=1,
        anchor_generator=dict(
            type='AnchorGenerator', scales=[8], ratios=[1.0], strides=[4, 8, 16, 32]
        ),
    ),
)


@pytest.fixture(autouse=True)
def detection_scope():
    init_default_scope('mmdet')


@pytest.fixture
def photo(tmp_path: Path) -> str:
    """44 x 60 pixels, dark, with a bright red rectangle at rows 10 to 20 and columns 40 to 50."""
    pixels = np.full((44, 60, 3), 20, dtype=np.uint8)
    pixels[10:20, 40:50] = (0, 0, 250)  # OpenCV's order
    cv2.imwrite(str(tmp_path / 'photo.png'), pixels)
    return str(tmp_path / 'photo.png')


class Stub(BaseModel):
    """A model whose only mask follows the red of the image, on a map of stride 4."""

    def __init__(self) -> None:
        super().__init__(
            data_preprocessor=DetDataPreprocessor(bgr_to_rgb=True, pad_size_divisor=32)
        )
        self.backbone = nn.AvgPool2d(4)
        self.attention = FactorizedAttention(3, basis_channels=1)
        nn.init.zeros_(self.attention.basis.weight)
        nn.init.constant_(self.attention.basis.weight[:, 0], 0.1)

    def forward(self, inputs, data_samples=None, mode='tensor'):
        return self.attention(self.backbone(inputs))


class StubPredictor:
    """The part of a predictor that pictures need."""

    task = SimpleNamespace(backbone=lambda model: model.backbone)

    def __init__(self, model: Stub) -> None:
        self.model = model

    def __call__(self, image: str) -> None:
        batch = pseudo_collate([Compose(PIPELINE)(dict(img_path=image, img_id=0))])
        with torch.no_grad():
            self.model(self.model.data_preprocessor(batch, False)['inputs'])


def test_basis_mask_lies_on_the_pixels_that_cause_it(photo: str) -> None:
    model = Stub()
    result = basis_of_image(StubPredictor(model), model.attention, photo)
    assert result.image.shape == (96, 96, 3)  # resized by 88 / 60 and padded
    assert result.image[22, 66].tolist() == [250, 0, 0]
    assert result.masks.shape == (1, 96, 96) and result.coefficients.tolist() == [1.0]
    rows, columns = np.nonzero(result.masks[0] > 0.5 * result.masks[0].max())
    factor = 88 / 60
    assert abs(rows.mean() - 15 * factor) < 3 and abs(columns.mean() - 45 * factor) < 3
    assert np.ptp(rows) < 22 and np.ptp(columns) < 22


def test_basis_of_image_names_an_attention_that_predictions_do_not_run(photo: str) -> None:
    with pytest.raises(ValueError, match='do not run this attention'):
        basis_of_image(StubPredictor(Stub()), FactorizedAttention(3, basis_channels=1), photo)


def test_most_used_sorts_masks_by_coefficients_over_all_images() -> None:
    results = [
        BasisMasks(np.zeros(0), np.zeros(0), np.array(coefficients))
        for coefficients in ([0.1, 0.5, 0.4, 0.0], [0.1, -0.2, -0.6, 0.1])
    ]
    assert most_used(results, 3) == [2, 1, 0]


def test_draw_basis_masks_with_both_signs_and_constant_zero(photo: str, tmp_path: Path) -> None:
    model = Stub()
    model.attention = FactorizedAttention(3, basis_channels=2, normalization='dot')
    nn.init.zeros_(model.attention.basis.weight[1])
    nn.init.zeros_(model.attention.basis.bias)
    result = basis_of_image(StubPredictor(model), model.attention, photo)
    draw_basis_masks([result, result], [0, 1], tmp_path / 'both.png')
    drawn = cv2.imread(str(tmp_path / 'both.png'))
    assert drawn.shape[1] == 720 and len(np.unique(drawn.reshape(-1, 3), axis=0)) > 50
    with pytest.raises(ValueError, match=r'\[2\]'):
        draw_basis_masks([result], [2], tmp_path / 'none.png')


def test_find_attention_defaults_to_the_finest_fpn_level() -> None:
    model = MODELS.build(DETECTOR)
    assert find_attention(model) == ('neck.attentions.1', model.neck.attentions['1'])
    assert find_attention(model, 'backbone.layer3.attention')[1] is model.backbone.layer3.attention
    with pytest.raises(
        ValueError, match=r'backbone.layer3.attention, neck.attentions.1.*got neck\.'
    ):
        find_attention(model, 'neck')
    with pytest.raises(ValueError, match='on maps'):
        find_attention(nn.Sequential(FactorizedAttention(8, ndim=3)), '0')
