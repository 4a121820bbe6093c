"""tools/convert_checkpoint.py: file layouts, output files, errors."""

import hashlib
import importlib.util
import os
import shutil
from pathlib import Path

import pytest
import safetensors
import torch
from mmengine.runner import load_checkpoint
from safetensors.torch import load_file, save_file

from mmflatten.checkpoints import convert_state_dict, revert_state_dict
from mmflatten.registry import MODELS

TOOL = Path(__file__).parents[2] / 'tools' / 'convert_checkpoint.py'


@pytest.fixture(scope='module')
def tool():
    spec = importlib.util.spec_from_file_location('convert_checkpoint', TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def model():
    return MODELS.build(
        dict(
            type='mmpretrain.ImageClassifier',
            _scope_='mmpretrain',
            backbone=dict(
                type='mmflatten.FLattenSwin',
                arch=dict(embed_dims=8, depths=(1, 1), num_heads=(2, 4)),
                img_size=32,
                attn_types='LS',
                out_indices=(1,),
            ),
            neck=dict(type='GlobalAveragePooling'),
            head=dict(type='LinearClsHead', num_classes=5, in_channels=16),
        )
    )


@pytest.fixture
def official():
    """Random weights of the model with the names of the official FLatten-Swin."""
    generator = torch.Generator().manual_seed(0)
    return {
        key: torch.randn(value.shape, generator=generator)
        for key, value in revert_state_dict(model().state_dict(), 'flatten_swin').items()
    }


@pytest.fixture
def run(tool, tmp_path, monkeypatch, capsys):
    """Function that saves and converts a file; returns exit status, output, last error line and
    destination.
    """
    monkeypatch.chdir(tmp_path)

    def call(content, *options, source='official.pth', destination='converted.pth'):
        if content is not None:
            torch.save(content, source)
        status = tool([source, destination, '--family', 'flatten_swin', *options])
        screen = capsys.readouterr()
        return status, screen.out, screen.err.strip().splitlines()[-1:], tmp_path / destination

    return call


def test_convert_file_loads_strictly_and_records_source(run, official):
    status, out, _, path = run({'model': official, 'epoch': 3})
    assert status == 0 and "'model'" in out
    content = torch.load(path, weights_only=True)
    source = path.with_name('official.pth')
    assert content['meta'] == dict(
        family='flatten_swin',
        source='official.pth',
        source_entry='model',
        mmflatten_version=content['meta']['mmflatten_version'],
        source_sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
    )
    classifier = model()
    load_checkpoint(classifier, str(path), strict=True)
    assert torch.equal(classifier.head.fc.weight, official['head.weight'])
    assert sorted(os.listdir(path.parent)) == ['converted.pth', 'official.pth']


@pytest.mark.parametrize(
    'layout',
    [
        'bare',
        'model',
        'state_dict',
        'model_ema',
        'state_dict_ema',
        'module.',
        'model.',
        '_orig_mod.',
        'module._orig_mod.',
        'model._orig_mod.module.',
    ],
)
def test_convert_file_reads_common_layouts(run, official, layout):
    if layout == 'bare':
        content, removed = official, []
    elif layout.endswith('.'):
        content = {f'{layout}{key}': value for key, value in official.items()}
        removed = [f"'{part}.'" for part in layout.split('.')[:-1]]
    else:
        content, removed = {layout: official, 'optimizer': {}}, [repr(layout)]
    status, out, _, path = run(content)
    assert status == 0
    assert all(part in out for part in removed)
    expected = convert_state_dict(official, 'flatten_swin')
    converted = torch.load(path)['state_dict']
    assert converted.keys() == expected.keys()
    assert all(torch.equal(converted[key], value) for key, value in expected.items())


def test_convert_file_prefers_raw_weights_unless_key_is_set(run, official):
    average = {key: value + 1 for key, value in official.items()}
    both = {'model_ema': average, 'model': official}
    status, out, _, path = run(both)
    assert status == 0 and 'model_ema' in out
    assert torch.equal(torch.load(path)['state_dict']['head.fc.bias'], official['head.bias'])
    status, out, _, path = run(both, '--key', 'model_ema', destination='average.pth')
    assert status == 0
    assert torch.equal(torch.load(path)['state_dict']['head.fc.bias'], average['head.bias'])


def test_convert_file_reverts_trained_model(run):
    torch.manual_seed(1)
    classifier = model()
    classifier.init_weights()
    status, _, _, path = run({'state_dict': classifier.state_dict(), 'meta': {}}, '--revert')
    assert status == 0
    content = torch.load(path)
    assert torch.equal(
        content['model']['layers.1.blocks.0.attn.qkv.weight'],
        classifier.backbone.stages[1].blocks[0].attn.fn.mixer.qkv.weight,
    )
    again = convert_state_dict(content['model'], 'flatten_swin')
    assert all(torch.equal(again[key], value) for key, value in classifier.state_dict().items())


class Marking:
    """An object that creates a file when it is unpickled."""

    def __reduce__(self):
        return shutil.copyfile, (__file__, 'marker')


def test_convert_file_runs_no_code_of_the_file(run, official):
    status, out, _, path = run({'model': official, 'config': Marking()})
    assert status == 0 and 'shutil.copyfile' in out and not path.with_name('marker').exists()


def test_convert_file_overwrites_only_with_force(run, official):
    assert run(official)[0] == 0
    Path('converted.pth').write_bytes(b'mine')
    status, _, last, path = run(official)
    assert status == 1 and '--force' in last[0] and path.read_bytes() == b'mine'
    assert run(official, '--force')[0] == 0 and path.read_bytes() != b'mine'
    path.write_text('0\n')
    assert run(official, '--force', '--head-map', path)[0] == 1 and path.read_text() == '0\n'


@pytest.mark.parametrize(
    'content, word',
    [
        ({'epoch': 1}, 'epoch'),
        ({'model': 3}, 'model'),
        ([1, 2], 'list'),
        ({}, 'nothing'),
        (torch.ones(1), 'Tensor'),
        ({'model': {'foreign.weight': torch.ones(1)}}, 'foreign.weight'),
    ],
)
def test_convert_file_rejects_files_without_weights(run, content, word):
    status, out, last, path = run(content)
    assert status == 1 and word in last[0] and out == ''
    assert os.listdir(path.parent) == ['official.pth']


def test_convert_file_names_wrong_paths_and_entries(run, official, tmp_path):
    (tmp_path / 'folder').mkdir()
    for content, options, destination, word in (
        (None, (), 'converted.pth', 'official.pth'),
        (official, ('--force',), 'official.pth', 'official.pth'),
        ({'model': official}, ('--key', 'ema'), 'converted.pth', "'ema'"),
        (official, (), 'folder', 'folder'),
    ):
        status, _, last, _ = run(content, *options, destination=destination)
        assert status == 1 and word in last[0]


def test_convert_file_writes_safetensors_with_metadata(run, official):
    status, out, _, path = run({'model': official}, destination='converted.safetensors')
    assert status == 0 and f'{len(official)} tensors' in out
    assert hashlib.sha256((path.parent / 'official.pth').read_bytes()).hexdigest() in out
    expected = convert_state_dict(official, 'flatten_swin')
    written = load_file(path)
    assert written.keys() == expected.keys()
    assert all(torch.equal(written[key], value) for key, value in expected.items())
    with safetensors.safe_open(path, 'pt') as file:
        meta = file.metadata()
    assert meta['format'] == 'pt'
    assert (meta['family'], meta['source_entry']) == (
        'flatten_swin',
        'model',
    )
    status, *_, back = run(
        None, '--revert', source='converted.safetensors', destination='back.safetensors'
    )
    assert status == 0
    assert all(torch.equal(value, official[key]) for key, value in load_file(back).items())


def test_convert_file_writes_shared_and_strided_tensors(run, official):
    whole = torch.stack([official['layers.0.blocks.0.mlp.fc1.weight'].T] * 2)
    shared = {
        **official,
        'layers.0.blocks.0.mlp.fc1.weight': whole[0].T,
        'head.bias': official['head.bias'].expand(5),
    }
    status, _, _, path = run(shared, destination='converted.safetensors')
    assert status == 0
    assert torch.equal(
        load_file(path)['backbone.stages.0.blocks.0.ffn.fn.fc1.weight'],
        official['layers.0.blocks.0.mlp.fc1.weight'],
    )


@pytest.mark.parametrize(
    'change', [lambda data: data[:-10], lambda data: b'PK' + data, lambda data: b'']
)
def test_convert_file_rejects_damaged_safetensors(run, official, tmp_path, change):
    source = tmp_path / 'official.safetensors'
    save_file(official, source)
    assert run(None, source='official.safetensors')[0] == 0
    source.write_bytes(change(source.read_bytes()))
    status, _, last, path = run(
        None, '--force', source='official.safetensors', destination='other.pth'
    )
    assert status == 1 and source.name in last[0] and not path.exists()


def test_convert_file_rejects_key_for_safetensors(run, official, tmp_path):
    save_file(official, tmp_path / 'official.safetensors')
    status, _, last, _ = run(None, '--key', 'model', source='official.safetensors')
    assert status == 1 and "'model'" in last[0]
