"""The documentation's site, opened as a file: search, languages, and the model zoo's filters and
sorting.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope='module')
def site(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp('site')
    subprocess.run(
        [sys.executable, '-m', 'mkdocs', 'build', '--strict', '-q', '-d', folder],
        cwd=ROOT,
        check=True,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'NO_MKDOCS_2_WARNING': '1'},
    )
    return folder.as_uri()


@pytest.mark.parametrize(
    ('page', 'query', 'found'),
    [
        ('index.html', 'hydra', 'api/models.html'),
        ('vi/index.html', 'cửa sổ dịch chuyển', 'vi/overview.html'),
    ],
)
def test_the_search_finds_words_of_both_languages(visit, site, page, query, found):
    opened = visit(f'{site}/{page}')
    opened.click('.md-search__input')
    hit = opened.locator(f'.md-search-result__link[href*="{site}/{found}"]').first
    for _ in range(20):  # what is typed before the index is read is lost
        opened.locator('.md-search__input').press_sequentially(query)
        opened.wait_for_timeout(1000)
        if hit.count():
            break
        opened.locator('.md-search__input').fill('')
    assert hit.is_visible()


@pytest.mark.parametrize('width', [390, 1400])
def test_filters_and_sorting_of_the_zoo_work_with_the_keyboard(visit, site, width):
    page = visit(f'{site}/model_zoo.html', width)
    rows, status = page.locator('.zoo tbody tr:visible'), page.locator('.zoo [role=status]')
    total = rows.count()
    page.locator('select[name=task]').select_option('Stereo matching')
    page.locator('select[name=attention]').select_option('Factorized')
    kept = rows.count()
    assert 0 < kept < total and status.inner_text() == f'{kept} of {total} rows'
    assert set(page.locator('.zoo tbody tr:visible td:nth-child(4)').all_inner_texts()) == {
        'Factorized'
    }

    page.get_by_role('button', name='Show all').press('Enter')
    page.wait_for_function(
        f'document.querySelector(".zoo [role=status]").textContent.startsWith("{total} of")'
    )
    header = page.get_by_role('columnheader', name='params (M)')
    sizes = page.locator('.zoo tbody td:nth-child(7)')
    for direction, reverse in (('ascending', False), ('descending', True)):
        header.get_by_role('button').press('Enter')
        assert header.get_attribute('aria-sort') == direction
        shown = [float(text) for text in sizes.all_inner_texts() if text]
        assert shown == sorted(shown, reverse=reverse) and len(set(shown)) > 50


def test_the_page_in_the_other_language_is_linked_and_the_theme_stays(visit, site):
    page = visit(f'{site}/overview.html', theme='dark')
    assert page.locator('body').get_attribute('data-md-color-scheme') == 'slate'
    page.locator('article').get_by_role('link', name='Tiếng Việt').click()
    page.wait_for_url(f'{site}/vi/overview.html')
    assert page.locator('html').get_attribute('lang') == 'vi'
    assert page.locator('body').get_attribute('data-md-color-scheme') == 'slate'


@pytest.mark.parametrize('width', [400, 1280])
@pytest.mark.parametrize(
    'page', ['index', 'overview', 'attentions', 'model_zoo', 'kernels', 'compatibility']
)
def test_no_page_is_wider_than_the_window(visit, site, page, width):
    """Tables and code scroll inside the page."""
    opened = visit(f'{site}/{page}.html', width)
    assert opened.evaluate('document.documentElement.scrollWidth') <= width
