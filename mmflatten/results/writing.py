"""Files of an analysis: tables, figures, drawings of the worst images, and `analysis.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mmflatten.console import explain
from mmflatten.datasets.bands import read_drawable
from mmflatten.engine.predictions import draw_sample
from mmflatten.results.analysis import Analysis, json_number
from mmflatten.results.drawing import save_png
from mmflatten.results.reading import Results, ResultsError
from mmflatten.text import shorten
from mmflatten.untrusted.csv_files import write_csv

FORMAT = 1  # of analysis.json, see docs/analysis_tools.md


def write_analysis(
    analysis: Analysis, out_dir: str | Path, source: dict[str, Any], worst: list[dict]
) -> Path:
    """Write tables, figures and `analysis.json`; return the path of the JSON file.

    Args:
        source: origin of the predictions, such as `results` and `config`.
        worst: one dictionary for each of the worst images, see `draw_worst`.
    """
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    tables = {}
    for name, table in analysis.tables.items():
        rows = [list(map(json_number, row)) for row in table.rows]
        tables[name] = dict(title=table.title, file=f'{name}.csv', header=table.header, rows=rows)
        write_csv(out_dir / f'{name}.csv', table.header, rows)
    for name, figure in analysis.figures.items():
        save_png(out_dir / f'{name}.png', {'': figure})
    content = dict(
        format=FORMAT,
        task=analysis.task,
        images=analysis.images,
        source=source,
        summary={name: json_number(value) for name, value in analysis.summary.items()},
        tables=tables,
        figures={name: f'{name}.png' for name in analysis.figures},
        worst_by=analysis.worst_by,
        worst=worst,
        notes=analysis.notes,
    )
    path = out_dir / 'analysis.json'
    path.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')
    return path


def draw_worst(
    results: Results, analysis: Analysis, out_dir: str | Path, score: float
) -> tuple[list[dict], list[str]]:
    """Draw the worst images into `worst/`, `<number>_<name of the image>.png` each.

    Args:
        analysis: receives a note about images that were not drawn.
        score: minimum score of instances.

    Returns:
        A dictionary with `image`, `value` and `file` (None if not drawn) for each image, and the
        errors of images that exist but cannot be drawn.
    """
    worst = []
    for index, value in analysis.worst:
        worst.append(dict(image=results.entries[index].get('img_path'), value=value, file=None))
    missing, broken = [], []
    try:
        visualizer = results.task.visualizer(metainfo_of(results))
    except ResultsError as error:
        missing.append(str(error))
    else:
        for number, (index, _) in enumerate(analysis.worst):
            entry = results.entries[index]
            try:
                name = f'{number:03d}_{Path(entry["img_path"]).stem}.png'
                file = Path('worst', name)
                _draw(results, entry, visualizer, file=Path(out_dir, file), score=score)
                worst[number]['file'] = str(file)
            except (FileNotFoundError, ResultsError) as error:
                missing.append(str(error))
            except Exception as error:  # one image must not discard the analysis
                broken.append(f'{worst[number]["image"]}: {explain(error)}')
    if missing or broken:
        undrawn = sum(item['file'] is None for item in worst)
        analysis.notes.append(
            f'{undrawn} of {len(worst)} worst images are not drawn: {shorten(broken + missing, 2)}'
        )
    return worst, broken


def _draw(results: Results, entry: dict, visualizer: Any, file: Path, score: float) -> None:
    image = read_drawable(results.file(entry['img_path']))
    file.parent.mkdir(parents=True, exist_ok=True)
    draw_sample(
        visualizer=visualizer,
        image=image,
        sample=results.task.restore(entry),
        out_file=str(file),
        score=score,
    )


def metainfo_of(results: Results) -> dict:
    """Return classes and palette for a visualizer.

    Raises:
        ResultsError: the task requires them, and the origin of the results lacks them.
    """
    metainfo = {}
    for name in ('classes', 'palette'):
        if results.origin.get(name):
            metainfo[name] = results.origin[name]
    if results.task.needs_classes and len(metainfo) < 2:
        raise ResultsError(
            'classes, palette: missing in the results. Pass the config of the test with --config.'
        )
    if isinstance(metainfo.get('palette'), list):  # mmdet requires tuples, which JSON does not have
        metainfo['palette'] = [tuple(colour) for colour in metainfo['palette']]
    return metainfo
