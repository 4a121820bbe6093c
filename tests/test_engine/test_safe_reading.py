"""A run reads checkpoints without running code from them."""

import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer
from mmengine.registry import DefaultScope
from mmengine.runner import CheckpointLoader
from mmengine.runner import checkpoint as mmengine_checkpoint
from PIL import EpsImagePlugin
from safetensors.torch import save_file

from mmflatten.checkpoints.loading import load_from_mmflatten, read_checkpoint, register_reader
from mmflatten.checkpoints.run_files import CheckpointError
from mmflatten.config import build_model
from mmflatten.engine.datasets import build_dataset
from mmflatten.engine.setup import load_config
from mmflatten.untrusted.content import holds_placeholder
from mmflatten.untrusted.records import Placeholder


class Marking:
    """Creates a file when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return shutil.copyfile, (__file__, str(self.folder / 'marker'))


@pytest.fixture
def checkpoint(trained) -> dict:
    return torch.load(trained, weights_only=False)


def test_testing_and_fine_tuning_run_no_code_from_a_checkpoint(tiny, tools, checkpoint):
    marked = tiny.folder / 'marked.pth'
    torch.save(dict(state_dict=checkpoint['state_dict'], config=Marking(tiny.folder)), marked)
    assert tools.test([tiny.config, marked]) == 0
    init = [
        f'model.backbone.init_cfg.{option}'
        for option in ('type=Pretrained', 'prefix=backbone.', f'checkpoint={marked}')
    ]
    assert (
        tools.train(
            [tiny.config, '--cfg-options', f'load_from={marked}', 'train_cfg.max_epochs=1', *init]
        )
        == 0
    )
    assert not (tiny.folder / 'marker').exists()
    log = next(tiny.work_dir.glob('test/*/*.log')).read_text()
    assert f'{marked}: left out' in log and 'shutil.copyfile' in log
    # runs the code; if not, ours is not needed
    mmengine_checkpoint.load_from_local(str(marked), 'cpu')
    assert (tiny.folder / 'marker').exists()


def test_model_that_is_built_alone_reads_its_weights_in_the_same_way(tiny, checkpoint):
    marked = tiny.folder / 'marked.pth'
    torch.save(dict(state_dict=checkpoint['state_dict'], config=Marking(tiny.folder)), marked)
    init = dict(type='Pretrained', checkpoint=str(marked))
    model = build_model(load_config(str(tiny.config), {'model.init_cfg': init}))
    model.init_weights()
    assert torch.equal(next(model.parameters()), next(iter(checkpoint['state_dict'].values())))
    assert not (tiny.folder / 'marker').exists()


def test_register_reader_replaces_all_readers_of_mmengine():
    for _ in range(2):
        register_reader()
        assert set(CheckpointLoader._schemes.values()) == {load_from_mmflatten}


def test_label_map_of_a_data_set_is_not_given_to_ghostscript(tiny, monkeypatch):
    monkeypatch.setattr(EpsImagePlugin, 'gs_binary', None)  # Pillow's setting at its start
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        build_dataset(load_config(str(tiny.config)).train_dataloader.dataset)
    assert not EpsImagePlugin.has_ghostscript() and EpsImagePlugin.gs_binary is False


def test_address_is_read_in_the_same_way_and_downloaded_once(tiny, checkpoint, monkeypatch):
    monkeypatch.setenv('TORCH_HOME', str(tiny.folder / 'home'))
    torch.save(
        dict(state_dict=checkpoint['state_dict'], config=Marking(tiny.folder)),
        tiny.folder / 'marked.pth',
    )
    register_reader()
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(
        ('127.0.0.1', 0), partial(Handler, directory=str(tiny.folder))
    ) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(2):
            content = CheckpointLoader.load_checkpoint(
                f'http://127.0.0.1:{server.server_port}/marked.pth'
            )
        server.shutdown()
    assert content['state_dict'].keys() == checkpoint['state_dict'].keys()
    assert asked == ['/marked.pth']
    assert not (tiny.folder / 'marker').exists()
    for address in ('torchvision://nothing', 's3://bucket/a.pth'):
        with pytest.raises(CheckpointError, match=f'{address}: .*Download'):
            CheckpointLoader.load_checkpoint(address)


def test_log_in_a_checkpoint_registers_no_statistics(tmp_path):
    before = dict(HistoryBuffer._statistics_methods)
    try:
        HistoryBuffer._statistics_methods['mean'] = torch.Size
        torch.save(HistoryBuffer([1.0, 2.5], [1, 2]), tmp_path / 'a.pth')
    finally:
        HistoryBuffer._statistics_methods.update(before)
    log = read_checkpoint(str(tmp_path / 'a.pth'))
    assert type(log) is HistoryBuffer
    assert [value.tolist() for value in log.data] == [
        [1, 2.5],
        [1, 2],
    ]
    assert HistoryBuffer._statistics_methods == before


def test_resuming_runs_no_code_from_a_checkpoint_and_names_missing_state(
    tiny, tools, fails, capsys, checkpoint
):
    path = tiny.folder / 'marked.pth'
    torch.save({**checkpoint, 'optimizer': Marking(tiny.folder)}, path)
    line = fails('train', tiny.config, '--resume', path)
    assert f'checkpoint {path}' in line and f'--cfg-options load_from={path}' in line
    del checkpoint['optimizer']
    checkpoint['meta']['config'] = f'import os\nos.mkdir({str(tiny.folder / "marker")!r})\n'
    torch.save(checkpoint, path)
    assert (
        tools.train([tiny.config, '--resume', path, '--cfg-options', 'train_cfg.max_epochs=2']) == 0
    )
    assert (tiny.work_dir / 'epoch_2.pth').exists() and not (tiny.folder / 'marker').exists()
    assert f'{path} has no optimizer' in ''.join(capsys.readouterr())


def test_safetensors_can_be_tested_and_fine_tuned_but_not_resumed(tiny, tools, fails, checkpoint):
    path = tiny.folder / 'weights.safetensors'
    save_file(checkpoint['state_dict'], path)
    assert tools.test([tiny.config, path]) == 0
    init = [
        f'model.backbone.init_cfg.{option}'
        for option in ('type=Pretrained', 'prefix=backbone.', f'checkpoint={path}')
    ]
    assert (
        tools.train(
            [tiny.config, '--cfg-options', f'load_from={path}', 'train_cfg.max_epochs=1', *init]
        )
        == 0
    )
    assert str(path) in fails('train', tiny.config, '--resume', path)
    path.write_bytes(path.read_bytes()[:-10])
    assert str(path) in fails('test', tiny.config, path)


@pytest.mark.parametrize('new_format', [True, False])
def test_numpy_numbers_load_from_both_formats(tmp_path, new_format):
    path = tmp_path / 'a.pth'
    content = dict(
        best=np.float32(3.5), count=np.int16(2), flags=np.array([True, False]), weight=torch.ones(2)
    )
    torch.save(content, path, _use_new_zipfile_serialization=new_format)
    loaded = read_checkpoint(str(path))
    assert loaded['best'] == 3.5
    assert loaded['count'] == 2
    assert loaded['flags'].tolist() == [True, False]
    assert not holds_placeholder(loaded)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises((CheckpointError, ValueError), match='a.pth'):
        read_checkpoint(str(path))


def test_placeholders_are_found_at_any_depth():
    assert holds_placeholder(dict(state={3: [torch.ones(1), (Placeholder(),)]}))
    assert not holds_placeholder(dict(state={3: [torch.ones(1), ('text', None)]}))
