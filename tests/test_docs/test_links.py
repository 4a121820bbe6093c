"""Links of all pages of the repository: each has a target, and the file and the heading that it
names exist.
"""

import itertools
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from pymdownx.slugs import slugify

ROOT = Path(__file__).parents[2]
FOLDERS = (
    '.',
    '.github',
    'docs',
    'docs/measurements',
    'docs/model_zoo',
    'lab',
    'lab/docs',
    'mmcv-torch-ops',
    'configs/*',
    'lab/configs/*',
    'mmflatten/hub/models/*',
)
FILES = itertools.chain.from_iterable(ROOT.glob(f'{folder}/*.md') for folder in FOLDERS)
PAGES = sorted({page.relative_to(ROOT).as_posix() for page in FILES})
LINK = re.compile(r'\[[^\]]*\]\(([^)\s]*)\)')
CODE = re.compile(r'^```.*?^```|`[^`\n]*`', re.DOTALL | re.MULTILINE)
make_slug = slugify(case='lower')


def targets(page: Path) -> list[str]:
    return LINK.findall(CODE.sub('', page.read_text(encoding='utf-8')))


@cache
def anchors(page: Path) -> set[str]:
    text = re.sub(
        r'^```.*?^```', '', page.read_text(encoding='utf-8'), flags=re.DOTALL | re.MULTILINE
    )
    numbers: Counter = Counter()
    found = set()
    for heading in re.findall(r'^#+ (.*)', text, re.MULTILINE):
        slug = make_slug(LINK.sub('', heading.replace('`', '')), '-')
        found.add(f'{slug}_{numbers[slug]}' if numbers[slug] else slug)
        numbers[slug] += 1
    return found


def problem_of(page: Path, target: str) -> str:
    """Return what is wrong with a link; '' if nothing is. Other sites are not visited."""
    if not target:
        return 'no target'
    if re.match(r'[a-z]+:', target):
        return ''
    path, _, anchor = target.partition('#')
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return 'no such file'
    if anchor and anchor not in anchors(file):
        return 'no such heading'
    return ''


@pytest.mark.parametrize('page', PAGES)
def test_links_have_existing_targets(page):
    path = ROOT / page
    wrong = {target: problem_of(path, target) for target in targets(path)}
    assert {target: problem for target, problem in wrong.items() if problem} == {}


def test_links_of_all_kinds_are_found(tmp_path):
    page = tmp_path / 'page.md'
    page.write_text(
        '# A `b`: c\n[one]() [two](other.md) [three](#a-b-c) [four](#a) [five](https://x.y)'
        ' `[six]()`\n'
    )
    found = [problem_of(page, target) for target in targets(page)]
    assert found == ['no target', 'no such file', '', 'no such heading', '']
