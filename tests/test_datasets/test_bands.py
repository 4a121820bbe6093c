"""Images of many bands: reading and normalising."""

import cv2
import numpy as np
import pytest
import tifffile

from mmflatten.custom_data.bands import moments_of, norms_of
from mmflatten.custom_data.reading import DataError
from mmflatten.datasets.bands import BandsError, LoadBands, read_bands


def values(*shape, dtype=np.uint16):
    return np.random.default_rng(0).integers(0, 250, shape).astype(dtype)


def write_samples(path, array):
    tifffile.imwrite(path, array, photometric='minisblack', planarconfig='contig')


def write_planes(path, array):
    planes = np.moveaxis(array, -1, 0)
    tifffile.imwrite(path, planes, photometric='minisblack', planarconfig='separate')


def write_pages(path, array):
    with tifffile.TiffWriter(path) as file:
        for band in np.moveaxis(array, -1, 0):
            file.write(band, photometric='minisblack')


FILES = {
    'array': ('a.npy', np.save),
    'bands first': ('a.npy', lambda path, array: np.save(path, np.moveaxis(array, -1, 0))),
    'samples': ('a.tif', write_samples),
    'planes': ('a.tiff', write_planes),
    'pages': ('a.tif', write_pages),
}


@pytest.mark.parametrize('kind', FILES)
@pytest.mark.parametrize('dtype', [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize('bands', [2, 5, 13])
def test_all_bands_are_read(kind, dtype, bands, tmp_path):
    name, write = FILES[kind]
    array = values(24, 31, bands, dtype=dtype)
    write(tmp_path / name, array)
    found = read_bands(tmp_path / name)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, array)


def test_grey_and_colour_files_keep_their_bits_and_order(tmp_path):
    grey = values(8, 9) * 250
    cv2.imwrite(str(tmp_path / 'grey.png'), grey)
    np.testing.assert_array_equal(read_bands(tmp_path / 'grey.png')[..., 0], grey)
    rgba = values(8, 9, 4, dtype=np.uint8)
    cv2.imwrite(str(tmp_path / 'rgba.png'), rgba[..., [2, 1, 0, 3]])
    np.testing.assert_array_equal(read_bands(tmp_path / 'rgba.png'), rgba)


@pytest.mark.parametrize(
    'name, content',
    [('a.npy', b'\x93NUMPY'), ('a.npy', b'x' * 99), ('a.tif', b'II*\0'), ('a.png', b'GIF89a')],
)
def test_damaged_files_are_named(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BandsError, match=name):
        read_bands(tmp_path / name)


def test_objects_in_arrays_are_refused(tmp_path):
    np.save(tmp_path / 'a.npy', np.array([{}]), allow_pickle=True)
    with pytest.raises(BandsError, match='a.npy'):
        read_bands(tmp_path / 'a.npy')


def test_load_bands_normalises_by_the_norms_of_all_pixels(tmp_path):
    first, second = values(6, 7, 4), values(9, 5, 4) * 3
    norms = norms_of([moments_of(first), moments_of(second)])
    pixels = np.concatenate([first.reshape(-1, 4), second.reshape(-1, 4)]).astype(float)
    np.testing.assert_allclose(norms.mean, pixels.mean(0), rtol=1e-4)
    np.testing.assert_allclose(norms.std, pixels.std(0), rtol=1e-4)
    np.save(tmp_path / 'a.npy', first)
    loaded = LoadBands(norms.mean, norms.std)(dict(img_path=str(tmp_path / 'a.npy')))
    expected = (first - np.array(norms.mean)) / np.array(norms.std)
    np.testing.assert_allclose(loaded['img'], expected, rtol=1e-5, atol=1e-5)
    assert loaded['img_shape'] == loaded['ori_shape'] == (6, 7)
    with pytest.raises(DataError, match='4, 5'):
        norms_of([moments_of(first), moments_of(values(3, 3, 5))])
    np.save(tmp_path / 'b.npy', values(6, 7, 3))
    with pytest.raises(BandsError, match='b.npy'):
        LoadBands(norms.mean, norms.std)(dict(img_path=str(tmp_path / 'b.npy')))
