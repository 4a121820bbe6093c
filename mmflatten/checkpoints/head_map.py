"""The head of a classifier for other classes that are among its own: ImageNet-1k from ImageNet-22k."""
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from mmflatten.checkpoints.rules import shorten

HEAD = ('head.fc.weight', 'head.fc.bias')


def map_head(state_dict: Mapping[str, Tensor], path: str | Path) -> dict[str, Tensor]:
    """Weights whose class `i` is the class of `state_dict` that stands on line `i` (from 0) of a text file.

    Args:
        state_dict: a classifier under the names of this project; the result shares all tensors but the head's.
        path: one number per line, without empty lines. There are as many new classes as lines.

    Raises:
        ValueError: no head; a file without lines; a line that is no number or no class of the head.
    """
    missing = [name for name in HEAD if name not in state_dict]
    if missing:
        raise ValueError(f'the checkpoint has no {" and no ".join(missing)} to map to other classes; it has '
                         f'{shorten(list(state_dict))}. Is it a classifier, and does it need --family?')
    classes = len(state_dict[HEAD[0]])
    lines = Path(path).read_text(encoding='utf-8', errors='replace').splitlines()
    if not lines:
        raise ValueError(f'{path} is empty; it must hold one class of the checkpoint per line')
    for number, line in enumerate(lines, 1):
        if not line.strip().isdecimal() or int(line) >= classes:
            raise ValueError(f'{path}, line {number}: {line!r} must be a class of the checkpoint, 0 to {classes - 1}')
    return {**state_dict, **{name: state_dict[name][[int(line) for line in lines]] for name in HEAD}}
