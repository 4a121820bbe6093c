"""Data sets that their library cannot read are named, with where they look for their data."""
import shutil
from pathlib import Path

import pytest

CATEGORIES = "[{'id': 1, 'name': 'dark'}]".replace("'", '"')


def last_line(capsys) -> str:
    return capsys.readouterr().err.rstrip().splitlines()[-1]


def test_a_folder_without_images_or_with_other_classes_is_named(tiny, tools, capsys):
    for image in tiny.images:
        image.unlink()
    assert tools.train([tiny.config]) == 1
    line = last_line(capsys)
    assert line.startswith(f'CustomDataset ({tiny.data}/) cannot be read: RuntimeError: Found 0 files'), line
    shutil.rmtree(next(tiny.data.iterdir()))
    assert tools.train([tiny.config, '--cfg-options', "train_dataloader.dataset.metainfo.classes=('a','b')"]) == 1
    line = last_line(capsys)
    assert line.startswith(f'CustomDataset ({tiny.data}/) cannot be read: AssertionError: The number of subfolders (1)')


@pytest.mark.parametrize('text, words', [
    ('{}', 'cannot be read: '),
    ('[]', "cannot be read: AssertionError: annotation file format <class 'list'> not supported"),
    (f'{{"images": [], "annotations": [], "categories": {CATEGORIES}}}', 'has no samples; check data_root'),
])
def test_json_that_is_not_coco_is_named(tiny, tools, capsys, text, words):
    annotations = Path(tiny.folder, 'instances.json')
    annotations.write_text(text)
    tiny.write_config(extra=f'''
        train_dataloader = dict(batch_size=4, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=True),
                                dataset=dict(type='mmdet.CocoDataset', ann_file='{annotations}', pipeline=[],
                                             metainfo=dict(classes=('dark', ))))
    ''')
    assert tools.train([tiny.config]) == 1
    line = last_line(capsys)
    assert line.startswith(f'CocoDataset ({annotations})') and words in line, line
