"""Test images of the page, the worst and random ones, with truth and prediction as the task's
visualizer draws them.
"""

from __future__ import annotations

import base64
import io
import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from mmflatten.datasets.bands import read_drawable
from mmflatten.datasets.storage import read_rgb
from mmflatten.engine.predictions import draw_sample
from mmflatten.results.work_dir import TrainedRun
from mmflatten.results.writing import metainfo_of

BUDGET = 5 * 2**20  # bytes of all pictures in base64
MAX_SIDE, MIN_SIDE = 1280, 96  # pixels of the longer side


def read_gallery(runs: Sequence[TrainedRun], number: int, score: float) -> list[dict[str, Any]]:
    """Draw test images for all runs: half the worst images, taken from the runs in turn, half
    random.

    Returns:
        Dictionaries with `name`, `group` (worst or random) and `drawings`: the run, its data URL,
        and the number by which the run sorts the worst images, or ''.
    """
    analyzed = [run for run in runs if run.analysis is not None]
    places = {run.name: _places(run) for run in analyzed}
    chosen = _choose(analyzed, number)
    samples = []
    for path, group in chosen:
        budget = BUDGET // (len(chosen) * len(analyzed))
        drawings = []
        for run in analyzed:
            index = places[run.name].get(path)
            if index is None:
                continue
            picture = run.attempt('sample images', _draw, run, index, score, budget)
            if picture:
                value = dict(run.analysis.worst).get(index, '')
                drawings.append((run.name, picture, value))
        if drawings:
            samples.append(dict(name=Path(path).name, group=group, drawings=drawings))
    return samples


def _places(run: TrainedRun) -> dict[str, int]:
    """Return the index of each image in the results."""
    return {entry['img_path']: index for index, entry in enumerate(run.results.entries)}


def _choose(runs: Sequence[TrainedRun], number: int) -> list[tuple[str, str]]:
    """Return path and group of at most `number` images."""
    worst = _in_turn([_worst_paths(run, number) for run in runs], number)[: number // 2]
    paths: dict[str, None] = {}
    for run in runs:
        paths |= dict.fromkeys(_places(run))
    others = [path for path in paths if path not in worst]
    drawn = random.Random(0).sample(others, min(number - len(worst), len(others)))
    chosen = [(path, 'worst') for path in worst]
    chosen += [(path, 'random') for path in drawn]
    return chosen


def _worst_paths(run: TrainedRun, number: int) -> list[str]:
    return [run.results.entries[index]['img_path'] for index, _ in run.analysis.worst[:number]]


def _in_turn(lists: Sequence[Sequence[str]], number: int) -> list[str]:
    """Return the first item of each list, followed by the second of each, and so on, without
    repetition.
    """
    found: dict[str, None] = {}
    for place in range(number):
        for items in lists:
            if place < len(items):
                found[items[place]] = None
    return list(found)


def _draw(run: TrainedRun, index: int, score: float, budget: int) -> str:
    """Draw a prediction, and encode it as a data URL of at most `budget` characters; a smaller size
    is used if necessary.
    """
    entry = run.results.entries[index]
    image = read_drawable(run.results.file(entry['img_path']))
    with TemporaryDirectory() as folder:
        file = str(Path(folder, 'drawing.png'))
        visualizer = run.task.visualizer(metainfo_of(run.results))
        draw_sample(
            visualizer=visualizer,
            image=image,
            sample=run.task.restore(entry),
            out_file=file,
            score=score,
        )
        picture = Image.fromarray(read_rgb(file))
    side = MAX_SIDE
    while True:
        url = _encode(picture, side)
        if len(url) <= budget or side == MIN_SIDE:
            return url
        # The number of bytes is about proportional to that of the pixels.
        side = max(MIN_SIDE, int(0.9 * side * (budget / len(url)) ** 0.5))


def _encode(picture: Image.Image, side: int) -> str:
    """Encode a picture as a data URL, with at most `side` pixels on its longer side."""
    scale = min(1, side / max(picture.size))
    size = [max(1, round(length * scale)) for length in picture.size]
    encoded = io.BytesIO()
    picture.resize(size, Image.Resampling.LANCZOS).save(encoded, 'WEBP', quality=80, method=2)
    return 'data:image/webp;base64,' + base64.b64encode(encoded.getvalue()).decode()
