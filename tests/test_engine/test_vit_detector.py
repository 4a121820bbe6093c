"""A user's own ViT of timm in a detector, as a `ViT` from its converted file and in mmpretrain's
wrapper.
"""

import pytest
import timm
import torch
from mmengine.registry import MODELS

from mmflatten.cli import convert
from mmflatten.engine.setup import load_config

SIZES = dict(embed_dim=48, depth=2, num_heads=3, img_size=32)
LINES = dict(
    ours=(
        "type='mmflatten.ViT', arch=dict(embed_dims=48, depth=2, num_heads=3, img_size=32),"
        " out_type='featmap', output_norm='none', frozen_stages=2, init_cfg=dict(type='Pretrained',"
        " checkpoint='{folder}/ours.pth', prefix='backbone.')"
    ),
    timm=(
        "type='mmpretrain.TIMMBackbone', model_name='vit_tiny_patch16_224', features_only=True,"
        ' out_indices=(1,), dynamic_img_size=True, dynamic_img_pad=True, pretrained=True,'
        " pretrained_cfg_overlay=dict(file='{folder}/timm.pth'), embed_dim=48, depth=2,"
        ' num_heads=3, img_size=32'
    ),
)


@pytest.fixture(scope='module')
def detectors(tmp_path_factory, config_on):
    """Configs of Mask R-CNN on digit scenes whose backbones differ in `LINES`, and the weights of
    timm's model.
    """
    folder = tmp_path_factory.mktemp('own')
    torch.manual_seed(0)
    own = timm.create_model('vit_tiny_patch16_224', **SIZES)
    torch.save(own.state_dict(), folder / 'timm.pth')
    assert (
        convert.main([str(folder / 'timm.pth'), str(folder / 'ours.pth'), '--family', 'auto']) == 0
    )
    neck = (
        "dict(_delete_=True, type='mmflatten.SimpleFeaturePyramid', in_channels=48,"
        ' out_channels=48, num_outs=4)'
    )
    return {
        name: config_on(
            'mask-rcnn_flatten-swin-nano_fpn_digits',
            f'backbone = dict({line.format(folder=folder)})',
            f'model = dict(backbone=dict(_delete_=True, **backbone), neck={neck})',
        )
        for name, line in LINES.items()
    }, own.state_dict()


@pytest.mark.parametrize('size', [(32, 32), (97, 150)])
def test_both_have_the_same_map(detectors, size):
    backbones = [
        MODELS.build(load_config(str(config)).model.backbone) for config in detectors[0].values()
    ]
    for backbone in backbones:
        backbone.init_weights()
        backbone.eval()
    with torch.no_grad():
        (ours,), (theirs,) = (
            backbone(torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0)))
            for backbone in backbones
        )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize('name', LINES)
def test_detector_trains_and_tests_by_its_command_lines(detectors, name, tools, capsys):
    config, weights = detectors[0][name], detectors[1]
    assert tools.train([str(config)]) == 0
    checkpoint = (config.parent / 'run' / 'last_checkpoint').read_text()
    assert tools.test([str(config), checkpoint]) == 0
    assert 'coco/segm_mAP' in capsys.readouterr().out
    state = torch.load(checkpoint, weights_only=False)['state_dict']
    prefix, key = dict(
        ours=('backbone.', 'blocks.0.ffn.fn.fc1.weight'),
        timm=('backbone.timm_model.model.', 'blocks.0.mlp.fc1.weight'),
    )[name]
    trained, given = state[prefix + key], weights['blocks.0.mlp.fc1.weight']
    assert trained.equal(given) if name == 'ours' else 0 < (trained - given).abs().max() < 0.01
