"""Text of data in written configs: it reads back equal, and never becomes code."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mmengine.config import Config

from mmflatten.cli.init import main
from mmflatten.config import ConfigError, ReadableConfig, config_text, read_config
from mmflatten.custom_data.base_changes import changes_for
from mmflatten.custom_data.config_text import custom_config_text
from mmflatten.custom_data.reading import CustomData
from mmflatten.engine.setup import load_config

DETECTOR = (
    Path(__file__).parents[2] / 'configs' / 'digits' / 'retinanet_flatten-swin-nano_fpn_digits.py'
)
PIECES = [
    '{',
    '}',
    '{{',
    '}}',
    '"',
    "'",
    '\\',
    '"""',
    "'''",
    '#',
    '\n',
    '\r',
    '\0',
    '\x1b[2J',
    '\u202e',
    '\u2028',
    '\x85',
    '\ud800',
    '\udcff',
    '{{ fileBasename }}',
    '{{fileDirname}}',
    '{{$HOME:x}}',
    '{{$Nope:}}',
    "{{'$Zq:0|x.|0'}}",
    '{{ _base_.model }}',
    '{{_base_.a',
    '{\\x7b',
    ' $',
    ':',
    ',',
    ')',
    ']',
    'open("canary", "w")',
    '\\N{DASH}',
    'é',
]
TEXT = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=6).map(''.join)
BASE = """
default_scope = 'mmpretrain'
model = dict(type='ImageClassifier', head=dict(type='LinearClsHead', num_classes=2))
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.05))
train_cfg = dict(by_epoch=True, max_epochs=12, val_interval=1)
param_scheduler = []
train_dataloader = dict(batch_size=4, dataset=dict(type='CustomDataset', pipeline=[]))
val_dataloader = dict(batch_size=4, dataset=dict(type='CustomDataset', pipeline=[]))
"""


@pytest.fixture(scope='module')
def base(tmp_path_factory) -> Config:
    path = tmp_path_factory.mktemp('base') / 'base.py'
    path.write_text(BASE)
    return Config.fromfile(path)


@settings(max_examples=60, deadline=None)
@given(names=st.lists(TEXT, min_size=2, max_size=4), place=TEXT, file=TEXT)
def test_written_config_reads_back_equal_for_any_text(base, tmp_path_factory, names, place, file):
    folder, name = (
        Path('/data', re.sub('[/\0\ud800]', '', text) + 'x.py') for text in (place, file)
    )
    part = dict(ann_file=folder / 'a.txt', data_prefix=folder / 'photos', img_suffix=file)
    data = CustomData('CustomDataset', part, part, (20, 20), tuple(names))
    out = tmp_path_factory.getbasetemp() / 'mine.py'
    text = custom_config_text(
        changes_for(base, data),
        data,
        base,
        out=name,
        batch=4,
        checkpoint=folder / 'start.pth',
    )
    out.write_text(text, encoding='utf-8')
    cfg = read_config(str(out))
    assert cfg.classes == tuple(names) and cfg.load_from == f'{folder}/start.pth'
    dataset = cfg.train_dataloader.dataset
    assert (cfg.data_root, dataset.ann_file, dataset.img_suffix) == (f'{folder}/', 'a.txt', file)
    out.write_text(cfg.pretty_text, encoding='utf-8')
    assert read_config(str(out)).to_dict() == cfg.to_dict()


VALUES = st.recursive(
    TEXT | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False),
    lambda items: (
        st.lists(items, max_size=3)
        | st.tuples(items, items)
        | st.dictionaries(TEXT, items, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(fields=st.dictionaries(st.sampled_from(['a', 'model', 'classes']), VALUES))
def test_text_of_a_config_reads_back_equal(tmp_path_factory, fields):
    """Dumps of runs, studies and converted models are configs again."""
    path = tmp_path_factory.getbasetemp() / 'dump.py'
    path.write_text(config_text(Config(fields)), encoding='utf-8')
    cfg = read_config(str(path))
    assert cfg.to_dict() == fields
    cfg.dump(path)
    assert isinstance(cfg, ReadableConfig) and read_config(str(path)).to_dict() == fields


def test_field_that_is_no_name_is_refused():
    with pytest.raises(ConfigError, match='open'):
        config_text(Config({"x = open('canary', 'w')\ny": 1}))


def annotate(names: list[str]) -> None:
    content = dict(
        images=[
            dict(id=number, file_name=f'{number}.png', width=48, height=40) for number in range(6)
        ],
        annotations=[
            dict(
                id=number + 1,
                image_id=number,
                category_id=1 + number % 2,
                bbox=[2, 2, 20, 20],
                area=400,
                iscrowd=0,
            )
            for number in range(6)
        ],
        categories=[dict(id=number, name=name) for number, name in enumerate(names, 1)],
    )
    Path('names.json').write_text(json.dumps(content))


def init(base: Path = DETECTOR) -> int:
    return main(
        [
            '--task',
            'det',
            '--images',
            'photos',
            '--ann',
            'names.json',
            '--base',
            str(base),
            '--out',
            'mine.py',
        ]
    )


@pytest.mark.parametrize(
    'names',
    [
        ['{{$Zq:0|qzx.|0}}qzx', ',open("canary","w").write("code of class names ran"))#'],
        ['{{$HOME:x}}', '{{ fileBasename }}'],
        ['{{$Nope:}}', '{{ _base_.model }}'],
    ],
)
def test_class_names_of_annotations_never_become_code(data, names):
    annotate(names)
    assert init() == 0
    assert load_config('mine.py').classes == tuple(names)
    assert sorted(path.name for path in data.iterdir()) == [
        'mine.py',
        'mine_train.json',
        'mine_val.json',
        'names.json',
        'photos',
    ]


def test_config_that_cannot_be_read_back_is_not_written(data):
    """MMEngine takes `::` in the path of a base for a package."""
    annotate(['a', 'b'])
    (data / 'x::y').mkdir()
    (data / 'x::y' / 'base.py').write_text(f'_base_ = [{str(DETECTOR)!r}]\n')
    before = sorted(data.rglob('*'))
    assert init(data / 'x::y' / 'base.py') == 1
    assert sorted(data.rglob('*')) == before
