"""Gallery of test images, the worst and random ones, with their layers."""
from __future__ import annotations

import base64
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mmflatten.datasets.storage import read_rgb
from mmflatten.report.collect import TrainedRun
from mmflatten.report.layers import Encode, SampleLayer, palette_of

BUDGET = 5 * 2 ** 20  # bytes of all pictures in base64
MAX_SIDE, MIN_SIDE = 640, 96  # pixels of the longer side


@dataclass
class Sample:
    """A test image.

    Attributes:
        group: worst or random.
        size: (width, height).
        values: for each run, the value by which the worst images are sorted.
    """

    path: str
    group: str
    size: tuple[int, int]
    picture: str
    layers: list[SampleLayer]
    classes: list[str]
    values: list[str]

    @property
    def name(self) -> str:
        return Path(self.path).name

    @property
    def alt(self) -> str:
        return f'Test image {self.name}' + (f' with {", ".join(self.classes)}' if self.classes else '')


@dataclass
class Gallery:
    """Samples with their filters and toggles.

    Attributes:
        toggles: kind, run, title and initial state of each layer.
        legend: name and RGB colour of the classes of label maps.
        exclusive: True if layers cover each other, so that only one is shown at a time.
        worst_by: name of the value by which the worst images are sorted.
    """

    samples: list[Sample]
    toggles: list[tuple[str, int, str, bool]]
    legend: list[tuple[str, list[int]]]
    exclusive: bool
    worst_by: str

    @property
    def classes(self) -> list[str]:
        return sorted({name for sample in self.samples for name in sample.classes})


def read_gallery(runs: Sequence[TrainedRun], number: int, score: float) -> Gallery:
    """Read samples and set up filters and toggles."""
    samples = read_samples(runs, number, score)
    layers = [layer for sample in samples for layer in sample.layers]
    exclusive = any(layer.picture for layer in layers)
    order = ('truth', 'prediction', 'error')
    kinds = sorted({(layer.run, order.index(layer.kind)) for layer in layers}, key=lambda kind: (kind[1] > 0, *kind))
    toggles = []
    for run, kind in kinds:
        title = order[kind].capitalize()
        shown = not exclusive or kind == 1 and not any(pressed for *_, pressed in toggles)
        toggles.append((order[kind], run, title if len(runs) == 1 or not kind else f'{title} {runs[run].name}', shown))
    analyzed = [run for run in runs if run.analysis is not None]
    legend = next((list(zip(run.results.origin['classes'], palette_of(run.results, len(run.results.origin['classes']))))
                   for run in analyzed if run.task.has_label_maps and run.results.origin.get('classes')), [])
    return Gallery(samples, toggles, legend, exclusive, ', '.join(dict.fromkeys(
        run.analysis.worst_by for run in analyzed)))


def read_samples(runs: Sequence[TrainedRun], number: int, score: float) -> list[Sample]:
    """Read test images with the layers of all runs: half the worst images, taken from the runs in turn, half random.

    Args:
        number: maximum number of images.
        score: minimum score of detections.
    """
    known = [(index, run, {entry['img_path']: entry for entry in run.results.entries})
             for index, run in enumerate(runs) if run.analysis is not None]
    samples = []
    for path, group in _chosen([run for _, run, _ in known], number):
        found = [(index, run, entries[path]) for index, run, entries in known if path in entries]
        sample = found[0][1].attempt('sample images', _sample, path, group, found, BUDGET // number, score)
        if sample:
            samples.append(sample)
    return samples


def _chosen(runs: Sequence[TrainedRun], number: int) -> list[tuple[str, str]]:
    worst = [[run.results.entries[index]['img_path'] for index, _ in run.analysis.worst[:number]] for run in runs]
    in_turn = dict.fromkeys(paths[place] for place in range(number) for paths in worst if place < len(paths))
    chosen = list(in_turn)[:number // 2]
    others = [path for path in dict.fromkeys(entry['img_path'] for run in runs for entry in run.results.entries)
              if path not in chosen]
    drawn = random.Random(0).sample(others, min(number - len(chosen), len(others)))
    return [(path, 'worst') for path in chosen] + [(path, 'random') for path in drawn]


def _sample(path: str, group: str, found: list[tuple[int, TrainedRun, dict]], budget: int, score: float) -> Sample:
    pixels = read_rgb(path)
    side = MAX_SIDE
    while True:
        encode = encoder(min(1, side / max(pixels.shape[:2])))
        picture, layers, classes = encode(pixels), [], set()
        for index, run, entry in found:
            made, names = run.task.part('report').layers(run.results, entry, encode, score)
            for layer in made:
                layer.run = 0 if layer.kind == 'truth' else index
            layers += [layer for layer in made if layer.kind != 'truth' or not layers]
            classes.update(names)
        size = len(picture) + sum(len(layer.picture) for layer in layers)
        if size <= budget or side == MIN_SIDE:
            break
        side = max(MIN_SIDE, int(0.9 * side * (budget / size) ** 0.5))
    values = [f'{value:.3g}' for _, run, _ in found for index, value in run.analysis.worst
              if run.results.entries[index]['img_path'] == path]
    return Sample(path, group, pixels.shape[1::-1], picture, layers, sorted(classes), values)


def encoder(scale: float = 1) -> Encode:
    """Return a function that scales RGB or RGBA pixels and encodes them as a WebP data URL."""
    def encode(pixels: np.ndarray, **options: Any) -> str:
        picture = Image.fromarray(pixels)
        size = [max(1, round(scale * side)) for side in picture.size]
        file = io.BytesIO()
        resampling = Image.Resampling.NEAREST if options else Image.Resampling.LANCZOS  # labels: nearest
        picture.resize(size, resampling).save(file, 'WEBP', **(options or dict(quality=80, method=2)))
        return 'data:image/webp;base64,' + base64.b64encode(file.getvalue()).decode()

    return encode
