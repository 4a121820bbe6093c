"""Weight of the attention on the red tokens of far canvases, for lab/docs/third_study.md.

    python lab/scripts/red_weights.py work_dirs/larger_learned/runs/*_s0_*/ --csv red_weights.csv

Takes folders of finished runs of `larger_learned.yaml`. Prints for each run and kind of canvas the
right tokens in %, the share of red tokens in %, and for each block the share of the weight that
falls on them, in % of the absolute weights: the mean over canvases, heads and queries on garments.
Where a larger canvas takes this weight away, the attention fails; where the weight stays and the
right tokens do not, the rest of the model does.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import torch.nn.functional as F
from mmengine.dataset import default_collate
from mmengine.registry import init_default_scope
from torch import Tensor, nn

from mmflatten.console import print_progress
from mmflatten.engine.setup import build_runner, load_config
from mmflatten.explain.attention import AttentionLayer, AttentionProbe
from mmflatten.text import align
from mmflatten_lab import models  # noqa: F401, the classes that configs name
from mmflatten_lab.datasets import GarmentCanvases
from mmflatten_lab.datasets.canvases import PATCH
from mmflatten_lab.models.synthetic_tasks import NO_LABEL

CONFIG = 'config.py'
CHECKPOINTS = 'train/iter_*.pth'


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('runs', type=Path, nargs='+', metavar='RUN', help='folder of a run')
    parser.add_argument(
        '--canvases', type=int, default=16, help='of each kind in the test (default: 16)'
    )
    parser.add_argument('--queries', type=int, default=16, help='of each canvas (default: 16)')
    parser.add_argument('--csv', type=Path, help='file for the same table')
    args = parser.parse_args(arguments)
    tables = []
    for number, folder in enumerate(args.runs, start=1):
        print_progress(f'[{number}/{len(args.runs)}] {folder.name}')
        model, dataset = load_run(folder, args.canvases)
        rows = measured(model, dataset, args.queries)
        tables.append(pd.DataFrame(rows).assign(run=folder.name))
    means = pd.concat(tables).groupby(['run', 'kind'], sort=False).mean()
    if args.csv:
        means.round(2).to_csv(args.csv)
    rows = []
    for name, row in means.round(1).iterrows():
        rows.append([*name, *map(str, row)])
    print(align(rows, ['run', 'canvas', *means], {0, 1}, markdown=True))


def load_run(folder: Path, canvases: int) -> tuple[nn.Module, GarmentCanvases]:
    """Load the model of a finished run, and the first canvases of each kind of its test.

    Raises:
        ValueError: the folder has no config or no checkpoint.
    """
    checkpoints = sorted(folder.glob(CHECKPOINTS), key=lambda path: int(path.stem[5:]))
    if not checkpoints or not (folder / CONFIG).exists():
        raise ValueError(
            f'RUN: expected a folder with {CONFIG} and {CHECKPOINTS}, got {folder}. Name a finished'
            ' run of a study.'
        )
    config = load_config(str(folder / CONFIG), work_dir=str(folder / 'test'))
    init_default_scope(config.default_scope)
    config.test_dataloader.dataset.indices = canvases
    runner = build_runner(config)
    runner.load_checkpoint(str(checkpoints[-1]))
    return runner.model.eval(), runner.build_dataloader(config.test_dataloader).dataset


def measured(model: nn.Module, dataset: GarmentCanvases, queries: int) -> list[dict[str, Any]]:
    """A row for each canvas: its kind, the right tokens, the red tokens, and the weight on them in
    each block, all in %.
    """
    rows = []
    for index in range(len(dataset)):
        sample = dataset[index]
        labels_N = sample['data_samples'].cell_labels
        with torch.no_grad(), AttentionProbe(model) as probe:
            (answer,) = model.test_step(default_collate([sample]))
        asked_N = labels_N != NO_LABEL
        right = answer.cell_classes[asked_N] == labels_N[asked_N]
        red_N = red_tokens(sample['inputs'])
        row = dict(
            kind=sample['data_samples'].kind,
            right=100 * float(right.float().mean()),
            red=100 * float(red_N.float().mean()),
        )
        for block, layer in enumerate(probe.layers):
            chosen = evenly(asked_N.nonzero().flatten(), queries)
            row[f'block {block}'] = 100 * weight_on(layer, red_N, chosen)
        rows.append(row)
    return rows


def red_tokens(image_3HW: Tensor) -> Tensor:
    """Tokens that show a red garment, `(N,)`: a pixel with red and without green."""
    red_HW = (image_3HW[0] > 0) & (image_3HW[1] == 0)
    return F.max_pool2d(red_HW[None].float(), PATCH).flatten() > 0


def weight_on(layer: AttentionLayer, chosen_M: Tensor, queries: Tensor) -> float:
    """Share of the absolute weights of queries that falls on chosen keys, the mean over queries and
    heads; 0 for an attention without weights.
    """
    weights_QhM = layer.rows(queries.tolist()).double().abs()
    total = weights_QhM.sum(-1).clamp(min=torch.finfo(torch.float64).tiny)
    return float((weights_QhM[..., chosen_M].sum(-1) / total).mean())


def evenly(tokens: Tensor, number: int) -> Tensor:
    """At most `number` of the tokens, evenly spaced."""
    places = torch.linspace(0, len(tokens) - 1, min(number, len(tokens)))
    return tokens[places.round().long()]


if __name__ == '__main__':
    main()
