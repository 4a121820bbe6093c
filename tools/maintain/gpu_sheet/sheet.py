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
    rows = [dict(row, check=name) for name, record in results.items() for row in record['rows']]
    parts = [
        f'{machine}. Copy bandwidth: {bandwidth / 1e9:.0f} GB/s.',
        operators([row for row in rows if 'errors' in row]),
        families([row for row in rows if 'family' in row]),
        attentions([row for row in rows if 'way' in row], bandwidth),
        models([row for row in rows if 'images_s' in row]),
    ]
    wrong = [
        f'- {row["check"]}: {row.get("output", "see the file")}'
        for row in rows
        if not row.get('ok', True)
    ]
    wrong += [f'- {name}: {record["error"]}' for name, record in failed.items()]
    if wrong:
        parts.append('Wrong:\n\n' + '\n'.join(wrong))
    parts.append(
        f'{len(results)} checks done, {len(failed)} failed, {len(missing)} to do.'
        + ' Run the same command again.' * bool(missing or failed)
    )
    return '\n\n'.join(part for part in parts if part)


def operators(rows: list[dict]) -> str:
    right = sum(row['ok'] for row in rows)
    lines = [
        f'{right} of {len(rows)} operators agree with float64, keep NaN and give the same bits'
        ' three times.'
    ]
    lines += [
        '- '
        + row['check']
        + ': '
        + ', '.join(f'{name} {error:.1e}' for name, error in row['errors'].items())
        for row in rows
        if not row['ok']
    ]
    return '\n'.join(lines)


def families(rows: list[dict]) -> str:
    cells = [
        (
            row['family'],
            row['dtype'],
            f'{row["kernels"]:.1e}',
            f'{row["eager"]:.1e}',
            'yes' if row['ok'] else 'NO',
        )
        for row in rows
    ]
    return align(
        cells,
        ('family', 'autocast', 'error, kernels', 'error, eager', 'ok'),
        {0, 1, 4},
        markdown=True,
    )


def attentions(rows: list[dict], bandwidth: float) -> str:
    cells = []
    for row in rows:
        kernels = next(
            other for other in rows if (other['case'], other['way']) == (row['case'], 'kernels')
        )
        fraction = row['elements'] * BYTES / row['training_s'] / bandwidth
        cells.append(
            (
                row['case'],
                row['way'],
                f'{row["forward_s"] * 1e3:.3f}',
                f'{row["training_s"] * 1e3:.3f}',
                f'{row["training_s"] / kernels["training_s"]:.2f}',
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
    cells = [
        (
            row['model'],
            row['call'],
            row['dtype'],
            row['mode'],
            f'{row["batch"]} x {row["size"][0]} x {row["size"][1]}',
            f'{row["images_s"]:.1f}',
            *(
                (f'{1e3 * row["busy_s"]:.1f}', str(row['launches']), f'{1e3 * row["host_s"]:.1f}')
                if 'launches' in row
                else '---'
            ),
            f'{row["peak_mib"]:.0f}',
        )
        for row in rows
    ]
    return align(
        cells,
        (
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
        ),
        {0, 1, 2, 3, 4},
        markdown=True,
    )
