"""Reading PyTorch's files without running their code, and without more memory or time than their size explains."""
import argparse
import ast
import os
import pickle
import re
import shutil
import struct
import sys
import threading
import types
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.serialization import add_safe_globals, clear_safe_globals, get_safe_globals

from mmflatten.checkpoints import torch_file
from mmflatten.checkpoints.placeholders import Inert
from mmflatten.checkpoints.run_files import what_is_wrong
from mmflatten.checkpoints.torch_file import read_torch

FORMATS = pytest.mark.parametrize('zipped', [True, False], ids=['zip', 'legacy'])


class Malicious:
    """An object that creates a file when it is unpickled."""

    def __init__(self, marker) -> None:
        self.marker = marker

    def __reduce__(self):
        return shutil.copyfile, (__file__, str(self.marker))


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
def test_read_torch_does_not_run_malicious_file(tmp_path, zipped):
    marker, path = tmp_path / 'marker', tmp_path / 'malicious.pth'
    weights = {'norm.weight': torch.arange(6.).view(2, 3)}
    torch.save({'model': weights, 'config': Malicious(marker)}, path, _use_new_zipfile_serialization=zipped)
    content, replaced = read_torch(path)
    assert not marker.exists()
    assert torch.equal(content['model']['norm.weight'], weights['norm.weight'])
    assert isinstance(content['config'], Inert) and replaced == ['shutil.copyfile']
    torch.load(path, weights_only=False)
    assert marker.exists(), 'the file is harmless, so this test proves nothing'


@FORMATS
def test_read_torch_replaces_objects_of_missing_libraries(tmp_path, yacs_node, zipped):
    path = tmp_path / 'yacs.pth'
    shared = torch.randn(4, 3, dtype=torch.float16)
    torch.save({'model': {'a': shared, 'b': shared.T, 'c': torch.nn.Parameter(torch.ones(2))}, 'config': yacs_node,
                'args': argparse.Namespace(lr=.1)}, path, _use_new_zipfile_serialization=zipped)
    for name in ('yacs', 'yacs.config'):
        del sys.modules[name]
    content, replaced = read_torch(path)
    assert {'argparse.Namespace', 'yacs.config.CfgNode'} >= set(replaced) >= {'yacs.config.CfgNode'}
    assert torch.equal(content['model']['a'], shared) and torch.equal(content['model']['b'], shared.T)
    assert torch.equal(content['model']['c'], torch.ones(2))


def test_read_torch_replaces_nothing_in_plain_file(tmp_path):
    torch.save({'model': {'a': torch.ones(2)}, 'epoch': 3}, tmp_path / 'plain.pth')
    content, replaced = read_torch(tmp_path / 'plain.pth')
    assert replaced == [] and content['epoch'] == 3


def test_read_torch_protects_pytorch_functions(tmp_path):
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
        read_torch(path)
    assert torch._utils._rebuild_tensor_v2.__defaults__ == before


@pytest.mark.parametrize('content', [b'', b'<html>not found</html>', b'\x80\x02', b'PK\x03\x04broken'])
def test_read_torch_rejects_other_files(tmp_path, content):
    path = tmp_path / 'page.pth'
    path.write_bytes(content)
    with pytest.raises(ValueError, match='page.pth'):
        read_torch(path)


@FORMATS
@pytest.mark.parametrize('fraction', [.3, .9])
def test_read_torch_rejects_truncated_file(tmp_path, zipped, fraction):
    path = tmp_path / 'cut.pth'
    torch.save({'model': {'a': torch.randn(1000)}, 'config': Malicious('x')}, path,
               _use_new_zipfile_serialization=zipped)
    content = path.read_bytes()
    path.write_bytes(content[:int(fraction * len(content))])
    with pytest.raises(ValueError, match='cut.pth'):
        read_torch(path)


def test_compressed_checkpoint_is_not_expanded(tmp_path):
    path = tmp_path / 'bomb.pth'
    torch.save({'model': {'a': torch.zeros(100)}}, tmp_path / 'plain.pth')
    with zipfile.ZipFile(tmp_path / 'plain.pth') as source, zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as bomb:
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


def text(value: str) -> bytes:
    return b'X' + struct.pack('<I', len(value.encode())) + value.encode()


def named(module: str, name: str) -> bytes:
    return f'c{module}\n{name}\n'.encode()


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + b'(' + b''.join(arguments) + b'tR'


def zipped(path: Path, pickled: bytes) -> Path:
    writer = torch._C.PyTorchFileWriter(str(path))
    writer.write_record('data.pkl', pickled, len(pickled))
    writer.write_end_of_file()
    return path


def attribute(owner: bytes, name: str) -> bytes:
    return call(named('builtins', 'getattr'), owner, text(name))


def executing(code: str) -> bytes:
    """Pickle that runs `code` where `getattr` may be called, through functions that PyTorch itself allows."""
    builtins = attribute(named('torch._utils', '_rebuild_tensor'), '__builtins__')
    rebuild = named('torch._tensor', '_rebuild_from_type_v2')
    nothing = attribute(b'N', '__class__')
    run = call(rebuild, attribute(builtins, '__getitem__'), attribute(named('_codecs', 'encode'), '__class__'),
               b'(' + text('exec') + b't', b'N')
    return b'\x80\x02}' + text('w') + call(rebuild, run, nothing, b'(' + text(code) + b't', b'N') + b's.'


def test_getattr_in_the_list_of_another_library_runs_no_code(tmp_path):
    marker = tmp_path / 'marker'
    path = zipped(tmp_path / 'evil.pth', executing(f'open({str(marker)!r}, "w")'))
    before = get_safe_globals()
    add_safe_globals([getattr])  # as MMEngine 0.10 does
    try:
        with pytest.raises(ValueError, match=r'evil\.pth'):
            read_torch(path)
        assert not marker.exists() and getattr in get_safe_globals()
        torch.load(path, weights_only=True)
        assert marker.exists(), 'the file is harmless, so this test proves nothing'
    finally:
        clear_safe_globals()
        add_safe_globals(before)


def test_list_of_safe_globals_is_restored_in_every_thread(tmp_path):
    good, bad, faults = tmp_path / 'good.pth', zipped(tmp_path / 'bad.pth', b'\x80\x02cos\nsystem\n.'), []
    torch.save({'a': torch.ones(2), 'args': argparse.Namespace()}, good)
    before = set(get_safe_globals())

    def work() -> None:
        for _ in range(20):
            try:
                assert torch.equal(read_torch(good)[0]['a'], torch.ones(2))
                with pytest.raises(ValueError, match='bad'):
                    read_torch(bad)
            except BaseException as error:
                faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults and set(get_safe_globals()) == before


def nested_tuples(depth: int) -> bytes:
    return b')q\x00' + b''.join(b'h%c\x86q%c' % (i, i + 1) for i in range(depth))


def doubled(codec: str, times: int) -> bytes:
    first = b'c_codecs\nencode\nq\x00' + text('aaaa') + text('latin1') + b'\x86R'
    return first + times * (b'q\x01h\x00h\x01' + text(codec) + b'\x86R')


def encoded(codec: str, letters: str, times: int) -> bytes:
    return b'](c_codecs\nencode\nq\x00' + text(letters) + text(codec) + b'\x86q\x01R' + times * b'h\x00h\x01R' + b'e'


def rebuilt(function: bytes, arguments: bytes) -> bytes:
    """Call a function through one of PyTorch's."""
    return call(named('torch._tensor', '_rebuild_from_type_v2'), function, named('torch', 'Tensor'), arguments, b'}')


ENCODE = named('_codecs', 'encode')


@pytest.mark.parametrize('pickled', [
    call(named('torch', 'Tensor'), b'K\x09'), named('torch', 'FloatTensor') + b'K\x09\x85\x81',
    call(named('torch.storage', 'UntypedStorage'), b'K\x09'), rebuilt(named('torch', 'Tensor'), b'K\x09\x85'),
    rebuilt(ENCODE, text('a') + text('hex') + b'\x86'),
    rebuilt(named('torch._tensor', '_rebuild_from_type_v2'), b'](' + ENCODE + named('torch', 'Tensor')
            + text('a') + text('hex') + b'\x86}e')], ids=[
                'call', 'new', 'storage', 'first argument', 'codec as first argument', 'codec in a list'])
def test_file_makes_no_tensor_without_values(tmp_path, pickled):
    with pytest.raises(ValueError, match=r'free\.pth.*tensor of any size'):
        read_torch(zipped(tmp_path / 'free.pth', b'\x80\x02' + pickled + b'.'))


def test_tensor_with_attributes_is_read(tmp_path):
    tensor = torch.arange(3.)
    tensor.note = 'a'
    torch.save(tensor, tmp_path / 'a.pth')
    assert read_torch(tmp_path / 'a.pth')[0].note == 'a'


def test_shared_containers_are_walked_once_and_counters_too(tmp_path):
    shared = []
    for _ in range(60):
        shared = [shared, shared]
    torch.save(shared, tmp_path / 'shared.pth')
    assert len(read_torch(tmp_path / 'shared.pth')[0]) == 2
    torch.save(Counter(a=torch.zeros(1).expand(10**9)), tmp_path / 'counter.pth')
    with pytest.raises(ValueError, match='larger than its storage'):
        read_torch(tmp_path / 'counter.pth')


@pytest.mark.parametrize('pickled', [
    b'}' + nested_tuples(60) + b'Ks', named('builtins', 'set') + b'](' + nested_tuples(60) + b'e\x85R',
    call(named('__builtin__', 'bytearray'), b'\x8a\x05' + (6 * 10**9).to_bytes(5, 'little')), b'(' * 10**6,
    b'(' + b']' * 10**6 + b't', doubled('hex', 33), encoded('utf-32', 'a' * 1000, 1),
    encoded('latin1', 'a' * 10**5, 50), b']' * 10**5 + b'a' * (10**5 - 1),
    b'(S"x"\nios\nsystem\n', b'\x8c\x02os\x8c\x06system\x93', b'\x82\x01', b'J\xff\xff\xff\x7fQ', b'Nr\xff\xff\xff\x10',
    named('torch', 'FloatStorage') + b'N}' + text('x') + b'Ks\x86b',
    b'cos\nsystem\n',
    named('x', 'y' * 2000) + b')R', b'N' + b'2' * 100], ids=[
        'tuples', 'set of tuples', 'bytearray', 'marks', 'lists', 'codec', 'growing codec', 'repeated text',
        'nested lists', 'INST', 'STACK_GLOBAL',
        'EXT', 'persistent id', 'memo', 'attributes of a class', 'os.system', 'long name', 'DUP'])
@pytest.mark.parametrize('kind', ['zip', 'pickle'])
def test_hostile_pickle_ends_with_an_error(tmp_path, pickled, kind):
    path, pickled = tmp_path / 'hostile.pth', b'\x80\x02' + pickled + b'.'
    zipped(path, pickled) if kind == 'zip' else path.write_bytes(pickled)
    if pickled[2:4] == b'Nr':  # a large number in the memo is no error, but reserves no memory
        assert read_torch(path)[0] is None
        return
    with pytest.raises(ValueError, match=r'hostile\.pth'):
        read_torch(path)


def test_state_of_a_numpy_type_makes_no_pointers(tmp_path):
    dtype = call(named('numpy', 'dtype'), text('V8'), b'\x89', b'\x88')
    state = (b'(K\x03' + text('|') + b'N(' + text('a') + b't}' + text('a') + b'(' + named('numpy', 'dtype')
             + b'K\x00tsK\x08K\x01K\x00tb')
    content, replaced = read_torch(zipped(tmp_path / 'a.pth', b'\x80\x02' + dtype + state + b'.'))
    assert isinstance(content, Inert) and replaced == ['numpy.dtype']


def test_names_of_storages_in_the_older_format_stay_small(tmp_path):
    path = tmp_path / 'older.pth'
    torch.save({}, path, _use_new_zipfile_serialization=False)
    whole = path.read_bytes()
    end = whole.rindex(b'\x80\x02')
    path.write_bytes(whole[:end] + b'\x80\x02}' + nested_tuples(40) + b'Ks.')
    with pytest.raises(ValueError, match=r'older\.pth.*unfold'):
        read_torch(path)


def test_archive_with_two_lists_of_members_is_refused(tmp_path):
    """Python reads the list before the end, and PyTorch the one where the end says that it is."""
    path = zipped(tmp_path / 'two.pth', b'\x80\x02' + text('a' * 1000) + b'.')
    assert read_torch(path)[0] == 'a' * 1000
    whole = path.read_bytes()
    start, end = whole.index(b'PK\x01\x02'), whole.rindex(b'PK\x05\x06')
    lists = [bytearray(whole[start:end]), bytearray(whole[start:end])]
    size = len(lists[0])
    for part in lists:
        struct.pack_into('<Q', part, size - 76 + 48, 2 * start)  # the first one, behind two copies of the members
    struct.pack_into('<Q', lists[1], size - 20 + 8, 2 * start + size - 76)
    for entry in (place.start() for place in re.finditer(rb'PK\x01\x02', lists[1])):
        offset, = struct.unpack_from('<L', lists[1], entry + 42)
        struct.pack_into('<L', lists[1], entry + 42, offset + start - size)  # the second copy, for Python
    path.write_bytes(2 * whole[:start] + lists[0] + lists[1] + whole[end:])
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None and archive.infolist()[0].header_offset == start
    assert torch.load(path, weights_only=True) == 'a' * 1000
    with pytest.raises(ValueError, match=r'two\.pth.*another way'):
        read_torch(path)
    torch.save({'a': torch.ones(2)}, path)
    path.write_bytes(path.read_bytes() + b'a comment')
    with pytest.raises(ValueError, match=r'two\.pth'):
        read_torch(path)


def test_parts_that_share_their_bytes_are_refused(tmp_path):
    path = tmp_path / 'shared.pth'
    torch.save({'a': torch.zeros(1000), 'b': torch.ones(1000)}, path)
    with zipfile.ZipFile(path, 'a') as archive:
        first = next(member for member in archive.infolist() if member.filename.endswith('data/0'))
        for member in archive.infolist():
            if member.filename.endswith('data/1'):
                member.header_offset = first.header_offset
        archive.infolist()[-1].file_size = archive.infolist()[-1].compress_size = 10**6
        archive._didModify = True
    with pytest.raises(ValueError, match=r'shared\.pth.*bytes'):
        read_torch(path)
    torch.save({'a': torch.zeros(1).expand(10**9)}, path)
    with pytest.raises(ValueError, match='larger than its storage'):
        read_torch(path)


@FORMATS
def test_values_of_other_libraries_keep_what_can_be_kept(tmp_path, zipped):
    path = tmp_path / 'values.pth'
    plain = dict(best=np.float64(.5), order=np.arange(6).reshape(2, 3)[:, ::2], ints={1, 2}, number=2**70, z=1j,
                 half=torch.ones(2, dtype=torch.bfloat16), device=torch.device('cpu'))
    torch.save({**plain, 'items': defaultdict(list, {3: [4]}), 'args': argparse.Namespace(a=1)}, path,
               _use_new_zipfile_serialization=zipped)
    content, replaced = read_torch(path)
    assert replaced == ['argparse.Namespace', 'builtins.list', 'collections.defaultdict']
    assert content['items'][3] == [4] and content['order'].tolist() == plain['order'].tolist()
    assert all(content[name] == plain[name] for name in ('best', 'ints', 'number', 'z', 'device'))
    fields = np.zeros(2, [('a', 'f4'), ('b', 'i8')])
    torch.save(dict(plain, text=np.array(['a']), fields=fields, last=deque([1, 2], maxlen=3)), path,
               _use_new_zipfile_serialization=zipped)
    content, replaced = read_torch(path)
    assert content['last'] == [1, 2] and isinstance(content['fields'], Inert) and 'numpy.dtype' in replaced
    torch.save(plain['order'], path)
    torch.save(read_torch(path)[0], path)
    assert type(torch.load(path, weights_only=False)) is np.ndarray


def test_plain_pickle_with_tensors_is_read(tmp_path):
    path, weight = tmp_path / 'plain.pkl', torch.randn(3, 4)
    path.write_bytes(pickle.dumps([OrderedDict(a=weight.T, b=b'\x00\xff', c=np.int64(3))], protocol=2))
    entry, = read_torch(path)[0]
    assert torch.equal(entry['a'], weight.T) and entry['b'] == b'\x00\xff' and entry['c'] == 3


@pytest.mark.parametrize('make', [os.mkfifo, lambda path: path.symlink_to('/dev/zero'), lambda path: path.mkdir(),
                                  lambda path: path.symlink_to(path)])
def test_only_regular_files_are_opened(tmp_path, make):
    make(tmp_path / 'odd.pth')
    with pytest.raises(ValueError, match=r'odd\.pth: '):
        read_torch(tmp_path / 'odd.pth')


def test_only_the_reader_loads_pytorch_files_and_pickles():
    """Every other way could run code, or know another list of safe globals."""
    found = []
    for path in (Path(torch_file.__file__).parents[1]).rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            names += [str(getattr(node, 'module', ''))] if isinstance(node, ast.ImportFrom) else []
            if (isinstance(node, ast.Attribute) and ast.unparse(node) == 'torch.load'
                    or {name.partition('.')[0] for name in names} & {'pickle', 'cloudpickle', 'dill', 'joblib'}):
                found.append(path.name)
    assert set(found) == {'torch_file.py'}
