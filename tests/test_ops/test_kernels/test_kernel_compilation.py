"""Every kernel compiles for the supported GPUs, which needs no GPU, and fits their registers."""
import re
import subprocess
from pathlib import Path

import pytest
import torch

from mmflatten.ops.kernels import has_triton

if not has_triton():
    pytest.skip('no Triton', allow_module_level=True)

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mmflatten.ops.kernels import attention_kernels, convolution_kernels, launch, launch_convolution, window_kernels
from mmflatten.ops.kernels.tile_table import fits_window, tile_of

TYPES = {torch.float32: '*fp32', torch.float16: '*fp16', torch.bfloat16: '*bf16'}
FLOAT32 = {'position', 'rescale', 'weight', 'bias', 'temperature', 'state', 'partial', 'partial_rescale',
           'partial_temperature', 'grad_state'}
ANY_SIZE = {'tokens', 'windows', 'chunk', 'height', 'width', 'prefix'}
# Registers per thread, of 255. Up to 168, three programs of four warps run concurrently on a multiprocessor, else two.
BUDGET = {'state': 240, 'output': 168, 'query_backward': 255, 'key_backward': 255, 'window': 216,
          'window_backward': 255}
# Bytes that may spill. For compute capability 9.0, window_backward spills 24 with Triton 3.9.0 and none with 3.7.1.
SPILLED = {'window_backward': 24}
SHARED = 99 * 1024  # bytes per program on compute capability 8.6 and 8.9, which have the least


def compiled(kernel, constants, dtype, architecture):
    """Compile a kernel as the launcher does; pointers and strides are multiples of 16."""
    types, multiples = {}, {}
    for index, parameter in enumerate(kernel.params):
        name = parameter.name
        if parameter.is_constexpr:
            types[name] = 'constexpr'
        elif name in ('floor', 'bound'):
            types[name] = 'fp32'
        elif name in ANY_SIZE:
            types[name] = 'i32'
        else:
            types[name] = 'i32' if name.startswith('stride') else '*fp32' if name in FLOAT32 else TYPES[dtype]
            multiples[index,] = [['tt.divisibility', 16]]
    used = {name: constants[name] for name, kind in types.items() if kind == 'constexpr'}
    source = ASTSource(kernel, types, used, multiples)
    options = {name: constants[name] for name in ('num_warps', 'num_stages')}
    return triton.compile(source, target=GPUTarget('cuda', architecture, 32), options=options)


def usage(program, folder):
    """Return the registers per thread and the bytes that spill to its stack."""
    binary = folder / 'kernel.cubin'
    binary.write_bytes(program.asm['cubin'])
    tool = Path(triton.__file__).parent / 'backends' / 'nvidia' / 'bin' / 'cuobjdump'
    text = subprocess.run([tool, '-res-usage', binary], capture_output=True, text=True, check=True).stdout
    resources = {name: int(number) for name, number in re.findall(r'(REG|STACK|LOCAL):(\d+)', text)}
    return resources['REG'], resources['STACK'] + resources['LOCAL']


QUICK = [('focused', 3, 32, torch.bfloat16, 90), ('focused', 3, 64, torch.float32, 80),
         ('relu', 6, 32, torch.float16, 80)]
SWEEP = [(feature_map, *size, dtype, architecture) for feature_map in ('focused', 'relu')
         for size in ((1, 64), (2, 32), (3, 32), (3, 64), (4, 16), (6, 32), (8, 24), (12, 24))
         for dtype in (torch.bfloat16, torch.float32) for architecture in (80, 90)]


def kernels_of(cases):
    """Pair every kernel with every case that it supports."""
    return [(name, *case) for name in BUDGET for case in cases
            if not name.startswith('window') or fits_window(49, 49, *case[:4])]


@pytest.mark.parametrize('name, feature_map, heads, width, dtype, architecture', kernels_of(QUICK) + [
    pytest.param(*case, marks=pytest.mark.full) for case in kernels_of(SWEEP)])
def test_attention_kernels_fit_the_registers(name, feature_map, heads, width, dtype, architecture, tmp_path,
                                             monkeypatch):
    monkeypatch.setenv('TRITON_CACHE_DIR', str(tmp_path))
    tile = tile_of(name, feature_map, heads, width, dtype)
    constants = dict(
        tile._asdict(), FEATURE=feature_map, POWER=3, HEADS=heads, WIDTH=width, HAS_POSITION=feature_map == 'focused',
        HAS_WEIGHT=True, HAS_LOCAL=True, HAS_TEMPERATURE=feature_map == 'relu', CLAMP=feature_map == 'relu',
        PRECISION=launch.precision_of(dtype))
    kernel = getattr(window_kernels if name.startswith('window') else attention_kernels, f'{name}_kernel')
    program = compiled(kernel, constants, dtype, architecture)
    registers, spilled = usage(program, tmp_path)
    assert spilled <= SPILLED.get(name, 0) and registers <= BUDGET[name] and program.metadata.shared <= SHARED


@pytest.mark.parametrize('name', ['convolve', 'weight_backward'])
@pytest.mark.parametrize('channels, side, dtype, architecture', [
    (96, 5, torch.bfloat16, 90), *(pytest.param(*case, marks=pytest.mark.full) for case in (
        (64, 3, torch.float32, 80), (64, 5, torch.float16, 80), (320, 7, torch.bfloat16, 90)))])
def test_convolution_kernels_fit_the_registers(name, channels, side, dtype, architecture, tmp_path, monkeypatch):
    monkeypatch.setenv('TRITON_CACHE_DIR', str(tmp_path))
    constants = dict(
        HAS_BIAS=True, FLIP=False, SIDE=side, SIDE_P=triton.next_power_of_2(side), CHANNELS=channels,
        WEIGHTS=channels // 2, BLOCK=launch_convolution.BLOCK, BC=launch_convolution.channels_of(channels),
        num_warps=launch_convolution.WARPS, num_stages=3)
    program = compiled(getattr(convolution_kernels, f'{name}_kernel'), constants, dtype, architecture)
    registers, spilled = usage(program, tmp_path)
    assert spilled == 0 and registers <= 255 and program.metadata.shared <= SHARED
