"""tools/convert_checkpoint.py --head-map: selecting classes of a head."""

import importlib.util
from pathlib import Path
from textwrap import dedent

import cv2
import numpy as np
import pytest
import torch

from mmflatten.checkpoints import convert_state_dict, revert_state_dict
from mmflatten.registry import MODELS

ROOT = Path(__file__).parents[2]
CLASSES = 7
BACKBONE = dict(
    type='mmflatten.FLattenSwin',
    arch=dict(embed_dims=8, depths=(1, 1), num_heads=(2, 4)),
    img_size=32,
    attn_types='LS',
    out_indices=(1,),
)
TRAINING = """
    _base_ = ['{root}/configs/_base_/default_runtime.py']
    default_scope = 'mmpretrain'
    model = dict(
        type='ImageClassifier', backbone={backbone}, neck=dict(type='GlobalAveragePooling'),
        head=dict(type='LinearClsHead', num_classes=2, in_channels=16, topk=(1, ),
                  loss=dict(type='CrossEntropyLoss')))
    data_preprocessor = dict(num_classes=2, mean=[127.5] * 3, std=[127.5] * 3)
    train_dataloader = dict(
        batch_size=2, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=True),
        dataset=dict(
            type='CustomDataset', data_root='data',
            pipeline=[dict(type='LoadImageFromFile'), dict(type='PackInputs')]))
    train_cfg = dict(by_epoch=True, max_epochs=1)
    optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.))  # keeps the loaded weights
    load_from = 'mapped.pth'
    work_dir = 'run'
"""


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / 'tools' / f'{name}.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


@pytest.fixture
def ours(tmp_path, monkeypatch):
    """Weights of a classifier with seven classes; also changes to an empty folder."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    state = MODELS.build(
        dict(
            type='mmpretrain.ImageClassifier',
            _scope_='mmpretrain',
            backbone=BACKBONE,
            neck=dict(type='GlobalAveragePooling'),
            head=dict(type='LinearClsHead', num_classes=CLASSES, in_channels=16),
        )
    ).state_dict()
    return {
        name: torch.randn(value.shape) if value.is_floating_point() else value
        for name, value in state.items()
    }


def convert(capsys, content, lines, *options):
    """Convert to `mapped.pth` and return the exit status and the last line of the error output."""
    torch.save(content, 'source.pth')
    Path('map.txt').write_text(lines)
    status = load_tool('convert_checkpoint')(
        ['source.pth', 'mapped.pth', '--head-map', 'map.txt', *options]
    )
    return status, capsys.readouterr().err.strip().splitlines()[-1:]


def assert_mapped(state, original, classes):
    assert state.keys() == original.keys()
    for name, value in original.items():
        assert torch.equal(state[name], value[classes] if name.startswith('head.fc.') else value), (
            name
        )


# Swin's file has no final line break, other files may have Windows line breaks. A class may occur
# twice.
@pytest.mark.parametrize('lines', ['5\n0\n5\n6', '5\r\n0\r\n5\r\n6\r\n'])
@pytest.mark.parametrize('official', [True, False])
def test_head_map_selects_listed_classes(lines, official, ours, capsys):
    content = (
        {'model': revert_state_dict(ours, 'flatten_swin')}
        if official
        else {'state_dict': ours, 'optimizer': {}}
    )
    status, _ = convert(capsys, content, lines, *(['--family', 'flatten_swin'] if official else []))
    assert status == 0
    mapped = torch.load('mapped.pth', weights_only=True)
    assert_mapped(mapped['state_dict'], ours, [5, 0, 5, 6])
    assert mapped['meta']['head_map'] == 'map.txt' and len(mapped['meta']['head_map_sha256']) == 64


def test_head_map_works_with_revert(ours, capsys):
    assert (
        convert(capsys, {'state_dict': ours}, '2\n4\n', '--revert', '--family', 'flatten_swin')[0]
        == 0
    )
    assert_mapped(
        convert_state_dict(torch.load('mapped.pth')['model'], 'flatten_swin'), ours, [2, 4]
    )


@pytest.mark.parametrize(
    'lines, words',
    [
        ('5\n7\n', ['line 2', "'7'", '6']),
        ('-1\n', ['line 1', "'-1'"]),
        ('0\n\n1\n', ['line 2', "''"]),
        ('n01440764\n', ['line 1', "'n01440764'"]),
        ('', ['map.txt', 'empty']),
    ],
)
def test_head_map_names_invalid_line(lines, words, ours, capsys):
    status, last = convert(capsys, {'state_dict': ours}, lines)
    assert status == 1
    assert all(word in last[0] for word in words)
    assert not Path('mapped.pth').exists()


def test_head_map_rejects_checkpoint_without_head(ours, capsys):
    backbone = {name: value for name, value in ours.items() if not name.startswith('head.')}
    official = revert_state_dict(ours, 'flatten_swin')
    for content, word in ((backbone, 'head.fc.weight'), (official, '--family')):
        status, last = convert(capsys, content, '0\n')
        assert status == 1 and word in last[0] and not Path('mapped.pth').exists()


def test_head_map_rejects_missing_file_and_missing_family(ours, capsys):
    torch.save(ours, 'source.pth')
    tool = load_tool('convert_checkpoint')
    assert tool(['source.pth', 'mapped.pth', '--head-map', 'other.txt']) == 1
    assert 'other.txt' in capsys.readouterr().err
    with pytest.raises(SystemExit):
        tool(['source.pth', 'mapped.pth'])
    assert '--family' in capsys.readouterr().err


def test_fine_tuning_starts_from_mapped_head(ours):
    torch.save({'model': revert_state_dict(ours, 'flatten_swin')}, 'source.pth')
    Path('map.txt').write_text('6\n1\n')
    assert (
        load_tool('convert_checkpoint')(
            ['source.pth', 'mapped.pth', '--family', 'flatten_swin', '--head-map', 'map.txt']
        )
        == 0
    )
    for name in ('dark', 'light'):
        Path('data', name).mkdir(parents=True)
        cv2.imwrite(f'data/{name}/0.png', np.full((32, 32, 3), 50, np.uint8))
    Path('config.py').write_text(dedent(TRAINING).format(root=ROOT, backbone=BACKBONE))
    assert load_tool('train')(['config.py']) == 0
    trained = torch.load('run/epoch_1.pth', weights_only=False)
    assert trained['meta']['iter'] == 1
    assert_mapped(trained['state_dict'], ours, [6, 1])
