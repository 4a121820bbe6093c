"""Reading PyTorch's files without running their code, and without more memory or time than their
size explains.
"""

import argparse
import ast
import os
import pickle
import shutil
import sys
import types
import zipfile
from collections import OrderedDict, defaultdict, deque
from pathlib import Path

import numpy as np
import pytest
import torch

from mmflatten.checkpoints.run_files import what_is_wrong
from mmflatten.untrusted import torch_file
from mmflatten.untrusted.records import Placeholder
from mmflatten.untrusted.torch_file import read_torch

FORMATS = pytest.mark.parametrize('zipped', [True, False], ids=['zip', 'legacy'])


class Malicious:
    """An object that creates a file when it is unpickled."""

    def __init__(self, marker) -> None:
        self.marker = marker

    def __reduce__(self):
        return shutil.copyfile, (__file__, str(self.marker))


class Patching:
    """An object that, if PyTorch's functions are allowed, modifies one of them when it is
    unpickled.
    """

    def __reduce__(self):
        return _function_named_by_the_file, (), (None, {'__defaults__': ('broken',)})


def _function_named_by_the_file():
    raise AssertionError('code of the file has run')


@pytest.fixture
def yacs_node(monkeypatch):
    """A configuration as in official files, of the library yacs, which is not installed when the
    file is read.
    """
    module = types.ModuleType('yacs.config')
    module.CfgNode = type('CfgNode', (dict,), {'__module__': 'yacs.config'})
    monkeypatch.setitem(sys.modules, 'yacs', types.ModuleType('yacs'))
    monkeypatch.setitem(sys.modules, 'yacs.config', module)
    yield module.CfgNode(MODEL=module.CfgNode(TYPE='flatten_swin'), EPOCHS=300)
    monkeypatch.undo()


@FORMATS
def test_read_torch_does_not_run_malicious_file(tmp_path, zipped):
    marker, path = tmp_path / 'marker', tmp_path / 'malicious.pth'
    weights = {'norm.weight': torch.arange(6.0).view(2, 3)}
    torch.save(
        {'model': weights, 'config': Malicious(marker)}, path, _use_new_zipfile_serialization=zipped
    )
    content, replaced = read_torch(path)
    assert not marker.exists()
    assert torch.equal(content['model']['norm.weight'], weights['norm.weight'])
    assert isinstance(content['config'], Placeholder) and replaced == ['shutil.copyfile']
    torch.load(path, weights_only=False)
    assert marker.exists(), 'the file is harmless, so this test proves nothing'


@FORMATS
def test_read_torch_replaces_objects_of_missing_libraries(tmp_path, yacs_node, zipped):
    path = tmp_path / 'yacs.pth'
    shared = torch.randn(4, 3, dtype=torch.float16)
    torch.save(
        {
            'model': {'a': shared, 'b': shared.T, 'c': torch.nn.Parameter(torch.ones(2))},
            'config': yacs_node,
            'args': argparse.Namespace(lr=0.1),
        },
        path,
        _use_new_zipfile_serialization=zipped,
    )
    for name in ('yacs', 'yacs.config'):
        del sys.modules[name]
    content, replaced = read_torch(path)
    assert {'argparse.Namespace', 'yacs.config.CfgNode'} >= set(replaced) >= {'yacs.config.CfgNode'}
    assert torch.equal(content['model']['a'], shared) and torch.equal(
        content['model']['b'], shared.T
    )
    assert torch.equal(content['model']['c'], torch.ones(2))


def test_read_torch_replaces_nothing_in_plain_file(tmp_path):
    torch.save({'model': {'a': torch.ones(2)}, 'epoch': 3}, tmp_path / 'plain.pth')
    content, replaced = read_torch(tmp_path / 'plain.pth')
    assert replaced == [] and content['epoch'] == 3


def test_read_torch_protects_pytorch_functions(tmp_path):
    path = tmp_path / 'patching.pth'
    torch.save(
        {'model': {'a': torch.ones(2)}, 'config': Patching()},
        path,
        _use_new_zipfile_serialization=False,
    )
    ours = f'c{__name__}\n_function_named_by_the_file\n'.encode()
    torchs = b'ctorch._utils\n_rebuild_tensor_v2\n'
    content = path.read_bytes()
    assert content.count(ours) == 1
    # Apply the state to the function itself instead of the result of a call: remove `)` and `R` of
    # the call.
    start = content.index(ours)
    call = content.index(b'R', start + len(ours))
    path.write_bytes(content[:start] + torchs + content[call + 1 :])
    before = torch._utils._rebuild_tensor_v2.__defaults__
    with pytest.raises(ValueError, match='patching.pth'):
        read_torch(path)
    assert torch._utils._rebuild_tensor_v2.__defaults__ == before


# PyTorch itself does not read types without a class of storages in the older format.
NEW_TYPES = ['uint16', 'uint32', 'uint64', 'float8_e4m3fn']


@pytest.mark.parametrize(
    ('dtype', 'zipped'),
    [*((name, True) for name in NEW_TYPES), ('bfloat16', False), ('complex64', False)],
)
def test_tensors_of_each_type_are_read(tmp_path, dtype, zipped):
    tensor = torch.arange(6).view(2, 3).to(getattr(torch, dtype))
    path = tmp_path / 'a.pth'
    torch.save({'a': tensor, 'b': tensor}, path, _use_new_zipfile_serialization=zipped)
    content, _ = read_torch(path)
    assert content['a'].dtype == tensor.dtype and content['a'].shape == (2, 3)
    assert torch.equal(content['a'].view(torch.uint8), tensor.view(torch.uint8))
    assert content['a'].data_ptr() == content['b'].data_ptr()


@FORMATS
def test_other_plain_values_are_read(tmp_path, zipped):
    values = {
        'expanded': torch.ones(1).expand(50),
        'bytes': bytearray(b'ab'),
        'layout': torch.strided,
        'conjugated': torch.tensor([1 + 2j]).conj(),
        'class': argparse.Namespace,
        'array type': np.ndarray,
    }
    torch.save(values, tmp_path / 'a.pth', _use_new_zipfile_serialization=zipped)
    content, _ = read_torch(tmp_path / 'a.pth')
    assert content['expanded'].tolist() == [1] * 50
    assert content['bytes'] == b'ab' and content['layout'] is torch.strided
    assert content['conjugated'].tolist() == [1 - 2j]
    assert isinstance(content['class'], Placeholder)
    assert isinstance(content['array type'], Placeholder)


@pytest.mark.parametrize(
    'content', [b'', b'<html>not found</html>', b'\x80\x02', b'PK\x03\x04broken']
)
def test_read_torch_rejects_other_files(tmp_path, content):
    path = tmp_path / 'page.pth'
    path.write_bytes(content)
    with pytest.raises(ValueError, match='page.pth'):
        read_torch(path)


@FORMATS
@pytest.mark.parametrize('fraction', [0.3, 0.9])
def test_read_torch_rejects_truncated_file(tmp_path, zipped, fraction):
    path = tmp_path / 'cut.pth'
    torch.save(
        {'model': {'a': torch.randn(1000)}, 'config': Malicious('x')},
        path,
        _use_new_zipfile_serialization=zipped,
    )
    content = path.read_bytes()
    path.write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(ValueError, match='cut.pth'):
        read_torch(path)


def test_compressed_checkpoint_is_not_expanded(tmp_path):
    path = tmp_path / 'bomb.pth'
    torch.save({'model': {'a': torch.zeros(100)}}, tmp_path / 'plain.pth')
    with (
        zipfile.ZipFile(tmp_path / 'plain.pth') as source,
        zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as bomb,
    ):
        for member in source.infolist():
            bomb.writestr(member.filename, source.read(member))
    with pytest.raises(ValueError, match=r'bomb\.pth.*compressed'):
        read_torch(path)
    assert 'compressed' in what_is_wrong(path) and what_is_wrong(tmp_path / 'plain.pth') is None


def test_read_torch_rejects_torchscript(tmp_path):
    path = tmp_path / 'script.pth'
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    with pytest.raises(ValueError, match='script.pth'):
        read_torch(path)


@FORMATS
def test_values_of_other_libraries_keep_what_can_be_kept(tmp_path, zipped):
    path = tmp_path / 'values.pth'
    plain = dict(
        best=np.float64(0.5),
        order=np.arange(6).reshape(2, 3)[:, ::2],
        ints={1, 2},
        number=2**70,
        z=1j,
        half=torch.ones(2, dtype=torch.bfloat16),
        device=torch.device('cpu'),
    )
    torch.save(
        {**plain, 'items': defaultdict(list, {3: [4]}), 'args': argparse.Namespace(a=1)},
        path,
        _use_new_zipfile_serialization=zipped,
    )
    content, replaced = read_torch(path)
    assert replaced == ['argparse.Namespace', 'builtins.list', 'collections.defaultdict']
    assert content['items'][3] == [4] and content['order'].tolist() == plain['order'].tolist()
    assert all(content[name] == plain[name] for name in ('best', 'ints', 'number', 'z', 'device'))
    fields = np.zeros(2, [('a', 'f4'), ('b', 'i8')])
    torch.save(
        dict(plain, text=np.array(['a']), fields=fields, last=deque([1, 2], maxlen=3)),
        path,
        _use_new_zipfile_serialization=zipped,
    )
    content, _ = read_torch(path)
    assert content['last'] == [1, 2] and content['order'].tolist() == plain['order'].tolist()
    assert isinstance(content['fields'], Placeholder) and isinstance(content['text'], Placeholder)


@pytest.mark.parametrize(
    'array',
    [
        np.arange(6, dtype='>i4').reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.empty((0, 4), 'f2'),
        np.array(2.5),
        np.array([True, False]),
        np.array([1 + 2j], 'c8'),
    ],
)
def test_arrays_are_copied(tmp_path, array):
    torch.save(array, tmp_path / 'array.pth')
    found, _ = read_torch(tmp_path / 'array.pth')
    assert type(found) is np.ndarray and found.shape == array.shape and np.array_equal(found, array)
    assert found.dtype.kind == array.dtype.kind and found.flags.writeable


def test_shared_and_recursive_containers_keep_their_structure(tmp_path):
    weight = torch.ones(2)
    shared = [weight, np.int64(3)]
    content = dict(a=shared, b=shared, state=OrderedDict(w=weight))
    content['state']._metadata = {'': dict(version=2)}
    content['self'] = content
    torch.save(content, tmp_path / 'shared.pth')
    found, _ = read_torch(tmp_path / 'shared.pth')
    assert found['a'] is found['b'] and found['self'] is found and found['a'][1] == 3
    assert found['state']['w'] is found['a'][0] and found['state']._metadata[''] == dict(version=2)


def test_shared_containers_are_walked_once(tmp_path):
    shared = []
    for _ in range(60):
        shared = [shared, shared]
    torch.save(shared, tmp_path / 'shared.pth')
    assert len(read_torch(tmp_path / 'shared.pth')[0]) == 2


def test_plain_pickle_with_tensors_is_read(tmp_path):
    path, weight = tmp_path / 'plain.pkl', torch.randn(3, 4)
    path.write_bytes(
        pickle.dumps([OrderedDict(a=weight.T, b=b'\x00\xff', c=np.int64(3))], protocol=2)
    )
    (entry,) = read_torch(path)[0]
    assert torch.equal(entry['a'], weight.T) and entry['b'] == b'\x00\xff' and entry['c'] == 3


@pytest.mark.parametrize(
    'make',
    [
        os.mkfifo,
        lambda path: path.symlink_to('/dev/zero'),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to(path),
    ],
)
def test_only_regular_files_are_opened(tmp_path, make):
    make(tmp_path / 'odd.pth')
    with pytest.raises(ValueError, match=r'odd\.pth: '):
        read_torch(tmp_path / 'odd.pth')


def test_only_the_reader_loads_pytorch_files_and_pickles():
    """Every other way could run code, or know another list of safe globals."""
    found = []
    for path in (Path(torch_file.__file__).parents[1]).rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, (ast.Import, ast.ImportFrom))
                else []
            )
            names += [str(getattr(node, 'module', ''))] if isinstance(node, ast.ImportFrom) else []
            if (
                isinstance(node, ast.Attribute)
                and ast.unparse(node) == 'torch.load'
                or {name.partition('.')[0] for name in names}
                & {'pickle', 'cloudpickle', 'dill', 'joblib'}
            ):
                found.append(path.name)
    assert set(found) == {'torch_file.py'}
