"""The documentation as a site: it builds without warnings, all links work, and the table of the zoo
equals the CSV.
"""

import csv
import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from pages import GENERATED, SOURCES
from zoo_table import AGREEMENT

ROOT = Path(__file__).parents[2]
DOCS = ROOT / 'docs'


@pytest.fixture(scope='module')
def site(tmp_path_factory) -> Path:
    """The site, built in strict mode: a page outside the nav, a dead link or anchor, or a bad
    docstring is an error.
    """
    folder = tmp_path_factory.mktemp('site')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv('NO_MKDOCS_2_WARNING', '1')
        config = load_config(str(ROOT / 'mkdocs.yml'), strict=True, site_dir=str(folder))
        config.plugins.on_startup(command='build', dirty=False)
        build(config)
    return folder


def pages_of(nav: list | dict | str) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    pages = []
    for part in nav.values() if isinstance(nav, dict) else nav:
        pages += pages_of(part)
    return pages


def test_nav_has_every_page_once():
    pages = pages_of(load_config(str(ROOT / 'mkdocs.yml')).nav)
    english = {
        path.relative_to(DOCS).as_posix()
        for path in DOCS.rglob('*.md')
        if not path.name.endswith('.vi.md')
    }
    assert sorted(pages) == sorted((english - {'tutorial.md'}) | {*GENERATED, *SOURCES})


def test_vietnamese_pages_have_the_code_blocks_of_the_english_pages():
    twins = {
        path: path.with_name(path.name.replace('.vi.md', '.md')) for path in DOCS.rglob('*.vi.md')
    }
    assert {path.name for path in twins.values()} == {'tutorial.md'}
    for path, twin in {**twins, ROOT / 'README_vi.md': ROOT / 'README.md'}.items():
        assert code_blocks(path) == code_blocks(twin), path.name


def code_blocks(page: Path) -> list[str]:
    """The code blocks of a page, without comments at the ends of lines."""
    text = page.read_text(encoding='utf-8')
    blocks = re.findall(r'^```.*?^```', text, re.DOTALL | re.MULTILINE)
    return [re.sub(r' +#.*', '', block) for block in blocks]


def test_site_has_no_dead_links_and_loads_nothing_from_other_sites(site):
    dead, foreign = [], []
    for page in site.rglob('*.html'):
        if page.name == '404.html':  # its links are relative to the root of a server
            continue
        text = page.read_text(encoding='utf-8')
        for tag, target in re.findall(r'<(\w+)[^>]*?\s(?:href|src)="([^"]*)"', text):
            parts = urlsplit(unescape(target))
            if parts.scheme or parts.netloc:
                foreign += [f'{page.name}: {target}'] * (tag != 'a' and parts.scheme != 'data')
            elif parts.path and not (page.parent / unquote(parts.path)).is_file():
                dead.append(f'{page.relative_to(site)}: {target}')
    assert dead == [] and foreign == []


def test_site_starts_with_tutorial_and_readme_in_both_languages(site):
    for page, source in (
        ('index.html', 'docs/tutorial.md'),
        ('vi/index.html', 'docs/tutorial.vi.md'),
        ('overview.html', 'README.md'),
        ('vi/overview.html', 'README_vi.md'),
    ):
        headings = re.findall(
            r'^## (.*)', (ROOT / source).read_text(encoding='utf-8'), re.MULTILINE
        )
        found = re.findall(r'<h2 id="[^"]*">([^<]*)', (site / page).read_text(encoding='utf-8'))
        assert [unescape(heading) for heading in found] == headings


def test_pages_state_their_language_and_link_the_other_one(site):
    for page, language, other in (
        ('index.html', 'en', 'vi/index.html'),
        ('overview.html', 'en', 'vi/overview.html'),
        ('vi/index.html', 'vi', '../index.html'),
        ('vi/overview.html', 'vi', '../overview.html'),
    ):
        text = (site / page).read_text(encoding='utf-8')
        assert f'<html lang="{language}"' in text and f'href="{other}"' in text


def test_zoo_page_of_a_task_links_configs(site):
    detection = (site / 'model_zoo' / 'detection.html').read_text(encoding='utf-8')
    assert (
        'repository/configs/flatten_swin/mask-rcnn_flatten-swin-t_fpn_1x_coco.py.txt' in detection
    )


def test_site_zoo_table_equals_the_csv(site):
    with (DOCS / 'model_zoo.csv').open(newline='', encoding='utf-8') as file:
        rows = list(csv.DictReader(file))
    page = (site / 'model_zoo.html').read_text(encoding='utf-8')
    table = max(re.findall('<tbody>(.*?)</tbody>', page, re.DOTALL), key=len)  # others are short
    shown = [
        re.findall(r'<td[^>]*>(.*?)</td>', row) for row in re.findall(r'<tr>(.*?)</tr>', table)
    ]
    assert len(shown) == len(rows) == len({tuple(cells) for cells in shown})
    for cells, row in zip(shown, rows):
        assert f'repository/{row["config"]}.txt"' in cells[0]
        assert cells[3] == (row['attention'] or 'none')
        assert cells[6:8] == [f'{int(row["params"]) / 1e6:.2f}', row['paper_params_m']]
        assert float(cells[8].rstrip('*')) == pytest.approx(
            int(row['flops']) / 1e9, rel=1e-3, abs=1e-3
        )
        assert cells[10] == AGREEMENT[row['agrees']]
        assert row['paper_top1'] in cells[11] and row['paper_ap_box'] in cells[11]
