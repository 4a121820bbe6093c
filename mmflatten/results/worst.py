"""Drawings of the worst images of an analysis."""
from pathlib import Path
from typing import Any

from mmflatten.checkpoints.rules import shorten
from mmflatten.config_files import require_parts
from mmflatten.datasets.samples import write_contact_sheet
from mmflatten.datasets.storage import read_rgb
from mmflatten.engine.datasets import read_metainfo
from mmflatten.engine.predictions import draw_sample
from mmflatten.engine.setup import load_config
from mmflatten.engine.test import origin_of
from mmflatten.errors import explain
from mmflatten.results.analysis import Analysis
from mmflatten.results.reading import Results, ResultsError
from mmflatten.tasks import Task, task_of


def origin_of_config(path: str, task: Task) -> dict:
    """Return the origin that `mmflatten test` with this config would write to the JSON file of its predictions.

    Raises:
        ResultsError: the config is of another task than the predictions.
    """
    cfg = load_config(path)
    require_parts(cfg, 'test_dataloader', 'test_evaluator')
    if task_of(cfg) is not task:
        raise ResultsError(f'--config: expected a config of {task.name}, as the predictions, got {path} of '
                           f'{task_of(cfg).name}. Give the config of the tested model.')
    return origin_of(cfg, read_metainfo(cfg))


def draw_worst(results: Results, analysis: Analysis, out_dir: str | Path, score: float) -> tuple[list[dict], list[str]]:
    """Draw the worst images into `worst/`, `<number>_<name of the image>.png` each, and on `worst.png`.

    Args:
        analysis: receives a note about images that were not drawn.
        score: minimum score of instances.

    Returns:
        A dictionary with `image`, `value` and `file` (None if not drawn) for each image, and the errors of images that
        exist but cannot be drawn.
    """
    folder, missing, broken, files = Path(out_dir, 'worst'), [], [], []
    worst = [dict(image=results.entries[index].get('img_path'), value=value, file=None)
             for index, value in analysis.worst]
    try:
        visualizer = results.task.visualizer(_metainfo(results))
        for number, (index, _) in enumerate(analysis.worst):
            try:
                files.append(_draw(visualizer, results.task, results.entries[index], folder, number, score))
                worst[number]['file'] = str(files[-1].relative_to(out_dir))
            except FileNotFoundError as error:
                missing.append(str(error))
            except Exception as error:  # one image must not discard the analysis
                broken.append(f'{worst[number]["image"]}: {explain(error)}')
    except ResultsError as error:
        missing.append(str(error))
    if missing or broken:
        analysis.notes.append(f'{len(worst) - len(files)} of {len(worst)} worst images are not drawn: '
                           f'{shorten(broken + missing, 2)}')
    if files:
        write_contact_sheet(files, Path(out_dir, 'worst.png'))
    return worst, broken


def _draw(visualizer: Any, task: Task, entry: dict, folder: Path, number: int, score: float) -> Path:
    image = read_rgb(entry['img_path'])
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f'{number:03d}_{Path(entry["img_path"]).stem}.png'
    draw_sample(visualizer, image, task.restore(entry), str(file), score=score)
    return file


def _metainfo(results: Results) -> dict:
    """Return classes and palette for the visualizers."""
    metainfo = {name: results.origin[name] for name in ('classes', 'palette') if results.origin.get(name)}
    if results.task.needs_classes and len(metainfo) < 2:
        raise ResultsError('classes, palette: missing in the results. Pass the config of the test with --config.')
    if isinstance(metainfo.get('palette'), list):  # mmdet requires tuples, which JSON does not have
        metainfo['palette'] = [tuple(colour) for colour in metainfo['palette']]
    return metainfo
