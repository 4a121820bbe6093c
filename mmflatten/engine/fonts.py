"""A font of the system for names in scripts that Matplotlib's own font lacks, such as Chinese."""

from functools import cache

from mmflatten.console import print_progress
from mmflatten.text import printable, shorten

say_once = cache(print_progress)
_BOXES = 'Last Resort'  # a font that draws every character as a box


@cache
def fonts_for(text: str) -> dict[str, list[str]]:
    """Return settings of Matplotlib with the installed font that has the most characters of a text.

    Characters that no font has are drawn as boxes, which a printed line lists.
    """
    from matplotlib.font_manager import fontManager

    characters = {*printable(text)} - {' '}
    default = fontManager.findfont('DejaVu Sans')
    missing, family = _missing_characters(default, characters), ''
    if not missing:
        return {}
    fonts = [font for font in fontManager.ttflist if not font.name.startswith(_BOXES)]
    for name, path in sorted((font.name, font.fname) for font in fonts):
        found = _missing_characters(path, characters)
        if len(found) < len(missing):
            missing, family = found, name
    if missing:
        print_progress(
            f'drawings: no installed font has {shorten(missing, 5)} of the class names, which are'
            ' drawn as boxes. Install one, such as fonts-noto-cjk for Chinese, Japanese and Korean.'
        )
    return {'font.sans-serif': [family], 'font.monospace': [family]} if family else {}


def _missing_characters(path: str, characters: set[str]) -> list[str]:
    from matplotlib.ft2font import FT2Font

    try:
        available = FT2Font(path).get_charmap()
    except (OSError, RuntimeError):  # removed, or without outlines
        return sorted(characters)
    return sorted(character for character in characters if ord(character) not in available)
