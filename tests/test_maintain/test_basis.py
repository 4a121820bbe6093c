"""Basis masks drawn over images: in the right place, of the right module, and with words for what is wrong."""
import importlib.util
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attention_study.basis import basis_of_image, draw_basis_masks, find_attention, most_used
from mmdet.models import DetDataPreprocessor
from mmengine.config import Config
from mmengine.model import BaseModel
from mmengine.registry import MODELS, init_default_scope
from torch import nn

from mmflatten.models.attention import FactorizedAttention

TOOL = Path(__file__).parents[2] / 'tools' / 'maintain' / 'visualize_basis.py'
PIPELINE = [dict(type='LoadImageFromFile'), dict(type='Resize', scale=(88, 88), keep_ratio=True),
            dict(type='LoadAnnotations', with_bbox=True), dict(type='PackDetInputs')]
CONFIG = f'''
default_scope = 'mmdet'
attention = dict(basis_channels=8, num_heads=2, normalization='gaussian')
model = dict(
    type='RetinaNet', data_preprocessor=dict(type='DetDataPreprocessor', pad_size_divisor=32),
    backbone=dict(type='mmflatten.AttentionResNet', depth=18, base_channels=8, attention_after=(3,),
                  attention=attention),
    neck=dict(type='mmflatten.AttentionFPN', in_channels=[8, 16, 32, 64], out_channels=16, num_outs=4,
              attention_after=(1, 2), attention=attention),
    bbox_head=dict(type='RetinaHead', num_classes=3, in_channels=16, feat_channels=16, stacked_convs=1,
                   anchor_generator=dict(type='AnchorGenerator', scales=[8], ratios=[1.], strides=[4, 8, 16, 32])))
test_dataloader = dict(dataset=dict(pipeline={PIPELINE!r}))
'''


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


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A small detector's config and checkpoint."""
    (tmp_path / 'config.py').write_text(CONFIG)
    torch.manual_seed(0)
    model = MODELS.build(Config.fromfile(tmp_path / 'config.py').model)
    torch.save(dict(state_dict=model.state_dict()), tmp_path / 'weights.pth')
    return str(tmp_path / 'config.py'), str(tmp_path / 'weights.pth')


@pytest.fixture(scope='module')
def tool():
    spec = importlib.util.spec_from_file_location('visualize_basis', TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Stub(BaseModel):
    """A model whose only mask follows the red of the image, on a map of stride 4."""

    def __init__(self) -> None:
        super().__init__(data_preprocessor=DetDataPreprocessor(bgr_to_rgb=True, pad_size_divisor=32))
        self.attention = FactorizedAttention(3, basis_channels=1)
        nn.init.zeros_(self.attention.basis.weight)
        nn.init.constant_(self.attention.basis.weight[:, 0], .1)

    def extract_feat(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.attention(F.avg_pool2d(inputs, 4))

    def forward(self, inputs, data_samples=None, mode='tensor'):
        return self.extract_feat(inputs)


def test_a_mask_lies_on_the_pixels_that_made_it(photo: str) -> None:
    model = Stub()
    result = basis_of_image(model, model.attention, PIPELINE, photo)
    assert result.image.shape == (65, 88, 3)  # resized by 88 / 60, without the padding to 96 x 96
    assert result.image[22, 66].tolist() == [250, 0, 0]
    assert result.masks.shape == (1, 65, 88) and result.shares.tolist() == [1.]
    rows, columns = np.nonzero(result.masks[0] > .5 * result.masks[0].max())
    factor = 88 / 60
    assert abs(rows.mean() - 15 * factor) < 3 and abs(columns.mean() - 45 * factor) < 3
    assert np.ptp(rows) < 22 and np.ptp(columns) < 22


def test_models_of_pairs_and_files_that_are_no_images_are_refused(photo: str, tmp_path: Path) -> None:
    model = Stub()
    (tmp_path / 'text.png').write_text('text')
    with pytest.raises(ValueError, match='image .*text.png'):
        basis_of_image(model, model.attention, PIPELINE, tmp_path / 'text.png')
    stereo = MODELS.build(dict(type='mmflatten.PSMNet', base_channels=2, depths=(1, 1, 1, 1), attention=dict(
        type='mmflatten.FactorizedAttention', basis_channels=2)))
    with pytest.raises(ValueError, match='PSMNet'):
        basis_of_image(stereo, find_attention(stereo)[1], PIPELINE, photo)


def test_most_used_masks_come_first_over_all_images() -> None:
    class Result:
        def __init__(self, *shares):
            self.shares = np.array(shares)

    assert most_used([Result(.1, .5, .4, 0.), Result(.1, .2, .6, .1)], 3) == [2, 1, 0]


def test_masks_of_both_signs_and_of_constant_zero_are_drawn(photo: str, tmp_path: Path) -> None:
    model = Stub()
    model.attention = FactorizedAttention(3, basis_channels=2, normalization='dot')
    nn.init.zeros_(model.attention.basis.weight[1])
    nn.init.zeros_(model.attention.basis.bias)
    result = basis_of_image(model, model.attention, PIPELINE, photo)
    draw_basis_masks([result, result], [0, 1], tmp_path / 'both.png')
    drawn = cv2.imread(str(tmp_path / 'both.png'))
    assert drawn.shape[1] == 720 and len(np.unique(drawn.reshape(-1, 3), axis=0)) > 50


def test_the_attention_of_the_finest_level_is_drawn_unless_another_is_named(files: tuple[str, str]) -> None:
    model = MODELS.build(Config.fromfile(files[0]).model)
    assert find_attention(model) == ('neck.attentions.1', model.neck.attentions['1'])
    assert find_attention(model, 'backbone.layer3.attention')[1] is model.backbone.layer3.attention
    with pytest.raises(ValueError, match=r'module \(neck\).*backbone.layer3.attention, neck.attentions.1'):
        find_attention(model, 'neck')
    with pytest.raises(ValueError, match='Identity'):
        find_attention(nn.Identity())
    with pytest.raises(ValueError, match='ndim=3'):
        find_attention(nn.Sequential(FactorizedAttention(8, ndim=3)))


def test_the_tool_draws_a_row_for_each_image(tool, files, photo: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / 'new' / 'basis.png'
    assert tool.main([*files, photo, photo, '--number', '3', '--out', str(out)]) == 0
    assert 'neck.attentions.1: masks' in capsys.readouterr().out
    drawn = cv2.imread(str(out))
    assert drawn.shape[1] == 960 and len(np.unique(drawn.reshape(-1, 3), axis=0)) > 100
    assert tool.main([*files, photo, '--module', 'backbone.layer3.attention', '--masks', '7', '--out', str(out)]) == 0
    assert cv2.imread(str(out)).shape[1] == 480


@pytest.mark.parametrize('change, words', [
    (dict(config='nowhere.py'), 'config nowhere.py'),
    (dict(checkpoint='nowhere.pth'), 'nowhere.pth'),
    (dict(image='nowhere.png'), 'image nowhere.png'),
    (dict(more=['--masks', '8']), 'masks ([8])'),
    (dict(more=['--number', '0']), '--number (0)'),
    (dict(more=['--module', 'backbone']), 'module (backbone)'),
])
def test_what_is_wrong_is_said_in_one_line(tool, files, photo: str, tmp_path: Path, capsys, change, words) -> None:
    config, checkpoint = files
    arguments = [change.get('config', config), change.get('checkpoint', checkpoint), change.get('image', photo)]
    assert tool.main([*arguments, '--out', str(tmp_path / 'x.png'), *change.get('more', [])]) == 1
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_a_checkpoint_of_another_model_is_refused_with_its_first_keys(tool, files, photo: str, tmp_path: Path,
                                                                      capsys) -> None:
    weights = torch.load(files[1])['state_dict']
    del weights['neck.attentions.2.basis.weight']
    torch.save(dict(state_dict=weights), tmp_path / 'other.pth')
    assert tool.main([files[0], str(tmp_path / 'other.pth'), photo]) == 1
    assert 'neck.attentions.2.basis.weight' in capsys.readouterr().err.splitlines()[-1]
