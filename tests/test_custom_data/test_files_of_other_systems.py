"""Annotations as other systems and tools write them: what is read, and what is said."""

import json
from pathlib import Path

import pytest

from mmflatten.custom_data.classification import read_table
from mmflatten.custom_data.coco import read_coco
from mmflatten.custom_data.reading import similar_names
from tests.test_custom_data.small_data import coco, found, read_detection, write_image


def write_json(folder: Path, content: dict) -> Path:
    file = folder / 'a.json'
    file.write_text(json.dumps(content))
    return file


def test_names_in_another_case_are_those_of_the_files(folder):
    content = coco()
    for image in content['images']:
        image['file_name'] = image['file_name'].upper()
    part = read_coco(write_json(folder, content), folder / 'images')
    assert part.converted and all(path.is_file() for path in part.images)


def test_names_that_share_a_lower_case_are_not_guessed(folder):
    for name in ('A.png', 'a.png'):
        write_image(folder / 'images' / name, 0)
    content = coco()
    content['images'][0]['file_name'] = 'A.PNG'
    assert found(read_detection(folder, content))['listed image that does not exist']


@pytest.mark.parametrize(
    'name', ['{}.PNG', '{folder}/images/{}.png', '{folder}/images/../images/{}.png']
)
def test_class_list_names_images_as_another_system(name, folder):
    names = [name.format(number, folder=folder) for number in range(6)]
    lines = [f'{name},{"dog" if number % 2 else "cat"}' for number, name in enumerate(names)]
    (folder / 'a.csv').write_text('\n'.join(['image,label', *lines]))
    classes, problems = read_table(folder / 'a.csv', folder / 'images')
    assert problems == []
    assert classes['dog'] == [folder / 'images' / f'{number}.png' for number in (1, 3, 5)]


def test_split_column_of_a_class_list_is_mentioned(folder):
    lines = [f'{number}.png,{"dog" if number % 2 else "cat"},train' for number in range(6)]
    (folder / 'a.csv').write_text('\n'.join(['image,label,Split', *lines]))
    _, (problem,) = read_table(folder / 'a.csv', folder / 'images')
    assert not problem.stops and problem.where == [f'Split in {folder / "a.csv"}:1']


@pytest.mark.parametrize('key, value', [('image_id', '1'), ('category_id', None)])
def test_unknown_id_is_shown(key, value, folder):
    content = coco()
    content['annotations'][3][key] = value
    problems = {problem.name: problem.where for problem in read_detection(folder, content).problems}
    assert problems[f'unknown {key}'] == [f'annotation 4 in {folder / "0.json"} ({value!r})']


def test_class_names_that_differ_in_case_or_blanks_are_mentioned():
    (problem,) = similar_names(['Car', 'bus', 'car ', 'BUS stop'])
    assert not problem.stops and problem.where == ["'Car' and 'car '"]
    assert similar_names(['car', 'cars']) == []
