"""Published models: equal predictions, the hub, and hostile or damaged folders."""
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from mmengine.structures import BaseDataElement
from safetensors.torch import load_file

from mmflatten.apis import Predictor, push_to_hub
from mmflatten.cli.models import main as models
from mmflatten.cli.predict import main as predict
from mmflatten.cli.publish import main as publish_command
from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes
from mmflatten.hub.config_data import HubError, from_data, to_data
from mmflatten.hub.folder import CONFIG, FACTS, WEIGHTS, facts_of, read_published, shipped
from mmflatten.hub.remote import locate
from mmflatten.publish.publish import publish

CLASSIFIER, DETECTOR = 'flatten-swin-nano_digits', 'retinanet_flatten-swin-nano_fpn_digits'
SEGMENTOR, STEREO = 'semantic-fpn_flatten-swin-nano_digits', 'psmnet-tiny_digits-stereo'


@pytest.fixture
def image(scenes) -> Path:
    return sorted((scenes / 'images' / 'validation').iterdir())[0]


@pytest.fixture
def folder(published, tmp_path) -> Path:
    """A copy of a published classifier that a test may damage."""
    return Path(shutil.copytree(published(CLASSIFIER).folder, tmp_path / 'copy'))


def tensors(sample: BaseDataElement, key: str) -> dict[str, torch.Tensor]:
    value = getattr(sample, key)
    return {'score': value} if isinstance(value, torch.Tensor) else {
        name: torch.as_tensor(item) for name, item in value.items() if name != 'masks'}


def change(folder: Path, name: str, function) -> None:
    """Change a file and correct its SHA-256, as the author of a hostile repository would."""
    function(folder / name)
    facts = json.loads((folder / FACTS).read_text())
    facts['files'][name] = facts_of(folder / name)
    (folder / FACTS).write_text(json.dumps(facts))


def change_json(folder: Path, name: str, function) -> None:
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
    assert '\n' not in str(error.value) and all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize('name', [CLASSIFIER, DETECTOR, SEGMENTOR, STEREO])
def test_published_model_predicts_bit_for_bit(name, published, image, tmp_path):
    run = published(name)
    if name == STEREO:
        build_stereo_scenes(tmp_path / 'pairs', StereoSceneOptions(train=1, val=1, size=64, seed=0))
        left, = (tmp_path / 'pairs').glob('frames_cleanpass/TEST/**/left/*')
        image = (str(left), str(left).replace('/left/', '/right/'))
    first, second = Predictor(run.config, run.checkpoint, 'cpu'), Predictor.from_pretrained(run.folder, 'cpu')
    assert first.classes == second.classes
    before, after = (tensors(model(image), model.spec.prediction) for model in (first, second))
    assert before and before.keys() == after.keys()
    for key, value in before.items():
        assert torch.equal(value, after[key]), key


def test_folder_states_metrics_seed_classes_and_hashes(published):
    folder = published(CLASSIFIER).folder
    facts = json.loads((folder / FACTS).read_text())
    assert facts['metrics'] == dict(measured_by='mmflatten test', seed=3, values={'accuracy/top1': 12.5})
    assert facts['classes'] == list('0123456789') and facts['environment']['torch'] == torch.__version__.split('+')[0]
    assert facts['preprocessing']['normalisation']['mean'] and facts['preprocessing']['pipeline']
    assert all(facts_of(folder / name) == entry for name, entry in facts['files'].items())
    card = (folder / 'README.md').read_text()
    assert '12.5' in card and facts['files'][WEIGHTS]['sha256'] in card and 'image-classification' in card
    pictures = sorted(folder.glob('example_*.png'))
    assert pictures and all(f'({path.name})' in card for path in pictures)


def test_backbone_loads_into_timm_and_init_cfg(published):
    import timm
    from mmengine.registry import MODELS, DefaultScope

    import mmflatten.timm  # noqa: F401
    from mmflatten.engine.checkpoints.reading import safe_reading
    run = published(DETECTOR)
    file = str(run.folder / 'backbone.safetensors')
    weights = load_file(file)
    options = dict(arch=dict(embed_dims=16, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1)), attn_types='LLSS',
                   img_size=160, softmax_window=5)
    model = timm.create_model('flatten_swin_tiny', features_only=True, out_indices=(1, 2, 3), pretrained=True,
                              pretrained_cfg_overlay=dict(file=file), **options)
    assert all(torch.equal(model.state_dict()[key], value) for key, value in weights.items())
    with DefaultScope.overwrite_default_scope('mmdet'), safe_reading():
        backbone = MODELS.build(dict(type='mmflatten.FLattenSwin', out_indices=(1, 2, 3), **options, init_cfg=dict(
            type='Pretrained', checkpoint=file, prefix='backbone.')))
        backbone.init_weights()
    loaded = backbone.state_dict()
    assert all(torch.equal(loaded[key.removeprefix('backbone.')], value) for key, value in weights.items())


def test_half_and_ema_weights(published, tmp_path, capsys):
    run = published(CLASSIFIER)
    publish(run.checkpoint, tmp_path / 'half', half=True)
    half = load_file(tmp_path / 'half' / WEIGHTS)
    assert {value.dtype for value in half.values() if value.is_floating_point()} == {torch.float16}
    assert publish_command([run.checkpoint, '--ema', '--out', str(tmp_path / 'ema')]) == 1
    assert '--ema' in capsys.readouterr().err.splitlines()[-1] and not (tmp_path / 'ema').exists()


@pytest.mark.parametrize('entry', ['ema_state_dict', 'model_ema'])
def test_averaged_weights_are_published(entry, published, tmp_path):
    """MMEngine stores the average as `state_dict` and the weights as `ema_state_dict`; other files have it apart."""
    run = published(CLASSIFIER)
    content = torch.load(run.checkpoint, weights_only=True)
    other = {key: value + 1 for key, value in content['state_dict'].items()}
    torch.save({**content, entry: other}, tmp_path / 'averaged.pth')
    publish(tmp_path / 'averaged.pth', tmp_path / 'out', run.config, ema=True)
    average = content['state_dict'] if entry == 'ema_state_dict' else other
    found = load_file(tmp_path / 'out' / WEIGHTS)
    assert found.keys() == average.keys() and all(torch.equal(found[key], average[key]) for key in found)


def test_values_of_a_config_survive_json():
    value = dict(scale=(3, 4), steps=[dict(type='Resize', sides=((1, 2), [3]))], none=None, path='/data/me/a',
                 home='~/me/b', address='s3://me:secret@host/c')
    expected = {**value, 'path': 'a', 'home': 'b', 'address': 'c'}
    assert from_data(json.loads(json.dumps(to_data(value)))) == expected
    with pytest.raises(HubError, match='model.type.*type'):
        to_data(dict(type=dict), 'model')


@pytest.mark.parametrize('problem', ['occupied', 'no config', 'no checkpoint'])
def test_publish_errors_are_one_line(problem, published, tmp_path, capsys):
    run, out = published(CLASSIFIER), tmp_path / 'out'
    checkpoint = shutil.copy(run.checkpoint, tmp_path) if problem == 'no config' else run.checkpoint
    if problem == 'occupied':
        out.mkdir()
        (out / 'mine').touch()
    if problem == 'no checkpoint':
        checkpoint = str(tmp_path / 'gone.pth')
    assert publish_command([str(checkpoint), '--out', str(out)]) == 1
    word = {'occupied': '--out', 'no config': '--config', 'no checkpoint': 'gone.pth'}[problem]
    assert word in capsys.readouterr().err.splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(('out', '.'))) == (
        ['out'] if problem == 'occupied' else [])


HOSTILE = {
    'base': lambda config: config.update(_base_=['evil.py']),
    'import': lambda config: config.update(custom_imports=dict(imports=['evil'])),
    'nested base': lambda config: config['model'].update(_base_='evil.py'),
    'dotted type': lambda config: config['model'].update(type='os.system'),
    'module of the folder': lambda config: config['model']['backbone'].update(type='evil'),
    'dotted in the pipeline': lambda config: config['test_dataloader']['dataset']['pipeline'].append(
        dict(type='RandomResize', scale=1, resize_type='subprocess.Popen')),
    'evaluated': lambda config: config['model'].update(
        test_cfg=dict(nms=dict(type='__import__("os").system("touch evil")'))),
    'scope': lambda config: config['model'].update(_scope_='evil'),
    'unknown scope': lambda config: config.update(default_scope='evil'),
    'address': lambda config: config['model'].update(
        init_cfg=dict(type='TruncNormal', checkpoint='http://evil.example/a.pth')),
    'file': lambda config: config['model']['backbone'].update(
        init_cfg=dict(type='Pretrained', checkpoint='evil.pth')),
    'pretrained': lambda config: config['model'].update(pretrained='evil.pth'),
    'foreign config': lambda config: config['model'].update(
        type='mmdet.KnowledgeDistillationSingleStageDetector', teacher_config='evil.py'),
    'remote code': lambda config: config['model'].update(trust_remote_code=True),
    'pickle as a picture': lambda config: config['test_dataloader']['dataset']['pipeline'].insert(
        0, dict(type='mmseg.LoadBiomedicalImageFromFile', decode_backend='pickle')),
    'pickle of another library': lambda config: (
        config.update(default_scope='mmseg'), config['test_dataloader']['dataset']['pipeline'].insert(
            0, dict(type='LoadBiomedicalImageFromFile', decode_backend='pickle'))),
    'name of a function and a module': lambda config: config['model']['backbone'].update(type='nms'),
    'name of a layer and a module': lambda config: config['model']['backbone'].update(type='Constant'),
    'loaded weights of classes': lambda config: config['model']['head'].update(class_weight='evil.pkl'),
    'type is a number': lambda config: config['model'].update(type=1),
    'no pipeline': lambda config: config['test_dataloader']['dataset'].update(pipeline='evil'),
    'deep': lambda config: config['model'].update(deep=json.loads('[' * 200 + ']' * 200)),
}


@pytest.mark.parametrize('name', HOSTILE)
def test_hostile_config_is_refused(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    for module in ('evil', 'nms', 'Constant'):
        (folder / f'{module}.py').write_text('open("evil", "w")\nraise SystemExit("executed")\n')
    change_json(folder, CONFIG, HOSTILE[name])
    refused(folder, CONFIG)
    assert not (folder / 'evil').exists()


class _Evil:
    def __reduce__(self):
        return os.system, ('touch evil',)


def test_pickle_in_disguise_and_huge_header_are_refused(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for content in (pickle.dumps(_Evil()), (10 * 2**30).to_bytes(8, 'little') + b'{' * 100, b''):
        change(folder, WEIGHTS, lambda path: path.write_bytes(content))  # noqa: B023
        with pytest.raises(Exception, match=f'{WEIGHTS}.*cannot be read') as error:
            Predictor.from_pretrained(folder, 'cpu')
        assert '\n' not in str(error.value)
    assert not (folder / 'evil').exists()


@pytest.mark.parametrize('name', ['../../evil', '/etc/passwd', 'a/b', '..', '.hidden', ''])
def test_file_names_outside_the_folder_are_refused(name, folder):
    change_json(folder, FACTS, lambda facts: facts['files'].update({name: dict(bytes=1, sha256='0')}))
    refused(folder, FACTS, repr(name))


@pytest.mark.parametrize('name', [CONFIG, WEIGHTS, FACTS])
def test_link_that_leaves_the_folder_is_refused(name, folder, tmp_path):
    shutil.move(folder / name, tmp_path / 'outside')
    (folder / name).symlink_to(tmp_path / 'outside')
    refused(folder, name, 'outside')


def test_changed_and_cut_files_are_refused(folder):
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (folder / WEIGHTS).write_bytes(content)
    refused(folder, WEIGHTS, 'SHA-256')
    (folder / WEIGHTS).write_bytes(content[:-1])
    refused(folder, WEIGHTS, str(len(content)))


def test_other_folders_and_names_are_refused(tmp_path, folder):
    refused(tmp_path, FACTS)
    (folder / FACTS).write_text('{')
    refused(folder, FACTS)
    for name in ('no-such-model', '../x', 'a/b/c', 'hf://'):
        with pytest.raises(HubError, match='model'):
            locate(name)


def upload(hub, folder: Path, name: str = 'user/model') -> dict[str, bytes]:
    hub.repositories[name] = {path.name: path.read_bytes() for path in folder.iterdir()}
    return hub.repositories[name]


def test_hub_model_predicts_in_a_new_process(hub, published, image, tmp_path):
    run = published(CLASSIFIER)
    upload(hub, run.folder)
    variables = {**os.environ, 'HF_ENDPOINT': hub.url, 'HF_HOME': str(tmp_path / 'home')}
    command = [sys.executable, '-m', 'mmflatten', 'predict', 'hf://user/model', str(image), '--out', 'out', '--json']
    result = subprocess.run(command, cwd=tmp_path, env=variables, text=True, capture_output=True, timeout=240)
    assert result.returncode == 0, result.stderr
    label = json.loads(result.stdout)['label']
    assert label == Predictor(run.config, run.checkpoint, 'cpu')(image).pred_label.item()
    asked = {path.rpartition('/')[2] for method, path, _ in hub.requests if '/resolve/' in path}
    assert asked == {FACTS, CONFIG, WEIGHTS}
    assert not any('torch' in headers.get('User-Agent', headers.get('user-agent', '')) for *_, headers in hub.requests)


def test_push_and_download(hub, published):
    folder = published(CLASSIFIER).folder
    assert push_to_hub(folder, 'me/model').startswith(hub.url)
    assert hub.repositories['me/model'] == {path.name: path.read_bytes() for path in folder.iterdir()}
    found = read_published(locate('me/model'))
    assert facts_of(found.weights) == facts_of(folder / WEIGHTS)
    with pytest.raises(HubError, match='user/model'):
        push_to_hub(folder, 'model')


def test_interrupted_download_continues(hub, published, monkeypatch):
    monkeypatch.setattr('huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE', 500)
    folder = published(CLASSIFIER).folder
    upload(hub, folder)
    hub.cut, hub.cuts = 1000, 1
    assert facts_of(locate('user/model') / WEIGHTS) == facts_of(folder / WEIGHTS)
    ranges = [headers.get('range', headers.get('Range')) for *_, headers in hub.requests]
    assert 'bytes=1000-' in {str(value)[:11] for value in ranges}


def test_hostile_repository_writes_and_loads_nothing(hub, folder, tmp_path):
    change_json(folder, CONFIG, HOSTILE['evaluated'])
    files = upload(hub, folder)
    files.update({'../../../evil': b'evil', 'evil.py': b'raise SystemExit', 'pytorch_model.bin': b'\x80evil'})
    place = locate('user/model')
    assert {path.name for path in place.iterdir()} == {FACTS, CONFIG, WEIGHTS}
    assert not list(tmp_path.rglob('evil*'))
    refused(place, CONFIG)


def test_missing_repository_is_one_line(hub, capsys):
    assert predict(['hf://user/gone', 'a.png', '--out', 'out']) == 1
    assert 'hf://user/gone' in capsys.readouterr().err.splitlines()[-1]


def test_shipped_models_are_small_and_predict(image, tmp_path, capsys):
    assert models(['--pretrained']) == 0
    listed = capsys.readouterr().out
    for name, folder in shipped().items():
        assert name in listed
        assert sum(path.stat().st_size for path in folder.iterdir()) < 10**6
        facts = read_published(folder).facts
        assert facts['metrics']['values'] and facts['metrics']['seed'] is not None
    assert shipped()
