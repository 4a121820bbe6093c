"""Content of the report page, and messages about missing parts."""

import errno
import json
import shutil
from pathlib import Path

import pytest

from mmflatten.cli.report import main
from mmflatten.results.curves import is_training, read_scalars

TASKS = dict(  # config, a metric, a chart of the analysis, and a column of its first table
    classification=('flatten-swin-nano_digits', 'accuracy/top1', 'Confusion', 'accuracy'),
    segmentation=('semantic-fpn_flatten-swin-nano_digits', 'mIoU', 'Confusion', 'IoU'),
    detection=(
        'mask-rcnn_flatten-swin-nano_fpn_digits',
        'coco/bbox_mAP_50',
        'Bbox precision recall',
        'AP small',
    ),
)
SECTIONS = {'summary', 'curves', 'metrics', 'samples', 'config'}
LOGGED = (
    'default_hooks = dict(logger=dict(interval=1), checkpoint=dict(interval=1))\nrandomness ='
    ' dict(seed=3)'
)


@pytest.fixture(scope='module')
def classifiers(config_on, train, tmp_path_factory) -> dict[str, Path]:
    """A classifier that was trained straight, and one of another rate that was resumed."""
    config, root = (
        config_on('flatten-swin-nano_digits', LOGGED),
        tmp_path_factory.mktemp('classifiers'),
    )
    # by the time alone, runs within a second share logs
    train(config, root / 'straight', experiment_name='straight')
    for name, resume in (('first', None), ('second', 'newest')):
        train(
            config,
            root / 'resumed',
            resume,
            experiment_name=name,
            **{'model.backbone.drop_path_rate': 0.3, 'train_cfg.max_epochs': 2 if resume else 1},
        )
    return {name: root / name for name in ('straight', 'resumed')}


@pytest.mark.parametrize('task', TASKS)
def test_page_has_the_numbers_of_its_run(work_dir, written, task):
    name, metric, chart, column = TASKS[task]
    run = work_dir(name)
    page = written(run)
    assert SECTIONS <= {found['id'] for found, _ in page.all('section')}
    if task != 'segmentation':  # which trains for one iteration and logs every 50
        assert [text for _, text in page.all('div', class_='missing')] == []
        losses = [record['loss'] for record in read_scalars(run) if is_training(record)]
        assert f'run from {losses[0]:.4g} to {losses[-1]:.4g}' in page.charts['loss']
    tested = json.loads((run / 'results.json').read_text())['metrics'][metric]
    unit = '' if metric.startswith('coco/') else ' (%)'
    assert f'{metric}{unit} {tested:.3f}' in [text for _, text in page.all('tr')]
    assert chart in page.charts and column in [text for _, text in page.all('th')]

    assert not any('tested' in text for _, text in page.all('p', class_='note'))

    pictures = [found['src'] for found, _ in page.all('img')]
    assert len(pictures) >= 4 and all(src.startswith('data:image/webp;base64,') for src in pictures)


def test_older_tested_checkpoint_is_named(work_dir, written, tmp_path):
    run = tmp_path / 'older'
    shutil.copytree(work_dir('flatten-swin-nano_digits'), run)
    (run / 'last_checkpoint').unlink()  # it names the folder that was copied
    beside = json.loads((run / 'results.json').read_text())
    (run / 'results.json').write_text(json.dumps(dict(beside, checkpoint=str(run / 'epoch_0.pth'))))
    page = written(run)
    (note,) = (text for _, text in page.all('p', class_='note') if 'tested' in text)
    assert note.startswith('older: ')
    assert str(run / 'epoch_0.pth') in note
    assert str(run / 'epoch_1.pth') in note


def test_two_runs_are_compared(classifiers, written):
    straight, resumed = classifiers.values()
    page = written(straight, resumed)
    assert 'straight from' in page.charts['loss'] and 'resumed from' in page.charts['loss']
    rows = [text.split() for _, text in page.all('tr')]
    header = next(number for number, row in enumerate(rows) if row[0] == 'field')
    difference = {row[0]: row[1:] for row in rows[header + 1 :]}
    assert difference == {
        'model.backbone.drop_path_rate': [_rate(straight), '0.3'],
        'train_cfg.max_epochs': ['1', '2'],
        'load_from': ['None', repr(str(resumed / 'epoch_1.pth'))],
        'resume': ['False', 'True'],
        'experiment_name': ["'straight'", "'second'"],
    }
    facts = {row[0]: row for row in rows}
    assert facts['parameters'][2] == facts['parameters'][3] and facts['parameters'][4] == '+0.00'
    assert facts['accuracy/top1'][1:4] == [
        '(%)',
        *(f'{read_scalars(run)[-1]["accuracy/top1"]:.3f}' for run in (straight, resumed)),
    ]


def _rate(run: Path) -> str:
    from mmengine.config import Config

    return repr(Config.fromfile(next(run.glob('*.py'))).model.backbone.drop_path_rate)


def test_missing_part_is_named_with_its_command(classifiers, written, tmp_path):
    bare, config = tmp_path / 'bare', next(classifiers['straight'].glob('*.py'))
    bare.mkdir()
    shutil.copy(config, bare)
    (bare / '20261123_145827.py').touch()  # mmpretrain's vis_scheduler.py leaves such a file
    page = written(classifiers['straight'], bare)
    missing = ' '.join(text for _, text in page.all('div', class_='missing'))
    assert f'mmflatten train {bare / config.name} --work-dir {bare}' in missing
    assert f'mmflatten test {bare / config.name} CHECKPOINT --out {bare / "results.pkl"}' in missing
    assert 'parameters (M)' in ' '.join(text for _, text in page.all('tr'))


def test_broken_part_is_named_with_its_file(classifiers, written, tmp_path):
    shutil.copytree(
        next(classifiers['straight'].glob('*/vis_data')), tmp_path / 'logged' / '1' / 'vis_data'
    )
    (tmp_path / 'logged' / 'epoch_1.pth').write_bytes(b'PK broken')
    (tmp_path / 'logged' / 'results.pkl').write_bytes(b'broken')
    page = written(tmp_path / 'logged')
    missing = ' '.join(text for _, text in page.all('div', class_='missing'))
    assert str(tmp_path / 'logged') in missing
    assert 'results.pkl' in missing
    assert 'loss' in page.charts


def test_characters_that_steer_a_terminal_are_written_out(written, tmp_path):
    log = tmp_path / 'run\x1b[2J\u202e' / '1' / 'vis_data' / 'scalars.json'
    log.parent.mkdir(parents=True)
    log.write_text('{"loss": 1.0, "step": 1}\n')
    written(log.parents[2])
    page = (tmp_path / 'page.html').read_text()
    assert '\x1b' not in page and '\u202e' not in page and r'run\x1b[2J\u202e' in page


def test_full_disk_leaves_the_earlier_page(tmp_path, monkeypatch, capsys):
    log = tmp_path / 'run' / '1' / 'vis_data' / 'scalars.json'
    log.parent.mkdir(parents=True)
    log.write_text('{"loss": 1.0, "step": 1}\n')
    out = tmp_path / 'page.html'
    assert main([str(tmp_path / 'run'), '--out', str(out)]) == 0
    before, write = out.read_text(), Path.write_text

    def fill(path, text, **options):
        write(path, text[:100], **options)
        raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(Path, 'write_text', fill)
    assert main([str(tmp_path / 'run'), '--out', str(out)]) == 1
    assert 'page.html' in capsys.readouterr().err.splitlines()[-1] and out.read_text() == before
    assert {path.name for path in tmp_path.iterdir()} == {'run', 'page.html'}


@pytest.mark.parametrize(
    'words, named',
    [
        (['nowhere'], 'nowhere'),
        (['empty'], 'empty'),
        (['run', 'run'], 'run'),
        (['run', '--out', 'page.txt'], 'page.txt'),
        (['run', '--out', 'none/page.html'], 'none'),
    ],
)
def test_bad_input_is_named_and_writes_no_page(tmp_path, monkeypatch, capsys, words, named):
    monkeypatch.chdir(tmp_path)
    Path('empty').mkdir()
    Path('run').mkdir()
    Path('run/config.py').write_text('')
    assert main(words) == 1
    assert named in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.rglob('page.*')) and not Path('report.html').exists()
