"""A reference for mmcv's operators that exist for CUDA only: its own kernels and launchers,
compiled for the CPU.

It needs the unpacked sources of mmcv, g++ and ninja, but neither CUDA nor a GPU, and it is slow: it
is there to compare values and gradients with, in float32 and float64. Tensors must be contiguous,
because the launchers ignore strides.
"""

import re
from pathlib import Path
from types import ModuleType

from torch.utils.cpp_extension import load

TOOLS = Path(__file__).resolve().parent
LAUNCHERS = (
    'roi_pool_cuda',
    'roi_align_cuda',
    'deform_roi_pool_cuda',
    'focal_loss_cuda',
    'ms_deform_attn_cuda',
    'psamask_cuda',
    'masked_conv2d_cuda',
    'carafe_naive_cuda',
    'carafe_cuda',
)
# Headers that mmcv includes, and that cuda_on_cpu.h replaces.
REPLACED = (
    'pytorch_cuda_helper.hpp',
    'cuda.h',
    'cuda_runtime.h',
    'ATen/cuda/CUDAContext.h',
    'ATen/cuda/DeviceUtils.cuh',
    'THC/THCAtomics.cuh',
)


def as_cpp(launcher: str) -> str:
    """Return a launcher's source with its launches written as calls, which a C++ compiler takes."""
    source, count = re.subn(
        r'(\w+(?:<[^<>]*>)?)\s*<<<(.*?)>>>\s*\(',
        r'cuda_on_cpu::launch(\1, \2)(',
        launcher,
        flags=re.DOTALL,
    )
    if not count or '<<<' in source:
        raise ValueError('A kernel launch of an unknown form.')
    return source.replace('.is_cuda()', '.is_cpu()')


def write(path: Path, text: str) -> None:
    """Write a file unless it holds the text already, which would have the build start over."""
    if not path.is_file() or path.read_text(encoding='utf-8') != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')


def load_reference(mmcv_source: str | Path, build_folder: str | Path) -> ModuleType:
    """Compile the operators, once per build folder, and return a module with functions as in
    ``mmcv._ext``.

    Args:
        mmcv_source: An unpacked source distribution of mmcv or onedl-mmcv.
        build_folder: Where the build's files go.
    """
    csrc = Path(mmcv_source).resolve() / 'mmcv' / 'ops' / 'csrc'
    build = Path(build_folder).resolve()
    headers = build / 'headers'
    for name in REPLACED:
        write(headers / name, '#include "cuda_on_cpu.h"\n')
    for name in LAUNCHERS:
        launcher = (csrc / 'pytorch' / 'cuda' / f'{name}.cu').read_text(encoding='utf-8')
        write(headers / f'{name}.cu', as_cpp(launcher))
    return load(
        'mmcv_cuda_reference',
        [str(TOOLS / 'cuda_reference.cpp')],
        build_directory=str(build),
        extra_include_paths=[str(headers), str(TOOLS), str(csrc / 'common' / 'cuda')],
        extra_cflags=[
            '-std=c++20',
            '-O1',
            '-ffp-contract=off',
            '-fno-strict-aliasing',
            '-fno-extern-tls-init',
            '-Wno-unknown-pragmas',
            '-Wno-deprecated-declarations',
        ],
    )
