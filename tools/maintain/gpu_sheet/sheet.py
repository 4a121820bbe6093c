"""Results of `gpu_check.py` as Markdown tables."""
from __future__ import annotations

from mmflatten.text_table import align


def sheet(result: dict) -> str:
    """Render the machine and all results, for `docs/benchmark.md`."""
    machine = ', '.join(f'{name} {value}' for name, value in result['machine'].items())
    parts = [machine, f'Kernels run: {"yes" if result["kernels"] else "no"}. '
             f'Copy bandwidth: {result["copy_bytes_s"] / 1e9:.0f} GB/s.', operators(result['operators']),
             families(result['families']), attentions(result['attentions'], result['copy_bytes_s'])]
    if result['models']:
        parts.append(models(result['models']))
    if result['left_out']:
        parts.append(f'Skipped because time was up: {", ".join(result["left_out"])}.')
    return '\n\n'.join(parts)


def operators(rows: list[dict]) -> str:
    failed = [f'{row["feature_map"]} {row["dtype"]} {row["size"]}: {row["error"]:.1e}' for row in rows if not row['ok']]
    return f'{len(rows) - len(failed)} of {len(rows)} operators agree with float64.' + ''.join(
        f'\n- wrong: {line}' for line in failed)


def families(rows: list[dict]) -> str:
    cells = [(row['family'], row['dtype'], f'{row["kernels"]:.1e}', f'{row["eager"]:.1e}', 'yes' if row['ok'] else 'NO')
             for row in rows]
    return align(cells, ('family', 'autocast', 'error, kernels', 'error, eager', 'ok'), {0, 1, 4}, markdown=True)


def attentions(rows: list[dict], bandwidth: float) -> str:
    cells = []
    for row in rows:
        kernels = next(other for other in rows if (other['case'], other['way']) == (row['case'], 'kernels'))
        cells.append((row['case'], row['way'], f'{row["forward_s"] * 1e3:.3f}', f'{row["training_s"] * 1e3:.3f}',
                      f'{row["training_s"] / kernels["training_s"]:.2f}', f'{row["forward_bytes_s"] / bandwidth:.0%}',
                      f'{row["training_bytes_s"] / bandwidth:.0%}', f'{row["peak_mib"]:.1f}'))
    header = ('attention', 'computed by', 'forward (ms)', 'forward + backward (ms)', 'relative to kernels',
              'bandwidth, forward', 'bandwidth, both', 'peak (MiB)')
    return align(cells, header, {0, 1}, markdown=True)


def models(rows: list[dict]) -> str:
    cells = [(row['model'], f'{row["batch"]} x {row["height"]} x {row["width"]}', f'{row["training_s"] * 1e3:.1f}',
              f'{row["peak_mib"]:.0f}') for row in rows]
    return align(cells, ('model', 'images', 'training step (ms)', 'peak (MiB)'), {0, 1}, markdown=True)
