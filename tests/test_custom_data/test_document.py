"""The commands of docs/own_data.md: from a folder of images to drawn predictions."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import cv2
import pytest

ROOT = Path(__file__).parents[2]
LOWEST_AP50 = 0.2
# test_init_command.py tries the same commands, with shorter trainings
pytestmark = pytest.mark.full


def blocks(page: str, section: str = '') -> list[tuple[str, str]]:
    """Language and code of a page's blocks, from a heading on."""
    text = (ROOT / 'docs' / page).read_text(encoding='utf-8')
    return re.findall(
        r'^```(\w*)\n(.*?)^```', text[text.index(section) :], re.DOTALL | re.MULTILINE
    )


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> Path:
    """A checkout's `configs` and `tools` with nothing beside them, and the command."""
    place = tmp_path_factory.mktemp('reader')
    for name in ('configs', 'tools'):
        (place / name).symlink_to(ROOT / name)
    (place / 'bin').mkdir()
    for name, command in (('python', ''), ('mmflatten', '-m mmflatten')):
        (place / 'bin' / name).write_text(f'#!/bin/sh\nexec {sys.executable} {command} "$@"\n')
        (place / 'bin' / name).chmod(0o755)
    return place


@pytest.fixture(scope='module')
def shown(folder) -> str:
    """Output of the commands."""
    code = blocks('own_data.md', '## From a folder to drawings')
    (folder / 'relabel.py').write_text(
        next(text for language, text in code if language == 'python')
    )
    script = ''.join(text for language, text in code if language == 'shell')
    environment = {
        **os.environ,
        'PATH': f'{folder}/bin:{os.environ["PATH"]}',
        'PYTHONPATH': str(ROOT),
    }
    result = subprocess.run(
        ['bash', '-euc', script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


def test_page_quotes_the_output_of_init(shown):
    (output,) = (text for language, text in blocks('own_data.md') if language == '')
    assert output in shown


def test_training_reaches_the_lowest_ap(shown):
    *_, tested = re.findall(r'coco/bbox_mAP_50: ([\d.]+)', shown)
    assert float(tested) > LOWEST_AP50


def test_predictions_are_drawn_with_user_classes(shown, folder):
    found = json.loads((folder / 'predictions' / 'predictions.json').read_text())
    assert [category['name'] for category in found['categories']] == ['round', 'straight']
    assert len(found['images']) == 10
    assert {entry['category_id'] for entry in found['annotations']} <= {0, 1}
    drawn = {entry['image_id'] for entry in found['annotations']}
    assert drawn
    for image in found['images']:
        name = Path(image['file_name']).name
        photo = cv2.imread(str(folder / 'data/own/images' / name))
        drawing = cv2.imread(str(folder / 'predictions/drawings' / name))
        assert (photo != drawing).any() == (image['id'] in drawn)
