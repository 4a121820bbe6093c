"""Files of PyTorch that an attacker wrote: no code of theirs runs, and no memory is touched that is
not theirs.
"""

import argparse
import pickle
import struct
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch.serialization import add_safe_globals, clear_safe_globals, get_safe_globals

from mmflatten.untrusted.pickle_check import ALLOWED
from mmflatten.untrusted.records import Placeholder
from mmflatten.untrusted.torch_file import read_torch

ROOT = Path(__file__).parents[2]


# A small assembler of pickles in protocol 2.


def text(value: str) -> bytes:
    content = value.encode('utf-8', 'surrogatepass')
    return b'X' + struct.pack('<I', len(content)) + content


def number(value: int) -> bytes:
    return b'J' + struct.pack('<i', value)


def long1(value: int) -> bytes:
    content = value.to_bytes(value.bit_length() // 8 + 1, 'little', signed=True)
    return b'\x8a' + bytes([len(content)]) + content


def named(module: str, name: str) -> bytes:
    return f'c{module}\n{name}\n'.encode()


def pack(*items: bytes) -> bytes:
    """Make a tuple."""
    return b'(' + b''.join(items) + b't'


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + pack(*arguments) + b'R'


def put(place: int) -> bytes:
    return b'r' + struct.pack('<I', place)


def get(place: int) -> bytes:
    return b'j' + struct.pack('<I', place)


def attribute(owner: bytes, name: str) -> bytes:
    return call(named('builtins', 'getattr'), owner, text(name))


def rebuilt(function: bytes, arguments: bytes, state: bytes = b'}') -> bytes:
    """Call a function through one of PyTorch's, and give the result a state."""
    rebuild = named('torch._tensor', '_rebuild_from_type_v2')
    return call(rebuild, function, named('torch', 'Tensor'), arguments, state)


def numpy_type(code: str) -> bytes:
    made = call(named('numpy', 'dtype'), text(code), b'\x89', b'\x88')
    return (
        made + pack(b'K\x03', text('<'), b'N', b'N', b'N', number(-1), number(-1), b'K\x00') + b'b'
    )


def latin1(content: str) -> bytes:
    return call(ENCODE, text(content), text('latin1'))


def storage(name: str, size: int, key: str = '0', last: bytes = b'') -> bytes:
    return (
        pack(
            text('storage'),
            named('torch', f'{name}Storage'),
            text(key),
            text('cpu'),
            number(size),
            last,
        )
        + b'Q'
    )


def tensor(made: bytes, shape: int, offset: int = 0, stride: int = 1) -> bytes:
    function = named('torch._utils', '_rebuild_tensor_v2')
    hooks = named('collections', 'OrderedDict') + b')R'
    return call(
        function, made, number(offset), pack(number(shape)), pack(number(stride)), b'\x89', hooks
    )


def new_array() -> bytes:
    rebuild = named('numpy.core.multiarray', '_reconstruct')
    return call(rebuild, named('numpy', 'ndarray'), pack(b'K\x00'), latin1('b'))


def array_state(shape: tuple[int, ...], code: str, content: str) -> bytes:
    return pack(b'K\x01', pack(*map(number, shape)), numpy_type(code), b'\x89', latin1(content))


def tensor_on(array: bytes, dtype: str = 'int64') -> bytes:
    """Make a tensor that shares the memory of an array."""
    function = named('torch._utils', '_rebuild_device_tensor_from_numpy')
    return call(function, array, named('torch', dtype), text('cpu'), b'\x89')


ENCODE = named('_codecs', 'encode')
ONE_ARRAY = new_array() + put(5) + array_state((2,), 'i8', 'a' * 16) + b'b'


def zipped(path: Path, pickled: bytes, storages: dict[str, bytes] | None = None) -> Path:
    writer = torch._C.PyTorchFileWriter(str(path))
    for name, content in {'data.pkl': pickled, 'byteorder': b'little', **(storages or {})}.items():
        writer.write_record(name, content, len(content))
    writer.write_end_of_file()
    return path


def legacy(path: Path, content: bytes, keys: bytes = b'\x80\x02].', values: bytes = b'') -> Path:
    empty = path.with_suffix('.empty')
    torch.save({}, empty, _use_new_zipfile_serialization=False)
    whole = empty.read_bytes()
    end = whole.rindex(b'\x80\x02')  # of the empty list of storages
    start = whole.rindex(b'\x80\x02', 0, end)  # of the empty dictionary
    path.write_bytes(whole[:start] + content + keys + values)
    return path


def written(folder: Path, pickled: bytes, kind: str) -> Path:
    """Write the body of a pickle as a file of one of the three kinds that are read."""
    path, whole = folder / 'hostile.pth', b'\x80\x02' + pickled + b'.'
    if kind == 'zip':
        return zipped(path, whole)
    if kind == 'legacy':
        return legacy(path, whole)
    path.write_bytes(whole)
    return path


KINDS = pytest.mark.parametrize('kind', ['zip', 'legacy', 'pickle'])


def executing(code: str) -> bytes:
    """Pickle that runs `code` where `getattr` may be called, through functions that PyTorch itself
    allows.
    """
    builtins = attribute(named('torch._utils', '_rebuild_tensor'), '__builtins__')
    rebuild = named('torch._tensor', '_rebuild_from_type_v2')
    nothing = attribute(b'N', '__class__')
    run = call(
        rebuild,
        attribute(builtins, '__getitem__'),
        attribute(ENCODE, '__class__'),
        pack(text('exec')),
        b'N',
    )
    return b'}' + text('w') + call(rebuild, run, nothing, pack(text(code)), b'N') + b's'


def test_getattr_in_the_list_of_another_library_runs_no_code(tmp_path):
    marker = tmp_path / 'marker'
    path = written(tmp_path, executing(f'open({str(marker)!r}, "w")'), 'zip')
    before = get_safe_globals()
    add_safe_globals([getattr])  # as MMEngine 0.10 does
    try:
        with pytest.raises(ValueError, match=r'hostile\.pth'):
            read_torch(path)
        assert not marker.exists() and getattr in get_safe_globals()
        torch.load(path, weights_only=True)
        assert marker.exists(), 'the file is harmless, so this test proves nothing'
    finally:
        clear_safe_globals()
        add_safe_globals(before)


def test_list_of_safe_globals_is_restored_in_every_thread(tmp_path):
    good, bad, faults = (
        tmp_path / 'good.pth',
        zipped(tmp_path / 'bad.pth', b'\x80\x02cos\nsystem\n.'),
        [],
    )
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


# Names of PyTorch, without which no file of weights needs to be read.
REFUSED = {
    'tensor of a size': call(named('torch', 'Tensor'), b'K\x09'),
    'new tensor': named('torch', 'FloatTensor') + b'K\x09\x85\x81',
    'bare storage': call(named('torch.storage', 'UntypedStorage'), b'K\x09'),
    'tensor by another function': rebuilt(named('torch', 'Tensor'), b'K\x09\x85'),
    'codec by another function': rebuilt(ENCODE, text('a') + text('hex') + b'\x86'),
    'tensor on an array': tensor_on(ONE_ARRAY),
    'attributes': rebuilt(
        named('torch._utils', '_rebuild_device_tensor_from_cpu_tensor'),
        pack(b'N'),
        state=b'}' + text('real') + b'K\x01s',
    ),
    'parameter with a state': call(
        named('torch._utils', '_rebuild_parameter_with_state'), b'N', b'\x89', b'N', b'}'
    ),
    'quantised tensor': named('torch._utils', '_rebuild_qtensor'),
    'sparse tensor': named('torch._utils', '_rebuild_sparse_tensor'),
    'tensor without memory': named('torch._utils', '_rebuild_meta_tensor_no_storage'),
    'subclass': named('torch._utils', '_rebuild_wrapper_subclass'),
    'class of storages called': named('torch.storage', 'UntypedStorage') + b'K\x09\x85\x81',
    'bare storage as a value': storage('Float', 2),
    'another codec': call(ENCODE, text('a'), text('punycode')),
    'another codec in a list': ENCODE + b'](' + text('a') + text('punycode') + b'eR',
    'codec after another one': call(ENCODE, text('latin1'), text('idna')),
    'frame of protocol 4': b'\x95' + b'\0' * 8,
    'module of the system': named('os', 'system'),
    'many names': b'}' + b''.join(text(str(k)) + named('m', f'C{k}') + b's' for k in range(30_000)),
    'class with attributes': named('torch', 'FloatStorage') + b'N}' + text('x') + b'Ks\x86b',
    'state of a function': named('torch._utils', '_rebuild_tensor_v2') + b'}' + text('x') + b'Ksb',
    'INST': b'(S"x"\nios\nsystem\n',
    'STACK_GLOBAL': b'\x8c\x02os\x8c\x06system\x93',
    'EXT': b'\x82\x01',
    'DUP': b'N' + b'2' * 100,
    'persistent id': b'J\xff\xff\xff\x7fQ',
    'nothing': b'',
    'empty memo': get(7),
    'two states of an array': ONE_ARRAY + array_state((1,), 'i1', 'b') + b'b',
    'two states of a nested array': b']'
    + ONE_ARRAY
    + b'a}'
    + text('x')
    + get(5)
    + array_state((1,), 'i1', 'b')
    + b'bs',
    'array of another size': new_array() + array_state((3,), 'i8', 'a' * 16) + b'b',
    'array without a state': new_array(),
    'array with a number as a state': new_array() + b'K\x01b',
    'array whose bytes are text': new_array()
    + pack(b'K\x01', pack(b'K\x01'), numpy_type('i1'), b'\x89', text('a'))
    + b'b',
    'hooks': call(
        named('torch._utils', '_rebuild_parameter'),
        b'N',
        b'\x89',
        b'}K\x00' + named('builtins', 'set') + b's',
    ),
    'tuples in each other as a key': b'}N' + b'\x85' * 10**6 + b'Ns',
    'set of tuples in each other': call(named('builtins', 'set'), b'](N' + b'\x85' * 10**6 + b'e'),
    'tuples that hold the one before twice': b'})q\x00'
    + b''.join(b'h%c\x86q%c' % (k, k + 1) for k in range(60))
    + b'Ks',
    'codec of errors': call(ENCODE, text('a'), text('punycode'), text('latin1')),
    'codec of a bytearray': call(named('builtins', 'bytearray'), text('a'), text('punycode')),
    'bytearray of a size': call(named('builtins', 'bytearray'), b'K\x09'),
    'class of storages by another path': b'}N'
    + call(named('torch', 'storage.UntypedStorage'), b'K\x09')
    + b's',
    'state of a counter': named('collections', 'Counter')
    + b')R}'
    + text('__setstate__')
    + named('builtins', 'bytearray')
    + b'sb'
    + b'K\x09b',
    'call of nested lists': b']'
    + b''.join(put(0) + b'](' + get(0) + get(0) + b'e' for _ in range(60))
    + b')R',
    'new object of nested lists': b']'
    + b''.join(put(0) + b'](' + get(0) + get(0) + b'e' for _ in range(60))
    + b')\x81',
    'integers of one hash': b'}('
    + b''.join(long1(k * (2**61 - 1)) + b'N' for k in range(1, 20_000))
    + b'u',
    'set of integers of one hash': named('builtins', 'set')
    + b']('
    + b''.join(long1(k * (2**61 - 1)) for k in range(1, 20_000))
    + b'e\x85R',
    'long tuple as many keys': pack(b'N' * 50_000)
    + put(1)
    + b'}('
    + (get(1) + b'N') * 1000
    + b'u\x86',
    'one text in many calls': ENCODE
    + put(1)
    + text('a' * 50_000)
    + text('latin1')
    + b'\x86'
    + put(2)
    + b'\x86]('
    + (get(1) + get(2) + b'R') * 1000
    + b'e\x86',
    'one array in many': pack(named('numpy', 'ndarray'), pack(b'K\x00'), latin1('b'))
    + put(1)
    + array_state((50_000,), 'u1', 'a' * 50_000)
    + put(2)
    + b'\x86]('
    + (named('numpy.core.multiarray', '_reconstruct') + get(1) + b'R' + get(2) + b'b') * 1000
    + b'e\x86',
    'many calls': named('collections', 'OrderedDict')
    + put(1)
    + b']('
    + (b'h\x01)R' * 50_000)
    + b'e\x86',
    'nested lists': b']' * 10**4 + b'a' * (10**4 - 1),
    'metadata': named('collections', 'OrderedDict') + b')R}' + text('_metadata') + b'K\x01sb',
}


@KINDS
@pytest.mark.parametrize('case', REFUSED)
def test_hostile_pickle_ends_with_an_error(tmp_path, case, kind):
    with pytest.raises(ValueError, match=r'hostile\.pth'):
        read_torch(written(tmp_path, REFUSED[case], kind))


def test_tensor_takes_no_attributes(tmp_path):
    tensor = torch.arange(3.0)
    tensor.note = 'a'
    torch.save({'w': tensor}, tmp_path / 'a.pth')
    with pytest.raises(ValueError, match=r'a\.pth.*_rebuild_from_type_v2'):
        read_torch(tmp_path / 'a.pth')


def test_attributes_of_containers_are_left_out(tmp_path):
    """An attribute `items` could hide what a dictionary holds."""
    hiding = (
        b'}'
        + text('items')
        + named('builtins', 'set')
        + b's'
        + text('values')
        + named('builtins', 'set')
        + b's'
    )
    pickled = (
        named('collections', 'OrderedDict') + b')R' + text('a') + ONE_ARRAY + b's' + hiding + b'b'
    )
    content, _ = read_torch(written(tmp_path, pickled, 'zip'))
    assert content['a'].tolist() == [0x6161616161616161] * 2 and len(content.items()) == 1
    assert not vars(content)


@KINDS
@pytest.mark.parametrize(
    'name', ['_codecs.encode', 'torch._utils._rebuild_tensor_v2', 'torch.Size']
)
def test_functions_and_classes_are_no_values(tmp_path, name, kind):
    pickled = b'](' + named(*name.rsplit('.', 1)) + b'e'
    content, _ = read_torch(written(tmp_path, pickled, kind))
    assert isinstance(content[0], Placeholder)


def test_state_of_a_numpy_type_makes_no_pointers(tmp_path):
    dtype = call(named('numpy', 'dtype'), text('V8'), b'\x89', b'\x88')
    fields = b'}' + text('a') + pack(named('numpy', 'dtype'), b'K\x00') + b's'
    state = pack(b'K\x03', text('|'), b'N', pack(text('a')), fields, b'K\x08', b'K\x01', b'K\x00')
    content, _ = read_torch(written(tmp_path, dtype + state + b'b', 'zip'))
    assert isinstance(content, Placeholder)


@pytest.mark.parametrize(
    'pickled',
    [
        tensor(storage('Float', 2), shape=10**6),
        tensor(storage('Float', 10**6), shape=10**6),
        tensor(storage('Float', 2), shape=2, offset=-4),
        tensor(storage('Float', 2), shape=2, stride=-1),
        tensor(storage('Float', -2), shape=1),
        tensor(storage('Float', 2, key='../0'), shape=1),
        tensor(storage('Float', 2), shape=10**9, stride=0),
        tensor(ONE_ARRAY, shape=2),
    ],
    ids=[
        'larger tensor',
        'larger storage',
        'negative offset',
        'negative stride',
        'negative size',
        'other key',
        'one value repeated',
        'on an array',
    ],
)
def test_tensor_has_the_memory_of_the_file(tmp_path, pickled):
    path = zipped(tmp_path / 'memory.pth', b'\x80\x02' + pickled + b'.', {'data/0': b'\0' * 8})
    with pytest.raises(ValueError, match=r'memory\.pth'):
        read_torch(path)
    good = zipped(
        tmp_path / 'good.pth',
        b'\x80\x02' + tensor(storage('Float', 2), shape=2) + b'.',
        {'data/0': b'\0' * 8},
    )
    assert read_torch(good)[0].tolist() == [0, 0]


def test_part_of_a_storage_is_refused_in_the_older_format(tmp_path):
    """PyTorch gives the part a pointer into the whole, whose memory moves when a tensor makes the
    whole larger.
    """
    part = pack(text('1'), number(0), number(512))
    whole_one = storage('Float', 1024, last=b'N')
    content = (
        b'(' + tensor(storage('Float', 1024, last=part), 512) + tensor(whole_one, 10**6) + b't'
    )
    keys = b'\x80\x02]' + text('0') + b'a.'
    values = struct.pack('<q', 1024) + b'\0' * 4096
    for written_keys in (keys, b'\x80\x02].'):  # without values, PyTorch compares no sizes
        path = legacy(tmp_path / 'part.pth', b'\x80\x02' + content + b'.', written_keys, values)
        with pytest.raises(ValueError, match=r'part\.pth.*part of a storage'):
            read_torch(path)
    content = tensor(whole_one, 1024)
    found, _ = read_torch(legacy(tmp_path / 'good.pth', b'\x80\x02' + content + b'.', keys, values))
    assert found.shape == (1024,) and not found.any()


def without_values(path: Path, num_values: int) -> Path:
    """Write a file of the older format that states a storage and no values of it. Its size would
    allow them.
    """
    content = tensor(storage('Float', num_values, last=b'N'), num_values)
    return legacy(path, b'\x80\x02' + content + b'.', values=b'\0' * (4 * num_values + 8))


def test_storage_without_values_is_refused_in_the_older_format(tmp_path):
    """PyTorch would leave the memory of this process in it."""
    path = without_values(tmp_path / 'empty.pth', 1000)
    with pytest.raises(ValueError, match=r'empty\.pth.*1 storages, and values of 0'):
        read_torch(path)
    assert torch.load(path, weights_only=True).shape == (1000,)
    inner = latin1(path.read_bytes().decode('latin1'))
    pickled = named('torch.storage', '_load_from_bytes')
    outer = tmp_path / 'outer.pkl'
    outer.write_bytes(b'\x80\x02' + tensor(call(pickled, inner), 1000) + b'.')
    with pytest.raises(ValueError, match=r'outer\.pkl'):
        read_torch(outer)


@pytest.mark.parametrize('keys', [b'K\x01', b'](' + text('0') + b'K\x01e', b'}'])
def test_list_of_storages_holds_names(tmp_path, keys):
    path = legacy(tmp_path / 'keys.pth', b'\x80\x02}.', b'\x80\x02' + keys + b'.')
    with pytest.raises(ValueError, match=r'keys\.pth'):
        read_torch(path)


def test_tensor_does_not_make_its_storage_larger(tmp_path):
    """The new part would be memory of this process."""
    records = {'data/0': b'\0' * 8, 'data/1': b'\0' * 4000}
    pickled = (
        b'(' + tensor(storage('Float', 2), 500) + tensor(storage('Float', 1000, '1'), 5) + b't'
    )
    path = zipped(tmp_path / 'larger.pth', b'\x80\x02' + pickled + b'.', records)
    with pytest.raises(ValueError, match=r'larger\.pth'):
        read_torch(path)


@pytest.mark.parametrize(
    'attributes',
    [
        pack(text('_untyped_storage'), storage('Float', 2), text('dtype'), named('torch', 'int8')),
        pack(text('_untyped_storage'), tensor(storage('Float', 2), 2)),
    ],
    ids=['another storage', 'tensor'],
)
def test_dictionary_is_no_storage(tmp_path, attributes):
    state = b'}' + attributes.removesuffix(b't') + b'u'
    fake = named('collections', 'OrderedDict') + b')R' + state + b'b'
    pickled = b'\x80\x02' + tensor(fake, 2) + b'.'
    path = zipped(tmp_path / 'fake.pth', pickled, {'data/0': b'\0' * 8})
    with pytest.raises(ValueError, match=r'fake\.pth'):
        read_torch(path)


def test_storage_takes_no_state(tmp_path):
    state = b'}' + text('_untyped_storage') + b'Ns'
    pickled = b'\x80\x02' + tensor(storage('Float', 2) + state + b'b', 2) + b'.'
    path = zipped(tmp_path / 'state.pth', pickled, {'data/0': b'\0' * 8})
    with pytest.raises(ValueError, match=r'state\.pth.*storage a state'):
        read_torch(path)


@pytest.mark.parametrize('protocol', [4, 5])
def test_pickle_of_a_later_protocol_is_named(tmp_path, protocol):
    path = tmp_path / 'later.pkl'
    path.write_bytes(pickle.dumps({'a': 1}, protocol=protocol))
    with pytest.raises(ValueError, match=rf'later\.pkl.*protocol {protocol}'):
        read_torch(path)


def test_archive_has_one_list_of_parts(tmp_path):
    """Python reads the list before the end, and PyTorch the one at the offset in the end."""
    path = tmp_path / 'two.pth'
    with zipfile.ZipFile(path, 'w') as archive:
        archive.writestr('a/data.pkl', b'\x80\x02}.')
        archive.writestr('a/version', '3')
        archive.writestr('a/data/0', b'\0' * 10**6, zipfile.ZIP_DEFLATED)
    whole = path.read_bytes()
    size, offset = struct.unpack_from('<II', whole, len(whole) - 10)
    with zipfile.ZipFile(tmp_path / 'other.zip', 'w') as archive:
        archive.writestr('b' * (size - 46), '')  # its entry is as long as the list above
    other = (tmp_path / 'other.zip').read_bytes()
    start = struct.unpack_from('<I', other, len(other) - 6)[0]
    second = bytearray(other[start:-22])
    place = len(whole) - 22  # of the other archive; Python adds to it what stands before the list
    struct.pack_into('<I', second, 42, place - (place + start - offset) & 0xFFFFFFFF)
    path.write_bytes(whole[:-22] + other[:start] + second + whole[-22:])
    with pytest.raises(ValueError, match=r'two\.pth'):
        read_torch(path)


def test_list_of_storages_calls_nothing_of_another_library(tmp_path):
    """The list of safe globals of this process may name anything."""
    calls = []

    def of_another_library(*given):
        calls.append(given)

    keys = b'\x80\x02](' + call(named('library', 'function'), b'N') + b'e.'
    path = legacy(tmp_path / 'keys.pth', b'\x80\x02}.', keys)
    before = get_safe_globals()
    add_safe_globals([(of_another_library, 'library.function')])
    try:
        with pytest.raises(ValueError, match=r'keys\.pth'):
            read_torch(path)
    finally:
        clear_safe_globals()
        add_safe_globals(before)
    assert not calls


def test_bytes_of_a_tensor_are_counted_without_a_bound(tmp_path):
    """2**61 numbers of 8 bytes have 2**64 bytes, of which 64 bits show none."""
    many = tensor(storage('Double', 1), shape=1, stride=0).replace(
        pack(number(1)), pack(long1(2**61))
    )
    path = zipped(tmp_path / 'many.pth', b'\x80\x02' + many + b'.', {'data/0': b'\0' * 8})
    with pytest.raises(ValueError, match=r'many\.pth.*larger than the file'):
        read_torch(path)


def test_storages_are_not_larger_than_the_file_together(tmp_path):
    """In the older format, PyTorch allocates what a file states before it reads any value."""
    keys = b'\x80\x02](' + text('0') + text('1') + b'e.'
    content = b'(' + storage('Byte', 600, '0', b'N') + storage('Byte', 2**30, '1', b'N') + b't'
    path = legacy(tmp_path / 'sum.pth', b'\x80\x02' + content + b'.', keys)
    with pytest.raises(ValueError, match=r'sum\.pth.*its storages have'):
        read_torch(path)


def test_names_of_storages_in_the_older_format_are_checked(tmp_path):
    keys = b'\x80\x02' + tensor_on(ONE_ARRAY) + b'.'
    with pytest.raises(ValueError, match=r'keys\.pth.*_rebuild_device_tensor_from_numpy'):
        read_torch(legacy(tmp_path / 'keys.pth', b'\x80\x02}.', keys))


def test_tensor_in_a_plain_pickle_is_checked_too(tmp_path):
    inner = (
        legacy(tmp_path / 'inner.pth', b'\x80\x02' + tensor_on(ONE_ARRAY) + b'.')
        .read_bytes()
        .decode('latin1')
    )
    load = named('torch.storage', '_load_from_bytes')
    for name, argument in dict(
        inner=latin1(inner), archive=latin1('PK\x03\x04'), number=number(4)
    ).items():
        path = tmp_path / f'{name}.pkl'
        path.write_bytes(b'\x80\x02' + call(load, argument) + b'.')
        with pytest.raises(ValueError, match=rf'{name}\.pkl'):
            read_torch(path)


def use_after_free(objects: int = 40, length: int = 4096) -> bytes:
    """Pickle that frees the buffers of arrays under tensors, fills them with live tuples and writes
    into those.
    """
    parts = [b'}', text('state_dict'), b'}']
    for k in range(objects):
        content = array_state((length // 8,), 'i8', chr(1 + k) * length)
        parts += [text(f'a{k}'), new_array(), put(10 + k), content, b'bs']
        parts += [text(f't{k}'), tensor_on(get(10 + k)), put(100 + k), b's']
    for k in range(0, objects, 2):
        parts += [text(f'f{k}'), get(10 + k), array_state((1,), 'i1', '\0'), b'bs']
    for k in range(objects):
        parts += [text(f'p{k}'), b'(' + b'N' * (length // 8 - 1) + b't', b's']
    for k in range(0, objects, 2):
        arguments = pack(get(100 + k), named('torch', 'int64'), text('cpu'), b'\x89')
        function = named('torch._utils', '_rebuild_device_tensor_from_cpu_tensor')
        parts += [
            text(f'w{k}'),
            rebuilt(function, arguments, b'}' + text('real') + get(101) + b's'),
            b's',
        ]
    return b''.join(parts) + b's'


@KINDS
def test_memory_is_not_used_after_it_was_freed(tmp_path, kind):
    path = written(tmp_path, use_after_free(), kind)
    with pytest.raises(ValueError, match=r'hostile\.pth.*torch\.Tensor'):
        read_torch(path)


@pytest.mark.parametrize('command', ['convert', 'predict', 'analyze'])
def test_commands_end_with_one_line_on_a_hostile_file(tmp_path, command):
    path = written(tmp_path, use_after_free(), 'zip')
    words = {
        'convert': ['convert', path, tmp_path / 'out.pth', '--family', 'auto'],
        'predict': [
            'predict',
            'configs/digits/flatten-swin-nano_digits.py',
            path,
            path,
            '--out',
            tmp_path / 'out',
        ],
        'analyze': ['analyze', path, '--out', tmp_path / 'out'],
    }[command]
    run = subprocess.run(
        [sys.executable, '-m', 'mmflatten', *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1 and 'Traceback' not in run.stderr, run.stderr
    assert len(run.stderr.strip().splitlines()[-1]) < 1000


# Generated files. Each is read in a process of its own only if this one would not survive: a signal
# ends the test run.

values = st.recursive(
    st.sampled_from(
        [
            b'N',
            b'\x88',
            b'K\x01',
            number(-1),
            text('real'),
            text(''),
            b'}',
            b']',
            b')',
            ONE_ARRAY,
            get(5),
        ]
    )
    | st.sampled_from([named(*name.rsplit('.', 1)) for name in sorted(ALLOWED)])
    | st.sampled_from(
        [
            numpy_type('f4'),
            numpy_type('O'),
            numpy_type('V8'),
            new_array(),
            storage('Float', 2),
            get(1),
        ]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: pack(*items)),
        st.lists(inner, max_size=4).map(lambda items: b'](' + b''.join(items) + b'e'),
        st.tuples(inner, inner).map(lambda pair: b'}' + pair[0] + pair[1] + b's'),
        st.tuples(inner, st.lists(inner, max_size=5)).map(lambda pair: call(pair[0], *pair[1])),
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1] + b'b'),
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1] + b'\x81'),
        st.tuples(inner, inner).map(lambda pair: tensor(pair[0], 2) + put(1) + pair[1] + b'b'),
        inner.map(lambda item: item + put(5)),
    ),
    max_leaves=12,
)
names = st.sampled_from(
    [name.rsplit('.', 1) for name in sorted(torch._weights_only_unpickler._get_allowed_globals())]
    + [
        ['numpy', 'ndarray'],
        ['numpy.core.multiarray', 'scalar'],
        ['yacs.config', 'CfgNode'],
        ['os', 'system'],
    ]
)
calls = st.tuples(names, st.lists(values, max_size=5), values).map(
    lambda parts: call(named(*parts[0]), *parts[1]) + put(3) + parts[2] + b'b'
)


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(pickled=values | calls, kind=st.sampled_from(['zip', 'legacy', 'pickle']))
def test_generated_pickles_end_with_content_or_an_error(tmp_path, pickled, kind):
    path = tmp_path / 'generated.pth'
    whole = b'\x80\x02' + pickled + b'.'
    if kind == 'zip':
        zipped(path, whole, {'data/0': b'\0' * 8})
    elif kind == 'legacy':
        legacy(path, whole)
    else:
        path.write_bytes(whole)
    try:
        content, _ = read_torch(path)
    except ValueError as error:
        assert str(path) in str(error)
    else:
        repr(content)  # touches all memory that the content has


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), kind=st.sampled_from(['zip', 'legacy', 'pickle', 'safetensors']))
def test_changed_bytes_end_with_content_or_an_error(tmp_path, data, kind):
    from mmflatten.checkpoints.converted_files import read_safetensors

    content = dict(w=torch.arange(6.0), order=np.arange(3), steps=Counter([1, 1]), name='a')
    path = tmp_path / f'changed.{kind}'
    if kind == 'pickle':
        path.write_bytes(pickle.dumps(content, protocol=2))
    elif kind == 'safetensors':
        save_file(dict(w=content['w']), path)
    else:
        torch.save(content, path, _use_new_zipfile_serialization=kind == 'zip')
    whole = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    try:
        repr(read_safetensors(path) if kind == 'safetensors' else read_torch(path)[0])
    except ValueError as error:
        assert str(path) in str(error)
