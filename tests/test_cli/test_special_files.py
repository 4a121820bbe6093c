"""No command waits for a pipe: whichever input is one, the command ends, and its message names the
file.
"""

import importlib
import json
import os
import shutil
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmflatten.checkpoints.run_files import atomic_write, remove_leftovers
from mmflatten.cli import data, report
from mmflatten.datasets.shards import build_index

CLASSIFIER, DETECTOR = 'flatten-swin-nano_digits', 'retinanet_flatten-swin-nano_fpn_digits'
SECONDS = 240  # of a command that waits; the slowest takes 20 on an idle core
INDEXED = """
train_dataloader = dict(dataset=dict(
    _delete_=True, type='mmflatten.IndexedImages', data_root='shards', ann_file='train.index',
    pipeline=[dict(type='LoadImageFromFile'), dict(type='PackInputs')]))
val_dataloader = val_cfg = val_evaluator = None
"""
STUDY = f"""
base: configs/digits/{CLASSIFIER}.py
factors: {{width: {{a: {{}}, b: {{model.backbone.drop_path_rate: 0.1}}}}}}
budget: {{epochs: 1}}
metrics: {{accuracy/top1: higher}}
controls: no attention is compared in this study
"""
# (command, file that is a pipe); a file is below the folder of the test.
CASES = [
    ('convert cls.pth out.pth --family flatten_swin', 'cls.pth'),
    ('convert cls.pth out.pth --head-map head.txt', 'head.txt'),
    ('convert weights.safetensors out.pth --head-map head.txt', 'weights.safetensors'),
    ('analyze results.pkl --out analysis', 'results.pkl'),
    ('analyze results.pkl --out analysis', 'results.json'),
    ('analyze results.pkl --out analysis --config cls.py', 'cls.py'),
    ('check cls.py', 'cls.py'),
    ('check det.py', 'data/annotations/instances_train.json'),
    ('check indexed.py', 'shards/train.index/index.json'),
    ('train indexed.py', 'shards/train.index/rows.bin'),
    ('train indexed.py', 'shards/train.index/names.bin'),
    ('train indexed.py', 'shards/train.tar'),
    ('train cls.py', 'image'),
    ('train cls.py --cfg-options load_from=cls.pth', 'cls.pth'),
    ('train cls.py --resume cls.pth', 'cls.pth'),
    ('train cls.py --work-dir run', 'run/.training'),
    ('train det.py', 'data/annotations/instances_train.json'),
    ('train det.py', 'data/annotations/instances_val.json'),
    ('test cls.py cls.pth', 'cls.pth'),
    ('test cls.py cls.pth', 'image'),
    ('test det.py det.pth', 'data/annotations/instances_val.json'),
    ('predict cls.py cls.pth a.png --out found', 'cls.pth'),
    ('attention cls.py cls.pth a.png --out maps', 'a.png'),
    ('attention cls.py cls.pth a.png --out maps', 'cls.pth'),
    ('export cls.py cls.pth --out model.onnx', 'cls.pth'),
    ('publish cls.pth --config cls.py --out published', 'cls.pth'),
    ('publish cls.pth --config cls.py --out published', 'cls.py'),
    ('flops cls.py', 'cls.py'),
    ('benchmark models cls.py', 'cls.py'),
    ('data index list.txt --out lists.index', 'list.txt'),
    ('data index shards/train.tar --out shards/other.index', 'shards/train.tar'),
    ('study study.yaml --dry-run', 'study.yaml'),
    ('study study.yaml --from table --report page.md', 'table/study.csv'),
    ('linearize cls.py cls.pth --attention FocusedLinearAttention --out linear', 'cls.pth'),
]
IN_LAB = ('study', 'linearize')


@pytest.fixture
def limit() -> Iterator[None]:
    """End the test if a command waits."""

    def end(*_: object) -> None:
        pytest.fail('the command waits')

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def files(tmp_path, monkeypatch, config_on, scenes, model_of) -> Path:
    """One file of each kind that commands read."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(scenes, 'data')
    for name, config in (('cls', CLASSIFIER), ('det', DETECTOR)):
        text = config_on(config).read_text().replace(str(scenes), 'data')
        Path(f'{name}.py').write_text(text)
        shutil.copy(model_of(config)[1], f'{name}.pth')
    Path('indexed.py').write_text(Path('cls.py').read_text() + INDEXED)
    image = first_image(tmp_path)
    shutil.copy(image, 'a.png')
    torch.save(
        [
            dict(
                img_path='a.png',
                ori_shape=(64, 64),
                pred_score=torch.rand(10),
                gt_label=torch.tensor([1]),
            )
        ],
        'results.pkl',
    )
    Path('results.json').write_text(json.dumps(dict(classes=[*'0123456789'])))
    Path('head.txt').write_text('1\n')
    from safetensors.torch import save_file

    save_file(torch.load('cls.pth')['state_dict'], 'weights.safetensors')
    Path('list.txt').write_text('a.png 0\n')
    Path('shards').mkdir()
    with tarfile.open('shards/train.tar', 'w') as tar:
        tar.add('a.png', '0/a.png')
    build_index([Path('shards/train.tar')], Path('shards/train.index'))
    Path('study.yaml').write_text(STUDY)
    Path('table').mkdir()
    Path('table/study.csv').write_text('name\n')
    Path('run').mkdir()
    return tmp_path


def first_image(folder: Path) -> Path:
    """Return an image that the classifier trains and is tested on."""
    dataset = Config.fromfile(folder / 'cls.py').test_dataloader.dataset
    return sorted((folder / dataset.data_root).rglob('crops/**/*.png'))[0]


@pytest.mark.parametrize('command, name', CASES)
def test_pipe_in_place_of_an_input_is_named(files, limit, capfd, command, name):
    replaced = sorted(files.rglob('crops/**/*.png')) if name == 'image' else [Path(name)]
    for path in replaced:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    words = command.split()
    module = importlib.import_module(
        f'mmflatten_lab.commands.{words[0]}' if words[0] in IN_LAB else f'mmflatten.cli.{words[0]}'
    )
    assert module.main(words[1:]) in (1, 2)
    last = capfd.readouterr().err.splitlines()[-1]
    assert replaced[0].name in last or name == 'image' and '.png' in last


def test_pipe_as_manifest_of_a_data_set_is_other_content(files, limit, capfd):
    Path('data/dataset.json').unlink()
    os.mkfifo('data/dataset.json')
    assert data.main(['digits', '--out', 'data']) == 1
    assert 'data' in capfd.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    'name', ['results.pkl', 'last_checkpoint', 'now/vis_data/scalars.json', 'now/now.log']
)
def test_report_is_written_without_a_part_that_is_a_pipe(files, limit, name):
    log = Path('run/now/vis_data/scalars.json')
    log.parent.mkdir(parents=True)
    log.write_text('{"loss": 1.0, "step": 1, "iter": 1, "epoch": 1}\n')
    shutil.copy('cls.py', 'run')
    shutil.copy('results.pkl', 'run')
    Path('run', name).unlink(missing_ok=True)
    os.mkfifo(Path('run', name))
    assert report.main(['run', '--out', 'page.html']) == 0
    page = Path('page.html').read_text()
    assert 'is a pipe' in page or name in ('last_checkpoint', 'now/now.log')


def test_pipe_named_as_a_leftover_is_left_alone(tmp_path, limit):
    pipe = tmp_path / '.a.txt.x.part'
    os.mkfifo(pipe)
    with atomic_write(tmp_path / 'a.txt') as aside:
        aside.write_text('new')
    remove_leftovers(tmp_path)
    assert (tmp_path / 'a.txt').read_text() == 'new' and pipe.exists()
