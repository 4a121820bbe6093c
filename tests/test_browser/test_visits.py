"""The fixture that opens pages sees what they do wrong."""

import pytest

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ('body', 'seen'),
    [
        ('<img src="https://example.com/picture.png" alt="">', 'example.com'),
        ('<script>console.error("broken chart")</script>', 'broken chart'),
        ('<script>missing()</script>', 'missing'),
    ],
)
def test_errors_and_requests_of_a_page_are_seen(visit, wrong, tmp_path, body, seen):
    file = tmp_path / 'page.html'
    file.write_text(f'<!doctype html><title>page</title>{body}')
    visit(file.as_uri())
    assert wrong and all(seen in line or 'ERR_FAILED' in line for line in wrong)
    wrong.clear()
