"""The images that an analysis found worst, drawn."""
from pathlib import Path

from mmflatten.analysis.results.analysis import Analysis
from mmflatten.analysis.results.reading import Results, ResultsError
from mmflatten.engine.config_files import require_parts
from mmflatten.engine.datasets import read_metainfo
from mmflatten.engine.drawings import draw_entries
from mmflatten.engine.setup import load_config
from mmflatten.engine.test import origin_of
from mmflatten.visualization.contact_sheet import write_contact_sheet


def origin_of_config(path: str) -> dict:
    """What `mmflatten test` with this config would write beside its predictions."""
    cfg = load_config(path)
    require_parts(cfg, 'test_dataloader', 'test_evaluator')
    return origin_of(cfg, read_metainfo(cfg))


def draw_worst(results: Results, found: Analysis, out_dir: str | Path, score: float) -> list[dict]:
    """Draw the worst images into `worst/` and on `worst.png`; returns `image`, `value` and `file` of each.

    Where that is not possible, a note of the analysis says why, and there are no files.
    """
    entries = [results.entries[index] for index, _ in found.worst]
    files: list[Path | None] = [None] * len(entries)
    try:
        files = draw_entries(results.task, entries, _metainfo(results), Path(out_dir, 'worst'), score)
    except (FileNotFoundError, ResultsError) as error:
        found.notes.append(f'worst images are not drawn: {error}')
    if any(files):
        write_contact_sheet(files, Path(out_dir, 'worst.png'))
    return [dict(image=entry.get('img_path'), value=value,
                 file=None if file is None else str(file.relative_to(out_dir)))
            for entry, (_, value), file in zip(entries, found.worst, files)]


def _metainfo(results: Results) -> dict:
    """Classes and palette as the visualizers take them."""
    metainfo = {name: results.origin[name] for name in ('classes', 'palette') if results.origin.get(name)}
    if results.task == 'segmentation' and len(metainfo) < 2:
        raise ResultsError('classes or palette are not known; give the config of the tested model: --config')
    if isinstance(metainfo.get('palette'), list):  # JSON has no tuples, and mmdet takes nothing else
        metainfo['palette'] = [tuple(colour) for colour in metainfo['palette']]
    return metainfo
