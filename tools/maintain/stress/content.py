"""Content of hostile files: checkpoints, predictions, study files and files of runs."""
import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from world import World

ENTRY = dict(img_path='a.png', pred_label=torch.tensor([0]), pred_score=torch.tensor([.2, .8]),
             gt_label=torch.tensor([1]))


class Case(NamedTuple):
    """A file. If it need not be refused, the command may also read it."""

    kind: str
    name: str
    content: bytes
    refused: bool


class Call:
    """An object whose pickle calls a function, and may then set a state."""

    def __init__(self, *reduced: object) -> None:
        self.reduced = reduced

    def __reduce__(self) -> tuple:
        return self.reduced


def hostile(world: World, canary: Path) -> list[Case]:
    """Make all files, of all kinds in turn, so that a shorter campaign has some of each. None may make `canary`."""
    kinds = [list(cases) for cases in (
        checkpoints(world, canary), damaged_checkpoints(world), predictions(world, canary), damaged_predictions(world),
        studies(world, canary), runs(world))]
    return [cases[number] for number in range(max(map(len, kinds))) for cases in kinds if number < len(cases)]


def damaged(world: World, kind: str, name: str, content: bytes, number: int) -> Iterator[Case]:
    """Yield cut-off files, which must be refused, and flipped bytes, which may be read."""
    for _ in range(number):
        length = world.random.randrange(len(content))
        refused = kind != 'run' and content[length:].strip(b'\0') != b''  # a tar ends with zeros
        yield Case(kind, f'{name} cut at {length} of {len(content)}', content[:length], refused)
        at, changed = world.random.randrange(len(content)), bytearray(content)
        changed[at] ^= 1 << world.random.randrange(8)
        yield Case(kind, f'{name} with a flipped bit at {at}', bytes(changed), False)


def gadgets(canary: Path) -> dict[str, bytes]:
    """Pickles that `weights_only=True` reads: code through `getattr`, endless tuples, much memory."""
    def text(value: str) -> bytes:
        return b'X' + struct.pack('<I', len(value)) + value.encode()

    def call(function: bytes, *arguments: bytes) -> bytes:
        return function + b'(' + b''.join(arguments) + b'tR'

    def attribute(owner: bytes, name: str) -> bytes:
        return call(b'cbuiltins\ngetattr\n', owner, text(name))

    rebuild, encode = b'ctorch._tensor\n_rebuild_from_type_v2\n', b'c_codecs\nencode\n'
    found = call(rebuild, attribute(attribute(b'ctorch._utils\n_rebuild_tensor\n', '__builtins__'), '__getitem__'),
                 attribute(encode, '__class__'), b'(' + text('exec') + b't', b'N')
    tuples = b')q\x00' + b''.join(b'h%c\x86q%c' % (i, i + 1) for i in range(60))
    return {'exec through getattr': call(rebuild, found, attribute(b'N', '__class__'),
                                         b'(' + text(f'open({str(canary)!r}, "w")') + b't', b'N'),
            'endless key': b'}' + tuples + b'Ks', 'endless element': b'cbuiltins\nset\n](' + tuples + b'e\x85R',
            'bytes of a stated number': call(b'c__builtin__\nbytearray\n', b'\x8a\x05' + (2**33).to_bytes(5, 'little')),
            'doubling codec': call(encode, text('aaaa'), text('latin1')) + b''.join(
                b'q%c' % i + encode + b'h%c' % i + text('hex') + b'\x86R' for i in range(1, 34)),
            'many marks': b'(' * 10**6, 'many lists': b'(' + b']' * 10**6 + b't'}


def checkpoints(world: World, canary: Path) -> Iterator[Case]:
    """Checkpoints whose pickles call functions. Their weights may be read."""
    weights = torch.load(world.weights, weights_only=True)['state_dict']
    for name, value in {'os.system': Call(os.system, (f'touch {canary}',)),
                        'eval': Call(eval, (f"open('{canary}', 'w')",)),
                        'exec': Call(exec, (f"open('{canary}', 'w')",)),
                        'shutil.rmtree': Call(shutil.rmtree, (str(world.data),))}.items():
        for new in (True, False):
            file = io.BytesIO()
            torch.save(dict(state_dict=weights, more=value), file, _use_new_zipfile_serialization=new)
            yield Case('pth', f'{name}, {"zip" if new else "older"} format', file.getvalue(), False)
    yield Case('pth', 'a pickle alone', pickle.dumps(Call(os.system, (f'touch {canary}',))), True)
    yield Case('pth', 'memo bomb', b'\x80\x02Nr\xff\xff\xff\x7f.', True)
    yield Case('pth', 'bytes of a stated size', b'\x80\x04\x8e' + (2**40).to_bytes(8, 'little') + b'.', True)
    yield Case('pth', 'deep nesting', b'\x80\x02' + b'(' * 100_000 + b'.', True)
    for name, pickled in gadgets(canary).items():
        file = io.BytesIO()
        with zipfile.ZipFile(file, 'w') as archive:
            for part, data in (('data.pkl', b'\x80\x02' + pickled + b'.'), ('byteorder', 'little'), ('version', '3')):
                archive.writestr(f'a/{part}', data)
        yield Case('pth', name, file.getvalue(), True)


def damaged_checkpoints(world: World) -> Iterator[Case]:
    saved = world.weights.read_bytes()
    yield Case('pth', 'empty', b'', True)
    yield Case('pth', 'text', b'<html>404</html>', True)
    bomb = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved)) as source, zipfile.ZipFile(bomb, 'w', zipfile.ZIP_DEFLATED) as target:
        for member in source.infolist():
            target.writestr(member.filename, bytes(2**28) if member.filename.endswith('/0') else source.read(member))
    yield Case('pth', 'deflated member of 256 MiB', bomb.getvalue(), True)
    escaping = io.BytesIO()
    with zipfile.ZipFile(escaping, 'w') as target:
        target.writestr('../../escaped', 'x')
    yield Case('pth', 'path traversal in the archive', escaping.getvalue(), True)
    yield from damaged(world, 'pth', 'checkpoint', saved, 9)


def predictions(world: World, canary: Path) -> Iterator[Case]:
    """Predictions whose pickles call functions or take much memory."""
    for name, value in {
        'object pointers in a dtype': Call(
            np.dtype, ('V8', False, True), (3, '|', None, ('a',), {'a': (np.dtype(object), 0)}, 8, 1, 0)),
        'os.system': Call(os.system, (f'touch {canary}',)),
        'eval': Call(eval, (f"open('{canary}', 'w')",)),
        'array of objects': np.array([{}], object),
        'endless tensor': torch.zeros(1).expand(2**40),
        'getattr': Call(getattr, (dict, 'fromkeys')),
        'import': Call(__import__, ('antigravity',)),
    }.items():
        yield Case('pkl', name, pickle.dumps([{**ENTRY, 'more': value}], 2), True)
    yield Case('pkl', 'defaults of a function',
               b'\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}U\x0c__defaults__(K\x01ts\x86b.', True)
    yield Case('pkl', 'memo bomb', b'\x80\x02Nr\xff\xff\xff\x7f.', True)


def damaged_predictions(world: World) -> Iterator[Case]:
    yield Case('pkl', 'no list', pickle.dumps(dict(a=1), 2), True)
    yield Case('pkl', 'nested', pickle.dumps([[[]]], 2), True)
    nested: list = []
    for _ in range(60):
        nested = [nested, nested]
    box = dict(bboxes=torch.zeros(1, 4), labels=torch.zeros(1, dtype=torch.long), scores=torch.ones(1))
    for name, changes in {
        'mask of size zero': dict(masks=[dict(size=[0, 0], counts=b'')]),
        'huge run length': dict(masks=[dict(size=[4, 4], counts=b'oooooo0')]),
        'mask of another size': dict(masks=[dict(size=[4, 5], counts=b'd0')]),
        'box of NaN': dict(bboxes=torch.full((1, 4), torch.nan)),
        'nested labels': dict(labels=nested),
    }.items():
        found = dict(img_id=0, ori_shape=(4, 4), pred_instances={**box, **changes})
        yield Case('pkl', name, pickle.dumps([found]), True)
    for name, value in {'address': 'http://127.0.0.1:9/a.png', 'escapes': '\x1b[2J\x9b.png', 'shard': (
            'shard://file//dev/zero?offset=0&size=6000000000#a')}.items():
        yield Case('pkl', f'{name} as image', pickle.dumps([{**ENTRY, 'img_path': value}]), False)
    yield Case('pkl', 'nested path', pickle.dumps([{**ENTRY, 'img_path': nested}]), True)
    yield Case('pkl', 'labels that are text', pickle.dumps([{**ENTRY, 'gt_label': 'cat'}], 2), True)
    yield Case('pkl', 'scores of other lengths', pickle.dumps([ENTRY, {**ENTRY, 'pred_score': torch.rand(5)}], 2), True)
    yield from damaged(world, 'pkl', 'predictions', world.predictions.read_bytes(), 9)
    for text in ('[]', '{"classes": 5}', '{"classes": [1, 2]}', '{"evaluator": {}}', '[' * 20_000, '{"metrics": []}'):
        yield Case('json', f'origin {text[:20]}', text.encode(), True)


def studies(world: World, canary: Path) -> Iterator[Case]:
    text = world.study.read_text()
    aliases = 'a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n' + ''.join(
        f'a{n}: &a{n} [{", ".join([f"*a{n - 1}"] * 10)}]\n' for n in range(1, 10))
    for name, content in {
        'aliases': aliases,
        'aliases in options': f'{aliases}options: {{x: *a9}}\n{text}',
        'depth': '[' * 20_000,
        'itself': 'a: &a [*a]',
        'python object': 'a: !!python/object/apply:os.system ["true"]',
        'digits': 'a: ' + '9' * 9999,
        'a list': '[1, 2]',
        'null': '',
        'text': 'hello',
        'line break in the name': f'name: "a\\nb"\n{text}',
        'path as name': f'name: ../../escaped\n{text}',
        'long name': f'name: {"n" * 5000}\n{text}',
        'huge seed': text.replace('seed: 1', 'seed: [4294967296]'),
        'many seeds': text.replace('seed: 1', 'seed: 1000000000'),
        'list of seeds': text.replace('seed: 1', f'seed: {list(range(200_000))}'),
        'many levels': text.replace('  seed: 1', f'  x: {{{", ".join(f"l{n}: {{}}" for n in range(50_000))}}}'),
        'many factors': text + ''.join(f'  f{n}: {{a: {{}}, b: {{}}}}\n' for n in range(60)),
        'endless budget': text.replace('epochs: 4', 'epochs: .inf'),
        'nul': text.replace('relu', 're\\0lu'),
        'a command': f'options: {{model.neck: {{type: subprocess.call, args: [[touch, {canary}]]}}}}\n{text}',
        'an import': f'options: {{custom_imports: {{imports: [antigravity]}}}}\n{text}',
        'a substitution': f'options: {{model.x: "{{{{$X:0}}}}"}}\n{text}',
        'a backend': f'options: {{train_dataloader.dataset.backend_args: {{backend: memcached}}}}\n{text}',
        'escapes': f'options: {{"model.\\e[2J": 1}}\n{text}',
    }.items():
        yield Case('yaml', name, content.encode(), name != 'nul')
    yield Case('yaml', 'binary', bytes(range(256)) * 20, True)
    yield Case('yaml', '2 MiB', b'x' * 2**21, True)


def runs(world: World) -> Iterator[Case]:
    """Files of a study's runs, which are set aside: the status must be printed in any case."""
    whole = json.dumps(dict(name='r', state='finished', metric='m', value=50.0, metrics={'m': 50.0}))
    for file in ('result.json', 'run.json', 'progress.json'):
        for text in ('[]', 'null', '{"state": 5}', '{"name": "r", "state": "finished", "value": "x"}', '[' * 20_000,
                     '\xff', '{"result": {"wall_seconds": "x"}}', '{"step": "x", "length": 0}',
                     whole.replace('50.0', 'NaN')):
            yield Case('run', f'{file} {text[:30]}', text.encode('latin-1'), False)
        yield from damaged(world, 'run', f'{file} of a result', whole.encode(), 3)
