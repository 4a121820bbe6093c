"""What of a checkpoint does not fit a model, in one sentence."""
import re
from collections.abc import Sequence

_NAMED_KEYS = 3
# The first words of MMEngine's report and of PyTorch's, which a hook or a backbone that loads by itself lets through.
MISFIT_REPORTS = ('The model and loaded state dict do not match exactly', 'Error(s) in loading state_dict')


def is_misfit_report(text: str) -> bool:
    """Whether the text of an error lists the keys that do not fit a model."""
    return any(words in text for words in MISFIT_REPORTS)


def misfit_message(filename: str, report: str) -> str:
    """Shorten a list of everything that does not fit to the first keys of each kind."""
    parts = []
    for label, ours, pytorchs in (
            ('missing', r'^missing keys in source state_dict: (.*)$', r'Missing key\(s\) in state_dict: (.*)'),
            ('not in the model', r'^unexpected key in source state_dict: (.*)$',
             r'Unexpected key\(s\) in state_dict: (.*)')):
        found = re.search(ours, report, flags=re.MULTILINE) or re.search(pytorchs, report)
        if found:
            keys = found[1].replace('"', '').rstrip('. ').split(', ')
            parts.append(f'{label}: {first(keys)}')
    shapes = re.findall(r'size mismatch for (?:module\.)?(\S+): copying a param with shape (.+?) from checkpoint, '
                        r'the shape in current model is (.+?)\.?$', report, flags=re.MULTILINE)
    if shapes:
        parts.append('of another shape: ' + first([f'{key} {old} instead of {new}' for key, old, new in shapes]))
    return f'checkpoint {filename} does not fit the model of the config: ' + '; '.join(parts)


def first(names: Sequence[str], number: int = _NAMED_KEYS) -> str:
    """The first few names, and how many there are besides."""
    rest = len(names) - number
    return ', '.join(names[:number]) + (f' and {rest} more' if rest > 0 else '')
