"""A study file from somebody else sets values and registered types; it runs no code, with --dry-run
neither.
"""

import pytest

import mmflatten_lab.datasets  # noqa: F401, registers FashionTensors
from mmflatten_lab.commands.study import main
from mmflatten_lab.studies.configs import config_of
from mmflatten_lab.studies.runs import expand
from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.study_file import read_study


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """File that a module of the working folder makes when it is imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ('evil', 'registry'):
        (tmp_path / f'{name}.py').write_text(
            f"open({str(tmp_path / 'canary')!r}, 'w')\nEvil = dict\n"
        )
    return tmp_path / 'canary'


COMMAND = 'open("canary", "w")'


@pytest.mark.parametrize(
    'path, value',
    [
        ('model.neck', dict(type='subprocess.call', args=['touch', 'canary'])),
        ('model.neck', dict(type='subprocess.call', args=[['touch', 'canary']], _delete_=True)),
        ('model.neck.type', 'evil.Evil'),
        ('model.neck.type', 'evil'),
        ('model.neck.type', ['evil']),
        ('model.backbone.mixers', dict(L=dict(type='evil.Evil'))),
        ('model.neck._scope_', 'evil'),
        ('model.head.loss', dict(type='evil')),
        ('optim_wrapper.optimizer.type', 'evil'),
        ('custom_imports', dict(imports=['evil'])),
        ('custom_imports.imports', ['evil']),
        ('_base_', 'evil.py'),
        ('custom_hooks', [dict(type='EMAHook')]),
        ('default_scope', 'evil'),
        ('runner_type', 'evil'),
        ('env_cfg.x', 1),
        ('model.x', '{{$X:' + COMMAND + '}}'),
        ('model.x{{fileDirname}}', 1),
        ('model.neck', {"a'+" + COMMAND + "+'": 1}),
        ('model.train_cfg', dict(nms=dict(type=COMMAND))),
        ('model.train_cfg', dict(nms=dict(type='os'))),
        (
            'train_dataloader.dataset.pipeline',
            [dict(type='torchvision/ConvertImageDtype', dtype=COMMAND)],
        ),
        (
            'train_dataloader.dataset.pipeline',
            [dict(type='LoadImageFromFile', backend_args=dict(backend='memcached'))],
        ),
        ('train_dataloader.dataset.pipeline.0.backend_args.backend', 'memcached'),
        ('model.backbone', dict(type='mmpretrain.HuggingFaceClassifier', trust_remote_code=True)),
        ('model.type', 'HuggingFaceClassifier'),
        ('test_evaluator', dict(type='CocoMetric', backend_args=dict(backend='x'))),
        (
            'train_dataloader.dataset',
            dict(dataset=dict(file_client_args=dict(backend='memcached'))),
        ),
        ('model.head.loss.class_weight', 'evil.pkl'),
        ('model.head.loss', dict(class_weight='http://127.0.0.1/evil.pkl')),
        ('optim_wrapper.constructor', 'evil.Evil'),
        ('model.head.loss.class_weight', 'none'),
        ('optim_wrapper', dict(constructor='evil')),
        ('train_dataloader.dataset.ann_file', 'evil.pkl'),
        ('train_dataloader.dataset.data_root', 'http://127.0.0.1'),
        ('model.backbone.init_cfg.checkpoint', 'evil.pth'),
    ],
)
@pytest.mark.parametrize('place', ['options', 'level', 'override'])
def test_option_that_could_run_code_is_refused(study_file, canary, capsys, path, value, place):
    changes = (
        dict(options={path: value})
        if place == 'options'
        else dict(overrides=[dict(where=dict(attention='vanilla'), options={path: value})])
        if place == 'override'
        else dict(factors=dict(x=dict(a={path: value}), seed=1))
    )
    file = study_file(**changes)
    with pytest.raises(StudyError) as stop:
        study = read_study(file)
        for run in expand(study):
            config_of(run, study.budget)
    assert path.split('{')[0].split('.')[0] in str(stop.value) and not canary.exists()
    if place == 'options' and value in (
        dict(type='subprocess.call', args=['touch', 'canary']),
        'evil',
    ):
        assert main([str(file), '--dry-run']) == 1 and not canary.exists()


def test_yaml_values_of_other_kinds_are_refused(study_file):
    file = study_file(options={'model.x': 1})
    for value in ('!!binary b3Blbg==', '!!set {a: null}', '2020-01-01'):
        changed = file.with_name('changed.yaml')
        changed.write_text(file.read_text().replace('model.x: 1', f'model.x: {value}'))
        with pytest.raises(StudyError, match=r'model\.x'):
            read_study(changed)


@pytest.mark.parametrize(
    'path, value',
    [
        ('model.head.loss', dict(type='LabelSmoothLoss', label_smooth_val=0.1, _delete_=True)),
        ('model.head.loss', dict(type='mmpretrain.FocalLoss', _delete_=True)),
        ('model.neck.type', 'LinearNeck'),
        (
            'optim_wrapper',
            dict(
                type='AmpOptimWrapper',
                clip_grad=dict(max_norm=1.0, type='norm'),
                paramwise_cfg=dict(custom_keys={'.norm': dict(decay_mult=0.0)}),
            ),
        ),
        ('optim_wrapper.optimizer', dict(type='AdamW', lr=1e-3, betas=(0.9, 0.99), _delete_=True)),
        (
            'train_dataloader.dataset',
            dict(type='mmflatten.FashionTensors', split='train', _delete_=True),
        ),
        (
            'param_scheduler',
            [dict(type='LinearLR', end=5), dict(type='CosineAnnealingLR', T_max=5)],
        ),
        ('train_dataloader.dataset.data_root', 'data/my set-2/é'),
    ],
)
def test_values_and_registered_types_are_set(study_file, path, value):
    study = read_study(study_file(options={path: value}))
    assert config_of(expand(study)[0], study.budget) is not None
