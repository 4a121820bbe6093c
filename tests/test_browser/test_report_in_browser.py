"""The report page in a browser: clicks, keys, print, widths and themes."""
import shutil
from pathlib import Path

import pytest

from mmflatten.report import measure
from mmflatten.report.page import write_report

pytestmark = pytest.mark.browser

SCREENSHOTS = Path(__file__).parents[2] / 'work_dirs' / 'browser'
MAP, CARD = '[data-maps="large"] canvas', '[data-maps="layers"] figure:nth-child(2) canvas'
FOCUSABLE = 'a[href], button, input, select, summary, [tabindex="0"]'
CONTROLS = ('button', 'link', 'combobox', 'searchbox', 'textbox', 'application', 'region')


@pytest.fixture(scope='module')
def report(train_on, tmp_path_factory) -> str:
    """The address of a page on a detector trained for an epoch."""
    run = train_on('mask-rcnn_flatten-swin-nano_fpn_digits')
    for suffix in ('.pkl', '.json'):
        shutil.copy(Path(run.results).with_suffix(suffix), run.folder / 'run')
    page = tmp_path_factory.mktemp('report') / 'report.html'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, 'SECONDS', 0)
        write_report([run.folder / 'run'], page, images=4, score=0.01, device='cpu')
    return page.as_uri()


def pixels(page, *canvases):
    return [page.locator(canvas).evaluate('canvas => canvas.toDataURL()') for canvas in canvases]


def wait_until(page, expression):
    """As Playwright's `wait_for_function`, which the page's own rules forbid."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(expression)


def opened(visit, report, **options):
    """The page, and pixels of two maps of its attention viewer."""
    page = visit(report, **options)
    return page, pixels(page, MAP, CARD)


def test_click_moves_the_query_and_changes_the_maps(visit, report):
    page, before = opened(visit, report)
    box = page.locator('#attn-picture').bounding_box()
    page.locator('#attn-picture').click(position=dict(x=box['width'] * 40.5 / 160, y=box['height'] * 20.5 / 160))
    assert all(old != new for old, new in zip(before, pixels(page, MAP, CARD)))
    status = page.locator('#attn-status').inner_text()
    assert status.startswith('Query: 40, 20 of 160 × 160') and 'row sum 1.000' in status


def test_arrow_keys_move_the_query_by_a_token(visit, report):
    page, before = opened(visit, report)
    page.locator('#attn-layer').select_option('1')  # of 20 x 20 tokens of 8 pixels
    page.locator('#attn-picture').focus()
    for key in ('ArrowRight', 'ArrowRight', 'ArrowUp'):
        page.keyboard.press(key)
    assert all(old != new for old, new in zip(before, pixels(page, MAP, CARD)))
    assert page.locator('#attn-status').inner_text().startswith('Query: 100, 76 of 160 × 160')
    for _ in range(20):
        page.keyboard.press('ArrowDown')
    assert page.locator('#attn-status').inner_text().startswith('Query: 100, 156 of 160 × 160')


def test_viewer_shows_chosen_layer_head_and_image(visit, report):
    page, before = opened(visit, report)
    page.locator('#attn-head').select_option('1')
    heads = pixels(page, MAP, CARD)
    assert all(old != new for old, new in zip(before, heads))
    page.locator('#attn-layer').select_option('2')
    assert heads[0] != pixels(page, MAP)[0] and heads[1] == pixels(page, CARD)[0]
    assert page.locator('[data-maps="heads"] figure').count() == 1 + 8
    page.locator(CARD).click()
    assert [page.locator(f'#attn-{name}').input_value() for name in ('layer', 'head')] == ['1', '1']
    chosen = pixels(page, MAP, CARD)
    page.locator('#attn-image').select_option('1')
    assert all(old != new for old, new in zip(chosen, pixels(page, MAP, CARD)))


def test_filters_change_table_and_samples(visit, report):
    page, _ = opened(visit, report)
    table = page.locator('#metrics .controls + .scroll table').first
    rows = table.locator('tbody tr:visible')
    texts = rows.all_inner_texts()
    page.locator('#metrics input[type=search]').first.fill('background')
    assert 0 < rows.count() < len(texts) and all('background' in text for text in rows.all_inner_texts())
    page.locator('#metrics input[type=search]').first.fill('')
    assert rows.all_inner_texts() == texts
    page.locator('#sample-group').select_option('worst')
    assert page.locator('.sample:visible').count() == 2


def test_toggles_show_truth_and_prediction(visit, report):
    page, _ = opened(visit, report)
    drawing = page.locator('.sample .picture').first
    seen = [drawing.screenshot()]
    for kind in ('truth', 'prediction'):
        page.locator(f'.toggle.{kind}').click()
        assert page.locator(f'.toggle.{kind}').get_attribute('aria-pressed') == 'false'
        page.mouse.move(0, 0)
        seen.append(drawing.screenshot())
    assert len(set(seen)) == 3


def test_theme_follows_the_system_until_switched(visit, report):
    background = 'getComputedStyle(document.body).backgroundColor'
    light, dark = visit(report), visit(report, theme='dark')
    shown = light.evaluate(background), dark.evaluate(background)
    assert shown[0] != shown[1]
    light.locator('#theme').click()
    assert light.evaluate(background) == shown[1]


@pytest.mark.parametrize('theme', ['light', 'dark'])
def test_page_fits_the_window(visit, report, theme):
    page, _ = opened(visit, report, theme=theme)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for width in (390, 768, 1400, 1920):
        page.set_viewport_size(dict(width=width, height=900))
        wait_until(page, f'document.documentElement.scrollWidth <= {width}')
        if width in (390, 1400):
            page.screenshot(path=SCREENSHOTS / f'report_{width}_{theme}.png', full_page=True)


def test_page_prints_all_sections(visit, report):
    page, _ = opened(visit, report)
    shown = page.locator('main h2, .tiles, .sample img, .attn-map, #attention canvas, #attn-status, table')
    page.emulate_media(media='print')
    page.evaluate('dispatchEvent(new Event("beforeprint"))')
    assert shown.count() > 20 and all(shown.evaluate_all('all => all.map(one => one.checkVisibility())'))
    page.evaluate('dispatchEvent(new Event("afterprint"))')
    pdf = page.pdf()
    assert pdf.startswith(b'%PDF') and b'/ToUnicode' in pdf and pdf.count(b'/Type /Page\n') > 2


def test_tab_reaches_every_control_with_visible_focus(visit, report):
    page, _ = opened(visit, report)
    number = page.evaluate('''selector => { window.controls = [...document.querySelectorAll(selector)].filter(
        one => one.checkVisibility() && !one.disabled); return window.controls.length; }''', FOCUSABLE)
    reached, faint = set(), []
    for _ in range(number + 20):  # a browser may stop at more, such as at what scrolls
        page.keyboard.press('Tab')
        index, name, visible = page.evaluate('''() => {
            const one = document.activeElement, style = getComputedStyle(one);
            return [window.controls.indexOf(one), one.outerHTML.slice(0, 99),
                    style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0]; }''')
        reached.add(index)
        faint += [] if visible or index < 0 else [name]
    assert faint == [] and set(range(number)) <= reached


def test_controls_and_pictures_have_names(visit, report):
    page, _ = opened(visit, report)
    nodes = page.context.new_cdp_session(page).send('Accessibility.getFullAXTree')['nodes']
    found = [(node['role']['value'], node.get('name', {}).get('value')) for node in nodes if not node['ignored']]
    named = [(role, name) for role, name in found if role in CONTROLS]
    assert {'button', 'combobox', 'application'} <= {role for role, _ in named}
    assert [role for role, name in named if not name] == []
    pictures = page.locator('img, [role=img], [role=application]')
    assert all(pictures.evaluate_all('all => all.map(one => (one.alt || one.ariaLabel || "").trim() !== "")'))
