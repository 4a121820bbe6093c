"""`mmflatten predict` that is killed, interrupted or short of disk space."""

import csv
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.structures import InstanceData

from mmflatten.checkpoints.run_files import only_process
from mmflatten.cli.predict import main as predict
from mmflatten.predict.inputs import Input
from mmflatten.predict.predictor import PredictionError
from mmflatten.predict.results import ResultFolder
from mmflatten.predict.rows import Rows
from mmflatten.predict.videos import DrawnVideo
from mmflatten.tasks import tasks

PHOTOS = 4
LIMIT = 20_000  # bytes of a file


@pytest.fixture
def photos(tmp_path) -> Path:
    """A folder of flat images, whose drawings are small, and one of noise, `1.png`."""
    folder = tmp_path / 'photos'
    folder.mkdir()
    for number in range(PHOTOS):
        pixels = np.full((64, 64, 3), 50 * number, np.uint8)
        if number == 1:
            pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
        cv2.imwrite(str(folder / f'{number}.png'), pixels)
    return folder


@pytest.fixture
def run(in_child, predictor) -> Callable[..., int]:
    """Predict photos in another process, which calls a function before the files of the third one
    are written.

    The libraries that `predictor` imports are not imported again by each process.
    """

    def start(
        photos: Path,
        out: Path,
        at_third: Callable[[], None] = lambda: None,
        limit: int | None = None,
    ) -> int:
        original, calls = ResultFolder.add, []

        def add(self, item, sample, image):
            calls.append(item.name)
            if len(calls) == 3:
                at_third()
            return original(self, item, sample, image)

        def child() -> int:
            ResultFolder.add = add
            return predict(
                ['garment-classifier', str(photos), '--out', str(out), '--device', 'cpu']
            )

        return in_child(child, out.with_suffix('.log'), limit)

    return start


def rows(table: Path) -> list[str]:
    """Return the stems of the files in a table, whose rows must be complete."""
    with open(table, newline='') as file:
        header, *lines = csv.reader(file)
    assert all(len(line) == len(header) == 11 for line in lines)
    return [Path(line[0]).stem for line in lines]


def files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob('*') if path.is_file()
    )


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_interrupted_run_keeps_what_was_predicted(run, number, photos, tmp_path):
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'classes.csv').write_text('of an earlier run')
    assert run(photos, out, lambda: signal.raise_signal(number)) == 128 + number
    assert rows(out / 'classes.csv') == ['0', '1']
    assert files(out) == ['classes.csv', 'drawings/0.png', 'drawings/1.png']


def test_killed_run_leaves_the_earlier_table_and_its_rows(run, photos, tmp_path):
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'classes.csv').write_text('of an earlier run')

    def kill() -> None:
        (out / 'drawings' / '.part').mkdir(exist_ok=True)
        (out / 'drawings' / '.part' / '2.png').write_bytes(b'half')
        signal.raise_signal(signal.SIGKILL)

    assert run(photos, out, kill) == -signal.SIGKILL
    assert (out / 'classes.csv').read_text() == 'of an earlier run'
    assert rows(out / 'classes.part.csv') == ['0', '1']
    assert run(photos, out) == 0
    assert rows(out / 'classes.csv') == ['0', '1', '2', '3']
    assert files(out) == ['classes.csv', *(f'drawings/{number}.png' for number in range(PHOTOS))]


def test_drawing_that_does_not_fit_on_the_disk_costs_this_drawing(run, photos, tmp_path):
    out = tmp_path / 'out'
    assert run(photos, out, limit=LIMIT) == 1
    assert rows(out / 'classes.csv') == ['0', '1', '2', '3']
    assert files(out) == ['classes.csv', 'drawings/0.png', 'drawings/2.png', 'drawings/3.png']
    message = (tmp_path / 'out.log').read_text()
    last = message.splitlines()[-1]
    assert (
        'photos/1.png' in last
        and 'drawings/1.png' in last
        and 'Path(' not in message
        and '.part' not in message
    )
    assert f'{PHOTOS - 1} of {PHOTOS}' in message


def test_second_run_into_a_folder_is_refused(run, photos, tmp_path):
    out, started, end = tmp_path / 'out', tmp_path / 'started', tmp_path / 'end'

    def wait() -> None:
        started.touch()
        while not end.exists():
            time.sleep(0.01)

    first = os.fork()
    if not first:
        os._exit(run(photos, out, wait))
    while not started.exists():
        time.sleep(0.01)
    before = (out / 'classes.part.csv').read_bytes()
    second = tmp_path / 'second'
    second.symlink_to(out)
    try:
        assert run(photos, second) == 1
        last = (tmp_path / 'second.log').read_text().splitlines()[-1]
        assert str(second) in last and (out / '.prediction').read_text() in last
        assert (out / 'classes.part.csv').read_bytes() == before
    finally:
        end.touch()
    assert os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) == 0
    assert rows(out / 'classes.csv') == ['0', '1', '2', '3'] and '.prediction' not in files(out)


class Detector:
    """A predictor without a model, whose drawings are empty."""

    task, classes = tasks()['detection'], ('cat', 'dog')
    reads_bands = False

    def visualizer(self) -> 'Detector':
        return self

    def add_datasample(self, *_: object, out_file: str, **__: object) -> None:
        Path(out_file).touch()


class Boxes:
    """A data sample with one box."""

    pred_instances = InstanceData(
        bboxes=torch.tensor([[1.0, 2.0, 4.0, 6.0]]),
        scores=torch.tensor([0.9]),
        labels=torch.tensor([1]),
    )

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)


def add_boxes(folder: Path, photos: Path, interrupt: bool) -> None:
    with ResultFolder(folder, Detector()) as results:
        for number in range(3):
            file = str(photos / f'{number}.png')
            results.add(Input(str(number), file, file), Boxes())
        if interrupt:
            raise KeyboardInterrupt


def test_interrupted_detections_are_those_of_a_complete_run(photos, tmp_path):
    add_boxes(tmp_path / 'complete', photos, interrupt=False)
    with pytest.raises(KeyboardInterrupt):
        add_boxes(tmp_path / 'interrupted', photos, interrupt=True)
    content = (tmp_path / 'complete' / 'predictions.json').read_text()
    assert (tmp_path / 'interrupted' / 'predictions.json').read_text() == content
    assert files(tmp_path / 'interrupted') == files(tmp_path / 'complete')
    coco = json.loads(content)
    assert [image['id'] for image in coco['images']] == [0, 1, 2] and coco['images'][1][
        'height'
    ] == 224
    assert coco['annotations'][2] == dict(
        id=3,
        image_id=2,
        iscrowd=0,
        area=12.0,
        category_id=1,
        bbox=[1.0, 2.0, 3.0, 4.0],
        score=pytest.approx(0.9),
    )


def test_table_that_does_not_fit_on_the_disk_leaves_the_earlier_one_and_the_rows(
    in_child, photos, tmp_path
):
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'predictions.json').write_text('of an earlier run')

    def child() -> int:
        with ResultFolder(out, Detector()) as results:
            for number in (0, 1):
                file = str(photos / f'{number}.png')
                results.add(Input(str(number), file, file), Boxes())
            size = (out / 'predictions.part.jsonl').stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, -1))
        print(*results.failures, file=sys.stderr)
        return len(results.failures)

    assert in_child(child, tmp_path / 'errors') == 1
    assert (out / 'predictions.json').read_text() == 'of an earlier run'
    assert len((out / 'predictions.part.jsonl').read_text().splitlines()) == 2
    assert f'{out}/predictions.json' in (tmp_path / 'errors').read_text()


def test_rows_that_do_not_fit_on_the_disk_leave_the_earlier_table(in_child, photos, tmp_path):
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'predictions.json').write_text('of an earlier run')

    def child() -> int:
        with ResultFolder(out, Detector()) as results:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, -1))
            file = str(photos / '0.png')
            with pytest.raises(PredictionError):
                results.add(Input('0', file, file), Boxes())
        return 0

    errors = tmp_path / 'errors'
    assert in_child(child, errors) == 0, errors.read_text()
    assert (out / 'predictions.json').read_text() == 'of an earlier run'


def test_lock_that_does_not_fit_on_the_disk_is_removed(in_child, tmp_path):
    def child() -> int:
        with pytest.raises(OSError), only_process(tmp_path, 'prediction', '--out'):
            pass
        return 0

    assert in_child(child, tmp_path / 'errors', limit=1) == 0
    assert files(tmp_path) == ['errors']


def test_row_that_cannot_be_written_leaves_the_others(in_child, tmp_path):
    def child() -> int:
        table = Rows(tmp_path / 'rows')
        table.add('first\n')
        with pytest.raises(OSError, match='rows'):
            table.add('too long\n')
        table.add('\udcff\n')
        table.close()
        return table.count

    assert in_child(child, tmp_path / 'errors', limit=10) == 2
    assert (tmp_path / 'rows').read_bytes() == b'first\n\xff\n'


def test_video_that_does_not_fit_on_the_disk_is_reported(in_child, tmp_path):
    def child() -> int:
        video = DrawnVideo(tmp_path / 'film.mp4', rate=5.0, size=(64, 48))
        for seed in range(40):
            video.add(np.random.default_rng(seed).integers(0, 256, (48, 64, 3), np.uint8))
        with pytest.raises(OSError, match='film.mp4'):
            video.close()
        return 0

    assert in_child(child, tmp_path / 'errors', LIMIT) == 0
    assert files(tmp_path) == ['errors']
