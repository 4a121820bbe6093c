"""Trackers receive scalars, drawings and the config, and a resumed training continues its run."""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

DRAW = "custom_hooks = [dict(type='mmflatten.DrawValidationHook', interval=2)]\n"


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


def test_missing_tracker_is_named(tiny, fails, monkeypatch):
    monkeypatch.setitem(sys.modules, 'wandb', None)
    assert 'wandb' in fails('train', tiny.config, '--track', 'wandb')
