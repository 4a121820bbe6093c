"""From work dirs to one HTML file that needs nothing else: styles, scripts, data and images stand inside."""
from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mmflatten.console import own_output, quiet_libraries
from mmflatten.measure.speed.machine import BUSY_CPUS, describe_machine
from mmflatten.report.attention_section import attention_section
from mmflatten.report.collect import Run, read_runs
from mmflatten.report.comparison import config_difference, config_text, environment_table, summary_table, tiles
from mmflatten.report.figures import chart_of, curves, title_of
from mmflatten.report.images import read_gallery
from mmflatten.report.measure import measure_runs, speed_table
from mmflatten.report.modules import module_table, treemaps
from mmflatten.version import __version__

SECTIONS = dict(
    summary='Summary', curves='Training', metrics='Metrics and errors', samples='Samples', attention='Attention',
    cost='Parameters and FLOPs', speed='Speed', environment='Environment', config='Config')
TEMPLATES = Path(__file__).parent / 'templates'


def write_report(work_dirs: Sequence[str | Path], out: str | Path, images: int = 24, score: float = 0.3,
                 device: str | None = None) -> None:
    """Write the page.

    Args:
        images: pictures at most, half of them the worst, half random ones.
        score: of detections; confusions and drawings leave out those below it.
        device: that the checkpoints run on; None takes a GPU if there is one.

    Raises:
        FileNotFoundError: a work dir does not exist.
        ValueError: a folder is no work dir, or given twice.
    """
    with quiet_libraries(), own_output():
        runs = read_runs(work_dirs, score, device)
        busy = measure_runs(runs)
        context = dict(_context(runs, images, score), busy=busy if busy > BUSY_CPUS else 0)
        context.update(attention_section(runs, context['gallery'].samples))
    no_attention = not context['attention'] and not any('attention' in run.missing for run in runs)
    context['sections'] = {name: title for name, title in SECTIONS.items() if name != 'attention' or not no_attention}
    Path(out).write_text(render(context), encoding='utf-8', errors='replace')  # names need not be UTF-8


def _context(runs: Sequence[Run], images: int, score: float) -> dict[str, Any]:
    """What the templates take."""
    analyzed = [run for run in runs if run.analysis is not None]
    plots = dict.fromkeys(name for run in analyzed for name in run.analysis.figures)
    main, others = curves(runs)
    return dict(
        runs=runs, made=f'{datetime.now():%Y-%m-%d %H:%M}', version=__version__, score=score,
        tiles=tiles(runs[:1]), facts=summary_table(runs), charts=main, more_charts=others,
        plots=[[chart_of(run.analysis.figures[name], title_of(name), run.name if len(runs) > 1 else '')
                for run in analyzed if name in run.analysis.figures] for name in plots],
        gallery=read_gallery(runs, images, score),
        treemaps=[chart for run in runs if run.cost for chart in treemaps(run.cost, run.name if len(runs) > 1 else '')],
        modules=[module_table(run.cost, run.name) for run in runs if run.cost],
        speed=speed_table(runs), machine=describe_machine(runs[0].predictor.device if runs[0].predictor else 'cpu'),
        environment=environment_table(runs), difference=config_difference(runs), config_text=config_text)


def render(context: dict) -> str:
    """The page of a context, with every `*.css` and `*.js` of the templates inside, `base` first."""
    environment = Environment(loader=PackageLoader('mmflatten.report'), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)
    environment.filters['cell'] = cell
    styles, scripts = (Markup('\n'.join(path.read_text(encoding='utf-8') for path in sorted(
        TEMPLATES.glob(pattern), key=lambda path: (path.stem != 'base', path.name)))) for pattern in ('*.css', '*.js'))
    return environment.get_template('report.html').render(
        styles=styles, scripts=scripts, plotly=Markup(get_plotlyjs()), **context)


def cell(value: object) -> str:
    """A number as tables show it; a dash where there is none."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return f'{value:,}'
    if isinstance(value, (float, np.floating)):
        return f'{value:.3f}' if np.isfinite(value) else '–'
    return '–' if value is None else str(value)
