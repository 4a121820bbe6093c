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
from mmflatten.console import prints_to_stderr, quiet_libraries
from mmflatten.results.analysis import cell
from mmflatten.results.drawing import svg
from mmflatten.results.figures import Plot
from mmflatten.results.page import comparison
from mmflatten.results.page.samples import read_gallery
from mmflatten.results.work_dir import read_work_dirs
from mmflatten.text import printable
from mmflatten.untrusted.files import read_text
from mmflatten.version import __version__

# Name of a section -> its title, and the parts of a run that it needs.
SECTIONS = dict(
    summary=('Summary', ['config', 'checkpoint', 'FLOPs']),
    curves=('Training', ['log']),
    metrics=('Metrics and errors', ['predictions', 'metrics']),
    samples=('Samples', ['sample images']),
    config=('Config', ['config']),
)


def write_report(
    work_dirs: Sequence[str | Path], out: str | Path, images: int = 24, score: float = 0.3
) -> None:
    """Write the page.

    Args:
        images: maximum number of test images, half of them the worst, half random.
        score: minimum score of detections in errors and drawings.

    Raises:
        FileNotFoundError: a work dir does not exist.
        ValueError: a folder is not a work dir, or is listed twice.
    """
    with quiet_libraries(), prints_to_stderr():
        runs = read_work_dirs(work_dirs, score)
        gallery = read_gallery(runs, images, score)
    main, others = comparison.curves(runs)
    page = render(
        runs=runs,
        made=f'{datetime.now():%Y-%m-%d %H:%M}',
        version=__version__,
        sections=SECTIONS,
        facts=comparison.summary_table(runs),
        charts=main,
        more_charts=others,
        plots=comparison.analysis_charts(runs),
        gallery=gallery,
        difference=comparison.config_difference(runs),
        configs=[(run, read_text(run.config.filename)) for run in runs if run.config],
    )
    with atomic_write(out) as aside:
        # Names of files and classes may hold escape sequences, and bytes that are not UTF-8.
        lines = [printable(line, keep='\t') for line in page.split('\n')]
        aside.write_text('\n'.join(lines), encoding='utf-8')


def render(**context: Any) -> str:
    """Render the page, which has no scripts."""
    environment = Environment(
        loader=PackageLoader('mmflatten.results.page'),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters['cell'] = partial(cell, missing='–', integers=',d')
    environment.filters['svg'] = _safe_svg
    return environment.get_template('report.html').render(**context)


def _safe_svg(plot: Plot) -> Markup:
    """Draw a figure; Matplotlib escapes the texts in it."""
    return Markup(svg(plot))
