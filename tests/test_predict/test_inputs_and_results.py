"""Inputs and result files of `mmflatten predict`, without a model."""

import csv
import json
import os
import socket
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch

from mmflatten.engine.predictions import draw_sample
from mmflatten.predict.inputs import Input, Inputs
from mmflatten.predict.predictor import PredictionError
from mmflatten.predict.results import ResultFolder
from mmflatten.predict.videos import OPENCV_WITH_BYTES, opencv_name
from mmflatten.tasks import tasks

needs_bytes = pytest.mark.skipif(
    tuple(int(part) for part in cv2.__version__.split('.')[:2]) < OPENCV_WITH_BYTES,
    reason='this OpenCV opens no video whose name is not UTF-8',
)


def write_image(path: Path, value: int = 0) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cv2.imencode('.png', np.full((8, 8, 3), value, np.uint8))[1])
    return str(path)


def write_video(path: Path, frames: int = 10) -> str:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*'MJPG'), 5, (64, 48))
    for seed in range(frames):
        writer.write(np.random.default_rng(seed).integers(0, 256, (48, 64, 3), np.uint8))
    writer.release()
    return str(path)


def predictor_of(task: str, classes: tuple[str, ...] = ()) -> SimpleNamespace:
    """A fake predictor, whose visualizer draws only the image."""

    def draw(image: np.ndarray, sample: object, *, out_file: str, **_: object) -> None:
        cv2.imwrite(out_file, image)

    return SimpleNamespace(
        task=tasks()[task],
        classes=classes,
        reads_bands=False,
        visualizer=lambda: SimpleNamespace(visualize_cls=draw),
    )


def scores(*values: float) -> SimpleNamespace:
    return SimpleNamespace(pred_score=torch.tensor(values))


def stereo_folders(folder: Path, left: str, right: str) -> list[str]:
    for side, names in (('l', left), ('r', right)):
        for name in names.split():
            write_image(folder / side / name)
    return [str(folder / 'l'), str(folder / 'r')]


@pytest.mark.parametrize(
    'left, right, expected',
    [
        ('1.png 2.png', '1.jpg 2.png', '1.png-1.jpg 2.png-2.png'),  # by name
        ('a-1.png a.jpg', 'a-1.jpg a.png', 'a.jpg-a.png a-1.png-a-1.jpg'),
        # by order, because no names match
        ('l1.png l2.png', 'r1.png r2.png', 'l1.png-r1.png l2.png-r2.png'),
    ],
)
def test_stereo_folders_pair_up(left, right, expected, tmp_path):
    pairs = [item.image for item in Inputs(stereo_folders(tmp_path, left, right), pairs=True)]
    assert ['-'.join(Path(file).name for file in pair) for pair in pairs] == expected.split()


def test_stereo_images_of_several_folders_pair_up_by_name_and_order(tmp_path):
    for camera in 'ab':
        for side in ('left', 'right'):
            write_image(tmp_path / camera / side / '0.png')
    pairs = [
        item.image
        for item in Inputs([f'{tmp_path}/*/{side}/*.png' for side in ('left', 'right')], pairs=True)
    ]
    assert pairs == [
        tuple(f'{tmp_path}/{camera}/{side}/0.png' for side in ('left', 'right')) for camera in 'ab'
    ]


def test_unpaired_stereo_images_are_named(tmp_path):
    with pytest.raises(ValueError, match=f'{tmp_path}/l lacks 4; {tmp_path}/r lacks 2'):
        Inputs(stereo_folders(tmp_path, '1.png 2.png 3.png', '1.png 3.png 4.png'), pairs=True)


def test_stereo_rejects_videos(tmp_path):
    with pytest.raises(ValueError, match=r'l\.avi, .*r\.avi'):
        Inputs([write_video(tmp_path / 'l.avi'), write_video(tmp_path / 'r.avi')], pairs=True)


@pytest.mark.parametrize(
    ('name', 'kind'),
    [
        ('nothing', 'folder'),
        ('nothing.jpg', None),
        ('*.jpg', None),
        ('notes.txt', 'file'),
        ('film.mp4', 'file'),
    ],
)
def test_inputs_without_images_are_named(name, kind, tmp_path):
    if kind == 'folder':
        (tmp_path / name).mkdir()
    elif kind == 'file':
        (tmp_path / name).write_text('text')
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        Inputs([str(tmp_path / name)])
    assert str(tmp_path / name) in str(error.value)


@pytest.mark.parametrize('number', ['100', str(2**31), '9' * 30, '9' * 5000])
def test_number_that_no_camera_has_is_named(number):
    with pytest.raises(ValueError, match=f'INPUT: .* from 0 to 99, got {number[:30]}'):
        Inputs([number])


def test_number_of_a_camera_does_not_stop_the_others(tmp_path):
    inputs = Inputs(['9' * 30, write_image(tmp_path / 'a.png'), '-1'])
    assert [item.name for item in inputs] == ['a']
    assert len(inputs.failures) == 2


def make_special(kind: str, path: Path) -> None:
    match kind:
        case 'a device':
            path.symlink_to('/dev/null')
        case 'a pipe':
            os.mkfifo(path)
        case 'a socket':
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(path))
        case 'missing file':
            path.symlink_to('gone')
        case 'symbolic links':
            path.symlink_to(path)


@pytest.mark.parametrize('name', ['special', 'special.png', 'special.mp4'])
@pytest.mark.parametrize(
    'kind', ['a device', 'a pipe', 'a socket', 'missing file', 'symbolic links']
)
@pytest.mark.parametrize('pairs', [False, True])
def test_kind_of_an_input_that_is_no_file_is_named(pairs, kind, name, tmp_path):
    path = tmp_path / name
    make_special(kind, path)
    with pytest.raises(ValueError, match=f'INPUT: {path} .*{kind}'):
        Inputs([str(path)] * (1 + pairs), pairs=pairs)


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can become another user')
@pytest.mark.parametrize('mode, name', [(0o000, ''), (0o000, 'a.png'), (0o444, 'a.png')])
def test_folder_without_permission_is_named(in_child, mode, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the folders above need no permission then
    tmp_path.chmod(0o711)
    write_image(Path('closed', 'a.png'))
    Path('closed').chmod(mode)

    def child() -> int:
        os.seteuid(65534)  # nobody
        try:
            with pytest.raises((OSError, ValueError), match=r'INPUT: .*closed.*[Pp]ermission'):
                Inputs([str(Path('closed', name))])
        finally:
            os.seteuid(0)
        return 0

    errors = tmp_path / 'errors'
    assert in_child(child, errors) == 0, errors.read_text()


def test_images_of_other_types_are_named(tmp_path, capsys):
    for name in ('a.png', 'b.jpg'):
        write_image(tmp_path / name)
    for name in ('c.jfif', 'd.HEIC', 'e.gif', 'notes.txt', '.hidden.gif'):
        (tmp_path / name).write_bytes(b'x')
    assert len(Inputs([str(tmp_path)])) == 2
    line = capsys.readouterr().err
    assert 'left out 3 images of other types' in line and all(
        name in line for name in ('c.jfif', 'd.HEIC', 'e.gif')
    )
    write_image(tmp_path / 'f' / 'a.png')
    Inputs([str(tmp_path / 'f')])
    assert not capsys.readouterr().err


def test_input_names_are_unique(tmp_path):
    for name in ('a/x.png', 'b/x.png', 'b/x_2.png', 'b/._x.png', 'c/x_2.png'):
        write_image(tmp_path / name)
    (tmp_path / 'b' / 'folder.png').mkdir()
    inputs = Inputs([str(tmp_path / folder) for folder in 'abc'])
    # numbered only if the stem is taken
    assert [item.name for item in inputs] == ['x', 'x_3', 'x_2', 'x_2_2']
    assert [Path(item.source).name for item in inputs] == ['x.png', 'x.png', 'x_2.png', 'x_2.png']


def test_frame_and_image_names_are_unique(tmp_path):
    inputs = [
        write_image(tmp_path / 'film_000001.png'),
        write_video(tmp_path / 'film.avi', 2),
        write_image(tmp_path / 'film_000000.png'),
        write_video(tmp_path / 'film_2.avi', 1),
    ]
    found = Inputs(inputs)
    assert [item.name for item in found] == [
        'film_000001',
        'film_000000_2',
        'film_000001_2',
        'film_000000',
        'film_2_000000',
    ]
    assert [item.video for item in found] == [
        None,
        ('film', 5.0),
        ('film', 5.0),
        None,
        ('film_2', 5.0),
    ]
    assert not found.failures


def test_truncated_video_is_reported(tmp_path):
    film = Path(write_video(tmp_path / 'film.avi'))
    film.write_bytes(film.read_bytes()[: film.stat().st_size // 2])
    inputs = Inputs([str(film)])
    came = len([*inputs])
    assert 0 < came < len(inputs) == 10 and len(inputs.failures) == 1
    assert str(film) in str(inputs.failures[0]) and f'frame {came} of 10' in str(inputs.failures[0])


def test_words_that_name_nothing_do_not_stop_the_others(tmp_path):
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'half.mp4').write_bytes(b'\0\0\0\x20ftypisom')
    (tmp_path / 'wait.mp4').symlink_to('wait.fifo')
    os.mkfifo(tmp_path / 'wait.fifo')
    words = ['gone.png', 'empty', 'half.mp4', 'wait.mp4', 'a.png', 'notes.txt']
    inputs = Inputs(
        [
            *(str(tmp_path / word) for word in words[:4]),
            write_image(tmp_path / 'a.png'),
            '/dev/null',
        ]
    )
    assert [item.name for item in inputs] == ['a']
    named = ''.join(map(str, inputs.failures))
    assert len(inputs.failures) == 5 and all(str(tmp_path / word) in named for word in words[:4])


def test_inputs_in_output_folders_are_rejected(tmp_path):
    outside, inside = (
        write_image(tmp_path / 'a.png'),
        write_image(tmp_path / 'out' / 'label_maps' / 'a.png'),
    )
    folders = ResultFolder.replaced(tmp_path / 'out', tasks()['segmentation'])
    Inputs([outside]).require_outside(folders)
    (tmp_path / 'link').symlink_to(Path(inside).parent)
    for word in (inside, f'{tmp_path}/link/a.png'):
        with pytest.raises(ValueError, match=f'INPUT.*{word}'):
            Inputs([outside, word]).require_outside(folders)


@needs_bytes
def test_file_names_that_are_not_utf8(tmp_path):
    file = write_image(tmp_path / os.fsdecode(b'caf\xe9.png'))
    write_video(tmp_path / 'film.avi', 1)
    (tmp_path / 'film.avi').rename(tmp_path / os.fsdecode(b'film\xe9.avi'))
    picture, frame = Inputs([file, str(tmp_path / os.fsdecode(b'film\xe9.avi'))])
    assert picture.name == 'caf\ufffd' and frame.name == 'film\ufffd_000000'
    with ResultFolder(tmp_path / 'out', predictor_of('classification', ('cat', 'dog'))) as results:
        results.add(picture, scores(0.2, 0.8))
    assert (tmp_path / 'out' / 'drawings' / 'caf\ufffd.png').is_file()
    assert os.fsencode(file) in (tmp_path / 'out' / 'classes.csv').read_bytes()


def test_older_opencv_names_a_video_that_it_cannot_open(monkeypatch):
    monkeypatch.setattr(cv2, '__version__', '4.11.0')
    assert opencv_name('/data/caf\xe9.avi') == '/data/caf\xe9.avi'
    with pytest.raises(ValueError, match=r'film.*OpenCV 4\.11\.0.*Rename it'):
        opencv_name(os.fsdecode(b'/data/film\xe9.avi'))


@needs_bytes
def test_result_folder_name_that_is_not_utf8(tmp_path):
    folder = tmp_path / os.fsdecode(b'o\xff')
    with ResultFolder(folder, predictor_of('segmentation', ('cat', 'dog'))) as results:
        for frame in Inputs([write_video(tmp_path / 'film.avi', 2)]):
            results.add(
                frame,
                SimpleNamespace(pred_sem_seg=SimpleNamespace(data=torch.eye(8, dtype=int)[None])),
            )
    found = {file.name: file.stat().st_size for file in folder.rglob('*.*')}
    assert found.keys() == {'film.mp4', 'film_000000.png', 'film_000001.png'} and all(
        found.values()
    )


def test_labels_of_a_threshold_are_written_as_classes(tmp_path):
    file = tmp_path / 'a.png'
    cv2.imwrite(str(file), np.zeros((8, 8, 3), np.uint8))
    with ResultFolder(tmp_path / 'out', predictor_of('segmentation', ('cat', 'dog'))) as results:
        # mmseg's threshold of one output makes floating-point numbers
        sample = SimpleNamespace(pred_sem_seg=SimpleNamespace(data=torch.eye(8)[None]))
        record = results.add(Input(name='a', source=str(file), image=str(file)), sample)
    assert [part['name'] for part in record['shares']] == ['cat', 'dog']
    written = cv2.imread(record['label_map'], cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(written, np.eye(8))


def test_prediction_that_cannot_be_drawn_is_saved(tmp_path):
    predictor = predictor_of('classification', ('cat', 'dog'))
    predictor.visualizer = lambda: SimpleNamespace(visualize_cls=lambda *_, **__: [][1])
    with (
        ResultFolder(tmp_path, predictor) as results,
        pytest.raises(PredictionError, match='a.png'),
    ):
        results.add(Input('a', 'a.png', write_image(tmp_path / 'a.png')), scores(0.2, 0.8))
    assert 'a.png,dog,0.8' in (tmp_path / 'classes.csv').read_text()


def test_huge_picture_is_saved_and_not_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr('mmflatten.predict.results.DRAWN_PIXELS', 63)
    with (
        ResultFolder(tmp_path, predictor_of('classification', ('cat', 'dog'))) as results,
        pytest.raises(PredictionError, match=r'a\.png.*8 x 8'),
    ):
        results.add(Input('a', 'a.png', write_image(tmp_path / 'a.png')), scores(0.2, 0.8))
    assert 'a.png,dog,0.8' in (tmp_path / 'classes.csv').read_text()


@pytest.mark.parametrize(
    'size, drawn',
    [
        ((20, 50), (224, 560)),
        ((300, 240), (300, 240)),
        ((8, 1000), (32, 4000)),
        ((1000, 8), (4000, 32)),
        ((20, 5000), (20, 5000)),
    ],
)
def test_small_images_are_enlarged_for_text_within_bounds(size, drawn, tmp_path):
    from mmpretrain.structures import DataSample

    visualizer = tasks()['classification'].visualizer(dict(classes=('cat', 'dog')))
    sample = DataSample().set_pred_label(1).set_pred_score(torch.tensor([0.2, 0.8]))
    draw_sample(visualizer, np.zeros((*size, 3), np.uint8), sample, str(tmp_path / 'a.png'))
    assert cv2.imread(str(tmp_path / 'a.png')).shape[:2] == drawn


def test_classes_with_equal_names_keep_their_scores(tmp_path):
    names = ('crane', 'dog', 'crane')
    item = Input('a', write_image(tmp_path / 'a.png'), str(tmp_path / 'a.png'))
    with ResultFolder(tmp_path, predictor_of('classification', names)) as results:
        record = results.add(item, scores(0.7, 0.1, 0.2))
    assert [(entry['label'], entry['name']) for entry in record['classes']] == [
        (0, 'crane'),
        (2, 'crane'),
        (1, 'dog'),
    ]
    assert [entry['score'] for entry in record['classes']] == pytest.approx(
        [0.7, 0.2, 0.1]
    ) and record['label'] == 0
    labels = torch.tensor([[0, 0, 2, 1]])
    with ResultFolder(tmp_path, predictor_of('segmentation', names)) as results:
        record = results.add(item, SimpleNamespace(pred_sem_seg=SimpleNamespace(data=labels[None])))
    assert json.loads(json.dumps(record['shares'])) == [
        dict(label=label, name=names[label], share=share)
        for label, share in ((0, 0.5), (1, 0.25), (2, 0.25))
    ]


@pytest.mark.parametrize(
    'task, table, other',
    [
        ('classification', 'classes.csv', 'predictions.json'),
        ('detection', 'predictions.json', 'classes.csv'),
    ],
)
def test_table_of_an_earlier_run_is_deleted(task, table, other, tmp_path):
    for name in (table, other):
        (tmp_path / name).write_text('old')
    with ResultFolder(tmp_path, predictor_of(task)):
        pass
    assert not (tmp_path / table).exists() and (tmp_path / other).read_text() == 'old'


def test_frames_do_not_replace_drawings_of_images(tmp_path):
    drawing = Path(write_image(tmp_path / 'drawings' / 'film_000000.png'))
    before = drawing.read_bytes()
    with ResultFolder(tmp_path, predictor_of('classification', ('cat', 'dog'))) as results:
        for frame in Inputs([write_video(tmp_path / 'film.avi', 2)]):
            results.add(frame, scores(0.2, 0.8))
    assert drawing.read_bytes() == before
    assert sorted(path.name for path in drawing.parent.iterdir()) == ['film.mp4', 'film_000000.png']
    with open(tmp_path / 'classes.csv', newline='') as file:
        assert len([*csv.reader(file)]) == 3


@pytest.fixture
def stream(tmp_path):
    """Address of a video of 10 frames on a local server."""
    write_video(tmp_path / 'film.avi')
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'127.0.0.1:{server.server_port}/film.avi'
        server.shutdown()


@pytest.mark.parametrize('limit, expected', [(None, 10), (3, 3)])
def test_stream_is_read_frame_by_frame_and_its_password_is_not_kept(
    stream, limit, expected, tmp_path
):
    inputs = Inputs([f'http://me:secret@{stream}'], frames=limit)
    found = list(inputs)
    assert inputs.endless and not inputs.failures and len(found) == expected
    assert found[1].name == 'film_000001' and found[1].source == f'http://{stream}'
    original = [item.image for item in Inputs([str(tmp_path / 'film.avi')])]
    assert all(np.array_equal(item.image, frame) for item, frame in zip(found, original))


@pytest.mark.parametrize('word', ['http://me:secret@127.0.0.1:9/film.avi', '99'])
def test_failing_stream_or_camera_gives_one_line(word, capfd):
    with pytest.raises(ValueError, match='stream: no frame can be read, got (http://127|99)'):
        Inputs([word])
    assert capfd.readouterr().err == ''


def test_frames_limit_a_video_file(tmp_path):
    inputs = Inputs([write_video(tmp_path / 'film.avi')], frames=4)
    assert len(inputs) == len(list(inputs)) == 4 and not inputs.failures and not inputs.endless
