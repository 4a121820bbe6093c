"""The card of a published model: text from data is shown as text, whatever it holds."""

import json
import re
import shlex
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from mmflatten.hub.card import write_card
from mmflatten.hub.folder import shipped
from mmflatten.untrusted.published import FACTS

TEXTS = [
    '[a](http://evil.example)',
    '![a](http://evil.example/a.png)',
    '<script>alert(1)</script>',
    '`a` <img src=x>',
    'a | b | <b>',
    'a\\',
    '\\`<b>',
    '```\n<b>\n```',
    '~~~',
    '# a',
    '<http://evil.example>',
    'http://evil.example',
    'www.evil.example',
    'me@evil.example',
    'a\n\n<b>',
    '*a* _b_',
    '&lt;b&gt;',
    '\u202eabc\x1b[2J\x07',
    '| --- |',
    '$(touch evil)',
    "a'; touch evil; '",
    '``',
    '',
    ' ',
    '\u0645\u0631\u062d\u0628\u0627',
    'áo thun',
    '[a]: http://b.example',
]


def card(tmp_path: Path, text: str) -> str:
    facts = json.loads((shipped()['garment-classifier'] / FACTS).read_text())
    facts |= dict(name=text or 'a', model=text, classes=[text, 'T-shirt', *TEXTS])
    facts['environment'] = {'Python': text, text: 'a'}
    facts['metrics']['values'] = {text: 1.5, 'accuracy/top1': 87.4000015}
    write_card(tmp_path / 'README.md', facts, dict(rgb=True))
    return (tmp_path / 'README.md').read_text(encoding='utf-8')


def columns(page: str) -> list[list[int]]:
    """Return the number of cells in each row of each table."""
    return [
        [row.count('<td') + row.count('<th') for row in table.split('<tr>')[1:]]
        for table in page.split('<table>')[1:]
    ]


@pytest.mark.parametrize('text', TEXTS)
def test_text_of_data_is_not_active(text, tmp_path):
    content = card(tmp_path, text)
    markdown = MarkdownIt('commonmark', dict(html=True)).enable('table')
    page, plain = (
        markdown.render(words.split('---', 2)[2]) for words in (content, card(tmp_path, 'plain'))
    )
    tags = re.findall(r'<(\w+)[^>]*>', page)
    assert set(tags) - {'code', 'td', 'tr'} == set(re.findall(r'<(\w+)[^>]*>', plain)) - {
        'code',
        'td',
        'tr',
    }
    for kind in (
        'table',
        'tr',
        'td',
        'th',
        'h1',
        'h2',
        'pre',
        'p',
        'img',
        'a',
        'strong',
        'em',
        'script',
        'b',
    ):
        assert tags.count(kind) == len(re.findall(f'<{kind}[ >]', plain)), kind
    assert columns(page) == columns(plain)
    outside = re.sub(r'<pre>.*?</pre>|<code>.*?</code>', '', page, flags=re.DOTALL)
    assert 'evil' not in outside and 'http' not in outside.replace('hf://', '')
    assert all(char.isprintable() or char == '\n' for char in content)


@pytest.mark.parametrize('text', TEXTS)
def test_command_of_the_card_names_one_model(text, tmp_path):
    block = re.search(r'```shell\n(.*?)\n```\n', card(tmp_path, text), re.DOTALL)[1]
    words = shlex.split(block.splitlines()[-1])
    assert words[:2] == ['mmflatten', 'predict'] and words[3:] == ['image.png', '--out', 'results']
