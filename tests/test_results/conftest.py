"""Work dirs of `mmflatten train` and `mmflatten test --out WORK_DIR/results.pkl`, and their
pages.
"""

import shutil
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from mmengine.logging import MessageHub, MMLogger
from mmengine.visualization import Visualizer

from mmflatten.cli.report import main
from mmflatten.engine.setup import build_runner, load_config, set_resume

VOID = {'meta', 'img', 'input', 'br', 'link', 'path', 'hr'}


class Page(HTMLParser):
    """A parsed page: its elements in order, each a tag, its attributes and the text inside; open
    tags must close.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict, list[str]]] = []
        self.open: list[tuple[str, dict, list[str]]] = []
        self.size = path.stat().st_size
        self.feed(path.read_text(encoding='utf-8'))
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(self.elements[-1])

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, _, text in self.open:
            text.append(data)

    def all(self, tag: str, **attributes: str) -> list[tuple[dict, str]]:
        """Attributes and text of every such element; a class may be one of several."""
        matches = []
        for name, found, text in self.elements:
            if name == tag and all(
                value in (found.get(key.rstrip('_')) or '').split()
                for key, value in attributes.items()
            ):
                matches.append((found, ' '.join(' '.join(text).split())))
        return matches

    @property
    def charts(self) -> dict[str, str]:
        """Title -> description of each chart."""
        titles = [text for _, text in self.all('figcaption', class_='title')]
        return dict(
            zip(
                titles,
                (found['aria-label'] for found, _ in self.all('div', class_='chart')),
                strict=True,
            )
        )

    def check(self) -> None:
        """Check that the page fetches nothing, ids are unique, references resolve, and images have
        a text.
        """
        ids = Counter(found['id'] for _, found, _ in self.elements if 'id' in found)
        assert [name for name, number in ids.items() if number > 1] == []
        for tag, found, _ in self.elements:
            assert tag not in ('link', 'iframe', 'object', 'base')
            for key in ('src', 'href', 'action', 'data', 'poster', 'srcset', 'xlink:href'):
                assert (found.get(key) or '#').startswith(('data:', '#')), (tag, found)
            assert 'url(' not in (found.get('style') or '')
            for key in ('for', 'aria-labelledby', 'aria-controls', 'aria-describedby'):
                assert all(name in ids for name in (found.get(key) or '').split()), (tag, found)
            assert tag != 'img' or found.get('alt')
            assert tag != 'button' or found['type'] == 'button'
        assert all('url(' not in text and '@import' not in text for _, text in self.all('style'))
        assert "default-src 'none'" in self.all('meta', content="'none';")[0][0]['content']
        assert all(found.get('scope') in ('col', 'row') for found, _ in self.all('th'))
        assert len(self.all('caption')) == len(self.all('table')) and len(self.all('h1')) == 1


@pytest.fixture
def written(tmp_path):
    """Run the command and return the page, checked."""

    def write(*words: object) -> Page:
        page = tmp_path / 'page.html'
        assert main(['--out', str(page), '--images', '4', *map(str, words)]) == 0
        parsed = Page(page)
        parsed.check()
        return parsed

    return write


@pytest.fixture(scope='session')
def work_dir(train_on):
    """The work dir of a training, with the results of its test inside; each config is trained
    once.
    """

    @cache
    def make(name: str) -> Path:
        run = train_on(name)
        for suffix in ('.pkl', '.json'):
            shutil.copy(Path(run.results).with_suffix(suffix), run.folder / 'run')
        return run.folder / 'run'

    return make


@pytest.fixture(scope='session')
def train():
    """Train a config with options into a work dir, as in a new process."""

    def run(config: Path, work_dir: Path, resume: str | None = None, **options: object) -> None:
        for kind in (MMLogger, MessageHub, Visualizer):
            kind._instance_dict.clear()
        cfg = load_config(str(config), options, str(work_dir))
        set_resume(cfg, resume)
        build_runner(cfg).train()

    return run
