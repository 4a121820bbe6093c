"""Initial weights of the configs: the classifier in the name of the checkpoint, and how its weights
are loaded.
"""

import inspect
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS

from mmflatten.checkpoints.run_files import CheckpointError
from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.models.layers import GridTable

ROOT = Path(__file__).parents[2] / 'configs'
CONFIGS = sorted(path for path in ROOT.glob('*/*.py') if path.parent.name != '_base_')

# Config -> name of the classifier in the file name of its initial checkpoint.
STARTS = {
    path: match[1]
    for path in CONFIGS
    if (match := re.search(r"'checkpoints/(.+_in\d+k)\.pth'", path.read_text(encoding='utf-8')))
}
SAMPLE = set({start: path for path, start in STARTS.items()}.values())
# Arguments of the backbone that a dense task or another image size may change.
OF_THE_TASK = {
    'out_indices',
    'init_cfg',
    'img_size',
    'drop_path_rate',
    'out_type',
    'last_projection',
    'focal_windows',
    'expand_always',
    'neighbor_boundary',
    'with_cls_token',
    'pooled',
}
OF_THE_SIZE = {'softmax_window', 'softmax_split', 'window_size'}


def starting_name(path: Path) -> str | None:
    """Return the checkpoint name of a classifier: `swin-t-window-14_in1k` for
    `swin-t_8xb128_in1k_window-14.py`.
    """
    match = re.fullmatch(r'(?!.*pre_)([^_]+)_\d+xb\d+_(in\d+k)(?:_(.+))?', path.stem)
    return match and '-'.join([match[1], *(match[3] or '').split('_')]).rstrip('-') + f'_{match[2]}'


CLASSIFIERS = {starting_name(path): path for path in CONFIGS}


@cache
def read(path: Path) -> Config:
    return Config.fromfile(path)


@cache
def backbone_of(path: Path) -> torch.nn.Module:
    return build_on_meta(read(path).model.backbone, read(path).default_scope)


def arguments(path: Path) -> dict:
    """Return all arguments of a config's backbone, including defaults."""
    given = read(path).model.backbone.to_dict()
    signature = inspect.signature(MODELS.get(given['type'])).parameters.values()
    return {
        **{p.name: p.default for p in signature if p.default is not p.empty},
        **given,
        **_agents_aside(given),
    }


def _agents_aside(given: dict) -> dict:
    """Return the mixers of a backbone without their numbers of agents, which dense tasks
    increase.
    """
    if not given.get('mixers'):
        return {}
    letters = ''.join(given.get('attn_types', ''))
    mixers = {letter: dict(mixer) for letter, mixer in given['mixers'].items() if letter in letters}
    for mixer in mixers.values():
        mixer.pop('num_agents', None)
    return dict(mixers=mixers)


@pytest.mark.parametrize(
    'path',
    [pytest.param(path, marks=[] if path in SAMPLE else pytest.mark.full) for path in STARTS],
    ids=lambda path: path.stem,
)
def test_config_accepts_the_weights_of_the_classifier_in_its_checkpoint_name(path):
    if STARTS[path].startswith('focal-l_'):
        pytest.skip('there is no config for its ImageNet-22k')
    source = CLASSIFIERS[STARTS[path]]
    ours, theirs = arguments(path), arguments(source)
    for key in OF_THE_TASK | (OF_THE_SIZE if path.stem.endswith('384px') else set()):
        ours.pop(key, None)
        theirs.pop(key, None)
    assert ours == theirs

    given, taken = (backbone_of(of).state_dict() for of in (source, path))
    # Output norms and PVT's class token with its norm may be missing on either side. Focal's last
    # stage has neighbours only in larger regions.
    free = re.compile(
        r'norms\.\d\..*|last_projection\..*|pool_norm\..*|.*\.neighbor_bias\.table|.*\.cls_token|'
        r'stages\.3\.norm\..*'
    )
    assert [key for key in given.keys() ^ taken.keys() if not free.fullmatch(key)] == []
    # Tables are resized when they are loaded.
    resized = {key for key in given.keys() & taken.keys() if given[key].shape != taken[key].shape}
    assert all(
        key.endswith(('.table', '_bias.grid', '_bias.rows', '_bias.cols')) for key in resized
    )


def test_checkpoint_names_are_names_of_classifiers():
    assert {
        start for start in STARTS.values() if not start.startswith('focal-l_')
    } <= CLASSIFIERS.keys()


def test_missing_pretrained_weights_are_named(load_config):
    config = load_config('flatten_swin/mask-rcnn_flatten-swin-t_fpn_1x_coco.py')
    config.model.backbone.init_cfg.checkpoint = 'nowhere/weights.pth'
    backbone = MODELS.build(config.model.backbone)
    with pytest.raises(CheckpointError, match='nowhere/weights.pth'):
        backbone.init_weights()


def load_classifier(
    load_config, folder: Path, classifier: str, detector: str
) -> tuple[dict, dict, dict]:
    """Return the state of a classifier's backbone, and of a detector's before and after loading it
    from a file.
    """
    source = MODELS.build(load_config(classifier).model)
    source.init_weights()
    torch.save(dict(state_dict=source.state_dict()), folder / 'classifier.pth')
    config = load_config(detector)
    config.model.backbone.init_cfg.checkpoint = str(folder / 'classifier.pth')
    backbone = MODELS.build(config.model.backbone)
    fresh = {key: value.clone() for key, value in backbone.state_dict().items()}
    backbone.init_weights()
    return source.backbone.state_dict(), fresh, backbone.state_dict()


def test_detector_loads_the_backbone_of_a_classifier(load_config, tmp_path):
    given, _, loaded = load_classifier(
        load_config,
        tmp_path,
        'flatten_swin/flatten-swin-t_8xb128_in1k.py',
        'flatten_swin/retinanet_flatten-swin-t_fpn_1x_coco.py',
    )
    for key, value in given.items():
        torch.testing.assert_close(loaded[key], value, rtol=0, atol=0)


def test_focal_detector_resizes_its_bias_tables(load_config, tmp_path):
    given, fresh, loaded = load_classifier(
        load_config,
        tmp_path,
        'focal/focal-t_8xb128_in1k.py',
        'focal/retinanet_focal-t_fpn_1x_coco.py',
    )
    resized = {key for key in given if '.pooled_bias.' in key}
    for key in given.keys() - resized:
        torch.testing.assert_close(loaded[key], given[key], rtol=0, atol=0)
    sides = Counter((given[key].shape[1], loaded[key].shape[1]) for key in resized)
    assert sides == {(169, 441): 2, (121, 361): 2, (81, 225): 6, (49, 169): 2}
    for key in resized:
        assert not torch.equal(loaded[key], fresh[key])
        torch.testing.assert_close(loaded[key].mean(), given[key].mean(), atol=5e-3, rtol=0)


@pytest.mark.parametrize('name', ['cswin', 'flatten-cswin'])
def test_cswin_at_384_loads_all_weights_of_224(name, load_config):
    thin = dict(embed_dims=16, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16))
    models = []
    for ending in ('8xb64_in1k' if 'flatten' in name else '8xb128_in1k', '8xb32_in1k-384px'):
        config = load_config(f'flatten_cswin/{name}-b_{ending}.py')
        config.model.backbone.arch, config.model.head.in_channels = thin, 128
        models.append(MODELS.build(config.model))
    models[1].load_state_dict(models[0].state_dict(), strict=True)
    sizes = {module.grid_size for module in models[1].modules() if isinstance(module, GridTable)}
    assert sizes == ({(96, 96), (48, 48)} if name == 'flatten-cswin' else set())
