"""Checks of detection data: errors, warnings and splits."""

import json
from pathlib import Path

import pytest
from mmengine.config import Config

from mmflatten.custom_data import classification, detection, segmentation, stereo
from mmflatten.custom_data.images import find_images, picture_problems, read_pictures, split
from mmflatten.custom_data.reading import DataError
from tests.test_custom_data.small_data import SIZE, coco, found, read_detection, request

BASE = Config(dict(model=dict(max_disp=48)))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: -len(path.read_bytes()) // 2])


def test_valid_detection_data_is_split(folder):
    data = read_detection(folder, coco())
    assert not data.problems and data.classes == ('round', 'square') and data.counts == (4, 2)
    halves = [json.loads(text) for text in data.lists.values()]
    assert [len(half['images']) for half in halves] == [4, 2]
    ids = []
    for half in halves:
        ids += [image['id'] for image in half['images']]
        annotated = {entry['image_id'] for entry in half['annotations']}
        assert annotated == {image['id'] for image in half['images']}
    assert sorted(ids) == list(range(6))


ANNOTATIONS = {
    'unknown category_id': (dict(category_id=1), True),
    'unknown image_id': (dict(image_id=99), True),
    'no bbox': (dict(bbox=None), True),
    'no area': (dict(area=None), True),
    'no iscrowd': (dict(iscrowd=None), True),
    'box outside its image': (dict(bbox=[64, 4, 20, 20]), True),
    'box over the border': (dict(bbox=[60, 4, 20, 20]), False),
    'box narrower than a pixel, or area 0 or below': (dict(bbox=[4, 4, 0, 20]), False),
    'segmentation that cannot be drawn': (dict(segmentation=[[]]), True),
    'unusable segmentation': (dict(segmentation=[[1, 2, 3, 4]]), False),
    'annotation id 0': (dict(id=0), False),
    'id of annotations repeated or missing': (dict(id=2), True),
}


@pytest.mark.parametrize('name', ANNOTATIONS)
def test_annotation_problem_is_named(name, folder):
    change, stops = ANNOTATIONS[name]
    content = coco()
    content['annotations'][0].update(change)
    data = read_detection(folder, content)
    assert found(data) == {name: stops}
    if stops:
        with pytest.raises(DataError, match=name):
            data.require_usable()
    else:
        data.require_usable()


NAN = float('nan')


@pytest.mark.parametrize(
    'change, name',
    [
        (dict(bbox=[NAN, 4, 20, 20]), 'no bbox'),
        (dict(bbox=[4, 4, float('inf'), 20]), 'no bbox'),
        (dict(area=NAN), 'no area'),
        (dict(segmentation=[[1, 2, 3, 4]]), 'unusable segmentation'),
        (
            dict(segmentation=[[4, 4, 24, 4, 24, 24], [1, 2, 3, 4, 5, 6, 7]]),
            'unusable segmentation',
        ),
        *(
            (dict(segmentation=value), 'segmentation that cannot be drawn')
            for value in (
                [[4, 4, 24, 4, 24, NAN]],
                [[4, 4, 24, 4, 24, '9']],
                [4, 4, 24, 4, 24, 24],
                dict(size=[64, 48], counts='abc'),
                dict(size=[48, 64]),
            )
        ),
    ],
)
def test_invalid_numbers_and_masks_are_named(change, name, folder):
    content = coco()
    content['annotations'][0].update(change)
    assert name in found(read_detection(folder, content))


def test_masks_are_evaluated_only_if_all_are_usable(folder):
    content = coco()
    for i, entry in enumerate(content['annotations']):
        entry['segmentation'] = (
            [[24, 4, 44, 4, 44, 24]]
            if i % 2
            else dict(
                size=[*SIZE],
                counts=[SIZE[0] * 4 + 4, *[20, SIZE[0] - 20] * 19, 20, SIZE[0] * 41 - 4 - 20 + 0],
            )
        )
    data = read_detection(folder, content)
    assert not data.problems and data.masks
    content['annotations'][0]['segmentation'] = [[4, 4, 24, 4]]
    assert not read_detection(folder, content).masks


@pytest.mark.parametrize(
    'kind, change, words',
    [
        ('annotations', dict(category_id=[1]), (r'category_id of annotations\[1\]', r'\[1\]')),
        ('annotations', dict(image_id={}), (r'image_id of annotations\[1\]', '{}')),
        ('annotations', dict(id='a'), (r'id of annotations\[1\]', "'a'")),
        ('annotations', dict(segmentation='abc'), (r'segmentation of annotations\[1\]', "'abc'")),
        ('annotations', 5, (r'annotations\[1\]', '5')),
        ('categories', 'cat', (r'categories\[1\]', "'cat'")),
        ('categories', dict(name=3), (r'name of categories\[1\]', '3')),
        ('images', dict(file_name=3), (r'file_name of images\[1\]', '3')),
        ('images', dict(file_name=None), (r'file_name of images\[1\]', 'None')),
        ('images', dict(width='80'), (r'width of images\[1\]', "'80'")),
    ],
)
def test_wrong_type_names_the_entry(kind, change, words, folder):
    content = coco()
    content[kind][1] = {**content[kind][1], **change} if isinstance(change, dict) else change
    with pytest.raises(DataError, match='(?s)0.json.*' + '.*'.join(words)):
        read_detection(folder, content)


def test_corner_boxes_are_recognised(folder):
    content = coco()
    for entry in content['annotations']:
        entry['bbox'] = [40, 30, 60, 45]
    assert found(read_detection(folder, content))['boxes like [x1, y1, x2, y2]']


ENTRIES = {
    'listed image that does not exist': ('images', dict(file_name='gone.png')),
    'image without width and height': ('images', dict(width=None)),
    'image size differs from the listed size': ('images', dict(width=48, height=64)),
    'id of images repeated or missing': ('images', dict(id=1)),
    'name of categories repeated or missing': ('categories', dict(name='square')),
}


@pytest.mark.parametrize('name', ENTRIES)
def test_image_or_category_problem_is_named(name, folder):
    kind, change = ENTRIES[name]
    content = coco()
    content[kind][0].update(change)
    assert found(read_detection(folder, content)).get(name) is True


def test_category_without_an_id_is_named(folder):
    content = coco()
    del content['categories'][0]['id']
    assert found(read_detection(folder, content))['id of categories repeated or missing'] is True


def test_all_problems_are_reported_together(folder):
    content = coco()
    content['annotations'][0]['category_id'] = 1
    content['annotations'][1]['bbox'] = [99, 4, 20, 20]
    truncate(folder / 'images' / '3.png')
    data = read_detection(folder, content)
    assert found(data) == {
        'unknown category_id': True,
        'box outside its image': True,
        'broken image': True,
    }
    with pytest.raises(DataError, match=r'(?s)unknown category_id \(1\).*outside.*broken image'):
        data.require_usable()


def test_category_order_must_match_between_parts(folder):
    val = coco()
    val['categories'].reverse()
    assert found(read_detection(folder, coco(), val)) == {
        'categories differ between training and validation': True
    }


def test_class_without_training_objects_is_an_error(folder):
    train, val = coco(), coco()
    train['images'], val['images'] = train['images'][:3], val['images'][3:]
    train['annotations'] = [
        entry for entry in train['annotations'][:6] if entry['category_id'] == 7
    ]
    val['annotations'] = val['annotations'][6:]
    assert found(read_detection(folder, train, val)) == {
        'class without an object in training': True
    }


@pytest.mark.parametrize('classes', [None, ['square']])
def test_training_without_objects_is_an_error(classes, folder):
    content = coco()
    content['annotations'] = [
        entry for entry in content['annotations'] if classes and entry['category_id'] == 7
    ]
    (problem,) = read_detection(folder, content, classes=classes).problems
    assert problem.stops
    assert problem.where == [f'annotations of {folder / "0.json"}']
    assert 'square' in str(problem)


def test_classes_option_keeps_the_file_order(folder):
    assert read_detection(folder, coco(), classes=['square']).classes == ('square',)
    assert read_detection(folder, coco(), classes=['square', 'round']).classes == (
        'round',
        'square',
    )
    with pytest.raises(DataError, match='(?s)round, square.*oval'):
        read_detection(folder, coco(), classes=['oval'])


@pytest.mark.parametrize(
    'content, word',
    [
        ({**coco(), 'annotations': 5}, 'annotations'),
        (dict(shapes=[], imagePath='0.png'), 'images'),
        (dict(images=[]), 'categories'),
        ([], 'images'),
    ],
)
def test_annotations_of_another_task_are_an_error(content, word, folder):
    with pytest.raises(DataError, match=f'(?s)0.json.*{word}'):
        read_detection(folder, content)


def test_paths_of_another_task_are_an_error(folder):
    file = folder / 'a.json'
    file.write_text(json.dumps(coco()))
    for module, ann, words in (
        (detection, folder / 'images', '(?s)images.*--task seg'),
        (segmentation, file, '(?s)a.json.*--task det'),
        (classification, file, 'a.json:1.*column'),
        (stereo, file, 'left, right, disparity'),
    ):
        with pytest.raises(DataError, match=words):
            module.read(request(folder, ann), BASE)


def test_duplicate_images_are_errors_only_across_parts(folder):
    paths = find_images(folder / 'images')
    copies = [path.with_name(f'copy_{path.name}') for path in paths[:2]]
    for path, copy in zip(paths, copies):
        copy.write_bytes(path.read_bytes())
    read = read_pictures([*paths, *copies])
    problems = picture_problems(read, paths, copies[:1])
    assert [(problem.name.partition(':')[0], problem.stops) for problem in problems] == [
        ('leakage', True)
    ]
    assert str(copies[0]) in str(problems[0]) and str(paths[0]) in str(problems[0])
    assert [problem.stops for problem in picture_problems(read, [*paths, *copies], [])] == [False]
    for part in split(read, 0.3):  # a copy goes where its twin goes
        names = {path.name for path in part}
        assert all(
            (path.name in names) == (copy.name in names) for path, copy in zip(paths, copies)
        )


def test_split_depends_only_on_content(folder):
    read = read_pictures(find_images(folder / 'images'))
    renamed = {
        path.with_name(f'{9 - int(path.stem)}.png'): picture for path, picture in read.items()
    }
    contents = split_contents(read)
    assert contents == split_contents(dict(reversed(renamed.items())))
    assert [len(part) for part in contents] == [4, 2]


def split_contents(pictures) -> list[set]:
    """The digests of the images of each part."""
    contents = []
    for part in split(pictures, 0.3):
        contents.append({pictures[path].digest for path in part})
    return contents


def test_normalised_boxes_are_an_error(folder):
    content = coco()
    for annotation in content['annotations']:
        annotation['bbox'] = [0.1, 0.1, 0.5, 0.4]
    data = read_detection(folder, content)
    assert found(data) == {'boxes look normalised': True}


def test_objects_are_counted_as_training_uses_them(folder):
    content = coco()
    for annotation in content['annotations'][:5]:  # three round, two square
        annotation['bbox'] = [4, 4, 0.5, 20]
    data = read_detection(folder, content)
    counted = ' '.join(fact for fact in data.facts if fact.startswith('class '))
    assert sum(int(word) for word in counted.split() if word.isdigit()) == 7


def test_order_of_classes_is_that_of_the_file(folder):
    assert read_detection(folder, coco(), classes=['square', 'round']).classes == (
        'round',
        'square',
    )
