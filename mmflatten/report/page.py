"""Rendering of the page: one HTML file with all styles, scripts, data and images inside."""
from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.console import own_output, quiet_libraries
from mmflatten.measure.speed.machine import BUSY_CPUS, describe_machine
from mmflatten.report.attention import attention_section
from mmflatten.report.charts import analysis_charts, cost_charts, curves, module_table
from mmflatten.report.collect import read_runs
from mmflatten.report.comparison import config_difference, environment_table, summary_table, tiles
from mmflatten.report.measure import measure_runs, speed_table
from mmflatten.report.samples import read_gallery
from mmflatten.results.analysis import cell
from mmflatten.results.drawing import svg
from mmflatten.version import __version__

# Name of a section -> its title, and the parts of a run that it needs.
SECTIONS = dict(
    summary=('Summary', ['config', 'checkpoint', 'model']), curves=('Training', ['log']),
    metrics=('Metrics and errors', ['predictions', 'metrics']), samples=('Samples', ['sample images']),
    attention=('Attention', ['attention']), cost=('Parameters and FLOPs', ['FLOPs']), speed=('Speed', ['speed']),
    environment=('Environment', []), config=('Config', ['config']))
TEMPLATES = Path(__file__).parent / 'templates'


def write_report(work_dirs: Sequence[str | Path], out: str | Path, images: int = 24, score: float = 0.3,
                 device: str | None = None) -> None:
    """Write the page.

    Args:
        images: maximum number of test images, half of them the worst, half random.
        score: minimum score of detections in confusions and drawings.
        device: device of the models; None uses a GPU if available.

    Raises:
        FileNotFoundError: a work dir does not exist.
        ValueError: a folder is not a work dir, or is listed twice.
    """
    with quiet_libraries(), own_output():
        runs = read_runs(work_dirs, score, device)
        busy = measure_runs(runs)
        gallery = read_gallery(runs, images, score)
        paths = list(dict.fromkeys(sample['path'] for sample in [*gallery['samples'][:1], *gallery['samples'][-1:]]))
        attention = attention_section(runs, paths)
    main, others = curves(runs)
    shown = attention['attention'] or any('attention' in run.missing for run in runs)
    page = render(
        runs=runs, busy=busy if busy > BUSY_CPUS else 0, made=f'{datetime.now():%Y-%m-%d %H:%M}', version=__version__,
        sections={name: section for name, section in SECTIONS.items() if name != 'attention' or shown},
        tiles=tiles(runs[0]), facts=summary_table(runs), charts=main, more_charts=others,
        plots=analysis_charts(runs), gallery=gallery, **attention,
        costs=[chart for run in runs if run.cost for chart in cost_charts(run.cost, run.name if len(runs) > 1 else '')],
        modules=[module_table(run.cost, run.name) for run in runs if run.cost],
        speed=speed_table(runs), machine=describe_machine(runs[0].predictor.device if runs[0].predictor else 'cpu'),
        environment=environment_table(runs), difference=config_difference(runs),
        configs=[(run, Path(run.config.filename).read_text(encoding='utf-8')) for run in runs if run.config])
    with atomic_write(out) as aside:
        aside.write_text(page, encoding='utf-8', errors='replace')  # file names may not be UTF-8


def render(**context: Any) -> str:
    """Render the page, with every `*.css` and `*.js` of the templates inline, `base` first."""
    environment = Environment(loader=PackageLoader('mmflatten.report'), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(cell=partial(cell, missing='–', integers=',d'), svg=lambda plot: Markup(svg(plot)))
    styles, scripts = (Markup('\n'.join(path.read_text(encoding='utf-8') for path in sorted(
        TEMPLATES.glob(pattern), key=lambda path: (path.stem != 'base', path.name)))) for pattern in ('*.css', '*.js'))
    return environment.get_template('report.html').render(styles=styles, scripts=scripts, **context)
