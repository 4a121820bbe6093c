"""A checkpoint in pieces: a folder NAME.sharded in which each process of a training wrote its part.

The pieces are files of `torch.distributed.checkpoint`. Beside them, `rest.pth` holds all that is not in pieces, with an
empty tensor for each that is, and `index.json`, written last, says where the pieces of these lie. So nothing is read by
PyTorch's own index, which is a pickle and could run code.
"""
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from mmengine.utils import apply_to
from torch import Tensor

from mmflatten.engine.checkpoints.one_file import read_file

SHARDED = '.sharded'
INDEX, REST = 'index.json', 'rest.pth'


def with_tensors(state: dict, other: Callable[[Tensor], Tensor]) -> dict:
    """A state of a training with `other(tensor)` for each tensor; the versions that modules noted stay."""
    result = apply_to(state, lambda value: isinstance(value, Tensor), other)
    result['state_dict']._metadata = state['state_dict']._metadata
    return result


def read_pieces(folder: Path) -> dict:
    """The whole state, put together on the CPU from a folder that is whole."""
    places = iter(_places(folder))

    def whole(tensor: Tensor) -> Tensor:
        if not tensor.is_meta:
            return tensor
        tensor = torch.empty_like(tensor, device='cpu')
        for offsets, *place in next(places):
            piece = _read_piece(folder, *place)
            _part(tensor, offsets, piece).copy_(piece)
        return tensor

    return with_tensors(read_file(folder / REST), whole)


def damaged_piece(folder: Path) -> str | None:
    """Read all parts through and say which is damaged; None when the pieces are whole and fill their tensors."""
    tensors: list[Tensor] = []
    try:
        apply_to(read_file(folder / REST), lambda value: isinstance(value, Tensor) and value.is_meta, tensors.append)
    except ValueError:
        return REST
    try:
        for tensor, pieces in zip(tensors, _places(folder), strict=True):
            missing = tensor.numel()
            for offsets, *place in pieces:
                piece = _read_piece(folder, *place)
                if piece is None:
                    return place[0]
                if _part(tensor, offsets, piece).shape == piece.shape:
                    missing -= piece.numel()
            if missing:
                return INDEX
    except (OSError, TypeError, ValueError, IndexError, AttributeError):  # what is no index can be anything
        return INDEX
    return None


def _places(folder: Path) -> list[list[tuple[list[int], str, int, int]]]:
    """For each tensor, in the order of `rest.pth`, its pieces: offsets, and file, beginning and length in bytes."""
    return json.loads((folder / INDEX).read_text(encoding='utf-8'))


def _read_piece(folder: Path, name: str, start: int, length: int) -> Tensor | None:
    """A piece, None where it is missing or damaged, which its checksums tell."""
    try:
        with open(folder / name, 'rb') as file:
            file.seek(start)
            content = io.BytesIO(file.read(length))
        with zipfile.ZipFile(content) as archive:
            whole = archive.testzip() is None
        content.seek(0)
        return torch.load(content, map_location='cpu', weights_only=True) if whole else None
    except (OSError, zipfile.BadZipFile, RuntimeError, pickle.UnpicklingError):
        return None


def _part(tensor: Tensor, offsets: list[int], piece: Tensor) -> Tensor:
    """Where a piece lies in its tensor."""
    return tensor[tuple(slice(start, start + size) for start, size in zip(offsets, piece.shape))]
