"""MkDocs hook for pages from outside `docs/`, generated pages, links and the model zoo table.

A page has the same source in the repository and on the site. Links to other files of the repository
become links to copies.
"""

import posixpath
import re
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from zoo.names import TASKS
from zoo.page import TABLE, render_task_page
from zoo.records import ZooEntry, from_csv
from zoo_table import render_table

ROOT = Path(__file__).resolve().parents[2]
VIETNAMESE = 'vi'  # folder of two pages; all others are in English
PAGES = {
    'docs/tutorial.md': 'index.md',
    'docs/tutorial.vi.md': f'{VIETNAMESE}/index.md',
    'README.md': 'overview.md',
    'README_vi.md': f'{VIETNAMESE}/overview.md',
    'CONTRIBUTING.md': 'contributing.md',
    'CHANGELOG.md': 'changelog.md',
    'lab/README.md': 'lab/index.md',
    **{
        path.relative_to(ROOT).as_posix(): f'lab/{path.name}'
        for path in (ROOT / 'lab' / 'docs').glob('*.md')
    },
}
SOURCES = {page: source for source, page in PAGES.items()}
GENERATED = {f'model_zoo/{task}.md': task for task in TASKS}
TARGET = re.compile(r'(?<=\]\()[^)\s]+(?=\))')


@cache
def zoo_entries() -> list[ZooEntry]:
    return from_csv((ROOT / 'docs' / 'model_zoo.csv').read_text(encoding='utf-8'))


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages that are not in `docs/`; `on_page_read_source` reads them."""
    for page in [*SOURCES, *GENERATED]:
        files.append(File(page, config.docs_dir, config.site_dir, config.use_directory_urls))
    for picture in (ROOT / 'lab' / 'docs').rglob('*.png'):
        uri = picture.relative_to(ROOT / 'lab' / 'docs').as_posix()
        files.append(File.generated(config, f'lab/{uri}', abs_src_path=str(picture)))
    for source in PAGES:
        inside = files.get_file_from_path(source.removeprefix('docs/'))
        if source.startswith('docs/') and inside is not None:
            files.remove(inside)  # the tutorial is index.html


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    uri = page.file.src_uri
    if uri in GENERATED:
        return render_task_page(zoo_entries(), GENERATED[uri])
    return (ROOT / SOURCES[uri]).read_text(encoding='utf-8') if uri in SOURCES else None


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = SOURCES.get(page.file.src_uri, f'docs/{page.file.src_uri}')

    def link(match: re.Match) -> str:
        path, mark, anchor = match[0].partition('#')
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if not path or '..' in target or not (ROOT / target).is_file():
            # an address, an anchor, a generated page, or an error that MkDocs reports
            return match[0]
        uri = _uri_of(target, config, files)
        return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or '.') + mark + anchor

    if TABLE in markdown:
        page.meta['hide'] = ['toc']  # to make room for the table
        links = ', '.join(f'[{TASKS[task]}]({page})' for page, task in GENERATED.items())
        markdown = markdown.replace(TABLE, f"The papers' tables by task: {links}.\n\n{TABLE}")
    return TARGET.sub(link, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    def address(file: str) -> str:
        target = files.src_uris[_uri_of(file, config, files)]
        return get_relative_url(target.url, page.url)

    if TABLE not in html:
        return html
    return html.replace(TABLE, render_table(zoo_entries(), address))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """State the language of the Vietnamese pages, for browsers and screen readers."""
    if page.file.src_uri.startswith(f'{VIETNAMESE}/'):
        return output.replace('<html lang="en"', f'<html lang="{VIETNAMESE}"', 1)
    return output


def _uri_of(target: str, config: MkDocsConfig, files: Files) -> str:
    """Return the path in the site of a file of the repository.

    A file without a page is copied with the suffix .txt, so that browsers display it.
    """
    if target in PAGES:
        return PAGES[target]
    if target.startswith('docs/'):
        return target.removeprefix('docs/')
    if target.startswith('lab/docs/') and target.endswith('.png'):
        return target.replace('lab/docs/', 'lab/')
    uri = f'repository/{target}.txt'
    if uri not in files.src_uris:
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
    return uri
