"""The images that an analysis found worst, drawn."""
from pathlib import Path
from typing import Any

from mmflatten.checkpoints.rules import shorten
from mmflatten.config_files import require_parts
from mmflatten.datasets.contact_sheet import write_contact_sheet
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
    """What `mmflatten test` with this config would write beside its predictions.

    Raises:
        ResultsError: it is of another task than the predictions.
    """
    cfg = load_config(path)
    require_parts(cfg, 'test_dataloader', 'test_evaluator')
    if task_of(cfg) is not task:
        raise ResultsError(f'--config: expected a config of {task.name}, as the predictions, got {path} of '
                           f'{task_of(cfg).name}. Give the config of the tested model.')
    return origin_of(cfg, read_metainfo(cfg))


def draw_worst(results: Results, found: Analysis, out_dir: str | Path, score: float) -> tuple[list[dict], list[str]]:
    """Draw the worst images into `worst/`, `<number>_<name of the image>.png` each, and on `worst.png`.

    Args:
        found: gets a note on what is not drawn and why.
        score: instances below it are left out.

    Returns:
        `image`, `value` and `file` of each, None where it is not drawn; and what is wrong with images that are there.
    """
    folder, missing, broken, files = Path(out_dir, 'worst'), [], [], []
    worst = [dict(image=results.entries[index].get('img_path'), value=value, file=None) for index, value in found.worst]
    try:
        visualizer = results.task.visualizer(_metainfo(results))
        for number, (index, _) in enumerate(found.worst):
            try:
                files.append(_draw(visualizer, results.task, results.entries[index], folder, number, score))
                worst[number]['file'] = str(files[-1].relative_to(out_dir))
            except FileNotFoundError as error:
                missing.append(str(error))
            except Exception as error:  # a library's, of one picture; the analysis of all of them is kept
                broken.append(f'{worst[number]["image"]}: {explain(error)}')
    except ResultsError as error:
        missing.append(str(error))
    if missing or broken:
        found.notes.append(f'{len(worst) - len(files)} of {len(worst)} worst images are not drawn: '
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
    """Classes and palette as the visualizers take them."""
    metainfo = {name: results.origin[name] for name in ('classes', 'palette') if results.origin.get(name)}
    if results.task.needs_classes and len(metainfo) < 2:
        raise ResultsError('classes or palette are not known; give the config of the tested model: --config')
    if isinstance(metainfo.get('palette'), list):  # JSON has no tuples, and mmdet takes nothing else
        metainfo['palette'] = [tuple(colour) for colour in metainfo['palette']]
    return metainfo
