"""The report page in a browser: clicks, keys, print, widths and themes."""

import shutil
from pathlib import Path

import pytest

from mmflatten.results.page.page import write_report

pytestmark = pytest.mark.browser

SCREENSHOTS = Path(__file__).parents[2] / 'work_dirs' / 'browser'
FOCUSABLE = 'a[href], button, input, select, summary, [tabindex="0"]'
CONTROLS = ('link', 'region')
IMAGES = 4


@pytest.fixture(scope='module')
def report(train_on, tmp_path_factory) -> str:
    """The address of a page on a detector trained for an epoch."""
    run = train_on('mask-rcnn_flatten-swin-nano_fpn_digits')
    for suffix in ('.pkl', '.json'):
        shutil.copy(Path(run.results).with_suffix(suffix), run.folder / 'run')
    page = tmp_path_factory.mktemp('report') / 'report.html'
    write_report([run.folder / 'run'], page, images=IMAGES, score=0.01)
    return page.as_uri()


def wait_until(page, expression):
    """As Playwright's `wait_for_function`, which the page's own rules forbid."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(expression)


def test_theme_follows_the_system(visit, report):
    background = 'getComputedStyle(document.body).backgroundColor'
    light, dark = visit(report), visit(report, theme='dark')
    assert light.evaluate(background) != dark.evaluate(background)


@pytest.mark.parametrize('theme', ['light', 'dark'])
def test_page_fits_the_window(visit, report, theme):
    page = visit(report, theme=theme)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for width in (390, 768, 1400, 1920):
        page.set_viewport_size(dict(width=width, height=900))
        wait_until(page, f'document.documentElement.scrollWidth <= {width}')
        if width in (390, 1400):
            page.screenshot(path=SCREENSHOTS / f'report_{width}_{theme}.png', full_page=True)


def test_page_prints_all_sections(visit, report):
    page = visit(report)
    shown = page.locator('main h2, .sample img, table')
    page.emulate_media(media='print')
    assert page.locator('main section').count() == page.locator('main h2').count() > 3
    assert page.locator('.sample img').count() == IMAGES and page.locator('table').count() > 2
    assert all(shown.evaluate_all('all => all.map(one => one.checkVisibility())'))
    pdf = page.pdf()
    assert pdf.startswith(b'%PDF') and b'/ToUnicode' in pdf and pdf.count(b'/Type /Page\n') > 2


def test_tab_reaches_every_control_with_visible_focus(visit, report):
    page = visit(report)
    number = page.evaluate(
        """selector => { window.controls = [...document.querySelectorAll(selector)].filter(
        one => one.checkVisibility() && !one.disabled); return window.controls.length; }""",
        FOCUSABLE,
    )
    reached, faint = set(), []
    for _ in range(number + 20):  # a browser may stop at more, such as at what scrolls
        page.keyboard.press('Tab')
        index, name, visible = page.evaluate("""() => {
            const one = document.activeElement, style = getComputedStyle(one);
            return [window.controls.indexOf(one), one.outerHTML.slice(0, 99),
                    style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0]; }""")
        reached.add(index)
        faint += [] if visible or index < 0 else [name]
    assert faint == [] and set(range(number)) <= reached


def test_controls_and_pictures_have_names(visit, report):
    page = visit(report)
    nodes = page.context.new_cdp_session(page).send('Accessibility.getFullAXTree')['nodes']
    found = [
        (node['role']['value'], node.get('name', {}).get('value'))
        for node in nodes
        if not node['ignored']
    ]
    named = [(role, name) for role, name in found if role in CONTROLS]
    assert {'link', 'region'} <= {role for role, _ in named}
    assert [role for role, name in named if not name] == []
    pictures = page.locator('img, [role=img]')
    assert all(
        pictures.evaluate_all(
            'all => all.map(one => (one.alt || one.ariaLabel || "").trim() !== "")'
        )
    )
