"""An unreadable file is named whichever transform reads it, and pipelines behave as before otherwise."""
import pickle

import cv2
import numpy as np
import pytest
from mmcv.transforms import LoadAnnotations, LoadImageFromFile, Resize
from mmengine.dataset import Compose

from mmflatten.engine.errors import worker_message
from mmflatten.engine.hooks.sample_names import NamingPipeline, SampleError


@pytest.fixture
def sample(tmp_path):
    image, labels = tmp_path / 'image.png', tmp_path / 'labels.png'
    cv2.imwrite(str(image), np.full((8, 8, 3), 7, np.uint8))
    cv2.imwrite(str(labels), np.full((8, 8), 3, np.uint8))
    return dict(img_path=str(image), seg_map_path=str(labels))


def pipeline(backend='cv2'):
    return NamingPipeline(Compose([
        LoadImageFromFile(), LoadAnnotations(with_bbox=False, with_label=False, with_seg=True,
                                             imdecode_backend=backend), Resize(scale=(4, 4))]))


def test_results_are_those_of_the_wrapped_pipeline(sample):
    results = pipeline()(sample)
    assert results['img'].shape == (4, 4, 3) and (results['gt_seg_map'] == 3).all()
    assert len(pipeline().transforms) == 3


@pytest.mark.parametrize('backend', ['cv2', 'pillow'])
def test_unreadable_label_map_is_named(sample, backend):
    open(sample['seg_map_path'], 'wb').write(b'no image')
    with pytest.raises(SampleError, match=f'image {sample["seg_map_path"]} cannot be decoded .LoadAnnotations'):
        pipeline(backend)(sample)


def test_unreadable_image_is_named(sample):
    open(sample['img_path'], 'wb').write(b'no image')
    with pytest.raises(SampleError, match=f'image {sample["img_path"]} cannot be decoded .LoadImageFromFile'):
        pipeline()(sample)


def test_failure_of_another_step_names_the_sample_without_blaming_the_file(sample):
    broken = NamingPipeline(Compose([LoadImageFromFile(), lambda results: results['missing']]))
    with pytest.raises(SampleError, match=f'the sample of {sample["img_path"]} and .* cannot be prepared') as raised:
        broken(sample)
    assert 'decoded' not in str(raised.value)


def test_missing_file_keeps_its_own_error(sample):
    with pytest.raises(FileNotFoundError):
        pipeline()({**sample, 'img_path': 'nowhere.png'})


def test_pipeline_can_be_sent_to_another_process(sample):
    assert pickle.loads(pickle.dumps(pipeline()))(sample)['img'].shape == (4, 4, 3)


def test_message_is_taken_out_of_a_loader_process():
    carried = SampleError(
        'Caught SampleError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n'
        '  File "x.py", line 1\nValueError: inner\n\nThe above exception was the direct cause:\n\n'
        'mmflatten.engine.hooks.sample_names.SampleError: image a.png cannot be decoded\n')
    assert worker_message(carried) == 'image a.png cannot be decoded'
