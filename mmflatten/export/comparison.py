"""Comparison of an exported file with PyTorch, on noise and on images of the user."""

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import torch
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope
from torch import Tensor

from mmflatten.data_folders import IMAGE_SUFFIXES
from mmflatten.datasets.bands import ARRAY_SUFFIX, LoadBands
from mmflatten.datasets.storage import read_rgb
from mmflatten.engine.image_input import pipeline_of
from mmflatten.export.onnx_files import random_images
from mmflatten.export.wrappers import ExportedModel, ExportError
from mmflatten.untrusted.files import images_in, problem_of
from mmflatten.untrusted.published import Input, checked

TOLERANCE = 1e-4  # largest difference, relative to the largest value of the output

Engine = Callable[..., Mapping[str, np.ndarray]]


class Case(NamedTuple):
    """Inputs of one comparison, `(B, C, H, W)` each, and their name for messages."""

    name: str
    images: tuple[np.ndarray, ...]


def noise_cases(module: ExportedModel, metadata: Mapping[str, Any]) -> list[Case]:
    """Return noise of the exported size and, if sizes are open, of an odd and of a wide size.

    If the batch is open, the odd size is a batch of 3.
    """
    height, width = metadata['size']
    cases = [noise_case(module, (height, width))]
    if metadata['sides']:
        least = metadata['sides'][0]
        odd_height = max(height * 3 // 4 | 1, least)
        odd_width = max(width * 5 // 4 | 1, least)
        batch = 3 if metadata['batch'] else 1
        cases.append(noise_case(module, (odd_height, odd_width), batch))
        cases.append(noise_case(module, (height, 2 * width)))
    return cases


def noise_case(module: ExportedModel, size: tuple[int, int], batch: int = 1) -> Case:
    """Return a case of noise images."""
    name = f'{size[0]}x{size[1]}'
    if batch > 1:
        name = f'{batch} of {name}'
    return Case(name, random_images(module, size, batch))


def image_cases(
    paths: Sequence[str], metadata: Mapping[str, Any], scope: str, num_images: int
) -> list[Case]:
    """Read the first `num_images` images of files and folders.

    They are resized and cropped as in the test pipeline, and then to a size that the file takes.

    Args:
        scope: scope of the task, whose transforms are used.

    Raises:
        ExportError: a path has no images, or the model takes several images.
    """
    if len(metadata['inputs']) > 1:
        raise ExportError(
            f'--images: expected a model of one image, got inputs {", ".join(metadata["inputs"])}.'
            ' Omit --images.'
        )
    transform = _transform(metadata, scope)
    suffixes = IMAGE_SUFFIXES if metadata.get('bands') is None else (*IMAGE_SUFFIXES, ARRAY_SUFFIX)
    cases = []
    for file in _image_files(paths, suffixes)[:num_images]:
        pixels = _pixels(file, metadata, transform)
        image = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], dtype=np.float32)
        cases.append(Case(f'{Path(file).name} {pixels.shape[0]}x{pixels.shape[1]}', (image,)))
    return cases


def _transform(metadata: Mapping[str, Any], scope: str) -> Compose:
    """Return the transforms between the loading of an image and its packing."""
    numbers = checked(Input, metadata['transforms'] or {}, 'transforms')
    steps = pipeline_of(numbers, scope)[1:-1]
    with DefaultScope.overwrite_default_scope(scope):
        return Compose(steps)


def _pixels(file: str, metadata: Mapping[str, Any], transform: Compose) -> np.ndarray:
    """Read a file as `(H, W, C)`, RGB or bands, in a size that the exported file takes."""
    sample = dict(img_path=file)
    if metadata.get('bands') is None:
        bgr = np.ascontiguousarray(read_rgb(file)[..., ::-1])
        sample.update(img=bgr, img_shape=bgr.shape[:2], ori_shape=bgr.shape[:2])
        return fit(transform(sample)['img'], metadata)[..., ::-1]
    sample = LoadBands(**metadata['bands']).transform(sample)
    number = len(metadata['mean'])
    if sample['img'].shape[2] != number:
        raise ExportError(
            f'--images: expected {number} bands, got {sample["img"].shape[2]} in {file}. Name'
            ' images of the training.'
        )
    return fit(transform(sample)['img'], metadata)


def _image_files(paths: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    files = []
    for path in paths:
        found = [Path(path)]
        if Path(path).is_dir():
            found = images_in(Path(path), suffixes)
        elif problem_of(path, sys.maxsize) is not None:
            raise ExportError(f'--images: {path} {problem_of(path, sys.maxsize)}. Check the path.')
        if not found:
            raise ExportError(
                f'--images: the folder has no images, got {path}. Expected {", ".join(suffixes)}.'
            )
        files += [str(file) for file in found]
    return files


def fit(pixels: np.ndarray, metadata: Mapping[str, Any]) -> np.ndarray:
    """Resize an image `(H, W, C)` to a size that a file takes."""
    height, width = pixels.shape[:2]
    target = tuple(metadata['size'])
    if metadata['sides']:
        least, most = metadata['sides']
        target = (min(max(height, least), most), min(max(width, least), most))
    if target == (height, width):
        return pixels
    return cv2.resize(pixels, target[::-1], interpolation=cv2.INTER_LINEAR)


def compare(name: str, module: ExportedModel, exported: Engine, case: Case) -> float:
    """Return the largest difference between a file and PyTorch over all outputs of a case.

    It is relative to the largest value.

    Raises:
        ExportError: the difference is above the tolerance and above four times the one between
            PyTorch's float32 and float64, which is large for large scores.
    """
    expected = run(module, case)
    error = largest(module, module.errors(exported(*case.images), expected))
    # A comparison with NaN is false, which must be an error.
    if not error <= TOLERANCE:
        exact = run(copy.deepcopy(module).double(), case, torch.float64)
        if not error <= 4 * largest(module, module.errors(exact, expected)):
            raise ExportError(
                f'{name}: expected a difference from PyTorch of at most {TOLERANCE} of the largest'
                f' value at {case.name}, got {error:.1e}. Use PyTorch.'
            )
    return error


def largest(module: ExportedModel, errors: np.ndarray) -> float:
    """Return the largest error without the model's outliers; NaN if one is NaN, 0 if there are
    none.
    """
    if np.isnan(errors).any():
        return float('nan')
    number = len(errors) - int(module.outliers * len(errors))
    return float(np.sort(errors)[:number].max(initial=0))


@torch.no_grad()
def run(
    module: ExportedModel, case: Case, dtype: torch.dtype = torch.float32
) -> dict[str, np.ndarray]:
    """Return the outputs of a model by name."""
    tensors: list[Tensor] = [torch.from_numpy(image).to(dtype) for image in case.images]
    outputs = [output.numpy() for output in module(*tensors)]
    return dict(zip(module.outputs, outputs, strict=True))
