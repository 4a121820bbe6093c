"""An exported file as a model of OpenMMLab: the same batches and data samples as a checkpoint's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from mmengine.model import BaseDataPreprocessor, BaseModel
from torch import Tensor

from mmflatten.export.wrappers import ExportError
from mmflatten.registry import MODELS
from mmflatten.runtime.files import ModelFile
from mmflatten.tasks import tasks
from mmflatten.untrusted.exported import ExportedFacts

Images = tuple[np.ndarray, ...]  # of one sample, (C, H, W) each


class RawImages(BaseDataPreprocessor):
    """Keep the images of a batch apart: the graph of a file normalises and pads them.

    Args:
        bands: images have bands in the order of the file, instead of BGR colours.
    """

    def __init__(self, bands: bool = False) -> None:
        super().__init__()
        self.bands = bands

    def forward(self, data: dict, training: bool = False) -> dict:
        """Return `data_samples`, and `inputs`: for each sample a tuple of RGB images `(3, H, W)`,
        float32 from 0 to 255, or of bands `(C, H, W)`.

        Args:
            data: `inputs` are BGR images `(3, H, W)`, in a dictionary of lists if a sample has
                several, or bands.
        """
        inputs = data['inputs']
        columns = list(inputs.values()) if isinstance(inputs, dict) else [inputs]
        convert = _array if self.bands else _rgb
        samples = [tuple(map(convert, images)) for images in zip(*columns)]
        return dict(inputs=samples, data_samples=data.get('data_samples'))


def _rgb(image_3HW: Tensor) -> np.ndarray:
    return np.ascontiguousarray(image_3HW.cpu().numpy()[::-1], dtype=np.float32)


def _array(image_CHW: Tensor) -> np.ndarray:
    return np.ascontiguousarray(image_CHW.cpu().numpy(), dtype=np.float32)


@MODELS.register_module()
class FileModel(BaseModel):
    """Model that runs an exported file.

    Images of a batch that differ in size are run one after another, without the padding that a
    checkpoint gets in such a batch. A file of a fixed size gets smaller images padded with the mean
    colour, as in a batch, if the task's `PADS` permits it.

    Args:
        file: file of `mmflatten export`.
        runtime: as in `ModelFile`.
        task: its task, by which a config is recognised as one of the tasks of its scope.
        data_preprocessor: None, which mmpretrain's inferencer passes for a config without one.

    Raises:
        ExportError: the file cannot be used, or has no predictions of a task.
    """

    def __init__(
        self,
        file: str,
        runtime: str | None = None,
        task: str | None = None,
        data_preprocessor: None = None,
    ) -> None:
        if data_preprocessor is not None:
            raise ExportError(
                f'data_preprocessor: expected none, because the graph of {file} prepares the'
                f' images, got {data_preprocessor}. Omit it.'
            )
        read = ModelFile(file, runtime)
        if task not in (None, read.facts.task):
            raise ExportError(
                f'task: expected {read.facts.task}, that of {file}, got {task}. Correct it.'
            )
        super().__init__(RawImages(bands=read.facts.bands is not None))
        self.file = read
        self.part = task_of_file(self.file.facts, file).part('runtime')
        # mmseg's test-time augmentation reads it.
        self.out_channels = len(self.file.facts.classes)

    def forward(
        self, inputs: list[Images], data_samples: list[Any], mode: str = 'predict'
    ) -> list[Any]:
        """Add predictions to the data samples, and return them.

        Raises:
            ExportError: the file does not take the size of an image.
        """
        if mode != 'predict':
            raise ExportError(
                f'mode: expected predict for an exported file, got {mode}. Use the checkpoint.'
            )
        facts = self.file.facts
        padded = [self._padded(images) for images in inputs]
        most = 1 if facts.batch is None else facts.batch[1]
        for batch in batches([images[0].shape for images in padded], most):
            columns = zip(*(padded[index] for index in batch))
            outputs = self.file(*(np.stack(column) for column in columns))
            for place, index in enumerate(batch):
                result = {name: value[place] for name, value in outputs.items()}
                size = inputs[index][0].shape[1:]
                self.part.add_prediction(data_samples[index], result, size)
        return data_samples

    def _padded(self, images: Images) -> Images:
        """Pad images at the right and the bottom to the fixed size of a file."""
        facts = self.file.facts
        if facts.sides is not None or not self.part.PADS:
            return images
        height, width = facts.size
        added = (height - images[0].shape[1], width - images[0].shape[2])
        if min(added) < 0 or max(added) == 0:
            return images
        colour = np.array(facts.mean, np.float32)[:, None, None]
        padded = []
        for image in images:
            canvas = np.broadcast_to(colour, (len(colour), height, width)).copy()
            canvas[:, : image.shape[1], : image.shape[2]] = image
            padded.append(canvas)
        return tuple(padded)


def batches(shapes: Sequence[tuple[int, ...]], most: int) -> Iterator[list[int]]:
    """Yield the indices of images of one shape, at most `most` at a time."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, shape in enumerate(shapes):
        groups.setdefault(tuple(shape), []).append(index)
    for group in groups.values():
        for start in range(0, len(group), most):
            yield group[start : start + most]


def task_of_file(facts: ExportedFacts, file: str) -> Any:
    """Return the task of a file.

    Raises:
        ExportError: the file has no predictions of a task, or outputs of another version.
    """
    offered = {name: task for name, task in tasks().items() if task.offers('runtime')}
    task = offered.get(facts.task)
    if task is None:
        raise ExportError(
            f'task: expected one of {", ".join(offered)}, got {facts.task} in {file}. Export the'
            ' model without --features.'
        )
    if len(facts.inputs) != len(task.inputs):
        raise ExportError(
            f'inputs: expected {", ".join(task.inputs)} for {facts.task}, got'
            f' {", ".join(facts.inputs)} in {file}. Export the model again.'
        )
    outputs = task.part('runtime').OUTPUTS
    if not any(tuple(facts.outputs) == names for names in outputs):
        expected = ' or '.join(', '.join(names) for names in outputs)
        raise ExportError(
            f'outputs: expected {expected} for {facts.task}, got {", ".join(facts.outputs)} in'
            f' {file}. Export the model again with this version of mmflatten.'
        )
    return task


def tensor(value: np.ndarray) -> Tensor:
    """Return an output as a tensor of its own memory."""
    return torch.from_numpy(np.array(value))
