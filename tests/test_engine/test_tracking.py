"""Trackers receive scalars, drawings and the config, and a resumed training continues its run."""
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

DRAW = "custom_hooks = [dict(type='mmflatten.DrawValidationHook', interval=2)]\n"
READ_MLFLOW = '''
import sys
import mlflow
client = mlflow.MlflowClient(sys.argv[1])
run, = client.search_runs([client.get_experiment_by_name('run').experiment_id])
print(sorted({m.step for m in client.get_metric_history(run.info.run_id, 'accuracy/top1')}))
print(len(client.list_artifacts(run.info.run_id, 'drawings')))
print(sorted(file.path for file in client.list_artifacts(run.info.run_id)))
print(any(key.startswith('model') for key in run.data.params))
'''


def test_tensorboard_continues_the_run_after_resume(tiny, tools):
    tiny.write_config(extra=DRAW)
    for epochs, resume in ((2, []), (3, ['--resume'])):
        options = ['--track', 'tensorboard', *resume, '--cfg-options', f'train_cfg.max_epochs={epochs}']
        assert tools.train([tiny.config, *options]) == 0
    events = EventAccumulator(str(tiny.work_dir / 'tensorboard'), size_guidance=dict(images=0))
    events.Reload()
    assert [event.step for event in events.Scalars('accuracy/top1')] == [1, 2, 3]
    assert {'loss', 'lr'} <= set(events.Tags()['scalars'])
    first, second = events.Tags()['images']  # of the first and the third of four validation batches
    assert [event.step for event in events.Images(first)] == [4, 8, 12]
    assert 'FLattenSwin' in events.Tensors('config/text_summary')[0].tensor_proto.string_val[0].decode()


@pytest.mark.skipif(importlib.util.find_spec('mlflow') is None, reason='pip install mlflow')
def test_mlflow_continues_the_run_after_resume(tiny):
    tiny.write_config(extra=DRAW)
    for epochs, resume in ((2, []), (3, ['--resume'])):
        subprocess.run([sys.executable, '-m', 'mmflatten', 'train', tiny.config, '--track', 'mlflow', *resume,
                        '--cfg-options', f'train_cfg.max_epochs={epochs}'], check=True, timeout=300)
    database = f'sqlite:///{tiny.work_dir}/mlflow.db'
    read = subprocess.run([sys.executable, '-c', READ_MLFLOW, database], check=True, capture_output=True, text=True)
    assert read.stdout.splitlines()[0] == '[1, 2, 3]'
    assert not Path('mlruns').exists()


def test_missing_tracker_is_named(tiny, fails, monkeypatch):
    monkeypatch.setitem(sys.modules, 'wandb', None)
    assert 'wandb' in fails('train', tiny.config, '--track', 'wandb')
