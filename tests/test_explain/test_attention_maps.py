"""Drawings of attention maps."""

import matplotlib.colors
import numpy as np
import pytest

from mmflatten.explain.drawings import attention_figure

PICTURE = np.full((40, 60, 3), 128, np.uint8)


def one_hot(row, col, value=1.0):
    weights = np.zeros((4, 6), np.float32)
    weights[row, col] = value
    return weights


def panels(figure):
    return [axes for axes in figure.axes if axes.images]


def test_token_is_drawn_over_its_pixels():
    figure = attention_figure(PICTURE, dict(mean=one_hot(1, 4)), (25.0, 35.0), 'a layer')
    first, mean = panels(figure)
    overlay = mean.images[1]
    left, right, bottom, top = overlay.get_extent()
    assert (left, right, top, bottom) == (-0.5, 59.5, -0.5, 39.5) and overlay.get_array()[1, 4] == 1
    assert np.asarray(overlay.get_alpha())[1, 4] > 0.8
    assert np.asarray(overlay.get_alpha()).sum() < 0.9
    for axes in (first, mean):
        assert [tuple(line.get_xydata()[0]) for line in axes.lines] == [(25.0, 35.0)]
    figure.canvas.draw()


@pytest.mark.parametrize(('value', 'colours'), [(1.0, 'autumn'), (-1.0, 'bwr')])
def test_positive_and_negative_weights_have_different_colours(value, colours):
    figure = attention_figure(
        PICTURE, {'head 0': one_hot(0, 0, value) + one_hot(2, 2)}, None, 'a layer'
    )
    overlay = panels(figure)[1].images[1]
    assert overlay.get_cmap().name == colours and not panels(figure)[1].lines
    red, green, blue = matplotlib.colors.to_rgb(overlay.to_rgba(overlay.get_array())[0, 0, :3])
    assert (blue > red) == (value < 0)


def test_many_heads_take_several_rows():
    figure = attention_figure(
        PICTURE, {f'head {i}': one_hot(i % 4, i % 6) for i in range(13)}, None, 'a layer'
    )
    figure.canvas.draw()
    assert len(panels(figure)) == 14
    assert len({axes.get_subplotspec().rowspan.start for axes in figure.axes}) == 3
    attention_figure(
        PICTURE, dict(mean=np.zeros((4, 6), np.float32)), None, 'no weight at all'
    ).canvas.draw()
