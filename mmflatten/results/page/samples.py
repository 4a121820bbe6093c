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
    places = {
        run.name: {entry['img_path']: index for index, entry in enumerate(run.results.entries)}
        for run in analyzed
    }
    chosen, samples = _chosen(analyzed, number), []
    for path, group in chosen:
        drawings = []
        for run in analyzed:
            index = places[run.name].get(path)
            picture = (
                None
                if index is None
                else run.attempt(
                    'sample images',
                    _draw,
                    run,
                    index,
                    score,
                    BUDGET // (len(chosen) * len(analyzed)),
                )
            )
            if picture:
                drawings.append((run.name, picture, dict(run.analysis.worst).get(index, '')))
        samples.append(dict(name=Path(path).name, group=group, drawings=drawings))
    return [sample for sample in samples if sample['drawings']]


def _chosen(runs: Sequence[TrainedRun], number: int) -> list[tuple[str, str]]:
    worst = [
        [run.results.entries[index]['img_path'] for index, _ in run.analysis.worst[:number]]
        for run in runs
    ]
    in_turn = dict.fromkeys(
        paths[place] for place in range(number) for paths in worst if place < len(paths)
    )
    chosen = list(in_turn)[: number // 2]
    others = [
        path
        for path in dict.fromkeys(
            entry['img_path'] for run in runs for entry in run.results.entries
        )
        if path not in chosen
    ]
    drawn = random.Random(0).sample(others, min(number - len(chosen), len(others)))
    return [(path, 'worst') for path in chosen] + [(path, 'random') for path in drawn]


def _draw(run: TrainedRun, index: int, score: float, budget: int) -> str:
    """Draw a prediction, and encode it as a data URL of at most `budget` characters, if need be
    smaller.
    """
    entry = run.results.entries[index]
    image, side = read_rgb(run.results.file(entry['img_path'])), MAX_SIDE
    with TemporaryDirectory() as folder:
        file = str(Path(folder, 'drawing.png'))
        draw_sample(
            run.task.visualizer(metainfo_of(run.results)),
            image,
            run.task.restore(entry),
            file,
            score=score,
        )
        picture = Image.fromarray(read_rgb(file))
    while True:
        encoded = io.BytesIO()
        size = [max(1, round(length * min(1, side / max(picture.size)))) for length in picture.size]
        picture.resize(size, Image.Resampling.LANCZOS).save(encoded, 'WEBP', quality=80, method=2)
        url = 'data:image/webp;base64,' + base64.b64encode(encoded.getvalue()).decode()
        if len(url) <= budget or side == MIN_SIDE:
            return url
        side = max(MIN_SIDE, int(0.9 * side * (budget / len(url)) ** 0.5))
