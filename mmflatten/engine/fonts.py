"""A font of the system for names in scripts that Matplotlib's own font lacks, such as Chinese."""

from functools import cache

from mmflatten.console import print_progress
from mmflatten.text import printable, shorten

say_once = cache(print_progress)


@cache
def fonts_for(text: str) -> dict[str, list[str]]:
    """Return settings of Matplotlib with the installed font that has the most characters of a text.

    A line names the characters that no font has, which are drawn as boxes.
    """
    from matplotlib.font_manager import fontManager
    from matplotlib.ft2font import FT2Font

    characters = {*printable(text)} - {' '}

    def absent(path: str) -> list[str]:
        try:
            known = FT2Font(path).get_charmap()
        except (OSError, RuntimeError):  # removed, or without outlines
            return [*characters]
        return sorted(char for char in characters if ord(char) not in known)

    fewest, family = absent(fontManager.findfont('DejaVu Sans')), ''
    for name, path in (
        sorted((font.name, font.fname) for font in fontManager.ttflist) if fewest else ()
    ):
        # that has boxes alone
        if not name.startswith('Last Resort') and len(found := absent(path)) < len(fewest):
            fewest, family = found, name
    if fewest:
        print_progress(
            f'drawings: no installed font has {shorten(fewest, 5)} of the class names, which become'
            ' boxes. Install one, such as fonts-noto-cjk for Chinese, Japanese and Korean.'
        )
    return {'font.sans-serif': [family], 'font.monospace': [family]} if family else {}
