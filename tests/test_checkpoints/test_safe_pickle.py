"""Reading the weights of checkpoints with objects of other libraries, without running their code."""
import argparse
import os
import sys
import types
import zipfile

import pytest
import torch

from mmflatten.checkpoints.safe_pickle import Inert, load_without_code
from mmflatten.engine.checkpoints.files import what_is_wrong

FORMATS = pytest.mark.parametrize('zipped', [True, False], ids=['zip', 'legacy'])


class Malicious:
    """An object that creates a folder when it is unpickled."""

    def __init__(self, marker) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


class Patching:
    """An object that, if PyTorch's functions are allowed, modifies one of them when it is unpickled."""

    def __reduce__(self):
        return _function_named_by_the_file, (), (None, {'__defaults__': ('broken',)})


def _function_named_by_the_file():
    raise AssertionError('code of the file has run')


@pytest.fixture
def yacs_node(monkeypatch):
    """A configuration as in official files, of the library yacs, which is not installed when the file is read."""
    module = types.ModuleType('yacs.config')
    module.CfgNode = type('CfgNode', (dict,), {'__module__': 'yacs.config'})
    monkeypatch.setitem(sys.modules, 'yacs', types.ModuleType('yacs'))
    monkeypatch.setitem(sys.modules, 'yacs.config', module)
    yield module.CfgNode(MODEL=module.CfgNode(TYPE='flatten_swin'), EPOCHS=300)
    monkeypatch.undo()


@FORMATS
def test_load_without_code_does_not_run_malicious_file(tmp_path, zipped):
    marker, path = tmp_path / 'marker', tmp_path / 'malicious.pth'
    weights = {'norm.weight': torch.arange(6.).view(2, 3)}
    torch.save({'model': weights, 'config': Malicious(marker)}, path, _use_new_zipfile_serialization=zipped)
    content, replaced = load_without_code(path)
    assert not marker.exists()
    assert torch.equal(content['model']['norm.weight'], weights['norm.weight'])
    assert isinstance(content['config'], Inert) and replaced == [f'{os.mkdir.__module__}.mkdir']
    torch.load(path, weights_only=False)
    assert marker.exists(), 'the file is harmless, so this test proves nothing'


@FORMATS
def test_load_without_code_replaces_objects_of_missing_libraries(tmp_path, yacs_node, zipped):
    path = tmp_path / 'yacs.pth'
    shared = torch.randn(4, 3, dtype=torch.float16)
    torch.save({'model': {'a': shared, 'b': shared.T, 'c': torch.nn.Parameter(torch.ones(2))}, 'config': yacs_node,
                'args': argparse.Namespace(lr=.1)}, path, _use_new_zipfile_serialization=zipped)
    for name in ('yacs', 'yacs.config'):
        del sys.modules[name]
    content, replaced = load_without_code(path)
    assert {'argparse.Namespace', 'yacs.config.CfgNode'} >= set(replaced) >= {'yacs.config.CfgNode'}
    assert torch.equal(content['model']['a'], shared) and torch.equal(content['model']['b'], shared.T)
    assert torch.equal(content['model']['c'], torch.ones(2))


def test_load_without_code_replaces_nothing_in_plain_file(tmp_path):
    torch.save({'model': {'a': torch.ones(2)}, 'epoch': 3}, tmp_path / 'plain.pth')
    content, replaced = load_without_code(tmp_path / 'plain.pth')
    assert replaced == [] and content['epoch'] == 3


def test_load_without_code_protects_pytorch_functions(tmp_path):
    path = tmp_path / 'patching.pth'
    torch.save({'model': {'a': torch.ones(2)}, 'config': Patching()}, path, _use_new_zipfile_serialization=False)
    ours = f'c{__name__}\n_function_named_by_the_file\n'.encode()
    torchs = b'ctorch._utils\n_rebuild_tensor_v2\n'
    content = path.read_bytes()
    assert content.count(ours) == 1
    # Apply the state to the function itself instead of the result of a call: remove `)` and `R` of the call.
    start = content.index(ours)
    call = content.index(b'R', start + len(ours))
    path.write_bytes(content[:start] + torchs + content[call + 1:])
    before = torch._utils._rebuild_tensor_v2.__defaults__
    with pytest.raises(ValueError, match='patching.pth'):
        load_without_code(path)
    assert torch._utils._rebuild_tensor_v2.__defaults__ == before


@pytest.mark.parametrize('content', [b'', b'<html>not found</html>', b'\x80\x02', b'PK\x03\x04broken'])
def test_load_without_code_rejects_other_files(tmp_path, content):
    path = tmp_path / 'page.pth'
    path.write_bytes(content)
    with pytest.raises(ValueError, match='page.pth'):
        load_without_code(path)


@FORMATS
@pytest.mark.parametrize('fraction', [.3, .9])
def test_load_without_code_rejects_truncated_file(tmp_path, zipped, fraction):
    path = tmp_path / 'cut.pth'
    torch.save({'model': {'a': torch.randn(1000)}, 'config': Malicious('x')}, path,
               _use_new_zipfile_serialization=zipped)
    content = path.read_bytes()
    path.write_bytes(content[:int(fraction * len(content))])
    with pytest.raises(ValueError, match='cut.pth'):
        load_without_code(path)


def test_compressed_checkpoint_is_not_expanded(tmp_path):
    path = tmp_path / 'bomb.pth'
    torch.save({'model': {'a': torch.zeros(100)}}, tmp_path / 'plain.pth')
    with zipfile.ZipFile(tmp_path / 'plain.pth') as source, zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as bomb:
        for member in source.infolist():
            bomb.writestr(member.filename, source.read(member))
    with pytest.raises(ValueError, match=r'bomb\.pth.*compressed'):
        load_without_code(path)
    assert 'compressed' in what_is_wrong(path) and what_is_wrong(tmp_path / 'plain.pth') is None


def test_load_without_code_rejects_torchscript(tmp_path):
    path = tmp_path / 'script.pth'
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    with pytest.raises(ValueError, match='script.pth'):
        load_without_code(path)
