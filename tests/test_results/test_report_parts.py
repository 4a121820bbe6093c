"""Layers of samples, drawings of figures, and the size of the page."""

import pickle
import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from mmflatten.results.drawing import save_png, svg
from mmflatten.results.figures import Confusion, Lines


@pytest.fixture
def pairs(tmp_path) -> Path:
    """A work dir with nothing but the predictions of 50 stereo pairs, photographs of 640 x 480."""
    rng = np.random.default_rng(0)
    true = dict(
        data=torch.linspace(1, 60, 480 * 640).view(1, 480, 640),
        valid=torch.ones(1, 480, 640).bool(),
    )
    entries = []
    for number in range(20):
        coarse = rng.integers(0, 256, (48, 64, 3), np.uint8)
        path = str(tmp_path / f'{number:02d}.jpg')
        cv2.imwrite(path, cv2.resize(coarse, (640, 480), interpolation=cv2.INTER_CUBIC))
        entries.append(
            dict(
                img_path=path,
                ori_shape=(480, 640),
                gt_disparity=true,
                pred_disparity=dict(data=true['data'] + number / 10),
            )
        )
    work_dir = tmp_path / 'stereo'
    work_dir.mkdir()
    (work_dir / 'results.pkl').write_bytes(pickle.dumps(entries, 2))
    return work_dir


def test_page_of_twenty_photographs_stays_below_3_2_mb(pairs, written):
    page = written(pairs, '--images', '20')
    assert page.size < 3.2e6
    assert len(page.all('figure', class_='sample')) == 20
    assert len(page.all('img')) == 20
    captions = [text for _, text in page.all('figcaption')]
    assert captions[-20].startswith('19.jpg worst, 1.9')
    assert sum('random' in text for text in captions) == 10


@pytest.mark.parametrize(
    'plot, words',
    [
        (Confusion(np.array([[3, 1], [0, 0]]), ['cat', '<b>']), ['cat', '&lt;b&gt;', '0.75']),
        (
            Lines(
                dict(cat=((0, 1), (1, 0.5)), mean=((0, 1), (1, 0.5))),
                'recall',
                'precision',
                mean='mean',
            ),
            ['mean', 'recall', 'precision'],
        ),
        (Lines(dict(one=((1, 2), (3, float('nan'))), none=((), ())), 'iteration'), ['iteration']),
    ],
)
def test_svg_has_text_without_fixed_black_or_styles_of_the_page(plot, words):
    drawing = svg(plot)
    assert drawing.startswith('<svg') and all(word in drawing for word in words)
    assert '#000000' not in drawing and '<style' not in drawing and 'id="axes_1"' not in drawing


def test_ten_lines_have_ten_styles():
    def styles(number: int) -> set:
        plot = Lines(
            {str(line): ((0, 1), (0, line)) for line in range(number)}, 'x', 'y', limits=(0, 9)
        )
        return set(re.findall(r'style="(fill: none; [^"]*stroke: #[^"]*)"', svg(plot)))

    assert len(styles(10)) == len(styles(2)) + 8


def test_logarithmic_axes_show_all_points(tmp_path, monkeypatch):
    """Limits that are fixed before the scale begin below 0, and the lines become one."""
    drawn = []
    monkeypatch.setattr(
        'matplotlib.figure.Figure.savefig', lambda figure, *args, **kwargs: drawn.append(figure)
    )
    save_png(
        tmp_path / 'log.png',
        dict(panel=Lines(dict(a=((49, 400), (49, 20_000))), 'tokens', log=True)),
    )
    ((low, high),) = [axes.get_ylim() for axes in drawn[0].axes]
    assert 10 < low < 49 and 20_000 < high < 100_000
