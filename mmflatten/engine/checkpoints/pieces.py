"""A checkpoint in pieces: a folder NAME.sharded in which each process of a training wrote its part.

The pieces are files of `torch.distributed.checkpoint`. Beside them, `rest.pth` holds all that is not in pieces, with an
empty tensor for each that is, and `index.json`, written last, says where the pieces of these lie. So nothing is read by
PyTorch's own index, which is a pickle and could run code.
"""
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from mmengine.utils import apply_to
from torch import Tensor

SHARDED = '.sharded'
INDEX, REST = 'index.json', 'rest.pth'


def with_tensors(state: dict, other: Callable[[Tensor], Tensor]) -> dict:
    """A state of a training with `other(tensor)` for each tensor; the versions that modules noted stay."""
    result = apply_to(state, lambda value: isinstance(value, Tensor), other)
    result['state_dict']._metadata = state['state_dict']._metadata
    return result


def read_pieces(rest: dict, folder: Path) -> dict:
    """The whole state, from what `rest.pth` holds and the pieces."""
    places = iter(_places(folder))

    def whole(tensor: Tensor) -> Tensor:
        if not tensor.is_meta:
            return tensor
        tensor = torch.empty_like(tensor, device='cpu')
        for offsets, *place in next(places):
            piece = torch.load(_piece(folder, *place), map_location='cpu', weights_only=True)
            tensor[tuple(slice(start, start + size) for start, size in zip(offsets, piece.shape))] = piece
        return tensor

    return with_tensors(rest, whole)


def damaged_piece(folder: Path) -> str | None:
    """Read all pieces through and say which is damaged; None when they are whole."""
    try:
        pieces = [place for tensor in _places(folder) for _, *place in tensor]
    except (OSError, ValueError):
        return INDEX
    for name, start, length in pieces:
        try:
            with zipfile.ZipFile(_piece(folder, name, start, length)) as archive:
                whole = archive.testzip() is None
        except (OSError, zipfile.BadZipFile):
            whole = False
        if not whole:
            return name
    return None


def _places(folder: Path) -> list[list[tuple[list[int], str, int, int]]]:
    """For each tensor, in the order of `rest.pth`, its pieces: offsets, and file, beginning and length in bytes."""
    return json.loads((folder / INDEX).read_text(encoding='utf-8'))


def _piece(folder: Path, name: str, start: int, length: int) -> io.BytesIO:
    with open(folder / name, 'rb') as file:
        file.seek(start)
        return io.BytesIO(file.read(length))
