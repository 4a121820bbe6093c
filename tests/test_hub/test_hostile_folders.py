"""Published folders of a hostile author, who corrects the SHA-256: refused in one line, and nothing
of them runs.
"""

import json
import math
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mmflatten.apis import from_pretrained
from mmflatten.hub import config_data
from mmflatten.hub.folder import facts_of, read_published, shipped
from mmflatten.hub.remote import locate
from mmflatten.models.attention import SoftmaxAttention
from mmflatten.registry import MODELS
from mmflatten.untrusted.published import CONFIG, FACTS, LIMITS, WEIGHTS, HubError


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy of a published classifier that a test may damage."""
    return Path(shutil.copytree(shipped()['garment-classifier'], tmp_path / 'copy'))


def change(folder: Path, name: str, function: Callable[[Path], object]) -> None:
    """Change a file and correct its SHA-256."""
    function(folder / name)
    facts = json.loads((folder / FACTS).read_text())
    facts['files'][name] = facts_of(folder / name).model_dump()
    (folder / FACTS).write_text(json.dumps(facts))


def change_json(folder: Path, name: str, function: Callable[[dict], object]) -> None:
    def apply(path: Path) -> None:
        data = json.loads(path.read_text())
        function(data)
        path.write_text(json.dumps(data))

    if name == FACTS:
        apply(folder / name)
    else:
        change(folder, name, apply)


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(HubError) as error:
        read_published(folder)
    message = str(error.value)
    assert (
        message.isprintable() and len(message) < 2000 and all(word in message for word in words)
    ), message


def in_backbone(**values: object) -> Callable[[dict], object]:
    return lambda model: model['backbone'].update(values)


def arch(**values: object) -> Callable[[dict], object]:
    return lambda model: model['backbone']['arch'].update(values)


EVIL = 'evil\n\x1b[2J\u202e'
MODEL = {
    'dotted type': lambda model: model.update(type='os.system'),
    'type of another scope': lambda model: model.update(type='mmdet.RetinaNet'),
    'unknown scope': in_backbone(type='evil.FLattenSwin'),
    'module of the folder': in_backbone(type='evil'),
    'name of a function and a module': in_backbone(type='nms'),
    'listed class in another place': lambda model: model['neck'].update(type='LinearClsHead'),
    'class that reads files': lambda model: model.update(
        type='mmflatten.Distillation', teacher_weights='evil.pth'
    ),
    'type is a number': lambda model: model.update(type=1),
    'type is a list': lambda model: model.update(type=['ImageClassifier']),
    'type is a dictionary': lambda model: model['head'].update(type=dict(type='LinearClsHead')),
    'type with control characters': lambda model: model.update(type=EVIL),
    'attention of nowhere': in_backbone(mixers=dict(S=dict(type='evil.Attention'))),
    'attention that is a base class': in_backbone(mixers=dict(S=dict(type='TokenMixer'))),
    'attention that is a module': in_backbone(
        linear_attention=dict(type='subprocess.Popen', args=1)
    ),
    'base': lambda model: model.update(_base_='evil.py'),
    'scope': lambda model: model.update(_scope_='evil'),
    'deletion': lambda model: model.update(_delete_=True),
    'imports': lambda model: model.update(custom_imports=dict(imports=['evil'])),
    'remote code': lambda model: model.update(trust_remote_code='yes'),
    'weights': in_backbone(init_cfg=dict(type='Pretrained', checkpoint='evil.pth')),
    'weights of no type': in_backbone(init_cfg=dict(checkpoint='http://evil.example/a.pth')),
    'initialisation': in_backbone(init_cfg=dict(type='TruncNormal', std=0.1)),
    'pretrained': lambda model: model.update(pretrained='evil.pth'),
    'foreign config': lambda model: model.update(teacher_config='evil.py'),
    'loaded weights of classes': lambda model: model['head'].update(class_weight='evil.pkl'),
    'storage': in_backbone(backend_args=dict(backend='memcached', sys_path='model.safetensors')),
    'client of files': in_backbone(file_client_args=dict(backend='petrel')),
    'evaluated': lambda model: model.update(
        test_cfg=dict(nms=dict(type='__import__("os").system("touch evil")'))
    ),
    'plugin': in_backbone(plugins=[dict(cfg=dict(type='os.system'))]),
    'training': lambda model: model.update(train_cfg=dict(augments=dict(type='evil'))),
    'data preprocessor': lambda model: model.update(data_preprocessor=dict(type='evil')),
    'address as a word': in_backbone(arch='http://evil.example'),
    'path as a word': in_backbone(arch='../../evil'),
    'text as a number': in_backbone(img_size='evil'),
    'not a number': in_backbone(drop_path_rate=math.nan),
    'infinite': in_backbone(drop_path_rate=-math.inf),
    'name of no argument': lambda model: model.update({'a b': 1}),
    'special name': lambda model: model.update(__class__=1),
    'name with control characters': lambda model: model.update({EVIL: 1}),
    'tuple of a number': in_backbone(out_indices=dict(__tuple__=5)),
    'unknown argument': in_backbone(evil=1),
    'missing argument': lambda model: model.pop('backbone'),
    'deep': lambda model: model.update(deep=json.loads('[' * 200 + ']' * 200)),
    'deep dictionaries': lambda model: model.update(
        deep=json.loads('{"a":' * 300 + '1' + '}' * 300)
    ),
    'long list': lambda model: model.update(long=[0] * 10**5),
    'terabytes': arch(embed_dims=2**14, num_heads=dict(__tuple__=[1, 1, 1, 1])),
    'many blocks': arch(depths=dict(__tuple__=[2**14] * 4)),
    'many classes': lambda model: model['head'].update(num_classes=2**20),
    'large table': in_backbone(softmax_window=2**12, img_size=2**14),
    'huge number': in_backbone(img_size=2**40),
    'large maps': lambda model: model.update(neck=dict(pool_scales=[1, 2**14])),
    'many disparities': lambda model: model.update(max_disp=2**14),
    'many masks': lambda model: model.update(test_cfg=dict(rcnn=dict(max_per_img=2**14))),
    'every score': lambda model: model.update(test_cfg=dict(rcnn=dict(score_thr=-1))),
    'number of an unknown argument': in_backbone(batch=2),
    'window below one pixel': lambda model: model.update(
        test_cfg=dict(crop_size=[64, 64], stride=[0, 1])
    ),
    'number of many digits': in_backbone(img_size=10**4000),
    'not a dictionary': lambda model: model.clear(),
}


@pytest.fixture
def traps(folder, monkeypatch) -> Path:
    """Modules on `sys.path` with the names of hostile types, which leave a file if they are
    imported.
    """
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    for module in ('evil', 'nms', 'mc', 'LinearClsHead', 'TokenMixer'):
        (folder / f'{module}.py').write_text('open("ran", "w")\nraise SystemExit("executed")\n')
    return folder / 'ran'


@pytest.mark.parametrize('name', MODEL)
def test_hostile_model_is_refused(name, folder, traps):
    change_json(folder, CONFIG, lambda config: MODEL[name](config['model']))
    refused(folder, CONFIG)
    assert not traps.exists() and not (folder / 'evil').exists()


@pytest.mark.parametrize(
    'values',
    [
        dict(pipeline=[]),
        dict(resize=[]),
        dict(LoadImageFromFile=dict()),
        {EVIL: {}},
        *(
            dict(resize=value)
            for value in (
                dict(type='evil'),
                dict(backend_args=dict(backend='memcached')),
                dict(scale=[0, 10]),
                dict(scale=[10**9, 10]),
                dict(scale=[10.0, 10]),
                dict(scale=[True, 10]),
                dict(scale=[1, 2, 3]),
                dict(scale='evil'),
                dict(scale=None),
                dict(scale=8192),
                dict(scale=[64, 8192]),
                dict(backend='evil'),
                dict(interpolation=['area']),
                dict(interpolation={}),
                dict(keep_ratio=1),
                {EVIL: 1},
            )
        ),
        dict(crop=dict(crop_size=-1)),
        dict(resize_edge=dict(scale=2**20)),
        dict(resize_edge=dict(scale=8192, edge='short')),
        dict(resize_edge=dict(scale=64, edge='evil')),
        dict(resize_edge=dict(edge='short')),
        dict(multiple=dict(size_divisor=0)),
        dict(multiple=dict(size_divisor='32')),
        *(
            dict(preprocessor=value)
            for value in (
                dict(type='evil'),
                dict(mean='evil'),
                dict(mean=[1, 2]),
                dict(mean=[1, 2, math.nan]),
                dict(std=[0, 1, 1]),
                dict(std=[1, 1, 1e9]),
                dict(to_rgb='yes'),
                dict(pad_divisor=10**6),
                dict(pad_value=math.inf),
                dict(batch_augments=[dict(type='evil')]),
            )
        ),
    ],
    ids=str,
)
def test_hostile_input_is_refused(values, folder):
    change_json(folder, CONFIG, lambda config: config['input'].update(values))
    refused(folder, f'{CONFIG}: input')


def test_input_of_another_task_is_refused(folder):
    change_json(
        folder, CONFIG, lambda config: config['input']['preprocessor'].update(pad_divisor=2)
    )
    refused(folder, CONFIG)


FACTS_FIELDS = {
    'first format': dict(format=1),
    'format of text': dict(format='2'),
    'unknown task': dict(task=EVIL),
    'task of another model': dict(task='detection'),
    'many classes': dict(classes=['a'] * 100_001),
    'long class': dict(classes=['a' * 1001]),
    'half a character': dict(classes=['\ud800'] * 10),
    'number of classes': dict(classes=['a'] * 2000),
    'classes of numbers': dict(classes=[1]),
    'classes': dict(classes='abc'),
    'palette': dict(palette=[[0, 0, 256]]),
    'palette of text': dict(palette='evil'),
    'files': dict(files=[CONFIG]),
    'no file': dict(files={}),
    'no hash': dict(files={CONFIG: dict(bytes=1)}),
    'too large': dict(files={CONFIG: dict(bytes=LIMITS[CONFIG] + 1, sha256='0')}),
    'no bytes': dict(files={CONFIG: dict(bytes=-1, sha256='0')}),
}


@pytest.mark.parametrize('name', FACTS_FIELDS)
def test_hostile_facts_are_refused(name, folder):
    change_json(folder, FACTS, lambda facts: facts.update(FACTS_FIELDS[name]))
    refused(folder, CONFIG if 'task of another' in name else FACTS)


@pytest.mark.parametrize(
    'content',
    [
        b'',
        b'{',
        b'[]',
        b'\xff',
        b'[' * 10**5,
        b'{"format": ' + b'9' * 5000 + b'}',
        b' ' * (2**24 + 1),
    ],
    ids=lambda content: f'{content[:12]!r}',
)
@pytest.mark.parametrize('name', [FACTS, CONFIG])
def test_damaged_json_is_refused(name, content, folder):
    change(
        folder, CONFIG, lambda path: (folder / name).write_bytes(content)
    ) if name == CONFIG else (folder / name).write_bytes(content)
    refused(folder, name)


@pytest.mark.parametrize(
    'name', ['../../evil', '/etc/passwd', 'a/b', '..', '.hidden', '', 'a' * 101, EVIL]
)
def test_file_names_outside_the_folder_are_refused(name, folder):
    change_json(
        folder, FACTS, lambda facts: facts['files'].update({name: dict(bytes=1, sha256='0')})
    )
    refused(folder, FACTS)


@pytest.mark.parametrize('name', [CONFIG, WEIGHTS, FACTS])
@pytest.mark.parametrize('kind', ['link', 'pipe', 'folder', 'missing', 'loop', 'device'])
def test_only_regular_files_of_the_folder_are_read(name, kind, folder, tmp_path):
    path = folder / name
    path.rename(tmp_path / 'outside')
    match kind:
        case 'link':
            path.symlink_to(tmp_path / 'outside')
        case 'pipe':
            os.mkfifo(path)
        case 'folder':
            path.mkdir()
        case 'loop':
            path.symlink_to(path)
        case 'device':
            path.symlink_to('/dev/zero')
    refused(folder, name)


@pytest.mark.parametrize(
    'place, good',
    [
        ('models--user--model/blobs/a', True),
        ('models--user--model/private', False),
        ('blobs/a', False),
        ('models--user--model/blobs/b/a', False),
        ('models--user--model/snapshots/other/a', False),
    ],
)
def test_links_of_the_hub_cache_lead_to_its_blobs(place, good, tmp_path):
    folder = tmp_path / 'models--user--model' / 'snapshots' / 'x'
    shutil.copytree(shipped()['digits-stereo'], folder)
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / WEIGHTS).rename(tmp_path / place)
    (folder / WEIGHTS).symlink_to(tmp_path / place)
    if good:
        assert read_published(folder).weights == folder / WEIGHTS
    else:
        refused(folder, WEIGHTS, 'link')
    plain = shutil.copytree(folder, tmp_path / 'plain' / 'snapshots' / 'x', symlinks=True)
    refused(Path(plain), WEIGHTS, 'link')


class _Evil:
    def __reduce__(self):
        return os.system, ('touch evil',)


def test_pickle_in_disguise_and_huge_header_are_refused(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for content in (pickle.dumps(_Evil()), (10 * 2**30).to_bytes(8, 'little') + b'{' * 100):
        content += bytes(2**20)
        change(folder, WEIGHTS, lambda path: path.write_bytes(content))  # noqa: B023
        with pytest.raises(Exception, match=f'{WEIGHTS}.*cannot be read') as error:
            from_pretrained(folder, 'cpu')
        assert '\n' not in str(error.value)
    assert not (folder / 'evil').exists()


def test_changed_and_cut_files_are_refused(folder):
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (folder / WEIGHTS).write_bytes(content)
    refused(folder, WEIGHTS, 'sha256')
    (folder / WEIGHTS).write_bytes(content[:-1])
    refused(folder, WEIGHTS, str(len(content)))


def test_pipelines_of_a_folder_are_not_built(folder, traps):
    """The attack that was possible: a transform whose storage imports a module from a zip file, the
    weights.
    """
    step = dict(
        type='LoadImageFromFile',
        backend_args=dict(
            backend='memcached', server_list_cfg='x', client_cfg='x', sys_path=str(folder)
        ),
    )
    loader = dict(dataset=dict(pipeline=[step]))
    change_json(
        folder,
        CONFIG,
        lambda config: config.update(
            test_dataloader=loader, custom_imports=['evil'], _base_='evil.py', default_scope='evil'
        ),
    )
    pixels = torch.zeros(30, 40, 3, dtype=torch.uint8).numpy()
    before, after = (
        from_pretrained(name, 'cpu')(pixels) for name in ('garment-classifier', folder)
    )
    assert torch.equal(before.pred_score, after.pred_score) and not traps.exists()


def test_other_folders_and_names_are_refused(tmp_path):
    refused(tmp_path, FACTS)
    for name in ('no-such-model', '../x', 'a/b/c', 'hf://'):
        with pytest.raises(HubError, match='model'):
            locate(name)


def test_attention_is_accepted_if_its_package_is_installed(folder, monkeypatch):
    class ForeignAttention(SoftmaxAttention):
        """Attention of another package."""

    monkeypatch.setitem(MODELS.module_dict, 'ForeignAttention', ForeignAttention)
    change_json(
        folder,
        CONFIG,
        lambda config: config['model']['backbone'].update(
            mixers=dict(S=dict(type='ForeignAttention'))
        ),
    )
    refused(folder, CONFIG, 'ForeignAttention')
    monkeypatch.setattr(
        config_data, 'entry_points', lambda group: [SimpleNamespace(name='ForeignAttention')]
    )
    # no cache
    monkeypatch.setattr(config_data, '_attentions', config_data._attentions.__wrapped__)
    assert read_published(folder).config.model.backbone.mixers.S.type == 'ForeignAttention'
