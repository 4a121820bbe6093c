"""Speed and memory of plain ViTs with ten token mixers, over the resolution: measure, then render.

    python tools/analysis/plain_vit.py measure work_dirs/plain_vit.csv --archs tiny small
    python tools/analysis/plain_vit.py render docs/measurements/plain_vit.md

`measure` writes the rows of a cell (width, size, mode, type, compiled or not) as soon as it is
measured, and a repeated call continues after the last one. A cell runs all mixers in turn, round by
round, one image at a time. `render` puts the tables of the files `plain_vit_*.csv` beside a page
into the page, and draws the speed of the first file over the resolution.
"""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from mmflatten.cli.common import positive, tool_parser
from mmflatten.console import command_line, print_progress

WIDTHS = {'tiny': 192, 'small': 384, 'base': 768, 'large': 1024}  # channels of a ViT
DEPTHS = {'tiny': 12, 'small': 12, 'base': 12, 'large': 24}  # its blocks
PATCH, WINDOW = 16, 14
SOFTMAX, WINDOWS = 'softmax', 'windows'
# Mixer -> letters of the blocks, and what the letter L stands for.
LINEAR = {
    'ReLU': 'LinearAttention',
    'focused': 'FocusedLinearAttention',
    'efficient': 'EfficientAttention',
    'MALA': 'MagnitudeAwareLinearAttention',
    'RALA': 'RankAugmentedLinearAttention',
    'InLine': 'InLineAttention',
    'Agent': 'AgentAttention,num_agents=49',
}
# The same without what is no attention: where the rest of the time goes.
BARE = {
    'focused, no convolution': 'FocusedLinearAttention,kernel_size=None',
    'MALA, no gate, positions, convolution': (
        'MagnitudeAwareLinearAttention,gated=False,rotary=False'
    ),
    'RALA, no gate, positions, convolution': (
        'RankAugmentedLinearAttention,gated=False,rotary=False'
    ),
    'InLine, no convolution': 'InLineAttention,image_conv=False',
}
MIXERS = (SOFTMAX, WINDOWS, *LINEAR)
PICTURED = (WINDOWS, 'ReLU', 'focused', 'MALA')
SIZES = (640, 1024, 1536, 2048)
MODES = ('inference', 'training')
COLUMNS = (
    'processor', 'threads', 'torch', 'arch', 'size', 'mode', 'dtype', 'compiled', 'mixer', 'rounds',
    'median_s', 'q1_s', 'q3_s', 'peak_mib', 'ratio', 'ratio_q1', 'ratio_q3', 'ceiling',
)  # fmt: skip
BEGIN, END = '<!-- tables: begin -->', '<!-- tables: end -->'


@dataclass(frozen=True)
class Cell:
    """A group of models that are measured side by side."""

    arch: str
    size: int
    mode: str
    dtype: str
    compiled: int


def rule(tokens: int, channels: int) -> float:
    """Arithmetic of a block with softmax over that of a block without attention.

    Projections and feed-forward network have `12 N C^2` products, softmax attention `2 N^2 C`.
    """
    return 1 + tokens / (6 * channels)


def ceilings(mixers: Sequence[str], arch: str, size: int) -> dict[str, float]:
    """Arithmetic of the model with softmax over that with each mixer, counted by operation."""
    import torch

    from mmflatten.measure.flops.model_cost import count_model
    from mmflatten.measure.speed.models import build_from_spec

    macs = {}
    for mixer in {SOFTMAX, *mixers}:
        with torch.device('meta'):
            model = build_from_spec(model_spec(mixer, arch=arch, size=size), (size, size))
        macs[mixer] = count_model(model.to('meta'), (size, size)).counts.macs
    return {mixer: macs[SOFTMAX] / macs[mixer] for mixer in mixers}


def model_spec(mixer: str, arch: str, size: int) -> str:
    """Return the model of a mixer in the notation of `mmflatten benchmark`."""
    letters = {SOFTMAX: 'S', WINDOWS: 'WWS' * (DEPTHS[arch] // 3)}
    kind = (LINEAR | BARE).get(mixer)
    linear = f',linear_attention=dict(type={kind})' if kind else ''
    return (
        f'ViT:arch={arch},img_size={size},window_size={WINDOW},out_type=featmap,'
        f'with_cls_token=False,attn_types={letters.get(mixer, "L")}{linear}'
    )


def measure_cell(
    cell: Cell, mixers: Sequence[str], args: argparse.Namespace
) -> list[dict[str, object]]:
    """Measure memory and time of all mixers in a cell; a row for each."""
    import torch

    from mmflatten.measure.speed import machine
    from mmflatten.measure.speed.memory import peak_memory
    from mmflatten.measure.speed.models import RunSettings, compiler_options, model_subject
    from mmflatten.measure.speed.results import result_rows
    from mmflatten.measure.speed.timing import measure

    settings = RunSettings(
        batch=1,
        size=(cell.size, cell.size),
        dtype=cell.dtype,
        device=args.device,
        train=cell.mode == 'training',
        compile='inductor' if cell.compiled else None,
    )
    torch.compiler.reset()
    with compiler_options(settings):
        subjects = []
        for mixer in mixers:
            spec = model_spec(mixer, arch=cell.arch, size=cell.size)
            subjects.append(model_subject(spec, settings, name=mixer))
        peaks = [peak_memory(subject.call, args.device) for subject in subjects]
        seconds = measure(subjects, rounds=args.rounds, seconds=args.seconds, device=args.device)
    facts = machine.describe_machine(args.device)
    name = facts['gpu'] if args.device != 'cpu' else facts['processor']
    highest = ceilings(mixers, arch=cell.arch, size=cell.size)
    rows = []
    for row in result_rows(subjects, seconds, peaks, settings=settings, reference=0):
        described = {
            'processor': name,
            'threads': facts['threads'],
            'torch': facts['torch'],
            'arch': cell.arch,
            'size': cell.size,
            'mixer': row['name'],
            'ceiling': highest[row['name']],
        }
        rows.append({column: {**row, **described}[column] for column in COLUMNS})
    return rows


def cells_of(args: argparse.Namespace) -> Iterator[Cell]:
    """Yield the wanted cells, cheap ones first."""
    wanted = itertools.product(args.archs, args.sizes, args.modes, args.dtypes)
    for arch, size, mode, dtype in sorted(wanted, key=lambda cell: work(*cell[:3])):
        yield Cell(arch=arch, size=size, mode=mode, dtype=dtype, compiled=int(args.compile))


def work(arch: str, size: int, mode: str) -> float:
    """Products of one call of the model with softmax attention; training has three times those of
    inference.
    """
    channels = WIDTHS[arch]
    tokens = (size // PATCH) ** 2
    products = DEPTHS[arch] * (12 * tokens * channels**2 + 2 * tokens**2 * channels)
    return products * (3 if mode == 'training' else 1)


def read_rows(path: Path) -> pd.DataFrame:
    return pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=COLUMNS)


def measure_all(args: argparse.Namespace) -> None:
    """Measure the wanted cells that the CSV does not have."""
    import torch

    from mmflatten.measure.speed import machine

    unknown = sorted(set(args.mixers) - {*MIXERS, *BARE})
    if unknown:
        raise ValueError(
            f'--mixers: expected some of {", ".join([*MIXERS, *BARE])}, got {", ".join(unknown)}.'
        )
    torch.set_num_threads(args.threads)
    machine.keep_freed_memory()
    mixers = [SOFTMAX, *(mixer for mixer in args.mixers if mixer != SOFTMAX)]
    cells = list(cells_of(args))
    start = time.monotonic()
    for number, cell in enumerate(cells, 1):
        rows = read_rows(args.csv)
        same = (rows[list(vars(cell))] == list(vars(cell).values())).all(axis=1)
        missing = [mixer for mixer in mixers if mixer not in set(rows.mixer[same])]
        if missing in ([], [SOFTMAX]):
            continue
        before, began = machine.seconds_of_others(), time.monotonic()
        found = measure_cell(cell, [SOFTMAX, *(name for name in missing if name != SOFTMAX)], args)
        others = (machine.seconds_of_others() - before) / (time.monotonic() - began)
        if SOFTMAX not in missing:
            found = found[1:]  # measured with other mixers before
        save(pd.concat([rows, pd.DataFrame(found)]), args.csv)
        print_progress(
            f'[{number}/{len(cells)}] {cell.arch} {cell.size} {cell.mode} {cell.dtype}: '
            f'{time.monotonic() - began:.0f} s, {time.monotonic() - start:.0f} s in all, '
            f'{others:.2f} CPUs used by others'
        )
        for row in found:
            print(f'  {row["mixer"]:40} {1e3 * row["median_s"]:9.1f} ms {row["ratio"]:6.2f}')


def save(rows: pd.DataFrame, path: Path) -> None:
    """Replace the file by a whole one."""
    partial = path.with_name(path.name + '.part')
    rows.infer_objects().to_csv(partial, index=False, float_format='%.5g', lineterminator='\n')
    os.replace(partial, path)


def render(page: Path, picture: Path | None) -> None:
    """Put the tables of the CSV files beside the page into it, and draw the picture."""
    text = page.read_text(encoding='utf-8')
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise ValueError(f'{page}: expected the lines {BEGIN} and {END}.')
    files = [read_rows(path) for path in sorted(page.parent.glob('plain_vit_*.csv'))]
    if not files:
        raise FileNotFoundError(f'{page.parent}: no plain_vit_*.csv. Measure one into that folder.')
    tables = ''.join(map(render_tables, files))
    page.write_text(f'{before}{BEGIN}\n\n{tables}{END}{after}', encoding='utf-8')
    if picture is not None:
        draw(files[0], picture)


def render_tables(rows: pd.DataFrame) -> str:
    """Render a table for each width, mode, type and compilation: mixers by size."""
    groups = ['arch', 'mode', 'dtype', 'compiled']
    first = rows.iloc[0]
    parts = [f'### {first.processor}, {first.threads} threads, PyTorch {first.torch}\n\n']
    order = {arch: place for place, arch in enumerate(WIDTHS)}
    for names, group in sorted(rows.groupby(groups), key=lambda item: order[item[0][0]]):
        arch, mode, dtype, compiled = names
        how = 'compiled' if compiled else 'eager'
        parts.append(f'**ViT-{arch.capitalize()}, {mode}, {dtype}, {how}**\n\n')
        parts.append(render_group(group))
    return ''.join(parts)


def render_group(group: pd.DataFrame) -> str:
    """Render one table: speed relative to softmax, its ceiling and peak by mixer and size."""
    sizes = sorted(group['size'].unique())
    heads = []
    for size in sizes:
        tokens = (size // PATCH) ** 2
        limit = rule(tokens, channels=WIDTHS[group.arch.iloc[0]])
        heads.append(f'{size}: {tokens:,} tokens, {limit:.2f}')
    lines = ['| | ' + ' | '.join(heads) + ' |', '|---|' + '---:|' * len(sizes)]
    known = [*MIXERS, *BARE]
    for mixer in sorted(group.mixer.unique(), key=known.index):
        cells = []
        for size in sizes:
            found = group[(group.mixer == mixer) & (group['size'] == size)]
            cells.append('' if found.empty else cell_text(found.iloc[0]))
        lines.append(f'| {mixer} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines) + '\n\n'


def cell_text(row: pd.Series) -> str:
    """Text of one cell."""
    peak = f'{row.peak_mib:,.0f} MiB'
    if row.mixer == SOFTMAX:
        return f'{1e3 * row.median_s:,.0f} ms, {peak}'
    return f'{row.ratio:.2f} of {row.ceiling:.2f}, {peak}'


def draw(rows: pd.DataFrame, picture: Path) -> None:
    """Draw the speed of inference relative to softmax over the side of the image, ViT-Small."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from mmflatten.results.drawing import COLOURS, STYLE

    rows = rows[(rows.arch == 'small') & (rows['mode'] == 'inference')]
    rows = rows[(rows.dtype == 'fp32') & (rows.compiled == 0)].sort_values('size')
    with rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.6), layout='constrained')
        axes = figure.subplots()
        axes.axhline(1, color='black', label='softmax, fused')
        for mixer, colour in zip(PICTURED, COLOURS):
            line = rows[rows.mixer == mixer]
            axes.plot(line['size'], line.ratio, color=colour, marker='o', label=mixer)
        sides = range(min(rows['size']), max(rows['size']) + 1, PATCH)
        limits = [rule((side // PATCH) ** 2, channels=WIDTHS['small']) for side in sides]
        axes.plot(sides, limits, color='grey', linestyle='--', label='1 + N / (6 C)')
        axes.set_xlabel('side of the image (pixels)')
        axes.set_ylabel('speed, softmax = 1')
        axes.set_xticks(sorted(rows['size'].unique()))
        axes.set_title(f'ViT-S/16, one image, float32, {rows.processor.iloc[0]}', fontsize=10)
        axes.grid(visible=True)
        axes.legend()
        figure.savefig(picture, dpi=100)


@command_line
def main(argv: Sequence[str]) -> None:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    add = commands.add_parser('measure', help='measure cells into a CSV file').add_argument
    add('csv', type=Path, help='CSV file; cells that it has are left out')
    add('--archs', nargs='+', choices=WIDTHS, default=list(WIDTHS))
    add('--sizes', nargs='+', type=positive, default=list(SIZES), metavar='PIXELS')
    add('--modes', nargs='+', choices=MODES, default=list(MODES))
    add('--dtypes', nargs='+', choices=('fp32', 'bf16'), default=['fp32', 'bf16'])
    add('--mixers', nargs='+', default=list(MIXERS), metavar='NAME', help='(default: %(default)s)')
    add('--compile', action='store_true', help='compiled models instead of eager ones')
    add('--device', default='cpu')
    add('--threads', type=positive, default=2)
    add('--rounds', type=positive, default=7, help='at most (default: %(default)s)')
    add('--seconds', type=positive, default=20, help='per model, or three rounds')
    add = commands.add_parser('render', help='put the tables into a page').add_argument
    add('page', type=Path)
    add('--picture', type=Path, metavar='FILE.png', help='draw the first file')
    args = parser.parse_args(argv)
    if args.command == 'measure':
        measure_all(args)
    else:
        render(args.page, args.picture)


if __name__ == '__main__':
    sys.exit(main())
