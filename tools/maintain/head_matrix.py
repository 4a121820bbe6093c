"""Train every backbone with every head for two steps, and predict.

    python tools/maintain/head_matrix.py                          # run what is not in the CSV
    python tools/maintain/head_matrix.py --only encoder-mask      # these cells again
    python tools/maintain/head_matrix.py --page                   # write the page from the CSV

Backbones are those of `mmflatten.models.backbones`, in their smallest architecture with one block
in most stages. Heads are the model parts in `configs/_base_/models`, in their nano version if there
is one. Each cell is a config of its own on scenes of 96 x 96 pixels. The results are
docs/model_zoo/heads.csv and docs/model_zoo/heads.md.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line, print_progress, quiet_libraries

ROOT = Path(__file__).resolve().parents[2]
PARTS = ROOT / 'configs' / '_base_'
TABLE = ROOT / 'docs' / 'model_zoo' / 'heads.csv'
PAGE = TABLE.with_suffix('.md')
SIZE = 96
THINGS = 10
SEMANTIC = 11
# Fewer proposals, samples and hidden channels than in the parts of full size.
FEWER = dict(
    nms_pre=50,
    max_per_img=20,
    num_proposals=20,
    num=16,
    fc_out_channels=64,
    feedforward_channels=64,
)
# Parts that are no head for a map of features, and why.
NO_HEADS = {
    'classifier': 'of classifiers',
    'classifier_cls_token': 'of classifiers',
    'timm_classifier': 'of classifiers, with a backbone of timm',
    'htc_fpn': 'its semantic branch needs stuff maps, which the scenes lack',
    'psmnet': 'of stereo',
    'psmnet_tiny': 'of stereo',
    'segmentor': 'has no head of its own',
}


class Cell(NamedTuple):
    """Row of the table: what a backbone did with a head. `error` is empty if both worked."""

    backbone: str
    head: str
    trains: str
    predicts: str
    error: str = ''

    @property
    def works(self) -> bool:
        return self.trains == self.predicts == 'yes'

    @property
    def state(self) -> str:
        return 'yes' if self.works else 'no'


def backbones() -> list[str]:
    """Names of all backbones."""
    from mmflatten.models import backbones as module

    return sorted(module.__all__)


def heads() -> dict[str, Path]:
    """Model part of each head; the nano version replaces the full one."""
    files = {}
    for path in sorted((PARTS / 'models').glob('*.py')):
        name = path.stem.removesuffix('_nano')
        if path.stem not in NO_HEADS and name not in NO_HEADS:
            files[name] = path  # the nano version comes later in the order
    return files


@command_line
def main(argv: Sequence[str]) -> None:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', metavar='NAME', help='backbone or head whose cells run again')
    parser.add_argument('--page', action='store_true', help='run nothing')
    parser.add_argument('--csv', type=Path, default=TABLE, help='table to read and extend')
    args = parser.parse_args(argv)
    results = {cell[:2]: cell for cell in read_cells(args.csv)}
    if not args.page:
        for cell in sweep(list(missing(results, args.only))):
            results[cell[:2]] = cell
            write_cells(args.csv, results.values())
    if args.csv == TABLE:
        PAGE.write_text(render(list(results.values())), encoding='utf-8')
    broken = [cell for cell in results.values() if not cell.works]
    print_progress(f'{len(results) - len(broken)} of {len(results)} cells work')


def missing(results: dict, only: str | None) -> Iterator[tuple[str, str]]:
    """Yield the cells to run: those without a result, or all of one backbone or head."""
    names = [*backbones(), *heads()]
    if only is not None and only not in names:
        raise ValueError(f'--only: expected one of {names}, got {only}.')
    for head in heads():
        for backbone in backbones():
            is_new = only is None and (backbone, head) not in results
            if is_new or only in (backbone, head):
                yield backbone, head


def read_cells(path: Path) -> list[Cell]:
    """Read the rows of cells that still exist."""
    if not path.exists():
        return []
    with path.open(newline='', encoding='utf-8') as file:
        cells = [Cell(**row) for row in csv.DictReader(file)]
    known = (set(backbones()), set(heads()))
    return [cell for cell in cells if cell.backbone in known[0] and cell.head in known[1]]


def write_cells(path: Path, cells: Sequence[Cell]) -> None:
    """Write the table beside the old one, then replace it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix('.part')
    with part.open('w', newline='', encoding='utf-8') as file:
        writer = csv.writer(file, lineterminator='\n')
        writer.writerow(Cell._fields)
        writer.writerows(sorted(cells))
    part.replace(path)


def sweep(cells: list[tuple[str, str]]) -> Iterator[Cell]:
    """Run cells, with a line of progress for each."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, quiet_libraries():
        logging.disable(logging.WARNING)  # of the logger of each run
        data = Path(folder) / 'digits'
        write_scenes(data)
        for number, (backbone, head) in enumerate(cells, 1):
            cell = run_cell(backbone, head, data)
            seconds = time.monotonic() - start
            state = 'works' if cell.works else cell.error
            print_progress(f'{number}/{len(cells)}  {seconds:.0f} s  {backbone} x {head}: {state}')
            yield cell
        logging.disable(logging.NOTSET)


def write_scenes(data: Path) -> None:
    """Write a few scenes to `data`, and panoptic ones to `data` with the suffix of their folder."""
    from mmflatten.datasets.scenes import build, panoptic_build

    panoptic = data.with_name(f'{data.name}_panoptic')
    build.build_scenes(data, build.SceneOptions(train=4, val=2, size=SIZE, seed=0))
    options = panoptic_build.PanopticSceneOptions(train=4, val=2, size=SIZE, seed=0)
    panoptic_build.build_panoptic_scenes(panoptic, options)


def run_cell(backbone: str, head: str, data: Path) -> Cell:
    """Train for two steps, then validate, which predicts and computes the metrics."""
    from mmflatten.console import error_text
    from mmflatten.engine.setup import build_runner

    forget_runs()
    trains = predicts = 'no'
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints
            runner = build_runner(cell_config(backbone, head, data))
            runner.train()
            trains = 'yes'
            runner.val_loop.run()
            predicts = 'yes'
    except Exception as error:  # of any library
        text = ' '.join(error_text(error).split())
        return Cell(backbone, head, trains, predicts, text[:160])
    return Cell(backbone, head, trains, predicts)


def forget_runs() -> None:
    """Forget the logger, hub and visualizer of the last run, which MMEngine keeps by name."""
    from mmengine.logging import MessageHub, MMLogger
    from mmengine.registry import DefaultScope
    from mmengine.visualization import Visualizer

    for kind in (DefaultScope, MMLogger, MessageHub, Visualizer):
        kind._instance_dict.clear()


def cell_config(backbone: str, head: str, data: Path) -> Any:
    """Config of a cell: the part of the head, the scenes, and two iterations."""
    from mmflatten.engine.setup import load_config

    part = heads()[head]
    name = f'{head}_{backbone}'
    file = data.parent / f'{name}.py'
    bases = [part, PARTS / 'datasets' / f'{dataset_of(part)}.py']
    bases += [PARTS / 'schedules' / 'digits_2k.py', PARTS / 'default_runtime.py']
    file.write_text(f'_base_ = {[str(base) for base in bases]}\n', encoding='utf-8')
    config = load_config(str(file), work_dir=str(data.parent / name))
    for node in nodes(dict(config.items())):
        for key, value in node.items():
            if isinstance(value, str) and value.startswith('data/digits'):
                node[key] = value.replace('data/digits', str(data))
            elif key in ('num_classes', 'num_things_classes'):
                node[key] = SEMANTIC if config.default_scope == 'mmseg' else THINGS
            elif key == 'scale' and isinstance(value, tuple):
                node[key] = (SIZE, SIZE)
            elif key in FEWER and isinstance(value, int):
                node[key] = min(value, FEWER[key])
    if config.default_scope == 'mmseg':
        config.model.data_preprocessor.size = (SIZE, SIZE)
    config.model.backbone.update(small_backbone(backbone))
    connect(config.model, config.default_scope)
    # The validation runs after the training, not in it.
    config.train_cfg = dict(type='IterBasedTrainLoop', max_iters=2, val_begin=3)
    config.default_hooks.checkpoint = None
    config.randomness = dict(seed=0)
    for split in ('train', 'val', 'test'):
        config[f'{split}_dataloader'].update(batch_size=2, num_workers=0, persistent_workers=False)
    return config


def dataset_of(part: Path) -> str:
    """Name of the data part for a head."""
    from mmflatten.config import read_config

    config = read_config(str(part))
    if config.default_scope == 'mmseg':
        return 'digits_seg'
    if config.model.get('panoptic_fusion_head', {}).get('num_stuff_classes'):
        return 'digits_panoptic'
    has_masks = any(map(predicts_masks, nodes(config.model)))
    return 'digits_coco' if has_masks else 'digits_coco_det'


def predicts_masks(node: dict) -> bool:
    """Return True if a part of a model has a head for masks of instances."""
    return bool(node.get('mask_head') or node.get('panoptic_head'))


def nodes(node: Any) -> Iterator[dict]:
    """Yield all nested dicts."""
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, (list, tuple)):
        for child in node:
            yield from nodes(child)


def small_backbone(name: str) -> dict:
    """Config of the smallest architecture, with one block in each stage, and two in the first for
    kinds of blocks that alternate; four blocks in a plain backbone.
    """
    from mmflatten.models import backbones as module

    cls = getattr(module, name)
    arch = dict(next(iter(cls.archs.values())))
    if not is_plain(cls):
        arch['depths'] = (2,) + (1,) * (len(arch['depths']) - 1)
        return dict(type=f'mmflatten.{name}', arch=arch, img_size=SIZE)
    arch['depth'] = 4
    arch.pop('img_size')
    return dict(type=f'mmflatten.{name}', arch=arch, img_size=SIZE, out_type='featmap')


def is_plain(cls: type) -> bool:
    from mmflatten.models.backbones.plain import PlainBackbone

    return issubclass(cls, PlainBackbone)


def connect(model: Any, scope: str) -> None:
    """Fill in the channels between backbone, neck and head, as the configs do: a plain backbone
    gets a simple feature pyramid, or shares its last blocks with an EncoderMaskHead.
    """
    from mmengine.registry import MODELS

    from mmflatten.measure.flops.meta import build_on_meta

    indices = model.backbone.pop('out_indices', None)
    plain = is_plain(MODELS.get(model.backbone.type))
    if indices is not None and not plain:
        model.backbone.out_indices = indices
    channels = list(build_on_meta(model.backbone, scope).out_channels)
    if plain and 'EncoderMask' in model.type:
        head = model.get('panoptic_head') or model.decode_head
        head.update(joint=True, in_channels=channels)
        return
    if plain:
        channels = add_pyramid(model, channels[0], levels=4 if indices is None else len(indices))
    elif 'neck' in model:
        model.neck.in_channels = channels
        return  # the heads have the channels of the neck
    for part in ('decode_head', 'panoptic_head'):
        if part in model:
            model[part].in_channels = channels
    if 'auxiliary_head' in model:
        model.auxiliary_head.in_channels = channels[model.auxiliary_head.in_index]


def add_pyramid(model: Any, width: int, levels: int) -> list[int]:
    """Replace the neck by a simple feature pyramid and return its channels."""
    neck = model.get('neck') or {}
    channels = neck.get('out_channels', 64)
    model.neck = dict(
        type='mmflatten.SimpleFeaturePyramid',
        in_channels=width,
        out_channels=channels,
        scales=(4.0, 2.0, 1.0, 0.5)[-levels:],
        num_outs=neck.get('num_outs', levels),
    )
    return [channels] * model.neck.num_outs


def render(cells: Sequence[Cell]) -> str:
    """Render the page: a row for each backbone, a column for each head, and the errors."""
    from mmflatten.text import align

    by_name = {cell[:2]: cell for cell in cells}
    columns = sorted({cell.head for cell in cells})
    rows = []
    for backbone in sorted({cell.backbone for cell in cells}):
        row = [backbone]
        for head in columns:
            cell = by_name.get((backbone, head))
            row.append(cell.state if cell else '-')
        rows.append(row)
    header = ['backbone', *columns]
    table = align(rows, header, left=range(len(header)), markdown=True)
    works = sum(cell.works for cell in cells)
    left_out = ', '.join(f'`{name}` ({reason})' for name, reason in NO_HEADS.items())
    lines = [
        '# Backbones and heads',
        '',
        '<!-- Written by `python tools/maintain/head_matrix.py`; do not edit. -->',
        '',
        f'{works} of {len(cells)} combinations train for two steps on scenes of {SIZE} x {SIZE}'
        ' pixels and predict, from the model parts in',
        '`configs/_base_/models` and the smallest architecture of each backbone, with random'
        ' weights, as listed in',
        '[heads.csv](heads.csv). Two steps say that a combination runs, and nothing about its'
        ' accuracy.',
        '',
        'A plain backbone (`ViT`, `FLattenDeiT`) has a `SimpleFeaturePyramid` as its neck, except'
        ' with `encoder-mask`, whose queries join its',
        f'last blocks. Model parts without a column: {left_out}.',
        '',
        table,
    ]
    broken = [cell for cell in sorted(cells) if not cell.works]
    if broken:
        lines += ['', '## Combinations that fail', '']
        lines += [f'- {cell.backbone} with {cell.head}: {cell.error}' for cell in broken]
    return '\n'.join(lines) + '\n'


if __name__ == '__main__':
    sys.exit(main())
