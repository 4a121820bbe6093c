"""Gallery of test images, the worst and random ones, with layers: truth and predictions as outlines, maps or text."""
from __future__ import annotations

import base64
import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from mmflatten.datasets.storage import read_rgb
from mmflatten.results.reading import Results
from mmflatten.results.work_dir import TrainedRun

BUDGET = 5 * 2 ** 20  # bytes of all pictures in base64
MAX_SIDE, MIN_SIDE = 640, 96  # pixels of the longer side
KINDS = ('truth', 'prediction', 'error')  # of layers

Encode = Callable[..., str]  # pixels (H, W, 3 or 4) to a data URL


@dataclass
class SampleLayer:
    """A layer over a test image, which a toggle of the page shows or hides."""

    kind: str  # truth, prediction or error
    run: int = 0  # index of the run of a prediction
    text: str = ''  # caption below the image
    picture: str = ''  # data URL of an image drawn over the test image
    shapes: list[dict[str, Any]] = field(default_factory=list)  # outlines, with `path`, `name`, `x` and `y`


def read_gallery(runs: Sequence[TrainedRun], number: int, score: float) -> dict[str, Any]:
    """Read test images with the layers of all runs: half the worst images, taken from the runs in turn, half random.

    Returns:
        `samples` (see `_sample`) and their `classes`; `exclusive`, True if layers cover each other and are shown one at
        a time; `toggles`, kind, run, title and initial state of each layer; `legend`, name and colour of the classes
        of label maps; `worst_by`, name of the value by which the worst images are sorted.
    """
    analyzed = {index: run for index, run in enumerate(runs) if run.analysis is not None}
    entries = {index: {entry['img_path']: entry for entry in run.results.entries} for index, run in analyzed.items()}
    samples = []
    for path, group in _chosen(list(analyzed.values()), number):
        found = [(index, run, entries[index][path]) for index, run in analyzed.items() if path in entries[index]]
        samples.append(found[0][1].attempt('sample images', _sample, path, group, found, BUDGET // number, score))
    samples = [sample for sample in samples if sample]
    layers = [layer for sample in samples for layer in sample['layers']]
    exclusive = any(layer.picture for layer in layers)
    kinds = [(kind, run) for run in range(len(runs)) for kind in KINDS  # the truth has the number of the first run
             if any((layer.kind, layer.run) == (kind, run) for layer in layers)]
    first = next((pair for pair in kinds if pair[0] == 'prediction'), None)
    toggles = [(kind, run, kind.capitalize() + (f' {runs[run].name}' if kind != 'truth' and len(runs) > 1 else ''),
                not exclusive or (kind, run) == first) for kind, run in kinds]
    legend = next((list(zip(run.results.origin['classes'], palette_of(run.results, len(run.results.origin['classes']))))
                   for run in analyzed.values() if run.task.has_label_maps and run.results.origin.get('classes')), [])
    return dict(samples=samples, classes=sorted({name for sample in samples for name in sample['classes']}),
                exclusive=exclusive, toggles=toggles, legend=legend,
                worst_by=', '.join(dict.fromkeys(run.analysis.worst_by for run in analyzed.values())))


def _chosen(runs: Sequence[TrainedRun], number: int) -> list[tuple[str, str]]:
    worst = [[run.results.entries[index]['img_path'] for index, _ in run.analysis.worst[:number]] for run in runs]
    in_turn = dict.fromkeys(paths[place] for place in range(number) for paths in worst if place < len(paths))
    chosen = list(in_turn)[:number // 2]
    others = [path for path in dict.fromkeys(entry['img_path'] for run in runs for entry in run.results.entries)
              if path not in chosen]
    drawn = random.Random(0).sample(others, min(number - len(chosen), len(others)))
    return [(path, 'worst') for path in chosen] + [(path, 'random') for path in drawn]


def _sample(path: str, group: str, found: list[tuple[int, TrainedRun, dict]], budget: int,
            score: float) -> dict[str, Any]:
    """Return the variables of a test image; `numbers` are those by which the runs sort the worst images."""
    pixels = read_rgb(found[0][1].results.image(path))
    side = MAX_SIDE
    while True:
        encode = partial(data_url, scale=min(1, side / max(pixels.shape[:2])))
        picture, layers, classes = encode(pixels), [], set()
        for index, run, entry in found:
            drawn, names = run.task.part('results.page').layers(run.results, entry, encode, score)
            for layer in drawn:
                layer.run = 0 if layer.kind == 'truth' else index
            layers += [layer for layer in drawn if layer.kind != 'truth' or not layers]
            classes.update(names)
        size = len(picture) + sum(len(layer.picture) for layer in layers)
        if size <= budget or side == MIN_SIDE:
            break
        side = max(MIN_SIDE, int(0.9 * side * (budget / size) ** 0.5))
    numbers = [f'{value:.3g}' for _, run, _ in found for index, value in run.analysis.worst
              if run.results.entries[index]['img_path'] == path]
    return dict(path=path, name=Path(path).name, group=group, size=pixels.shape[1::-1], picture=picture, layers=layers,
                classes=sorted(classes), numbers=numbers)


def data_url(pixels: np.ndarray, scale: float = 1, **options: Any) -> str:
    """Scale RGB or RGBA pixels and encode them as a WebP data URL, with options of the format for label maps."""
    picture, file = Image.fromarray(pixels), io.BytesIO()
    size = [max(1, round(scale * side)) for side in picture.size]
    resampling = Image.Resampling.NEAREST if options else Image.Resampling.LANCZOS
    picture.resize(size, resampling).save(file, 'WEBP', **(options or dict(quality=80, method=2)))
    return 'data:image/webp;base64,' + base64.b64encode(file.getvalue()).decode()


def palette_of(results: Results, number: int) -> list:
    """Return the colours of the data set, or evenly spaced hues if they are unknown."""
    wheel = np.uint8([[(180 * label // max(number, 1), 160, 220) for label in range(number)]])
    return results.origin.get('palette') or cv2.cvtColor(wheel, cv2.COLOR_HSV2RGB)[0].tolist()
