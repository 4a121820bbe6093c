"""What a published model keeps of each config: listed classes, and numbers that build the same
input.
"""

import copy
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.registry import MODELS, DefaultScope

from mmflatten.engine.image_input import input_of, pipeline_of, preprocessor_of
from mmflatten.engine.setup import require_scope
from mmflatten.hub.config_data import accepted, to_data
from mmflatten.hub.cost import CostCheck, input_sizes
from mmflatten.untrusted.model_classes import TYPES, WORDS
from mmflatten.untrusted.model_numbers import NUMBERS
from mmflatten.untrusted.published import HubError, Input, arguments, checked

ROOT = Path(__file__).parents[2] / 'configs'
# `publish` takes models of this project, so not those in `comparison`.
NAMES = [
    path.relative_to(ROOT).as_posix()
    for path in sorted(ROOT.glob('*/*.py'))
    if path.parent.name not in ('_base_', 'comparison')
]
BACKBONES = TYPES['mmpretrain']['backbone']
# Arguments whose numbers stand in no model of our configs.
ELSEWHERE = dict.fromkeys(('registers', 'rotary'), 'sizes of backbones')
ELSEWHERE |= dict.fromkeys(('no_object_weight', 'token_level'), 'options of EncoderMaskHead')
SLIDING = ('crop_size', 'stride')
ELSEWHERE |= dict.fromkeys(SLIDING, 'test_cfg of a segmentor that slides over an image')
TRUTH = ('LoadAnnotations', 'mmflatten.LoadDisparity', 'mmflatten.LoadPanopticAnnotations')


def texts(value: Any, argument: str = 'model') -> Iterator[tuple[str, str]]:
    """Yield all text of a model's config with its argument; for a type that of the class."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from texts(item, f'type of {argument}' if name == 'type' else name)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts(item, argument)
    elif isinstance(value, str):
        yield argument, value


def numbers(value: Any, argument: str = 'model') -> Iterator[str]:
    """Yield the argument of each number of a model's config."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from numbers(item, name)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from numbers(item, argument)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield argument


def test_lists_of_parts_and_numbers_are_those_of_all_configs(read_config):
    found, with_numbers = set(), set()
    for name in NAMES:
        config = read_config(name)
        model = accepted(
            json.loads(json.dumps(to_data(config.model, name))), config.default_scope, name
        )
        assert to_data(model, name) == to_data(config.model, name)
        found.update(texts(model))
        with_numbers.update(numbers(model))
    for types in TYPES.values():
        for argument, values in types.items():
            assert {(f'type of {argument}', value) for value in values} <= found
    assert WORDS <= {argument for argument, _ in found}
    assert NUMBERS.keys() - with_numbers == ELSEWHERE.keys()


def test_sizes_of_backbones_can_be_published():
    """A config may write out a size of a backbone that it would otherwise name."""
    for scope in TYPES:
        require_scope(scope)
    for name in sorted(BACKBONES):
        cls = MODELS.get(name)
        archs = getattr(cls, 'archs', None) or getattr(import_module(cls.__module__), 'ARCHS', {})
        for arch in archs.values():
            sizes = {key: value for key, value in arch.items() if not isinstance(value, str)}
            assert accepted(to_data(sizes, name), 'mmpretrain', name) == sizes
            assert set(numbers(sizes)) <= NUMBERS.keys()


@pytest.fixture(scope='module')
def picture(tmp_path_factory) -> str:
    """An image with odd sides, which every resize changes in another way."""
    path = tmp_path_factory.mktemp('pictures') / 'odd.png'
    cv2.imwrite(str(path), np.random.default_rng(0).integers(0, 256, (231, 317, 3), np.uint8))
    return str(path)


def prepare(pipeline: list[dict], preprocessor: dict, scope: str, picture: str) -> tuple[Any, dict]:
    """Return the model's input and the facts on it that change predictions."""
    require_scope(scope)
    with DefaultScope.overwrite_default_scope(scope):
        steps = Compose([step for step in copy.deepcopy(pipeline) if step['type'] not in TRUTH])
        data = steps(dict(img_path=picture, right_path=picture, img_id=0))
        data = {key: [value] for key, value in data.items()}
        if scope == 'mmflatten':
            data['inputs'] = {side: [image] for side, image in data['inputs'][0].items()}
        data = MODELS.build(copy.deepcopy(preprocessor))(data, False)
    sample = data['data_samples'][0]
    return data['inputs'], {
        name: sample.metainfo.get(name)
        for name in (
            'ori_shape',
            'img_shape',
            'pad_shape',
            'batch_input_shape',
            'scale_factor',
            'padding_size',
        )
    }


def test_numbers_build_the_input_of_all_configs(read_config, picture):
    tried = set()
    for name in NAMES:
        config = read_config(name)
        scope, stored = config.default_scope, input_of(config, name)
        pipeline = config.test_dataloader.dataset.pipeline
        given = dict(config.model.get('data_preprocessor') or config.data_preprocessor)
        given.setdefault('type', 'ClsDataPreprocessor')
        if (key := f'{scope} {pipeline} {given}') in tried:
            continue
        tried.add(key)
        published = checked(Input, json.loads(json.dumps(stored)), name)
        before, facts = prepare(pipeline, given, scope, picture)
        after, same = prepare(
            pipeline_of(published, scope), preprocessor_of(published, scope), scope, picture
        )
        torch.testing.assert_close(after, before, rtol=0, atol=0)
        assert same == facts and any(facts.values()), name
        image = after['left'] if scope == 'mmflatten' else after
        *_, (_, size) = input_sizes(published, 231, 317, scope)
        assert size == tuple(image.shape[-2:]), name
    assert len(tried) > 20


@pytest.mark.parametrize(
    'name, height, width',
    [
        ('psmnet/psmnet_nl_8xb3-100e_sceneflow.py', 540, 960),
        ('flatten_swin/htc_swin-l_fpn_ms-3x_coco.py', 3000, 4000),
        ('flatten_swin/upernet_swin-l_8xb2-160k_ade20k-640x640.py', 1536, 2048),
    ],
)
def test_large_models_of_the_configs_are_not_refused(name, height, width, read_config):
    config = read_config(name)
    require_scope(config.default_scope)
    numbers = checked(Input, input_of(config, name), name)
    model = accepted(to_data(config.model, name), config.default_scope, name)
    CostCheck(model, config.default_scope, arguments(numbers), name).require(height, width)


def test_dinov2_l_at_1036_pixels_is_not_refused(read_config):
    require_scope('mmpretrain')
    model = to_data(read_config('vit/dinov2-s-frozen_linear-probe_8xb128_in1k.py').model, 'model')
    model['backbone'].update(arch='dinov2-large', frozen_stages=24)
    model['head'].update(in_channels=2048)
    model = accepted(model, 'mmpretrain', 'model')
    check = CostCheck(model, 'mmpretrain', dict(resize=dict(scale=1036)), 'config.json')
    check.require(2000, 3000)
    assert check.estimate(2000, 3000) > 1036**2 // 14**2 * 4096 * 4  # a layer of an MLP


STEPS = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(32, 32)),
    dict(type='PackInputs'),
]


def small(steps: list[dict], **preprocessor: Any) -> Config:
    return Config(
        dict(
            default_scope='mmpretrain',
            model=dict(type='ImageClassifier'),
            data_preprocessor=preprocessor,
            test_dataloader=dict(dataset=dict(type='RepeatDataset', dataset=dict(pipeline=steps))),
        )
    )


@pytest.mark.parametrize(
    'steps, word',
    [
        ([*STEPS[:2], dict(type='Normalize'), STEPS[2]], 'Normalize'),
        ([*STEPS, STEPS[2]], 'PackInputs'),
        ([], 'the end'),
        ([dict(type='mine.Load'), *STEPS[1:]], 'mine.Load'),
        ([STEPS[0], STEPS[1], *STEPS[1:]], 'Resize'),
        ([STEPS[0], dict(type='Resize', scale_factor=2), STEPS[2]], 'scale_factor'),
        ([STEPS[0], dict(type='CenterCrop', crop_size=8), *STEPS[1:]], 'CenterCrop'),
        ([STEPS[0], dict(type='Resize', scale=(32, 10**6)), STEPS[2]], 'scale'),
        ([dict(type='LoadImageFromFile', to_float32=True), *STEPS[1:]], 'to_float32'),
    ],
)
def test_pipeline_that_numbers_cannot_say_is_refused(steps, word):
    with pytest.raises(HubError, match=f'mine.py.*{word}'):
        input_of(small(steps), 'mine.py')


def test_preprocessor_that_numbers_cannot_say_is_refused():
    assert input_of(small(STEPS, mean=(1, 2, 3), std=[1, 1, 1], num_classes=5), 'mine.py') == dict(
        resize=dict(scale=(32, 32)), preprocessor=dict(mean=[1, 2, 3], std=[1, 1, 1])
    )
    for values in (dict(type='MyPreprocessor'), dict(rgb_to_bgr=True), dict(mean=[0, 0, 0, 0])):
        with pytest.raises(HubError, match=f'mine.py.*{next(iter(values))}'):
            input_of(small(STEPS, **values), 'mine.py')
