"""Selection of classes in the head of a classifier, such as ImageNet-1k from ImageNet-22k."""
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from mmflatten.checkpoints.rules import shorten

HEAD = ('head.fc.weight', 'head.fc.bias')


def map_head(state_dict: Mapping[str, Tensor], path: str | Path) -> dict[str, Tensor]:
    """Select the classes of a head listed in a text file.

    Args:
        state_dict: classifier with the names of this project. The result shares all tensors except those of the head.
        path: text file with the old class number of each new class, one per line, without empty lines.

    Raises:
        ValueError: the head is missing, the file is empty, or a line is not a class number of the head.
    """
    missing = [name for name in HEAD if name not in state_dict]
    if missing:
        raise ValueError(f'checkpoint: expected a classifier with {" and ".join(missing)}, got '
                         f'{shorten(list(state_dict))}. Official checkpoints need --family.')
    classes = len(state_dict[HEAD[0]])
    lines = Path(path).read_text(encoding='utf-8', errors='replace').splitlines()
    if not lines:
        raise ValueError(f'{path}: expected one class number per line, got an empty file.')
    for number, line in enumerate(lines, 1):
        if not line.strip().isdecimal() or int(line) >= classes:
            raise ValueError(f'{path}, line {number}: expected a class number from 0 to {classes - 1}, got {line!r}.')
    return {**state_dict, **{name: state_dict[name][[int(line) for line in lines]] for name in HEAD}}
