"""From work dirs to one HTML file that needs nothing else: styles, scripts, data and images stand inside."""
from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mmflatten.engine.cli import quiet_libraries
from mmflatten.report.collect import read_runs
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
    with quiet_libraries():
        runs = read_runs(work_dirs, score, device)
        context = dict(runs=runs, attention=[], made=f'{datetime.now():%Y-%m-%d %H:%M}', version=__version__)
    context['sections'] = {name: title for name, title in SECTIONS.items() if context.get(name, True)}
    Path(out).write_text(render(context), encoding='utf-8')


def render(context: dict) -> str:
    """The page of a context, with every `*.css` and `*.js` of the templates inside."""
    environment = Environment(loader=PackageLoader('mmflatten.report'), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)
    environment.filters['cell'] = cell
    styles, scripts = (Markup('\n'.join(path.read_text(encoding='utf-8') for path in sorted(TEMPLATES.glob(pattern))))
                       for pattern in ('*.css', '*.js'))
    return environment.get_template('report.html').render(
        styles=styles, scripts=scripts, plotly=Markup(get_plotlyjs()), **context)


def cell(value: object) -> str:
    """A number as tables show it; a dash where there is none."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return f'{value:,}'
    if isinstance(value, (float, np.floating)):
        return f'{value:.3f}' if np.isfinite(value) else '–'
    return '–' if value is None else str(value)
