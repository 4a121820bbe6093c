"""`NamingPipeline` names unreadable files and otherwise behaves like `Compose`."""

import copy

import cv2
import numpy as np
import pytest
from mmcv.transforms import LoadAnnotations, LoadImageFromFile, Resize

from mmflatten.engine.naming_pipeline import NamedTransform, NamingPipeline, SampleError


@pytest.fixture
def sample(tmp_path):
    image, labels = tmp_path / 'image.png', tmp_path / 'labels.png'
    cv2.imwrite(str(image), np.full((8, 8, 3), 7, np.uint8))
    cv2.imwrite(str(labels), np.full((8, 8), 3, np.uint8))
    return dict(img_path=str(image), seg_map_path=str(labels))


def pipeline(backend='cv2'):
    return NamingPipeline(
        [
            LoadImageFromFile(),
            LoadAnnotations(
                with_bbox=False, with_label=False, with_seg=True, imdecode_backend=backend
            ),
            Resize(scale=(4, 4)),
        ]
    )


@pytest.mark.parametrize('backend', ['cv2', 'pillow'])
@pytest.mark.parametrize('key', ['img_path', 'seg_map_path'])
def test_unreadable_image_or_label_map_is_named(sample, key, backend):
    open(sample[key], 'wb').write(b'no image')
    with pytest.raises(SampleError, match=f'image {sample[key]} .*Load'):
        pipeline(backend)(sample)


def test_error_of_another_step_is_named_and_valid_samples_pass(sample):
    with pytest.raises(SampleError, match=f'{sample["img_path"]} and .*KeyError: lost'):
        NamingPipeline([LoadImageFromFile(), lambda results: results['lost']])(sample)
    assert pipeline()(sample)['img'].shape == (4, 4, 3)
    assert NamingPipeline([lambda results: None, len])(sample) is None


class Mixing:
    size = 3

    def __call__(self, results):
        raise IndexError('index 2 is out of bounds')


def test_transform_of_a_mixture_names_all_samples_and_its_place():
    step = NamedTransform(Mixing(), 4)
    step.place = 'train_dataloader.dataset.pipeline'
    sample = dict(img_path='a.png', mix_results=[dict(img_path='b.png')])
    with pytest.raises(SampleError, match=r'a.png and b.png .*dataset\.pipeline\.4, Mixing: Index'):
        step(sample)
    copied = copy.deepcopy(step)
    assert copied.size == 3 and copied.place == step.place and not hasattr(copied, 'get_indexes')
