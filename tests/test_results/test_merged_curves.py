"""Curves of resumed trainings, and errors of logs."""

import json
import os
from pathlib import Path

import pytest
from mmengine.hooks import Hook

from mmflatten.engine.setup import build_runner, load_config, set_resume
from mmflatten.results.curves import curve, read_runs, read_scalars
from mmflatten.results.progress import trained_iterations
from mmflatten.untrusted.torch_file import read_torch

LOGGED = """
train_cfg = dict(max_epochs=3)
default_hooks = dict(logger=dict(interval=3), checkpoint=dict(interval=1))
randomness = dict(seed=3)
"""


class Interruption(Hook):
    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        if runner.epoch == 1 and batch_idx == 5:
            raise KeyboardInterrupt


def train(config: Path, work_dir: Path, resume: str | None = None, *hooks: Hook) -> None:
    cfg = load_config(str(config), work_dir=str(work_dir))
    # loggers are kept by name, which ends in a second
    cfg.experiment_name = f'{work_dir.name}-{resume}'
    set_resume(cfg, resume)
    runner = build_runner(cfg)
    for hook in hooks:
        runner.register_hook(hook)
    runner.train()


def test_resumed_training_has_the_curve_of_an_uninterrupted_one(config_on, tmp_path):
    config = config_on('flatten-swin-nano_digits', LOGGED)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / 'resumed', None, Interruption())
    # named by the second, which both runs may share
    (log_folder,) = (tmp_path / 'resumed').glob('2*_*/')
    log_folder.rename(tmp_path / 'resumed' / '20260101_000000')
    train(config, tmp_path / 'resumed', 'newest')
    train(config, tmp_path / 'straight')
    one, other = (read_scalars(tmp_path / name) for name in ('straight', 'resumed'))
    assert len(list((tmp_path / 'resumed').glob('*/vis_data/scalars.json'))) == 2
    for key in ('step', 'loss', 'lr', 'accuracy/top1'):
        assert [record.get(key) for record in one] == [record.get(key) for record in other]
    for name, records in (('straight', one), ('resumed', other)):
        checkpoint = read_torch(tmp_path / name / 'epoch_3.pth')[0]
        assert (
            trained_iterations(tmp_path / name, records)
            == checkpoint['meta']['iter']
            > records[-2]['iter']
        )


def log(work_dir: Path, run: str, *records: dict, end: str = '') -> None:
    path = work_dir / run / 'vis_data' / 'scalars.json'
    path.parent.mkdir(parents=True)
    path.write_text('\n'.join(map(json.dumps, records)) + end)


def trained(iteration: int, loss: float = 1.0) -> dict:
    return dict(loss=loss, iter=iteration, epoch=1, step=iteration)


def test_later_run_replaces_repeated_iterations(tmp_path):
    log(
        tmp_path,
        '20260101_000000',
        trained(5),
        dict(acc=1, step=1),
        trained(10),
        dict(acc=2, step=2),
        trained(15),
        end='\n{"loss": 1., "it',
    )
    log(tmp_path, '20260102_000000', dict(acc=9, step=0))  # a test
    log(tmp_path, '20260103_000000', trained(10, 2.0), dict(acc=3, step=2))
    assert [
        (record['step'], record.get('loss'), record.get('acc')) for record in read_scalars(tmp_path)
    ] == [(5, 1, None), (1, None, 1), (10, 2, None), (2, None, 3)]


def test_curve_keeps_the_order_of_runs_and_drops_undefined_metrics():
    one = [trained(1), trained(2, 0.5), {'coco/bbox_mAP': -1, 'step': 1}]
    other = [trained(1, 2.0), {'coco/bbox_mAP': 0.5, 'step': 1}]
    runs = dict(one=one, other=other)
    assert curve('loss', runs).lines == dict(one=((1, 2), (1.0, 0.5)), other=((1,), (2.0,)))
    score = curve('coco/bbox_mAP', runs)
    assert score.lines == dict(one=((), ()), other=((1,), (0.5,))) and score.x_label == 'epoch'


def test_missing_and_broken_logs_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        read_runs([tmp_path])
    log(tmp_path / 'one', '1', trained(5), dict(acc=1, step=1))
    log(tmp_path / 'two', '1', trained(5), end='\nbroken\n{}')
    with pytest.raises(ValueError, match=r'scalars\.json.*line 2'):
        read_scalars(tmp_path / 'two')
    with pytest.raises(ValueError, match=f'{tmp_path}/one is listed twice'):
        read_runs([tmp_path / 'one', f'{tmp_path}/one/../one'])


@pytest.mark.parametrize(
    'content, line',
    [
        (b'1\n2\n', 1),
        (b'{"loss": 1}\n', 1),
        (b'{"loss": 1, "step": "a"}\n', 1),
        ('{"loss": 1, "step": 1}\n{"é": 1}\n{"loss": 1, "step": 2}'.encode('latin-1'), 2),
    ],
)
def test_invalid_record_is_named_with_its_line(tmp_path, content, line):
    log(tmp_path, '1')
    (tmp_path / '1' / 'vis_data' / 'scalars.json').write_bytes(content)
    with pytest.raises(ValueError, match=rf'scalars\.json, line {line} '):
        read_scalars(tmp_path)


def test_log_that_is_no_file_or_nested_is_named(tmp_path):
    log = tmp_path / '1' / 'vis_data' / 'scalars.json'
    log.parent.mkdir(parents=True)
    log.write_text('[' * 20_000 + '\n{"loss": 1, "step": 1}\n')
    with pytest.raises(ValueError, match=r'scalars\.json, line 1'):
        read_scalars(tmp_path)
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(ValueError, match='a pipe'):
        read_scalars(tmp_path)
