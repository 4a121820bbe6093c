"""Names of classes in drawings: a font of the system for other scripts, dollars as they are, names
left out.
"""

import cv2
import matplotlib.font_manager
import numpy as np
import pytest
import torch
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from mmflatten.engine import fonts
from mmflatten.engine.predictions import draw_sample
from mmflatten.results.drawing import save_png
from mmflatten.results.figures import Confusion
from mmflatten.tasks import tasks

IMAGE = np.full((224, 224, 3), 99, np.uint8)


@pytest.fixture(autouse=True)
def known_fonts(monkeypatch):
    """The fonts of Matplotlib alone."""
    manager = matplotlib.font_manager.fontManager
    own = [font for font in manager.ttflist if 'mpl-data' in font.fname]
    monkeypatch.setattr(manager, 'ttflist', own)
    fonts.fonts_for.cache_clear()
    fonts.say_once.cache_clear()
    return own


@pytest.fixture
def han(known_fonts, tmp_path):
    """An installed font, which has U+6D51 as a triangle, and blanks for ASCII."""
    builder, pen = FontBuilder(1000, isTTF=True), TTGlyphPen(None)
    for step, point in ((pen.moveTo, (0, 0)), (pen.lineTo, (900, 0)), (pen.lineTo, (450, 900))):
        step(point)
    pen.closePath()
    builder.setupGlyphOrder(['.notdef', 'blank', 'han'])
    builder.setupCharacterMap({**dict.fromkeys(range(32, 127), 'blank'), 0x6D51: 'han'})
    builder.setupGlyf(
        {'.notdef': TTGlyphPen(None).glyph(), 'blank': TTGlyphPen(None).glyph(), 'han': pen.glyph()}
    )
    builder.setupHorizontalMetrics(dict.fromkeys(['.notdef', 'blank', 'han'], (1000, 0)))
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    builder.setupNameTable(dict(familyName='Test Han', styleName='Regular'))
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / 'han.ttf')
    known_fonts.append(
        matplotlib.font_manager.ttfFontProperty(
            matplotlib.ft2font.FT2Font(str(tmp_path / 'han.ttf'))
        )
    )


def drawn(task, name, tmp_path, file='a.png'):
    """Draw a prediction of the class with a name."""
    from mmdet.structures import DetDataSample
    from mmengine.structures import InstanceData, PixelData
    from mmpretrain.structures import DataSample
    from mmseg.structures import SegDataSample

    sample = {
        'classification': lambda: (
            DataSample().set_pred_label(1).set_pred_score(torch.tensor([0.2, 0.8]))
        ),
        'detection': lambda: DetDataSample(
            pred_instances=InstanceData(
                bboxes=torch.tensor([[20.0, 90, 200, 200]]),
                scores=torch.ones(1),
                labels=torch.ones(1, dtype=int),
            )
        ),
        'segmentation': lambda: SegDataSample(
            pred_sem_seg=PixelData(data=torch.ones(1, 224, 224, dtype=int))
        ),
    }
    metainfo = dict(classes=('rest', name), palette=[(0, 0, 0), (0, 90, 0)])
    draw_sample(
        tasks()[task].visualizer(metainfo), IMAGE, sample[task](), str(tmp_path / file), truth=False
    )
    return cv2.imread(str(tmp_path / file))


def test_an_installed_font_is_used(han, capsys):
    assert fonts.fonts_for('a浑') == {
        'font.sans-serif': ['Test Han'],
        'font.monospace': ['Test Han'],
    }
    assert fonts.fonts_for('cat mèo кот قطة') == {} and not capsys.readouterr().err


def test_characters_without_a_font_are_named_once(capsys):
    assert fonts.fonts_for('浑浊 a') == fonts.fonts_for('浑浊 a') == {}
    assert capsys.readouterr().err.count('浊, 浑') == 1


@pytest.mark.filterwarnings('ignore:Glyph')
@pytest.mark.parametrize('task', ['detection', 'classification'])
def test_drawings_have_the_glyphs_of_the_font(task, known_fonts, tmp_path, request, capsys):
    boxes = drawn(task, '浑', tmp_path)
    assert '浑' in capsys.readouterr().err
    request.getfixturevalue('han')
    fonts.fonts_for.cache_clear()
    assert (drawn(task, '浑', tmp_path, 'b.png') != boxes).any() and not capsys.readouterr().err


@pytest.mark.parametrize('task', ['detection', 'classification'])
@pytest.mark.parametrize('name', ['US$ 5 or $10^', r'$\frac$', '$a$'])
def test_dollars_are_no_formulas(task, name, tmp_path):
    """Matplotlib would refuse the first two, and draw the third without its dollars."""
    assert (drawn(task, name, tmp_path) != drawn(task, name.replace('$', ''), tmp_path)).any()
    save_png(tmp_path / 'c.png', {name: Confusion(np.eye(2), ('rest', name))})


def test_label_maps_leave_out_names_that_opencv_cannot_write(tmp_path, capsys):
    plain = drawn('segmentation', '浑', tmp_path)
    assert (
        'no class names' in capsys.readouterr().err
        and len(np.unique(plain.reshape(-1, 3), axis=0)) == 1
    )
    assert len(np.unique(drawn('segmentation', 'cat', tmp_path).reshape(-1, 3), axis=0)) > 1
