"""Compare mmcv-torch-ops with mmcv's compiled extension on the 1,000 random cases of
`tests/cases.py`.

    python tools/compare_with_compiled.py SCRATCH [--store tests/compiled.npz] [--python PYTHON]

In the folder SCRATCH it makes an environment and compiles mmcv for the CPU (about 6 minutes on 2
cores). Operators that mmcv has for CUDA alone are compared with their CUDA sources, compiled for
the CPU (`cuda_reference.py`). It prints the largest difference of each operator and the ratio of
their times. A C++ compiler is required. `--python` takes an environment with a compiled mmcv
instead of making one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import time
from collections import defaultdict
from pathlib import Path

MMCV = 'onedl-mmcv==2.3.6'
PINS = (
    'torch==2.12.1',  # mmcv 2.3.6 does not compile with PyTorch 2.14 or later
    'torchvision==0.27.1',
    'numpy==2.2.6',
    'setuptools>=80,<82',
    'wheel',
    'ninja',
    'psutil',
    'packaging',
    'onedl-mmengine==0.10.12',
)
ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Make the environment, then run this file in it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('scratch', type=Path)
    parser.add_argument('--store', type=Path, help='file for the results of the compiled extension')
    parser.add_argument('--python', type=Path, help='Python of an environment with a compiled mmcv')
    parser.add_argument('--inside', action='store_true', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        compare(options.scratch, options.store)
        return
    options.scratch.mkdir(parents=True, exist_ok=True)
    python = options.python or make_environment(options.scratch / 'venv')
    download = [python, '-m', 'pip', 'download', '-q', '-d', options.scratch]
    from_source = ['--no-deps', '--no-binary=:all:', '--no-build-isolation']
    subprocess.run([*download, *from_source, MMCV], check=True)
    with tarfile.open(next(options.scratch.glob('onedl_mmcv-*.tar.gz'))) as archive:
        archive.extractall(options.scratch, filter='data')
    inside = [python, __file__, options.scratch, '--inside']
    if options.store:
        inside += ['--store', options.store]
    sys.exit(subprocess.run(inside).returncode)


def make_environment(folder: Path) -> Path:
    """Return the Python of a new environment with a compiled mmcv."""
    subprocess.run([sys.executable, '-m', 'venv', folder], check=True)
    pip = [folder / 'bin' / 'python', '-m', 'pip', 'install', '-q']
    subprocess.run([*pip, *PINS], check=True)
    subprocess.run([*pip, '--no-build-isolation', '--no-cache-dir', MMCV], check=True)
    return folder / 'bin' / 'python'


def compare(scratch: Path, store: Path | None) -> None:
    """Run every case with both extensions, print a table, and store the compiled one's results."""
    sys.path[:0] = [str(ROOT / folder) for folder in ('src', 'tests', 'tools')]
    import mmcv._ext as compiled
    import numpy as np
    from cases import CPU, CUDA, all_cases, difference, sampled
    from cuda_reference import load_reference

    import mmcv_torch_ops.extension as ours

    if compiled.__file__.endswith('.py'):
        sys.exit(f'{compiled.__file__} is not the compiled extension')
    source = next(path for path in scratch.glob('onedl_mmcv-*') if path.is_dir())
    references = {CPU: compiled, CUDA: load_reference(source, scratch / 'cuda_reference')}
    worst = defaultdict(float)
    numbers = defaultdict(int)
    stored = {}
    for case in all_cases():
        expected = case.run(references[case.reference])
        results = case.run(ours)
        row = case.name.rsplit('-', 1)[0], str(case.dtype).removeprefix('torch.'), case.reference
        for place, (result, wanted) in enumerate(zip(results, expected, strict=True)):
            worst[row] = max(worst[row], difference(result.numpy(), wanted.numpy()))
            values = sampled(wanted)
            if wanted.dtype.itemsize < 8:
                values = values.astype(np.float32)
            stored[f'{case.name}/{place}'] = values
        numbers[row] += 1
    for row, number in numbers.items():
        print(
            f'{row[0]:<24}{row[1]:<10}{number:5d} cases  largest difference {worst[row]:.1e} '
            f' {row[2]}'
        )
    print(f'{sum(numbers.values())} cases, largest difference {max(worst.values()):.1e}')
    if store:
        np.savez_compressed(store, **stored)
    print_times(compiled, ours)


def print_times(compiled: object, ours: object) -> None:
    """Print the time of each CPU operator at a detector's sizes, ours over the compiled one's,
    measured in turn.
    """
    from detector_sizes import CALLS

    for name, call in CALLS.items():
        times = defaultdict(list)
        for _ in range(7):
            for extension in (compiled, ours):
                start = time.perf_counter()
                call(extension)
                times[extension].append(time.perf_counter() - start)
        old, new = (sorted(times[extension])[3] for extension in (compiled, ours))
        print(
            f'{name:<44}compiled {1000 * old:8.2f} ms  ours {1000 * new:8.2f} ms  ratio'
            f' {new / old:5.2f}'
        )


if __name__ == '__main__':
    main()
