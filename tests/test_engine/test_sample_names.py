"""An unreadable file is named whichever transform reads it, and pipelines behave as before otherwise."""
import pickle

import cv2
import numpy as np
import pytest
from mmcv.transforms import LoadAnnotations, LoadImageFromFile, Resize

from mmflatten.engine.datasets import NamingPipeline, SampleError


@pytest.fixture
def sample(tmp_path):
    image, labels = tmp_path / 'image.png', tmp_path / 'labels.png'
    cv2.imwrite(str(image), np.full((8, 8, 3), 7, np.uint8))
    cv2.imwrite(str(labels), np.full((8, 8), 3, np.uint8))
    return dict(img_path=str(image), seg_map_path=str(labels))


def pipeline(backend='cv2'):
    return NamingPipeline([
        LoadImageFromFile(), LoadAnnotations(with_bbox=False, with_label=False, with_seg=True,
                                             imdecode_backend=backend), Resize(scale=(4, 4))])


def test_results_are_those_of_the_transforms_also_in_another_process(sample):
    for made in (pipeline(), pickle.loads(pickle.dumps(pipeline()))):
        results = made(dict(sample))
        assert results['img'].shape == (4, 4, 3) and (results['gt_seg_map'] == 3).all()
    assert NamingPipeline([lambda results: None, len])(sample) is None


@pytest.mark.parametrize('backend', ['cv2', 'pillow'])
@pytest.mark.parametrize('key', ['img_path', 'seg_map_path'])
def test_an_unreadable_image_or_label_map_is_named(sample, key, backend):
    open(sample[key], 'wb').write(b'no image')
    with pytest.raises(SampleError, match=f'image {sample[key]} .*Load'):
        pipeline(backend)(sample)


def test_a_missing_file_and_a_failure_of_another_step_are_named(sample):
    with pytest.raises(SampleError, match='nowhere.png does not exist'):
        pipeline()({**sample, 'img_path': 'nowhere.png'})
    with pytest.raises(SampleError, match=f'{sample["img_path"]} and .*KeyError: lost'):
        NamingPipeline([LoadImageFromFile(), lambda results: results['lost']])(sample)
