"""Trackers of MMEngine, named in the config, receive scalars, drawings and the config."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TRACKED = """
visualizer = dict(type='UniversalVisualizer', vis_backends=[
    dict(type='LocalVisBackend'), dict(type='TensorboardVisBackend')])
custom_hooks = [dict(type='mmflatten.DrawValidationHook', interval=2)]
"""


def test_tensorboard_receives_scalars_drawings_and_the_config(tiny, tools):
    tiny.write_config(extra=TRACKED)
    assert tools.train([tiny.config, '--cfg-options', 'train_cfg.max_epochs=2']) == 0
    (folder,) = tiny.work_dir.glob('*/vis_data')
    events = EventAccumulator(str(folder), size_guidance=dict(images=0))
    events.Reload()
    assert [event.step for event in events.Scalars('accuracy/top1')] == [1, 2]
    assert {'loss', 'lr'} <= set(events.Tags()['scalars'])
    first, second = events.Tags()['images']  # of the first and the third of four validation batches
    assert [event.step for event in events.Images(first)] == [4, 8]
    assert (
        'FLattenSwin'
        in events.Tensors('config/text_summary')[0].tensor_proto.string_val[0].decode()
    )
