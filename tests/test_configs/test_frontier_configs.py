"""Dense tasks of the newer attentions: strides and channels of the maps."""
from pathlib import Path

import pytest

from mmflatten.measure.flops.meta import build_on_meta

ROOT = Path(__file__).parents[2] / 'configs'
DENSE = sorted(path.relative_to(ROOT).as_posix() for folder in ('agent', 'mila', 'ravlt', 'vittt')
               for kind in ('coco', 'ade20k*') for path in ROOT.glob(f'{folder}/*_{kind}.py'))


@pytest.mark.parametrize('name', [pytest.param(name, marks=[] if '-t_' in name else pytest.mark.full)
                                  for name in DENSE])
def test_dense_backbone_matches_its_neck_or_head(name, load_config):
    config = load_config(name)
    backbone = build_on_meta(config.model.backbone, config.default_scope)
    reader = config.model.get('neck') or config.model.decode_head
    wanted = (8, 16, 32) if 'retinanet' in name else (4, 8, 16, 32)
    assert (list(backbone.out_channels), backbone.out_strides) == (list(reader.in_channels), wanted)
