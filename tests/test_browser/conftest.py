"""A Chromium of the system, and pages in it that may neither fail nor leave the machine."""

import shutil
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

NAMES = ('chromium', 'chromium-browser', 'google-chrome')
OFFLINE = ('file', 'data', 'blob')


@pytest.fixture(scope='session')
def browser() -> Iterator:
    """The browser itself, without a window."""
    playwright = pytest.importorskip('playwright.sync_api')
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f'none of {", ".join(NAMES)} is installed; make test-browser installs one')
    with playwright.sync_playwright() as running:
        made = running.chromium.launch(executable_path=path, args=['--no-sandbox'])
        yield made
        made.close()


@pytest.fixture
def wrong() -> list[str]:
    """What the pages of a test asked elsewhere, and their errors."""
    return []


@pytest.fixture
def visit(browser, wrong) -> Iterator[Callable]:
    """Open an address: `visit(url, width, theme)` gives Playwright's page.

    Whatever is asked of another place than the address's own server is refused. The test fails at
    its end if a page asked for such, wrote an error to its console or left one uncaught.
    """
    contexts = []

    def open_page(url: str, width: int = 1400, theme: str = 'light'):
        def outside(address: str) -> bool:
            parts = urlsplit(address)
            return parts.scheme not in OFFLINE and parts.netloc != urlsplit(url).netloc

        def refuse(route) -> None:
            wrong.append(f'request: {route.request.url}')
            route.abort()

        contexts.append(
            browser.new_context(viewport=dict(width=width, height=900), color_scheme=theme)
        )
        contexts[-1].route(outside, refuse)
        page = contexts[-1].new_page()
        page.on(
            'console',
            lambda message: wrong.append(message.text) if message.type == 'error' else None,
        )
        page.on('pageerror', lambda error: wrong.append(str(error)))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong
