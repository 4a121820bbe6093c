"""Results of `gpu_check.py` as Markdown tables."""

from __future__ import annotations

from mmflatten.text import align

# per channel of a token that a training step of focused attention in half precision moves at least
BYTES = 24


def sheet(
    header: dict,
    results: dict[str, dict],
    failed: dict[str, dict],
    missing: list[str],
    bandwidth: float,
) -> str:
    """Render the machine and all results."""
    machine = ', '.join(f'{name} {value}' for name, value in header['machine'].items())
    rows = []
    for name, record in results.items():
        rows += [dict(row, check=name) for row in record['rows']]
    parts = [
        f'{machine}. Copy bandwidth: {bandwidth / 1e9:.0f} GB/s.',
        operators([row for row in rows if 'errors' in row]),
        families([row for row in rows if 'family' in row]),
        attentions([row for row in rows if 'way' in row], bandwidth),
        models([row for row in rows if 'images_s' in row]),
    ]
    wrong = []
    for row in rows:
        if not row.get('ok', True):
            wrong.append(f'- {row["check"]}: {row.get("output", "see the file")}')
    wrong += [f'- {name}: {record["error"]}' for name, record in failed.items()]
    if wrong:
        parts.append('Wrong:\n\n' + '\n'.join(wrong))
    summary = f'{len(results)} checks done, {len(failed)} failed, {len(missing)} to do.'
    if missing or failed:
        summary += ' Run the same command again.'
    parts.append(summary)
    return '\n\n'.join(part for part in parts if part)


def operators(rows: list[dict]) -> str:
    right = sum(row['ok'] for row in rows)
    lines = [
        f'{right} of {len(rows)} operators agree with float64, keep NaN and give the same bits'
        ' three times.'
    ]
    for row in rows:
        if not row['ok']:
            errors = ', '.join(f'{name} {error:.1e}' for name, error in row['errors'].items())
            lines.append(f'- {row["check"]}: {errors}')
    return '\n'.join(lines)


def families(rows: list[dict]) -> str:
    cells = []
    for row in rows:
        errors = [f'{row[way]:.1e}' for way in ('kernels', 'eager')]
        cells.append((row['family'], row['dtype'], *errors, 'yes' if row['ok'] else 'NO'))
    header = ('family', 'autocast', 'error, kernels', 'error, eager', 'ok')
    return align(cells, header, {0, 1, 4}, markdown=True)


def attentions(rows: list[dict], bandwidth: float) -> str:
    seconds_of_kernels = {}
    for row in rows:
        if row['way'] == 'kernels':
            seconds_of_kernels[row['case']] = row['training_s']
    cells = []
    for row in rows:
        ratio = row['training_s'] / seconds_of_kernels[row['case']]
        fraction = row['elements'] * BYTES / row['training_s'] / bandwidth
        cells.append(
            (
                row['case'],
                row['way'],
                f'{row["forward_s"] * 1e3:.3f}',
                f'{row["training_s"] * 1e3:.3f}',
                f'{ratio:.2f}',
                f'{fraction:.0%}',
                f'{row["peak_mib"]:.1f}',
            )
        )
    header = (
        'attention',
        'computed by',
        'forward (ms)',
        'forward + backward (ms)',
        'relative to kernels',
        'bandwidth',
        'peak (MiB)',
    )
    return align(cells, header, {0, 1}, markdown=True)


def models(rows: list[dict]) -> str:
    header = (
        'model',
        'call',
        'autocast',
        'mode',
        'images',
        'images per second',
        'busy (ms)',
        'launches',
        'host (ms)',
        'peak (MiB)',
    )
    return align(list(map(_model_row, rows)), header, {0, 1, 2, 3, 4}, markdown=True)


def _model_row(row: dict) -> list[str]:
    work = ['-', '-', '-']  # launches are profiled on GPUs only
    if 'launches' in row:
        busy = f'{1e3 * row["busy_s"]:.1f}'
        host = f'{1e3 * row["host_s"]:.1f}'
        work = [busy, str(row['launches']), host]
    height, width = row['size']
    return [
        row['model'],
        row['call'],
        row['dtype'],
        row['mode'],
        f'{row["batch"]} x {height} x {width}',
        f'{row["images_s"]:.1f}',
        *work,
        f'{row["peak_mib"]:.0f}',
    ]
