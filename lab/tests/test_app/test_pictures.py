"""Checks of uploaded images."""

import numpy as np
import pytest
from PIL import Image

from mmflatten_lab.app.pictures import MAX_PIXELS, attention_pixels, check_picture


def test_common_images_pass(picture):
    for name in ('scene.png', 'scene.jpg'):
        check_picture(picture(name))


def test_text_file_is_rejected(tmp_path):
    file = tmp_path / 'letter.png'
    file.write_text('Dear reader')
    with pytest.raises(ValueError, match=r'letter\.png'):
        check_picture(str(file))


@pytest.mark.parametrize(
    ('size', 'limit'), [((1, 1), '8'), ((7, 5000), '8'), ((5000, 4000), str(MAX_PIXELS // 10**6))]
)
def test_image_size_is_limited(tmp_path, size, limit):
    file = tmp_path / 'scene.png'
    Image.new('1', size).save(file)
    with pytest.raises(ValueError, match=f'scene.png.* {limit} .*{size[0]} x {size[1]}'):
        check_picture(str(file))


def test_decompression_bomb_is_rejected(tmp_path):
    file = tmp_path / 'bomb.png'
    Image.new('1', (20000, 20000)).save(file)
    with pytest.raises(ValueError, match=r'bomb\.png'):
        check_picture(str(file))


PICTURE = np.full((40, 60, 3), 128, np.uint8)


def one_hot(row, col, value=1.0):
    weights = np.zeros((4, 6), np.float32)
    weights[row, col] = value
    return weights


@pytest.mark.parametrize('size', [(40, 60), (100, 30)])
def test_one_map_fills_the_pixels_of_its_drawing(size):
    height, width = size
    drawn = attention_pixels(np.full((*size, 3), 128, np.uint8), one_hot(1, 4), None, 120)
    assert max(drawn.shape[:2]) == 120 and drawn.shape[2] == 3
    assert drawn.shape[1] == pytest.approx(max(1, width * 120 / max(size)), abs=1)
    coloured = np.argwhere(np.ptp(drawn.astype(int), axis=2) > 64)
    rows, columns = coloured[:, 0] * 4 / drawn.shape[0], coloured[:, 1] * 6 / drawn.shape[1]
    assert set(rows.astype(int)) == {1} and columns.mean() == pytest.approx(4.5, abs=0.6)
    assert set(attention_pixels(PICTURE, None, None, 60).flat) == {128}
