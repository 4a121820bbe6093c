"""Write docs/tutorial.ipynb from docs/tutorial.md, with jupytext.

    python tools/maintain/tutorial_notebook.py            # write the file
    python tools/maintain/tutorial_notebook.py --check    # fail if it is out of date

A Python block after "Save this as `NAME`:" or "Save the config as `NAME`:" becomes a cell that
writes the file, and a shell block a cell of Bash. The installation stays text, because it precedes
the notebook's own process. Start Jupyter in the folder of the repository with the environment
active; the notebook changes to this folder itself.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import jupytext

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / 'docs' / 'tutorial.md'
NOTEBOOK = PAGE.with_suffix('.ipynb')
FILE = re.compile(r'(`(?P<name>\w+\.py)`:\n\n```python\n)')
SHELL = re.compile(r'```shell\n(.*?)```', re.DOTALL)
SETTINGS = """---
jupyter:
  kernelspec:
    display_name: Python 3
    language: python
    name: python3
---

"""
WORKING_FOLDER = """```python
%cd {folder}
```

"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--check', action='store_true', help='compare with the file; write nothing')
    arguments = parser.parse_args(argv)
    text = render(PAGE.read_text(encoding='utf-8'))
    if not arguments.check:
        NOTEBOOK.write_text(text, encoding='utf-8')
        return 0
    if NOTEBOOK.read_text(encoding='utf-8') == text:
        return 0
    print(f'{NOTEBOOK}: out of date. Run python {Path(__file__).name}.', file=sys.stderr)
    return 1


def render(page: str) -> str:
    """Text of the notebook of a page; equal pages give equal files."""
    notebook = jupytext.reads(SETTINGS + _with_cells(page), fmt='md')
    for number, cell in enumerate(notebook.cells):
        cell['id'] = f'cell-{number}'
    notebook.metadata.pop('jupytext', None)
    return jupytext.writes(notebook, fmt='ipynb') + '\n'


def _with_cells(page: str) -> str:
    """The page with magic commands in its files and shell blocks."""
    page = FILE.sub(r'\1%%writefile \g<name>\n', page)
    installation, *_ = SHELL.findall(page)
    page = page.replace(f'```shell\n{installation}```', f'~~~\n{installation}~~~', 1)
    page = SHELL.sub(r'```bash\n\1```', page)
    first_section = page.index('\n## ') + 1
    change_folder = WORKING_FOLDER.format(folder='..')
    return page[:first_section] + change_folder + page[first_section:]


if __name__ == '__main__':
    sys.exit(main())
