"""The card of a published model, README.md, and its pictures."""
import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmflatten.console import explain
from mmflatten.datasets.storage import read_rgb
from mmflatten.engine.datasets import build_dataset
from mmflatten.engine.predictions import draw_sample
from mmflatten.predict.predictor import Predictor
from mmflatten.tasks import tasks
from mmflatten.text import align, printable

PICTURES = 4
_PLAIN = re.compile(r'[A-Za-z0-9 ]*|\d+\.\d+', re.ASCII)  # cannot be read as Markdown
_SIMILAR = str.maketrans('`|\\', "'//")


def draw_pictures(folder: Path, cfg: Config) -> tuple[list[Path], list[str]]:
    """Draw predictions of the first images of the test data, if they are on this computer.

    Returns:
        The files, and notes on what is missing.
    """
    predictor = Predictor.from_pretrained(folder, device='cpu')
    try:
        with DefaultScope.overwrite_default_scope(predictor.scope):
            dataset = build_dataset(cfg.test_dataloader.dataset)
        entries = [dataset.get_data_info(number * len(dataset) // PICTURES) for number in range(PICTURES)]
    except Exception as error:
        reason = explain(error).partition('. ')[0]
        return [], [f'No pictures on the card, because the test data cannot be read: {reason}.']
    files = []
    for number, entry in enumerate(entries, 1):
        files.append(folder / f'example_{number}.png')
        pair = (entry['img_path'], entry.get('right_path'))
        sample = predictor(pair if predictor.spec.pairs else pair[0])
        draw_sample(predictor.visualizer(), read_rgb(pair[0]), sample, str(files[-1]), truth=False)
    return files, []


def write_card(path: Path, facts: dict[str, Any], numbers: dict[str, Any], pictures: list[Path]) -> None:
    """Write the card, with the header that the hub reads. Text from data stands in code, where nothing is active."""
    task, name, metrics = tasks()[facts['task']], printable(facts['name']), facts['metrics']
    header = dict(library_name='mmflatten', pipeline_tag=task.hub_tag, tags=[facts['task'], 'mmflatten'])
    inputs, extras = ' '.join(f'{part}.png' for part in task.inputs), f'hub,{task.abbreviation}'
    parameters = f'{facts["weights"]["parameters"] / 1e6:.2f} million values ({", ".join(facts["weights"]["types"])})'
    half = metrics and 'float16' in facts['weights']['types']
    rounded = '\n\nMeasured before the weights were rounded to float16.' * bool(half)
    facts_rows = [('task', facts['task']), ('model', facts['model']), ('weights', parameters)]
    sections = [
        f'---\n{yaml.safe_dump(header, sort_keys=False)}---\n\n# {_code(name)}',
        _table(('', ''), facts_rows),
        ' '.join(f'![prediction]({picture.name})' for picture in pictures),
        f'## Use\n\n```shell\npip install "mmflatten[{extras}]"\n'
        f'mmflatten predict {shlex.quote(name)} {inputs} --out results\n```\n\n'
        'Give the folder, or `hf://user/model`. `model.safetensors` and `config.json` are data: nothing is executed.',
        '## Metrics\n\n' + (_metrics(metrics) if metrics else 'Not measured.') + rounded,
        f'## Input and classes\n\n```text\n{json.dumps(numbers)}\n'
        f'{printable(json.dumps(facts["classes"], ensure_ascii=False))}\n```',
        '## Training and environment\n\n' + _table(('', ''), [*facts['training'].items(),
                                                              *facts['environment'].items()]),
        '## Files\n\n' + _table(('file', 'bytes', 'SHA-256'), [
            (file, entry['bytes'], entry['sha256']) for file, entry in facts['files'].items()])]
    path.write_text('\n\n'.join(part for part in sections if part) + '\n', encoding='utf-8')


def _metrics(metrics: dict[str, Any]) -> str:
    seed = 'not recorded' if metrics['seed'] is None else metrics['seed']
    rows = [(key, f'{value:.4g}' if isinstance(value, float) else value) for key, value in metrics['values'].items()]
    return f'By {metrics["measured_by"]}; seed of the training: {seed}.\n\n' + _table(('metric', 'value'), rows)


def _table(header: tuple[str, ...], rows: list[tuple]) -> str:
    return align([tuple(map(_cell, row)) for row in rows], header, range(len(header)), markdown=True)


def _cell(value: Any) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else _code(text)


def _code(text: str) -> str:
    """Return text as a span of code. The characters that end it, or a cell of a table, become similar ones."""
    return f'`{printable(" ".join(text.split()).translate(_SIMILAR))}`'
