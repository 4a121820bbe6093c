"""Losses of label maps: the mean over all pixels, ignored ones included, as the libraries have it
by default.
"""

import pytest
import torch
from mmengine.model import BaseModel
from mmengine.registry import MODELS, DefaultScope

IGNORED = 255


def check_equal_to_the_mean(loss_cfg: dict, scope: str, **ignored: int) -> None:
    with DefaultScope.overwrite_default_scope(scope):
        ours = MODELS.build(loss_cfg)
        with pytest.warns(UserWarning, match='avg_non_ignore'):
            theirs = MODELS.build({**loss_cfg, 'reduction': 'mean'})
    logits = torch.randn(2, 5, 6, 7, requires_grad=True)
    labels = torch.randint(0, 5, (2, 6, 7))
    labels[:, :3] = IGNORED
    gradients = []
    for loss in (ours, theirs):
        total, _ = BaseModel.parse_losses(None, dict(loss=loss(logits, labels, **ignored)))
        gradients.append((total, *torch.autograd.grad(total, logits)))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    'name',
    [
        'flatten_swin/upernet_flatten-swin-t_8xb2-160k_ade20k-512x512.py',
        'flatten_pvt/semantic-fpn_pvt-t_8xb4-40k_ade20k-512x512.py',
    ],
)
def test_segmentors_average_over_all_pixels(name, read_config):
    model = read_config(name).model
    heads = [model[part] for part in ('decode_head', 'auxiliary_head') if part in model]
    for head in heads:
        check_equal_to_the_mean(head.loss_decode, 'mmseg', ignore_index=IGNORED)


def test_hybrid_task_cascade_averages_over_all_pixels(read_config):
    model = read_config('flatten_swin/htc_swin-l_fpn_ms-3x_coco.py').model
    check_equal_to_the_mean(model.roi_head.semantic_head.loss_seg, 'mmdet')
