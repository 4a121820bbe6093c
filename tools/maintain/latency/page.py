"""The page of the latency table, made of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from latency.rows import HEADS, MODELS, RUNTIMES, SIZES, TWINS, Cell, cell_of
from mmflatten.text import align

Row = dict[str, str]
MISSING = '-'  # value that is not measured
TITLES = {
    'classifier': 'Classifiers',
    'mask-rcnn': 'Mask R-CNN',
    'upernet': 'UperNet',
}
INTRODUCTION = """\
# Latency on a CPU

One image, {threads} threads, {processors}. {versions}. Made by

```shell
python tools/maintain/latency_table.py prepare     # writes the files
python tools/maintain/latency_table.py measure     # continues after an interruption
python tools/maintain/latency_table.py page
```

from [latency_cpu.csv](latency_cpu.csv), which also has the quartiles and the number of rounds.

All models run from the image (RGB, 0 to 255) to probabilities, logits of the labels, or boxes and
masks. Their weights are random; those of Mask R-CNN's classifier are large enough for many boxes
(`detections` in the CSV). *Compiled* is `torch.compile` for the size, with frozen weights. The int8
files are quantised with eight digit scenes, as by `mmflatten export --int8`. Rows that are not
listed are not measured.

The rows come from several machines with processors of this name (`boot` in the CSV), and some are
twice as fast as others. A ratio has both of its times from one of them. Do not compare times of
two.

- **ms**: median time of one call.
- **MiB**: growth of the resident memory of a process of its own, from before the model is built to
  the peak of a call after two others. Compiled rows include what the compiler keeps.
- **MB**: size of the file, or of the weights in PyTorch.
- **drift**: mean difference from PyTorch in float32, relative to the largest value; for boxes, as
  the export compares them. With random weights attention adds little to the tokens, so that the
  drift of ViT-S is the same with softmax and linear attention. `mmflatten export --int8` prints the
  drift of a trained model; [trained files](../run_files.md#accuracy) were tested for accuracy."""


PROFILES = """\
## What the runtimes do

The first goal is a ratio of 2 between softmax and linear attention at 1024 pixels. Linear attention
saves the time of the scores: `FusedMatMul` and `Softmax` in ONNX Runtime, `Subgraph` in OpenVINO.

- **ViT-S reaches it as a classifier**, in every runtime and precision: each of its 4096 tokens has
  a score for each other one. With Mask R-CNN and UperNet it does not, but for int8 of Mask R-CNN in
  ONNX Runtime: most of the time is the head's, which is the same in both models.
- **PVTv2-B2 does not.** Its softmax has reduced keys, so that the scores take a sixth to a quarter
  of the time, and without them the model would be 1.2 to 1.35 times as fast.
- **FLatten-Swin-T does not.** Its twin has windows of 49 tokens, whose scores cost little.

The second goal is a ratio of 1.5 between float32 and int8. UperNet reaches it everywhere, and Mask
R-CNN but for DINOv2-S and the softmax ViT-S in four of their rows. As classifiers, Swin-T,
FLatten-Swin-T and the linear ViT-S reach it; DINOv2-S and the softmax ViT-S at 320 pixels, hardly
above, and PVTv2-B2 in ONNX Runtime alone. The layers with weights (`MatMul`, `FullyConnected`) are
the same in both twins, and int8 shortens these alone, so that it gains most with linear attention;
the scores stay in float32.

Compiled classifiers are slower than eager ones in float32 (1.2 to 2.0 times the time) and faster in
bfloat16 (1.1 to 1.7 times as fast).

`Transpose`, `Reorder`, `ReorderInput` and `ReorderOutput` change the memory layout between tokens
and maps. In int8 files `Transpose` stays in float32, only the layers with weights become shorter,
and conversions between both types are added. Shares by the runtimes' profilers, from
[latency_profile.csv](latency_profile.csv), in which other processes were running:"""


def render(rows: Sequence[Row], profiles: Sequence[Row] = ()) -> str:
    """Return the page as Markdown.

    Args:
        rows: measured rows.
        profiles: shares of operators, several rows for each cell.
    """
    measured = [row for row in rows if not row['error']]
    parts = [
        INTRODUCTION.format(
            threads=_names(measured, 'threads'),
            processors=_names(measured, 'processor'),
            versions=_names(measured, 'versions'),
        ),
        '## Ratios\n\n' + _ratios(measured),
    ]
    if profiles:
        parts.append(f'{PROFILES}\n\n{_profile_table(profiles)}')
    for head in HEADS:
        found = [row for row in rows if row['head'] == head]
        if found:
            parts.append(f'## {TITLES[head]}\n\n{_table(found)}')
    failed = [row for row in rows if row['error']]
    if failed:
        lines = [f'- {_title(row)}: {row["error"]}' for row in failed]
        parts.append('## Without a result\n\n' + '\n'.join(lines))
    return '\n\n'.join(parts) + '\n'


def _profile_table(profiles: Sequence[Row]) -> str:
    """Return the largest shares of each profile, one line each."""
    shares: dict[tuple[str, ...], list[str]] = {}
    for row in profiles:
        place = (row['model'], row['head'], row['size'], row['runtime'], row['precision'])
        shares.setdefault(place, []).append(f'{row["operator"]} {row["percent"]}')
    header = ('model', 'head', 'size', 'runtime', 'precision', 'per cent of the time')
    lines = [(*place, ', '.join(found)) for place, found in shares.items()]
    return align(lines, header, {0, 1, 3, 4, 5}, markdown=True)


def _names(rows: Sequence[Row], column: str) -> str:
    return ' or '.join(dict.fromkeys(row[column] for row in rows))


def _title(row: Row) -> str:
    return f'{row["model"]}, {row["head"]}, {row["size"]}, {row["runtime"]}, {row["precision"]}'


def _table(rows: Sequence[Row]) -> str:
    header = ('model', 'size', 'runtime', 'precision', 'ms', 'MiB', 'MB', 'drift')
    lines = []
    for row in rows:
        lines.append(
            (
                row['model'],
                row['size'],
                row['runtime'],
                row['precision'],
                row['median_ms'] or MISSING,
                row['memory_mib'] or MISSING,
                row['file_mb'] or MISSING,
                row['drift'] or MISSING,
            )
        )
    return align(lines, header, {0, 2, 3}, markdown=True)


def _ratios(rows: Sequence[Row]) -> str:
    """Return tables of softmax over linear time of twins, and of float32 over int8."""
    found = {cell_of(row): row for row in rows}
    linear: list[tuple[str, ...]] = []
    int8: list[tuple[str, ...]] = []
    for head in HEADS:
        for runtime, precisions in RUNTIMES.items():
            for precision in precisions:
                place = (head, runtime, precision)
                for twins in TWINS:
                    model = twins[0].removesuffix(' softmax')
                    _append(linear, (model, *place), _twin_ratios(found, twins, place))
        for model in MODELS:
            for runtime in ('onnxruntime', 'openvino'):
                ratios = _int8_ratios(found, model, head, runtime)
                _append(int8, (model, head, runtime), ratios)
    sizes = [str(size) for size in SIZES]
    header = ('model', 'head', 'runtime', 'precision', *sizes)
    first = align(linear, header, {0, 1, 2, 3}, markdown=True)
    second = align(int8, ('model', 'head', 'runtime', *sizes), {0, 1, 2}, markdown=True)
    return (
        f'Time with softmax over that with linear attention:\n\n{first}\n\n'
        f'Time in float32 over that in int8:\n\n{second}'
    )


def _append(lines: list[tuple[str, ...]], place: tuple[str, ...], ratios: list[str]) -> None:
    """Append a line unless none of its ratios is measured."""
    if set(ratios) != {MISSING}:
        lines.append((*place, *ratios))


def _twin_ratios(
    rows: Mapping[Cell, Row], twins: tuple[str, str], place: tuple[str, str, str]
) -> list[str]:
    softmax, linear = twins
    head, runtime, precision = place
    cells = []
    for size in SIZES:
        one = Cell(softmax, head, size, runtime, precision)
        other = Cell(linear, head, size, runtime, precision)
        cells.append(_ratio(rows, one, other))
    return cells


def _int8_ratios(rows: Mapping[Cell, Row], model: str, head: str, runtime: str) -> list[str]:
    cells = []
    for size in SIZES:
        one = Cell(model, head, size, runtime, 'float32')
        other = Cell(model, head, size, runtime, 'int8')
        cells.append(_ratio(rows, one, other))
    return cells


def _ratio(rows: Mapping[Cell, Row], one: Cell, other: Cell) -> str:
    """Return the ratio of two times, `MISSING` if one is missing or of another machine."""
    if one not in rows or other not in rows or rows[one]['boot'] != rows[other]['boot']:
        return MISSING
    return f'{float(rows[one]["median_ms"]) / float(rows[other]["median_ms"]):.2f}'
