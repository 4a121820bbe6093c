"""Hostile labels of data: annotations of COCO, YOLO's data.yaml and text, Pascal VOC, labelme, and shard indexes."""
import json
from collections.abc import Iterator
from pathlib import Path

from content import Case
from world import World

HUGE = '1' + '0' * 400
LABEL_FILES = ('data.yaml', '0.xml', '0.json', '0.txt')  # kinds: each is converted in a folder of its own


def labels(world: World, canary: Path) -> Iterator[Case]:
    for kind, cases in dict(zip(LABEL_FILES, (yolo(), voc(), labelme(), lines()))).items():
        for name, text in cases.items():
            yield Case(kind, name, text.encode('latin-1'), True)
    for name, content in annotations(world, canary).items():
        yield Case('coco', name, json.dumps(content).replace('"HUGE"', HUGE).encode(), 'class names' not in name)
    for name in ('reference://::/a', 'http://127.0.0.1:9/a.tar', '/dev/zero', '../a.tar', 'shard://file//dev/zero'):
        about = dict(format=2, images=16, shards=[name], classes=[], folders={})
        yield Case('index', f'shard {name}', json.dumps(about).encode(), True)


def annotations(world: World, canary: Path) -> dict[str, dict]:
    """Segmentations that crash pycocotools are an error for a model with masks, and class names may be any text."""
    box = dict(category_id=1, bbox=[1, 1, 9, 9], area=81, iscrowd=0)
    content = dict(
        images=[dict(id=n, file_name=path.name, width=32, height=32) for n, path in enumerate(world.photos)],
        annotations=[dict(box, id=n + 1, image_id=n) for n in range(3)], categories=[dict(id=1, name='x')])
    changed = {f'{key} of 400 digits': dict(content, annotations=[dict(box, id=1, image_id=0, **{key: value})])
               for key, value in dict(bbox=[1, 1, 1, 'HUGE'], area='HUGE').items()}
    code = ['{{$Zq:0|qzx.|0}}qzx', f',open("{canary}","w").write("x"))#']
    for names in (code, ['{{$Nope:}}', '{{ fileBasename }}'], ['\x1b[2J', '\u202e']):
        categories = [dict(id=number, name=name) for number, name in enumerate(names, 1)]
        changed[f'class names {names[0][:9]}'] = dict(content, categories=categories)
    return changed


def yolo() -> dict[str, str]:
    start = 'train: images\nval: images\n'
    aliases = 'a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n' + ''.join(
        f'a{n}: &a{n} [{", ".join([f"*a{n - 1}"] * 10)}]\n' for n in range(1, 10))
    return {
        'aliases as names': f'{aliases}{start}names: *a9', 'aliases as places': f'{aliases}train: *a9\nnames: [a]',
        'itself': f'{start}names: &a [*a]', 'depth': '[' * 20_000, 'digits': f'{start}nc: {"9" * 5000}',
        'base 60': f'{start}nc: 1{":00" * 1000}', 'date': f'{start}d: 2024-99-99', '2 MiB': 'x' * 2**21,
        'device': 'train: /dev/zero\nnames: [a]', 'other file': 'train: /etc/passwd\nnames: [a]'}


def voc() -> dict[str, str]:
    text = '<?xml version="1.0" encoding="{}"?><annotation><filename>0.png</filename></annotation>'
    entities = '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
    return {**{f'encoding {name}': text.format(name) for name in ('zlib', 'uu', 'base64', 'rot13', 'x' * 999)},
            'entity': entities, 'depth': '<a>' * 100_000, 'empty': '', 'binary': '\xff\xfe'}


def labelme() -> dict[str, str]:
    shape = '{"label": "a", "shape_type": "polygon", "points": [[1, 1], [9, 1], [%s, 9]]}'
    return {'point of 400 digits': f'{{"shapes": [{shape % HUGE}], "imagePath": "0.png"}}',
            'digits': f'{{"shapes": [{"9" * 5000}]}}', 'shapes twice': '{"shapes": [], "shapes": 5}',
            'shapes elsewhere': '{"flags": {"shapes": [{}]}, "shapes": {}}', 'depth': '[' * 100_000, 'list': '[]'}


def lines() -> dict[str, str]:
    return {'infinity': '0 0.5 0.5 0.1 1e999', 'huge negative': '0 -1e300 0 0 0 0 0', 'digits': '9' * 5000,
            'binary': '\xff'}
