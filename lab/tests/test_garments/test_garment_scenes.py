"""Garment scenes: outlines, classes and disjoint splits."""

import json

import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO

from mmflatten.datasets.build import content_hash
from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes
from mmflatten.datasets.stereo import SceneFlowDataset
from mmflatten_lab.garments.fashion import GARMENT_CLASSES, load_garments
from mmflatten_lab.garments.scenes import garment_mask, garments, render_garment

FOLDERS = {'train': 'training', 'val': 'validation'}


def test_garment_mask_excludes_dust():
    image = np.zeros((28, 28), dtype=np.uint8)
    image[8:20, 8:20] = 200
    image[10, 10] = 0  # a hole stays one
    image[2, 2] = 255  # a speck
    image[24, 4:24] = 3  # a faint streak
    expected = image == 200
    np.testing.assert_array_equal(garment_mask(image), expected)


@pytest.mark.parametrize('side', [28, 56, 112])
def test_rendered_garment_keeps_area_and_shade(fashion_files, side):
    images = load_garments('val', fashion_files).images[:20]
    # not the straps of a sandal, which thin out
    for image in images[(images > 0).sum(axis=(1, 2)) > 200]:
        opacity, shade = render_garment(image, side)
        mask = garment_mask(image)
        assert (opacity >= 0.5).sum() == pytest.approx(mask.sum() * (side / 28) ** 2, rel=0.25)
        assert opacity.dtype == shade.dtype == np.float32 and opacity.shape == shade.shape
        assert opacity.any(axis=1).all() and 0 <= shade.min() and shade.max() <= 1
        assert shade[opacity > 0.5].mean() == pytest.approx(image[mask].mean() / 255, abs=0.1)


@pytest.mark.parametrize('split', FOLDERS)
def test_annotations_have_the_class_of_the_garment(garment_root, fashion_files, split):
    coco = COCO(garment_root / 'annotations' / f'instances_{split}.json')
    assert [category['name'] for category in coco.loadCats(coco.getCatIds())] == list(
        GARMENT_CLASSES
    )
    labels = load_garments(split, fashion_files).labels
    first = 0 if split == 'train' else 60_000
    for item in coco.loadAnns(coco.getAnnIds()):
        name = coco.imgs[item['image_id']]['file_name']
        index_map = np.asarray(Image.open(garment_root / 'annotations' / FOLDERS[split] / name))
        assert labels[item['garment'] - first] == item['category_id'] - 1
        assert (index_map[coco.annToMask(item).astype(bool)] == item['category_id'] + 1).all()
    crops = sorted(path.name for path in (garment_root / 'crops' / split).iterdir())
    expected = [f'{label}_{name.replace(" ", "-")}' for label, name in enumerate(GARMENT_CLASSES)]
    assert crops == expected
    assert len(list((garment_root / 'crops' / split).rglob('*.png'))) == len(coco.anns)


def test_splits_share_no_garment_and_no_photograph(garment_root, fashion_files):
    content = {
        split: json.loads((garment_root / 'annotations' / f'instances_{split}.json').read_text())
        for split in FOLDERS
    }
    used = {
        split: {item['garment'] for item in part['annotations']} for split, part in content.items()
    }
    assert not used['train'] & used['val'] and min(map(len, used.values())) > 4
    source = garments(fashion_files)
    names = [set(source.load_photographs(split).names) for split in FOLDERS]
    assert not names[0] & names[1] and [len(part) for part in names] == [7, 3]
    for split, known in zip(FOLDERS, names):
        assert {image['background']['photograph'] for image in content[split]['images']} <= known


def test_photographs_have_listed_licences(garment_root):
    for split in FOLDERS:
        content = json.loads((garment_root / 'annotations' / f'instances_{split}.json').read_text())
        names = {item['id']: item['name'] for item in content['licenses']}
        for image in content['images']:
            ours = 'Attribution' in names[image['license']]
            assert ours == (image['background']['photograph'] in ('china.jpg', 'flower.jpg'))


def test_same_seed_gives_same_bytes(tmp_path, fashion_files):
    options = SceneOptions(train=2, val=1, size=48)
    for name in 'ab':
        build_scenes(tmp_path / name, options, garments(fashion_files))
    assert content_hash(tmp_path / 'a') == content_hash(tmp_path / 'b')
    with pytest.raises(FileExistsError, match='other files than digit scenes'):
        build_scenes(tmp_path / 'a', options, force=True)


def test_garment_stereo_pairs_load_as_sceneflow(tmp_path, fashion_files):
    manifest = build_stereo_scenes(
        tmp_path / 'x', StereoSceneOptions(train=2, val=1, size=32), garments(fashion_files)
    )
    for split, number in (('TRAIN', 2), ('TEST', 1)):
        dataset = SceneFlowDataset(
            data_root=str(tmp_path / 'x'),
            split=split,
            pipeline=[
                dict(type='mmflatten.LoadStereoPair'),
                dict(type='mmflatten.LoadDisparity'),
                dict(type='mmflatten.PackStereoInputs'),
            ],
        )
        assert (
            len(dataset) == number
            and dataset[0]['data_samples'].gt_disparity.data.max() <= 0.2 * 64
        )
    listed = json.loads((tmp_path / 'x' / 'scenes_TRAIN.json').read_text())
    assert sum(len(scene['garments']) for scene in listed) == manifest['instances']['train']
