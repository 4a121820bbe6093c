"""MESA: the moving average of a classifier's weights teaches the classifier."""

import json
from types import SimpleNamespace

import pytest
import torch
from mmengine.registry import HOOKS, MODELS, DefaultScope
from mmpretrain.structures import DataSample

from mmflatten.engine.hooks import MesaEMAHook

CLASSIFIER = dict(
    type='ImageClassifier',
    neck=dict(type='GlobalAveragePooling'),
    backbone=dict(
        type='mmflatten.MLLA',
        arch=dict(embed_dims=(8, 16), depths=(1, 1), num_heads=(1, 2)),
        attn_types='LL',
        drop_path_rate=0.5,
        out_indices=(1,),
    ),
    head=dict(
        type='LinearClsHead', num_classes=3, in_channels=16, loss=dict(type='CrossEntropyLoss')
    ),
)


def test_mesa_loss_is_the_cross_entropy_with_the_averaged_model():
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        model = MODELS.build(CLASSIFIER).train()
        hook = HOOKS.build(dict(type='mmflatten.MesaEMAHook', weight=1.5, begin=0.5, momentum=0.1))
    runner = SimpleNamespace(model=model, iter=0, max_iters=4, max_epochs=2)
    hook.before_run(runner)
    hook.before_train(runner)
    for parameter in hook.ema_model.module.parameters():
        parameter.data.normal_()
    batch = dict(
        inputs=torch.randn(2, 3, 32, 32),
        mode='loss',
        data_samples=[DataSample().set_gt_label(label) for label in (0, 2)],
    )
    keys = list(model.state_dict())
    for runner.iter in range(4):
        hook.before_train_iter(runner, runner.iter)
        torch.manual_seed(runner.iter)
        losses = model(**batch)
        assert set(losses) == ({'loss'} if runner.iter < 2 else {'loss', 'loss_mesa'})
    logits = hook.logits.log_softmax(-1)
    teacher = hook.ema_model.module.eval()(batch['inputs'], mode='tensor').softmax(-1)
    torch.testing.assert_close(losses['loss_mesa'], -1.5 * (teacher * logits).sum(-1).mean())
    losses['loss_mesa'].backward()
    assert all(p.grad is None for p in hook.ema_model.parameters())
    assert model.head.fc.weight.grad.any()
    hook.after_train(runner)
    assert list(model.state_dict()) == keys and 'loss_mesa' not in model(**batch)


def test_mesa_loss_starts_at_the_configured_fraction(tiny, tools):
    tiny.write_config(
        extra="""
        train_cfg['max_epochs'] = 2
        custom_hooks = [dict(type='mmflatten.MesaEMAHook', weight=2., begin=.5, momentum=0.1)]
        default_hooks = dict(logger=dict(interval=1))"""
    )
    assert tools.train([tiny.config, '--no-validate']) == 0
    (file,) = tiny.work_dir.glob('*/vis_data/scalars.json')
    rows = [row for row in map(json.loads, file.read_text().splitlines()) if 'loss' in row]
    assert [row['epoch'] for row in rows if 'loss_mesa' in row] == [2] * 4
    assert all(row['loss_mesa'] > 0 for row in rows if 'loss_mesa' in row)


@pytest.mark.parametrize(
    ('options', 'words'), [(dict(weight=0), 'weight.*0'), (dict(begin=1), 'begin.*1')]
)
def test_invalid_arguments_are_rejected(options, words):
    with pytest.raises(ValueError, match=words):
        MesaEMAHook(**options)
