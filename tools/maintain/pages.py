"""MkDocs hook: README and the like become pages, links that leave `docs/` lead to copies, the model zoo gets its table.

One source serves the forge and the site: pages stay as the repository has them, and only their links change here.
"""
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from zoo_table import MARK, read_rows, render_table

ROOT = Path(__file__).resolve().parents[2]
PAGES = {'docs/tutorial.md': 'index.md', 'docs/tutorial.vi.md': 'index.vi.md', 'README.md': 'overview.md',
         'README_vi.md': 'overview.vi.md', 'CONTRIBUTING.md': 'contributing.md', 'CHANGELOG.md': 'changelog.md'}
SOURCES = {page: source for source, page in PAGES.items()}
OTHER_LANGUAGE = re.compile(r'\s*\[(?:Tiếng Việt|English)\]\([^)]*\)')  # the header of the site has it
TARGET = re.compile(r'(?<=\]\()[^)\s]+(?=\))')
ALTERNATE = re.compile(r'<link rel="alternate"[^>]*>')  # for each a browser asks for a sitemap


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Announce the pages that come from elsewhere; `on_page_read_source` reads them."""
    for page in SOURCES:
        files.append(File(page, config.docs_dir, config.site_dir, config.use_directory_urls))
    for source in PAGES:
        inside = files.get_file_from_path(source.removeprefix('docs/'))
        if source.startswith('docs/') and inside is not None:
            files.remove(inside)  # the tutorial is the first page of the site, under that page's name


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    source = SOURCES.get(page.file.src_uri)
    return (ROOT / source).read_text(encoding='utf-8') if source else None


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = SOURCES.get(page.file.src_uri, f'docs/{page.file.src_uri}')
    fallback = page.file.locale != page.file.locale_alternate_of  # in English among the Vietnamese pages

    def link(match: re.Match) -> str:
        path, mark, anchor = match[0].partition('#')
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if not path or '..' in target or not (ROOT / target).is_file():
            return match[0]  # an address, an anchor, or an error that MkDocs reports
        place = _place(target, config, files)
        if fallback and anchor and files.get_file_from_path(place).locale != page.file.locale:
            mark = anchor = ''  # the translated page has other headings
        return posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or '.') + mark + anchor

    if fallback:
        page.meta['search'] = {'exclude': True}  # found once is enough
    if MARK in markdown:
        page.meta['hide'] = ['toc']  # room for the table
    return TARGET.sub(link, OTHER_LANGUAGE.sub('', markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    def address(file: str) -> str:
        copy = files.src_uris[_place(file, config, files)]
        return get_relative_url(copy.url, page.url)

    if MARK not in html:
        return html
    return html.replace(MARK, render_table(read_rows(ROOT / 'docs' / 'model_zoo.csv'), address))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    return ALTERNATE.sub('', output)


def _place(target: str, config: MkDocsConfig, files: Files) -> str:
    """Where the site has a file of the repository: a page, or a copy as text, which every browser shows."""
    if target in PAGES:
        return PAGES[target]
    if target.startswith('docs/'):
        return target.removeprefix('docs/')
    place = f'repository/{target}.txt'
    if place not in files.src_uris:
        files.append(File.generated(config, place, abs_src_path=str(ROOT / target)))
    return place
