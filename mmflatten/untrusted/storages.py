"""Memory of the tensors in a file of PyTorch: storages that were read from it, whole and filled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.serialization import default_restore_location

MapLocation = str | torch.device | Callable | None


class Storages:
    """Storages that PyTorch makes while it reads one file.

    Args:
        map_location: device, a function of a storage and its location as for `torch.load`, or None
            for the location in the file.
    """

    def __init__(self, map_location: MapLocation) -> None:
        self.map_location = map_location
        self.max_bytes = 0  # of all together: those of the file
        self._made: list[tuple[torch.UntypedStorage, int]] = []  # with its bytes
        self._num_bytes = 0

    def __len__(self) -> int:
        return len(self._made)

    def forget(self, begin: int) -> None:
        """Forget all storages from a number on, because the file is read once more."""
        self._num_bytes -= sum(num_bytes for _, num_bytes in self._made[begin:])
        del self._made[begin:]

    def place(self, storage: Any, location: str) -> Any:
        """Put a new storage on its device, as `map_location` of `torch.load`, which calls it once
        for each.
        """
        placed = None
        if callable(self.map_location):
            placed = self.map_location(storage, location)
        elif self.map_location is not None:
            location = str(self.map_location)
        if placed is None:
            placed = default_restore_location(storage, location)
        self._made.append((placed, placed.nbytes()))
        self._num_bytes += placed.nbytes()
        if self._num_bytes > self.max_bytes:
            raise ValueError(
                f'its storages have {self._num_bytes} bytes or more, and the file {self.max_bytes}'
            )
        return placed

    def require_keys(self, keys: Any, before: int) -> None:
        """Check the list of storages in the older format: PyTorch fills those in it only.

        It fails by itself if a storage is in the list and was not made.

        Args:
            before: number of storages that had been made before this list was used.
        """
        if not isinstance(keys, list) or not all(type(key) is str for key in keys):
            raise ValueError('its list of storages is not a list of names')
        num_made = len(self) - before
        if len(set(keys)) != num_made:
            raise ValueError(f'it has {num_made} storages, and values of {len(set(keys))}')

    def require_memory_of(self, tensors: list[Tensor]) -> None:
        """Check that the memory of all tensors is what the file has.

        Raises:
            ValueError: a storage was made larger, which a tensor beyond its end does; a tensor has
                a storage that was not read; or it repeats its values to more bytes than the file.
        """
        addresses = set()
        for storage, num_bytes in self._made:
            if storage.nbytes() != num_bytes:
                raise ValueError('a tensor is larger than its storage')
            addresses.add(storage.data_ptr())
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage.nbytes() > 0 and storage.data_ptr() not in addresses:
                raise ValueError('a tensor has a storage that was not read from the file')
            # `nbytes` of PyTorch has 64 bits, and 2**61 repeated numbers of 8 bytes have 0.
            if tensor.numel() * tensor.element_size() > self.max_bytes:
                raise ValueError(
                    f'a tensor of {tuple(tensor.shape)} is larger than the file of'
                    f' {self.max_bytes} bytes'
                )
