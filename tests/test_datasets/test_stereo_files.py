"""Disparity files: exact round trips, and errors that name damaged files."""

import re

import cv2
import numpy as np
import pytest

from mmflatten.datasets.stereo import (
    StereoDataError,
    read_disparity,
    read_kitti_disparity,
    read_pfm,
    write_pfm,
)
from mmflatten.datasets.stereo.files import read_image, read_mask


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(0).uniform(0.1, 90, (5, 7)).astype(np.float32)


def test_pfm_round_trip_is_exact(tmp_path, values):
    write_pfm(tmp_path / 'a.pfm', values)
    write_pfm(tmp_path / 'b.pfm', values)
    read = read_disparity(tmp_path / 'a.pfm')
    assert read.dtype == np.float32 and read.flags.c_contiguous
    np.testing.assert_array_equal(read, values)
    assert (tmp_path / 'a.pfm').read_bytes() == (tmp_path / 'b.pfm').read_bytes()


def test_pfm_rows_are_stored_upwards_as_in_opencv(tmp_path, values):
    write_pfm(tmp_path / 'a.pfm', values)
    content = (tmp_path / 'a.pfm').read_bytes()
    assert content.startswith(b'Pf\n7 5\n-1.0\n')
    assert np.frombuffer(content[-4 * 7 :], '<f4').tolist() == values[0].tolist()
    np.testing.assert_array_equal(cv2.imread(str(tmp_path / 'a.pfm'), cv2.IMREAD_UNCHANGED), values)


def test_pfm_may_be_big_endian_with_other_spacing(tmp_path, values):
    (tmp_path / 'a.pfm').write_bytes(b'Pf 7 5\n1.000000\n' + values[::-1].astype('>f4').tobytes())
    np.testing.assert_array_equal(read_pfm(tmp_path / 'a.pfm'), values)


def test_truncated_pfm_is_named(tmp_path, values):
    path = tmp_path / 'cut.pfm'
    write_pfm(path, values)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(
        StereoDataError,
        match=f'disparity {re.escape(str(path))} is truncated: expected 140 bytes .*, got 130',
    ):
        read_disparity(path)


@pytest.mark.parametrize(
    'content, words',
    [
        (b'', 'no PFM header'),
        (b'Pf\n7', 'no PFM header'),
        (b'\x89PNG\r\n', 'no PFM header'),
        (b'PF\n1 1\n-1\n' + bytes(12), 'got three'),
        (b'Pf\n1 1\n-.\n' + bytes(4), 'no PFM header'),
        (b'Pf\n0 3\n-1\n', 'does not match its header: .* 0 x 3 pixels'),
        # The second byte of this line end would be read as the first value.
        (
            b'Pf\r\n1 1\r\n-1.0\r\n' + bytes(4),
            'does not match its header: expected 4 bytes .*, got 5',
        ),
    ],
)
def test_invalid_pfm_is_an_error(tmp_path, content, words):
    (tmp_path / 'x.pfm').write_bytes(content)
    with pytest.raises(StereoDataError, match=f'x.pfm.*{words}'):
        read_disparity(tmp_path / 'x.pfm')


def test_kitti_disparity_is_scaled_and_zero_is_unknown(tmp_path):
    path = tmp_path / 'k.png'
    cv2.imwrite(str(path), np.array([[0, 1, 256], [640, 65535, 0]], dtype=np.uint16))
    np.testing.assert_array_equal(
        read_disparity(path),
        np.array([[np.inf, 1 / 256, 1], [2.5, 65535 / 256, np.inf]], dtype=np.float32),
    )


def test_kitti_disparity_requires_16_bits(tmp_path):
    cv2.imwrite(str(tmp_path / 'k.png'), np.zeros((2, 3), np.uint8))
    with pytest.raises(
        StereoDataError, match='k.png: expected a grey PNG with 16 bits, got 8 bits and 1 channels'
    ):
        read_kitti_disparity(tmp_path / 'k.png')


def test_unknown_format_and_missing_file_are_named(tmp_path):
    with pytest.raises(StereoDataError, match=r'x.npy: expected .*, got .npy'):
        read_disparity(tmp_path / 'x.npy')
    with pytest.raises(FileNotFoundError, match='gone.pfm'):
        read_disparity(tmp_path / 'gone.pfm')


def test_images_are_bgr_and_masks_are_bool(tmp_path):
    picture = np.zeros((2, 3, 3), np.uint8)
    picture[0, 0] = 10, 20, 30
    cv2.imwrite(str(tmp_path / 'a.png'), picture)
    assert read_image(tmp_path / 'a.png')[0, 0].tolist() == [10, 20, 30]
    cv2.imwrite(str(tmp_path / 'm.png'), np.array([[0, 255]], np.uint8))
    assert read_mask(tmp_path / 'm.png').tolist() == [[False, True]]
    (tmp_path / 'b.png').write_bytes(b'')
    with pytest.raises(StereoDataError, match='b.png cannot be decoded'):
        read_image(tmp_path / 'b.png')
