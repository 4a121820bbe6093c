"""Write docs/recipes.md: what every config trains with, recipe by recipe, and where each setting comes from.

    python tools/maintain/recipes.py             # docs/recipes.md
    python tools/maintain/recipes.py --check     # fail if it is not up to date
"""
import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from recipe_page.page import COMMAND, read_recipes, render_page

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line

ROOT = Path(__file__).resolve().parents[2]


@command_line
def main(argv: Sequence[str]) -> None:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--check', action='store_true', help='compare with the file; write nothing')
    arguments = parser.parse_args(argv)
    page, text = ROOT / 'docs' / 'recipes.md', render_page(read_recipes(ROOT))
    if page.is_file() and page.read_text(encoding='utf-8') == text:
        print(f'{page.name} is up to date')
    elif arguments.check:
        raise ValueError(f'docs/{page.name} is not up to date; run {COMMAND}')
    else:
        page.write_text(text, encoding='utf-8')
        print(f'{page.name} written anew')


if __name__ == '__main__':
    sys.exit(main())
