"""Event handlers of the page: predictions of one or two models, viewer, messages."""

from types import SimpleNamespace

import numpy as np
import pytest

from mmflatten_lab.app.page import Page
from mmflatten_lab.app.trial import MEAN, TriedModel

CLASSIFIER, SEGMENTOR = (
    'flatten-swin-nano-mixed_digits',
    'semantic-fpn_flatten-swin-nano-mixed_digits',
)


@pytest.fixture(scope='module')
def two(tried) -> Page:
    return Page([tried(CLASSIFIER), tried(SEGMENTOR)])


def test_page_with_two_models(two, picture):
    changed = two.predict(0.3, picture())
    first, second = two.parts
    assert not np.array_equal(changed[first.drawing], changed[second.drawing])
    assert 'score' in changed[first.results] and 'fraction' in changed[second.results]
    for _, parts in zip(two.models, two.parts):
        assert changed[parts.map].shape[2] == 3 and len(changed[parts.layer].choices) == 5
        assert changed[parts.head].value == MEAN
    assert (changed[two.x], changed[two.y]) == (60, 48) and changed[two.message] == ''


def test_page_with_models_of_two_libraries(weights_of, picture):
    names = ('mask-rcnn_flatten-swin-nano_fpn_digits', CLASSIFIER)
    page = Page([TriedModel(*weights_of(name), 'cpu') for name in names])
    changed = page.predict(0.3, picture())
    assert changed[page.message] == '' and 'instance' in changed[page.parts[0].results]


def test_click_layer_and_head_change_the_maps(two, picture):
    session = two.predict(0.3, picture(middle=(30, 30)))[two.session]
    first, second = two.parts

    def maps(changed):
        return [changed[parts.map].tobytes() for parts in (first, second)]

    before = maps(two.attend(session, 60, 48, 1, MEAN, 1, MEAN))
    clicked = two.click(SimpleNamespace(index=[160, 160]), session, 1, MEAN, 1, MEAN)
    assert (clicked[two.x], clicked[two.y]) == (30, 30)  # the image is 640 pixels wide on the page
    assert all(a != b for a, b in zip(before, maps(clicked)))
    other = maps(two.attend(session, 30, 30, 1, MEAN, 1, 0))
    assert other[0] == maps(clicked)[0] and other[1] != maps(clicked)[1]
    assert maps(two.attend(session, 30, 30, 2, MEAN, 1, MEAN))[0] != maps(clicked)[0]


def test_missing_head_becomes_the_mean(two, picture):
    session = two.predict(0.3, picture())[two.session]
    few = session[0].layers[1].num_heads
    changed = two.attend(session, 5, 5, 1, few, 1, 0)
    assert changed[two.parts[0].head].value == MEAN and changed[two.parts[1].head].value == 0
    assert len(changed[two.parts[0].head].choices) == few + 1


@pytest.mark.parametrize(('asked', 'seen'), [((500, -3), (119, 0)), ((None, None), (0, 0))])
def test_pixel_outside_of_the_image_is_clamped(two, picture, asked, seen):
    session = two.predict(0.3, picture())[two.session]
    changed = two.attend(session, *asked, 0, MEAN, 0, MEAN)
    assert (changed[two.x], changed[two.y]) == seen


def test_invalid_file_shows_a_message_and_the_next_image_is_predicted(two, picture, tmp_path):
    wrong = tmp_path / 'letter <b>.png'
    wrong.write_text('Dear reader')
    changed = two.predict(0.3, str(wrong))
    assert (
        'letter &lt;b&gt;.png' in changed[two.message] and str(tmp_path) not in changed[two.message]
    )
    assert changed[two.session] is None and changed[two.results].visible is False
    assert 'image' in two.predict(0.3, None)[two.message].lower()
    assert two.predict(0.3, picture())[two.results].visible is True


def test_viewer_without_a_prediction_shows_a_message(two):
    for changed in (
        two.attend(None, 3, 3, 0, MEAN),
        two.click(SimpleNamespace(index=[3, 3]), None, 0, MEAN),
    ):
        assert list(changed) == [two.message] and 'alert' in changed[two.message]


def test_instances_below_the_score_are_skipped(tried, picture):
    page = Page([tried('mask-rcnn_flatten-swin-nano_fpn_digits')])
    (parts,) = page.parts
    few, many = (page.predict(score, picture())[parts.results] for score in (1.0, 0.0))
    assert few.count('<tr>') == 0 < many.count('<tr>')


def test_stereo_page_takes_a_pair_and_has_no_viewer_without_attention(tried, picture):
    page = Page([tried('psmnet-tiny-fa_digits-stereo'), tried('psmnet-tiny_digits-stereo')])
    left, right = picture('left.png'), picture('right.png', middle=(55, 48))
    changed = page.predict(0.3, left, right)
    attending, plain = page.parts
    assert plain.map is None and changed[attending.map].ndim == 3
    assert 'isparity' in changed[attending.results] and changed[page.message] == ''
    assert page.sides[1] in page.predict(0.3, left, None)[page.message]
    small = picture('small.png', size=(40, 30), middle=(9, 9))
    message = page.predict(0.3, left, small)[page.message]
    assert 'left.png' in message and '30' in message and '96' in message
