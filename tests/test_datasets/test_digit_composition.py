"""Glyphs, canvas and random scenes: occlusion, visibility and splits."""

import dataclasses
import sys

import numpy as np
import pytest

from mmflatten.datasets.scenes.canvas import Canvas, Sprite
from mmflatten.datasets.scenes.digits import DIGITS, load_glyphs
from mmflatten.datasets.scenes.glyph import render_glyph
from mmflatten.datasets.scenes.scene import MIN_CONTRAST, MIN_VISIBLE, sample_scene


def square(value: float, side: int = 4, **place) -> Sprite:
    opacity = np.ones((side, side), dtype=np.float32)
    return Sprite(
        opacity, np.full((side, side, 3), value, dtype=np.float32), label=1, number=0, **place
    )


def black(height: int = 8, width: int = 10) -> np.ndarray:
    return np.zeros((height, width, 3), dtype=np.uint8)


def test_later_sprite_hides_earlier_one():
    canvas = Canvas(black())
    canvas.paste(square(100, top=0, left=0))
    canvas.paste(square(200, top=2, left=2))
    first, second = canvas.masks()
    assert (first.sum(), second.sum()) == (12, 16)
    assert not (first & second).any()
    assert canvas.picture()[2, 2, 0] == 200 and canvas.picture()[1, 1, 0] == 100
    np.testing.assert_allclose(canvas.visible_fractions(), [0.75, 1.0])


def test_visible_fractions_does_not_paste():
    canvas = Canvas(black())
    canvas.paste(square(100, top=0, left=0))
    np.testing.assert_allclose(canvas.visible_fractions(square(200, top=0, left=2)), [0.5, 1.0])
    assert canvas.masks().shape[0] == 1 and canvas.picture().max() == 100


@pytest.mark.parametrize(
    'top, left, area', [(-2, -1, 6), (6, 8, 4), (-4, 0, 0), (20, 30, 0), (-20, 3, 0)]
)
def test_sprite_is_cropped_at_the_border(top, left, area):
    canvas = Canvas(black())
    canvas.paste(square(100, top=top, left=left))
    assert canvas.masks()[0].sum() == area
    assert (canvas.picture()[..., 0] == 100).sum() == area


def test_moved_sprite_keeps_its_pixels():
    sprite = square(100, top=1, left=1)
    moved, canvas = dataclasses.replace(sprite, left=4), Canvas(black())
    canvas.paste(moved)
    assert canvas.masks()[0][1:5, 4:8].all() and canvas.masks()[0].sum() == 16


def test_soft_edges_are_rim_only_on_background():
    soft = dataclasses.replace(
        square(100),
        opacity=np.array([[0.3, 1.0, 0.1]], dtype=np.float32),
        colour=np.full((1, 3, 3), 100, dtype=np.float32),
    )
    canvas = Canvas(black())
    canvas.paste(soft)
    assert canvas.rim[0, :3].tolist() == [True, False, False]
    canvas = Canvas(black())
    canvas.paste(square(50))
    canvas.paste(soft)
    assert canvas.owner[0, :3].tolist() == [0, 1, 0] and not canvas.rim.any()


@pytest.mark.parametrize('angle', [0.0, 25.0, -25.0])
@pytest.mark.parametrize('height', [12, 30, 80])
def test_rendered_glyph_has_its_height(height, angle):
    glyphs = load_glyphs('train')
    for position in range(5):
        opacity = render_glyph(glyphs.images[position], height, angle)
        assert 0.7 * height < opacity.shape[0] < 1.35 * height
        assert opacity.max() == 1 and opacity.min() == 0
        assert opacity[0].any()
        assert opacity[-1].any()
        assert opacity[:, 0].any()
        assert opacity[:, -1].any()


def test_glyph_rotates_counter_clockwise():
    bar = np.zeros((8, 8), dtype=np.float32)
    bar[1:7, 3:5] = 1
    rows, columns = np.nonzero(render_glyph(bar, 64, angle=20.0) > 0.5)
    assert np.corrcoef(rows, columns)[0, 1] > 0.5  # its top leans to the left


def test_glyph_outline_is_smooth():
    opacity = render_glyph(load_glyphs('train').images[0], 64)
    soft = ((opacity > 0) & (opacity < 1)).mean()
    outline = (
        np.abs(np.diff((opacity > 0.5).astype(int), axis=0)).sum()
        + np.abs(np.diff((opacity > 0.5).astype(int), axis=1)).sum()
    ) / opacity.size
    assert 0.5 * outline < soft < 2 * outline  # an edge is about one pixel wide


def test_missing_scikit_learn_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, 'sklearn.datasets', None)
    with pytest.raises(ImportError, match='pip install scikit-learn'):
        load_glyphs('train')


def test_sources_share_no_digit_and_no_background():
    train, val = load_glyphs('train'), load_glyphs('val')
    assert not set(train.numbers) & set(val.numbers)
    train_images = {image.tobytes() for image in train.images}
    val_images = {image.tobytes() for image in val.images}
    assert not train_images & val_images and len(train_images | val_images) == 1797
    assert (np.bincount(val.labels) >= 30).all()
    train, val = DIGITS.load_photographs('train'), DIGITS.load_photographs('val')
    for name, left in zip(train.names, train.regions):
        assert train.first_column + left.shape[1] < val.first_column, name


@pytest.mark.parametrize('height, width', [(160, 160), (32, 32), (512, 512), (96, 300)])
def test_background_crop_has_size_and_origin(height, width):
    photographs, rng = DIGITS.load_photographs('val'), np.random.default_rng(0)
    for _ in range(20):
        pixels, source = photographs.crop(rng, height, width)
        x, y, cut_width, cut_height = source['box']
        assert pixels.shape == (height, width, 3) and pixels.dtype == np.uint8
        assert 448 <= x and x + cut_width <= 640 and 0 <= y and y + cut_height <= 427


@pytest.mark.parametrize('size', [32, 160])
def test_scene_digits_are_whole_and_visible(size):
    glyphs, photographs = load_glyphs('train'), DIGITS.load_photographs('train')
    counts = []
    for number in range(40):
        scene = sample_scene(np.random.default_rng(number), glyphs, photographs, size)
        counts.append(len(scene.sprites))
        assert scene.picture.shape == (size, size, 3)
        assert scene.masks.shape == (
            len(scene.sprites),
            size,
            size,
        )
        for sprite, mask in zip(scene.sprites, scene.masks):
            assert mask.sum() >= MIN_VISIBLE * sprite.solid.sum()
            assert sprite.top >= 0 and sprite.top + sprite.opacity.shape[0] <= size
            assert sprite.left >= 0 and sprite.left + sprite.opacity.shape[1] <= size
    assert min(counts) >= 1 and max(counts) <= 8 and len(set(counts)) > 3


def test_digits_overlap_sometimes_and_stand_out():
    glyphs, photographs = load_glyphs('train'), DIGITS.load_photographs('train')
    hidden, weak = 0, 0
    for number in range(40):
        scene = sample_scene(np.random.default_rng(number), glyphs, photographs, 160)
        for sprite, mask in zip(scene.sprites, scene.masks):
            hidden += mask.sum() < sprite.solid.sum()
            around = scene.picture[scene.index_map == 1].mean(axis=0)
            weak += np.linalg.norm(scene.picture[mask].mean(axis=0) - around) < MIN_CONTRAST / 4
    assert hidden > 20 and weak < 20


def test_scene_depends_on_seed():
    glyphs, photographs = load_glyphs('val'), DIGITS.load_photographs('val')
    first, again, other = (
        sample_scene(np.random.default_rng(seed), glyphs, photographs, 96).picture
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_scenes_of_several_times_the_reference_show_more_digits_of_the_same_sizes():
    glyphs, photographs = load_glyphs('val'), DIGITS.load_photographs('val')
    small, large = [], []
    for number in range(12):
        small.append(sample_scene(np.random.default_rng(number), glyphs, photographs, 96))
        wide = dataclasses.replace(glyphs, reference=96)
        large.append(sample_scene(np.random.default_rng(number), wide, photographs, 192))
    small_heights, large_heights = sprite_heights(small), sprite_heights(large)
    assert np.mean(large_heights) == pytest.approx(np.mean(small_heights), rel=0.15)
    assert 3 < len(large_heights) / len(small_heights) < 5
    assert large[0].picture.shape == (192, 192, 3) and large[0].background == small[0].background
    with pytest.raises(ValueError, match='size: expected a multiple of 96, got 100'):
        sample_scene(np.random.default_rng(0), wide, photographs, 100)


def sprite_heights(scenes) -> list[int]:
    heights = []
    for scene in scenes:
        heights += [sprite.opacity.shape[0] for sprite in scene.sprites]
    return heights
