"""Metafiles in OpenMMLab's format: a collection for each folder of configs, with the papers'
results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from math import isnan
from pathlib import PurePosixPath
from typing import Any

import pandas as pd
import yaml
from zoo.names import DATASETS, FAMILIES, place
from zoo.records import ZooEntry, by_config, by_folder

INDEX = 'model-index.yml'
HEADER = '# Written by `python tools/maintain/reproduce_tables.py`; do not edit.\n'
RESULTS_NOTE = (
    '# Results are copied from the papers named in "Reported By". This project has measured none of'
    ' them.\n'
)

# Title and number on arXiv.
_PREPRINTS = {
    'flatten': (
        'FLatten Transformer: Vision Transformer using Focused Linear Attention',
        '2308.00442',
    ),
    'l2vit': ('The Linear Attention Resurrection in Vision Transformer', '2501.16182'),
    'focal': (
        'Focal Self-attention for Local-Global Interactions in Vision Transformers',
        '2107.00641',
    ),
    'factorized': (
        'Factorized Attention: Self-Attention with Linear Complexities',
        '1812.01243',
    ),
    'slab': (
        (
            'SLAB: Efficient Transformers with Simplified Linear Attention and Progressive'
            ' Re-parameterized Batch Normalization'
        ),
        '2405.11582',
    ),
    'agent': (
        'Agent Attention: On the Integration of Softmax and Linear Attention',
        '2312.08874',
    ),
    'inline': ('Bridging the Divide: Reconsidering Softmax and Linear Attention', '2412.06590'),
    'mila': ('Demystify Mamba in Vision: A Linear Attention Perspective', '2405.16605'),
    'rala': ('Breaking the Low-Rank Dilemma of Linear Attention', '2411.07635'),
    'polaformer': (
        'PolaFormer: Polarity-aware Linear Attention for Vision Transformers',
        '2501.15061',
    ),
    'biformer': ('BiFormer: Vision Transformer with Bi-Level Routing Attention', '2303.08810'),
    'mhla': (
        'MHLA: Restoring Expressivity of Linear Attention via Token-Level Multi-Head',
        '2601.07832',
    ),
    'vittt': ('ViT^3: Unlocking Test-Time Training in Vision', '2512.01643'),
    'circulant': ('Vision Transformers are Circulant Attention Learners', '2512.21542'),
}
PAPERS = {
    paper: dict(Title=title, URL=f'https://arxiv.org/abs/{number}')
    for paper, (title, number) in _PREPRINTS.items()
}
# Column of a row -> task and metric.
METRICS = {
    'top1': ('Image Classification', 'Top 1 Accuracy'),
    'ap_box': ('Object Detection', 'box AP'),
    'ap_mask': ('Instance Segmentation', 'mask AP'),
    'miou': ('Semantic Segmentation', 'mIoU'),
    'miou_ms': ('Semantic Segmentation', 'mIoU(ms+flip)'),
    'macc': ('Semantic Segmentation', 'mAcc'),
    'epe': ('Stereo Matching', 'EPE'),
}


def render_metafiles(entries: Sequence[ZooEntry]) -> dict[str, str]:
    """Render every metafile and their index: path in the repository -> text."""
    files = {}
    for folder, group in by_folder(entry for entry in entries if entry.is_counted):
        content = _metafile(PurePosixPath(folder).name, group)
        files[f'{folder}/metafile.yml'] = _dump(content, RESULTS_NOTE)
    files[INDEX] = _dump(dict(Import=list(files)))
    return files


def _dump(content: dict[str, Any], note: str = '') -> str:
    return HEADER + note + yaml.safe_dump(content, sort_keys=False, width=120, allow_unicode=True)


def _metafile(family: str, entries: list[ZooEntry]) -> dict[str, Any]:
    name, paper = FAMILIES.get(family, (family, None))
    collection: dict[str, Any] = dict(Name=name)
    if paper:
        collection['Paper'] = dict(PAPERS[paper])
    models = [_model(config, name, group) for config, group in by_config(entries)]
    return dict(Collections=[collection], Models=models)


def _model(config: str, collection: str, entries: list[ZooEntry]) -> dict[str, Any]:
    # FLOPs of one config depend on the convention of the row's paper; its multiply-accumulates are
    # always the same.
    first = entries[0]
    metadata = {
        'Task': first.row.cells['task'],
        'Parameters': first.params,
        'FLOPs': first.macs,
        'Image Size': first.image,
    }
    model: dict[str, Any] = {
        'Name': PurePosixPath(config).stem,
        'In Collection': collection,
        'Config': config,
        'Metadata': metadata,
    }
    results = list(chain.from_iterable(map(_results, entries)))
    if results:
        model['Results'] = results
    return model


def _results(entry: ZooEntry) -> list[dict[str, Any]]:
    cells = entry.row.cells
    by_task: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for column, (task, metric) in METRICS.items():
        # The row of a classifier may include results of a detector that uses its weights.
        # NaN if empty or a word such as 'fail'
        value = float(pd.to_numeric(cells[column], errors='coerce'))
        if not isnan(value) and (cells['task'] != 'classification' or column == 'top1'):
            by_task[task][metric] = value
    source = f'the paper ({place(cells)})'
    return [
        {
            'Task': task,
            'Dataset': DATASETS[cells['dataset']],
            'Metrics': metrics,
            'Reported By': source,
        }
        for task, metrics in by_task.items()
    ]
