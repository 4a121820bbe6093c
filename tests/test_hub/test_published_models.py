"""Published models: equal predictions, the hub, and hostile or damaged folders."""

import json
import os
import shutil
import signal

import pytest
import torch
from mmengine.structures import BaseDataElement
from safetensors.torch import load_file

from mmflatten.apis import Predictor, from_pretrained
from mmflatten.cli.models import main as models
from mmflatten.cli.publish import main as publish_command
from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes
from mmflatten.hub.config_data import accepted, to_data
from mmflatten.hub.folder import facts_of, read_published, shipped
from mmflatten.hub.publish import publish
from mmflatten.untrusted.published import CONFIG, FACTS, WEIGHTS, HubError

CLASSIFIER, DETECTOR = 'flatten-swin-nano_digits', 'retinanet_flatten-swin-nano_fpn_digits'
SEGMENTOR, STEREO = 'semantic-fpn_flatten-swin-nano_digits', 'psmnet-tiny_digits-stereo'


def tensors(sample: BaseDataElement, key: str) -> dict[str, torch.Tensor]:
    value = getattr(sample, key)
    return (
        {'score': value}
        if isinstance(value, torch.Tensor)
        else {name: torch.as_tensor(item) for name, item in value.items() if name != 'masks'}
    )


@pytest.mark.parametrize('name', [CLASSIFIER, DETECTOR, SEGMENTOR, STEREO])
def test_published_model_predicts_bit_for_bit(name, published, image, tmp_path):
    run = published(name)
    if name == STEREO:
        build_stereo_scenes(tmp_path / 'pairs', StereoSceneOptions(train=1, val=1, size=64, seed=0))
        (left,) = (tmp_path / 'pairs').glob('frames_cleanpass/TEST/**/left/*')
        image = (str(left), str(left).replace('/left/', '/right/'))
    first, second = Predictor(run.config, run.checkpoint, 'cpu'), from_pretrained(run.folder, 'cpu')
    assert first.classes == second.classes
    before, after = (tensors(model(image), model.task.prediction) for model in (first, second))
    assert before and before.keys() == after.keys()
    for key, value in before.items():
        assert torch.equal(value, after[key]), key


def test_folder_states_metrics_seed_classes_and_hashes(published):
    folder = published(CLASSIFIER).folder
    facts = json.loads((folder / FACTS).read_text())
    assert facts['metrics'] == dict(
        measured_by='mmflatten test', seed=3, values={'accuracy/top1': 12.5}
    )
    assert (
        facts['classes'] == list('0123456789')
        and facts['environment']['torch'] == torch.__version__.split('+')[0]
    )
    config = json.loads((folder / CONFIG).read_text())
    assert config.keys() == {'input', 'model'} and config['input']['resize']['scale'] == [64, 64]
    assert all(
        facts_of(folder / name).model_dump() == entry for name, entry in facts['files'].items()
    )
    card = (folder / 'README.md').read_text()
    assert (
        '12.5' in card
        and facts['files'][WEIGHTS]['sha256'] in card
        and 'image-classification' in card
    )


def test_backbone_loads_through_init_cfg(published):
    from mmengine.registry import MODELS, DefaultScope

    run = published(DETECTOR)
    file = str(run.folder / 'model.safetensors')
    weights = load_file(file)
    options = dict(
        arch=dict(embed_dims=16, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1)),
        attn_types='LLSS',
        img_size=160,
        softmax_window=5,
    )
    with DefaultScope.overwrite_default_scope('mmdet'):
        backbone = MODELS.build(
            dict(
                type='mmflatten.FLattenSwin',
                out_indices=(1, 2, 3),
                **options,
                init_cfg=dict(type='Pretrained', checkpoint=file, prefix='backbone.'),
            )
        )
        backbone.init_weights()
    loaded = backbone.state_dict()
    assert all(torch.equal(value, weights[f'backbone.{key}']) for key, value in loaded.items())


def test_average_of_mmengine_is_published(published, tmp_path):
    """MMEngine stores the average as `state_dict` and the weights as `ema_state_dict`."""
    run = published(CLASSIFIER)
    content = torch.load(run.checkpoint, weights_only=True)
    other = {key: value + 1 for key, value in content['state_dict'].items()}
    torch.save({**content, 'ema_state_dict': other}, tmp_path / 'averaged.pth')
    publish(tmp_path / 'averaged.pth', tmp_path / 'out', run.config)
    found = load_file(tmp_path / 'out' / WEIGHTS)
    assert found.keys() == content['state_dict'].keys()
    assert all(torch.equal(found[key], value) for key, value in content['state_dict'].items())


def test_values_of_a_config_survive_json_without_those_of_a_training():
    model = dict(
        type='MaskRCNN',
        neck=dict(num_outs=(3, [4], ())),
        test_cfg=None,
        data_preprocessor=dict(type='A'),
        backbone=dict(
            type='mmflatten.FLattenSwin', arch='tiny', init_cfg=dict(checkpoint='/data/a.pth')
        ),
        train_cfg=dict(rpn=dict(assigner=dict(type='MaxIoUAssigner'))),
    )
    expected = dict(
        type='MaskRCNN',
        neck=dict(num_outs=(3, [4], ())),
        test_cfg=None,
        train_cfg=None,
        backbone=dict(type='mmflatten.FLattenSwin', arch='tiny'),
    )
    assert accepted(json.loads(json.dumps(to_data(model, 'model'))), 'mmdet', 'model') == expected
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
    assert sorted(
        path.name for path in tmp_path.iterdir() if path.name.startswith(('out', '.'))
    ) == (['out'] if problem == 'occupied' else [])


def test_config_with_other_classes_or_steps_is_refused_with_the_field(published, tmp_path, capsys):
    run = published(CLASSIFIER)
    imports = "custom_imports = dict(imports=['json'])"
    for line, word in (
        (f"{imports}\nmodel = dict(neck=dict(type='MyNeck'))", 'model.neck.type'),
        ("test_dataloader = dict(dataset=dict(pipeline=[dict(type='Mine')]))", 'pipeline'),
        ("model = dict(backbone=dict(qkv_bias='yes'))", 'model.backbone.qkv_bias'),
    ):
        config = tmp_path / 'mine.py'
        config.write_text(f"_base_ = ['{run.config}']\n{line}\n")
        assert (
            publish_command(
                [run.checkpoint, '--config', str(config), '--out', str(tmp_path / 'out')]
            )
            == 1
        )
        assert 'mine.py' in (line := capsys.readouterr().err.splitlines()[-1]) and word in line
        assert not (tmp_path / 'out').exists()


def test_publish_after_a_kill(published, tmp_path, monkeypatch):
    run, out = published(STEREO), tmp_path / 'out'
    process = os.fork()
    if not process:
        monkeypatch.setattr(
            'mmflatten.hub.publish.from_pretrained',
            lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL),
        )
        publish(run.checkpoint, out)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL and list(
        tmp_path.iterdir()
    )
    publish(run.checkpoint, out)
    assert {path.name for path in out.iterdir()} == {path.name for path in run.folder.iterdir()}


def test_shipped_models_are_small_and_predict(image, tmp_path, capsys):
    assert models(['--pretrained']) == 0
    listed = capsys.readouterr().out
    for name, folder in shipped().items():
        assert name in listed
        assert sum(path.stat().st_size for path in folder.iterdir()) < 10**6
        facts = json.loads((read_published(folder).weights.parent / FACTS).read_text())
        assert facts['metrics']['values'] and facts['metrics']['seed'] is not None
    assert shipped()


def test_folder_with_an_onnx_file_states_its_numbers(published, tmp_path, capsys):
    import onnx
    from onnx import TensorProto, helper

    from mmflatten.export.metadata import sha256

    run = published(DETECTOR)
    value = helper.make_tensor_value_info('image', TensorProto.FLOAT, [1])
    other = helper.make_tensor_value_info('boxes', TensorProto.FLOAT, [1])
    node = helper.make_node('Relu', ['image'], ['boxes'])
    model = helper.make_model(helper.make_graph([node], 'graph', [value], [other]))
    metadata = dict(
        format=1,
        checkpoint=sha256(run.checkpoint),
        outputs=['boxes', 'scores'],
        precision='int8',
        batch=[1, 256],
        size=[160, 160],
        sides=[33, 4096],
        difference=dict(images=16, largest=2.5e-6, mean=0.0125),
    )
    file = tmp_path / 'detector.onnx'
    helper.set_model_props(model, dict(mmflatten=json.dumps(metadata)))
    onnx.save(model, str(file))
    assert (
        publish_command([run.checkpoint, '--out', str(tmp_path / 'out'), '--onnx', str(file)]) == 0
    )
    assert (tmp_path / 'out' / 'model.onnx').read_bytes() == file.read_bytes()
    facts = json.loads((tmp_path / 'out' / 'mmflatten.json').read_text())
    assert facts['files']['model.onnx']['bytes'] == file.stat().st_size
    card = (tmp_path / 'out' / 'README.md').read_text()
    for text in ('int8', 'from 33 to 4096', '2.5e-06', '0.013', '16'):
        assert text in card

    helper.set_model_props(model, dict(mmflatten=json.dumps({**metadata, 'checkpoint': 'other'})))
    onnx.save(model, str(file))
    assert (
        publish_command([run.checkpoint, '--out', str(tmp_path / 'new'), '--onnx', str(file)]) == 1
    )
    assert str(file) in capsys.readouterr().err
    assert not (tmp_path / 'new').exists()
