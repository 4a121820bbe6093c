"""Content of hostile published models: config.json of a shipped one with a change, and its facts corrected."""
import hashlib
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

from mmflatten.hub.folder import CONFIG, FACTS, shipped

MODEL = shipped()['garment-classifier']


def configs(canary: Path) -> Iterator[tuple[str, bytes, bool]]:
    """Yield name and content of each config.json, and whether it must be refused. None may make `canary`."""
    evil = f'open("{canary}", "w")'
    backbone = dict(type='mmflatten.FLattenSwin')
    for name, part, values in (
            ('dotted type', 'model', dict(type='os.system')),
            ('evaluated type', 'model', dict(test_cfg=dict(nms=dict(type=f'__import__("builtins").{evil}')))),
            ('unknown module', 'model', dict(backbone=dict(type='antigravity'))),
            ('pretrained', 'model', dict(pretrained='evil.pth')),
            ('initial weights', 'model', dict(init_cfg=dict(type='Pretrained', checkpoint='http://127.0.0.1:9/a.pth'))),
            ('storage', 'model', dict(backend_args=dict(backend='memcached', sys_path='model.safetensors'))),
            ('base', 'model', dict(_base_='evil.py')),
            ('terabytes', 'model', dict(backbone=dict(backbone, arch=dict(
                embed_dims=2**14, depths=[2**14] * 4, num_heads=[1] * 4)))),
            ('not a number', 'model', dict(head=dict(type='LinearClsHead', num_classes=math.nan))),
            ('escapes', 'model', dict(type='\x1b[2J\u202e')),
            ('deep', 'model', dict(deep=json.loads('[' * 300 + ']' * 300))),
            ('pipeline', 'input', dict(pipeline=[dict(type='LoadImageFromFile')])),
            ('huge size', 'input', dict(resize=dict(scale=[10**9, 10**9]))),
            ('text as a size', 'input', dict(resize=dict(scale='evil'))),
            ('interpolation', 'input', dict(resize=dict(interpolation=evil)))):
        config = json.loads((MODEL / CONFIG).read_text())
        config[part].update(values)
        yield name, json.dumps(config).encode(), True
    config = json.loads((MODEL / CONFIG).read_text())
    yield 'ignored field', json.dumps({**config, 'custom_imports': ['antigravity']}).encode(), False
    yield 'nesting', b'[' * 20_000, True
    yield 'digits', b'{"model": ' + b'9' * 9999 + b'}', True
    yield '2 MiB', b' ' * 2**21, True


def write_model(folder: Path, config: bytes) -> Path:
    """Write a published model with another config.json, whose size and SHA-256 are true."""
    shutil.copytree(MODEL, folder)
    (folder / CONFIG).write_bytes(config)
    facts = json.loads((folder / FACTS).read_text())
    facts['files'][CONFIG] = dict(bytes=len(config), sha256=hashlib.sha256(config).hexdigest())
    (folder / FACTS).write_text(json.dumps(facts))
    return folder
