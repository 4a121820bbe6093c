"""Checkpoints are read without running their code, wherever a run reads one; what cannot be right is named."""
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from mmflatten.checkpoints.safe_pickle import Inert
from mmflatten.engine.checkpoints.files import CheckpointError
from mmflatten.engine.checkpoints.reading import holds_stand_ins, load_from_local
from mmflatten.engine.errors import explain


class Marking:
    """Leaves a folder where it is unpickled for real."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder / 'marker'),)


def last_line(capsys) -> str:
    return capsys.readouterr().err.rstrip().splitlines()[-1]


def pretrained(path: object) -> list[str]:
    """Options that start the backbone from a checkpoint, as the README has them."""
    init = 'model.backbone.init_cfg'
    return ['--cfg-options', f'{init}.type=Pretrained', f'{init}.prefix=backbone.', f'{init}.checkpoint={path}',
            'train_cfg.max_epochs=1']


@pytest.fixture
def checkpoint(tiny, tools) -> dict:
    """The content of a checkpoint of one epoch."""
    assert tools.train([tiny.config, '--cfg-options', 'train_cfg.max_epochs=1', '--no-validate']) == 0
    return torch.load(tiny.work_dir / 'epoch_1.pth', weights_only=False)


def test_code_in_a_checkpoint_is_not_run_by_testing_fine_tuning_and_pre_training(tiny, tools, checkpoint, caplog):
    marked = tiny.folder / 'marked.pth'
    torch.save(dict(state_dict=checkpoint['state_dict'], config=Marking(tiny.folder)), marked)
    assert tools.test([tiny.config, marked]) == 0
    assert tools.train([tiny.config, '--cfg-options', f'load_from={marked}', 'train_cfg.max_epochs=1']) == 0
    assert tools.train([tiny.config, *pretrained(marked)]) == 0
    assert not (tiny.folder / 'marker').exists()
    log = next(tiny.work_dir.glob('test/*/*.log')).read_text()
    assert f'{marked}: left out objects of foreign classes, without running their code: posix.mkdir' in log
    torch.load(marked, weights_only=False)  # it is the reading that keeps the code from running
    assert (tiny.folder / 'marker').exists()


def test_what_cannot_be_resumed_is_refused_with_the_option_that_uses_its_weights(tiny, tools, capsys, checkpoint):
    for name, content, words in (
            ('weights', dict(state_dict=checkpoint['state_dict']), 'holds weights without the state of a training'),
            ('marked', {**checkpoint, 'optimizer': Marking(tiny.folder)}, 'objects that only their own code')):
        path = tiny.folder / f'{name}.pth'
        torch.save(content, path)
        assert tools.train([tiny.config, '--resume', path]) == 1
        line = last_line(capsys)
        assert words in line and f'--cfg-options load_from={path}' in line, line
    assert not (tiny.folder / 'marker').exists()


def test_the_config_in_a_checkpoint_is_not_run_by_resuming(tiny, tools, checkpoint):
    path = tiny.folder / 'marked.pth'
    checkpoint['meta']['config'] = f'import os\nos.mkdir({str(tiny.folder / "marker")!r})\n'
    torch.save(checkpoint, path)
    assert tools.train([tiny.config, '--resume', path, '--cfg-options', 'train_cfg.max_epochs=2']) == 0
    assert (tiny.work_dir / 'epoch_2.pth').exists() and not (tiny.folder / 'marker').exists()


def test_a_checkpoint_without_optimizer_is_resumed_with_a_warning(tiny, tools, capsys, checkpoint):
    path = tiny.folder / 'small.pth'
    torch.save({name: value for name, value in checkpoint.items() if name != 'optimizer'}, path)
    assert tools.train([tiny.config, '--resume', path, '--cfg-options', 'train_cfg.max_epochs=2']) == 0
    assert f'{path} holds no optimizer: these start anew' in ''.join(capsys.readouterr())


def test_pre_trained_weights_that_are_missing_cut_off_or_of_another_size_are_named(tiny, tools, capsys, checkpoint):
    cut, wide = tiny.folder / 'cut.pth', tiny.folder / 'wide.pth'
    cut.write_bytes((tiny.work_dir / 'epoch_1.pth').read_bytes()[:-2000])
    torch.save({name: value.repeat(2) if value.dim() == 1 else value
                for name, value in checkpoint['state_dict'].items()}, wide)
    for path, words in ((tiny.folder / 'nothing.pth', 'nothing.pth does not exist'),
                        (tiny.folder, 'is a folder'),
                        (cut, 'cannot be read: it is truncated'),
                        (wide, 'torch.Size([16]) instead of torch.Size([8])')):
        assert tools.train([tiny.config, *pretrained(path)]) == 1
        line = last_line(capsys)
        assert f'checkpoint {path} ' in line and words in line and len(line) < 600, line


def test_a_file_of_something_else_is_refused(tiny, tools, capsys):
    path = tiny.folder / 'list.pth'
    torch.save([1, 2], path)
    assert tools.test([tiny.config, path]) == 1
    assert f'checkpoint {path} holds no dict of weights' in last_line(capsys)


@pytest.mark.parametrize('new_format', [True, False])
def test_numbers_of_numpy_and_both_formats_load_whole(tmp_path, new_format):
    path = tmp_path / 'a.pth'
    content = dict(best=np.float32(3.5), count=np.int16(2), flags=np.array([True, False]), weight=torch.ones(2))
    torch.save(content, path, _use_new_zipfile_serialization=new_format)
    loaded = load_from_local(str(path))
    assert loaded['best'] == 3.5 and loaded['count'] == 2 and loaded['flags'].tolist() == [True, False]
    assert not holds_stand_ins(loaded)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises((CheckpointError, ValueError), match='a.pth cannot be read'):
        load_from_local(str(path))


def test_stand_ins_are_found_at_any_depth():
    assert holds_stand_ins(dict(state={3: [torch.ones(1), (Inert(),)]}))
    assert not holds_stand_ins(dict(state={3: [torch.ones(1), ('text', None)]}))


def test_pytorchs_own_list_of_keys_is_shortened(tmp_path):
    def load(checkpoint):
        torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)).load_state_dict({'other': torch.ones(1)})

    with pytest.raises(RuntimeError) as raised:
        load('some.pth')
    assert explain(raised.value) == (
        'checkpoint some.pth does not fit the model of the config: missing: 0.weight, 0.bias, 1.weight and 1 more; '
        'not in the model: other')
