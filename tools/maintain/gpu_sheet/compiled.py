"""Instructions, registers and barriers of the fused kernels, compiled without a GPU."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel

from mmflatten.ops.linear.kernels import launch, launch_attention
from mmflatten.ops.linear.kernels.options import Options

TYPES = {torch.float32: '*fp32', torch.float16: '*fp16', torch.bfloat16: '*bf16'}


class Launch(NamedTuple):
    """One launch of a kernel: its name, the kernel, and its arguments with their names."""

    name: str
    kernel: triton.JITFunction
    arguments: dict[str, Any]


class Counts(NamedTuple):
    """Machine code of a kernel.

    Attributes:
        outside, loop: instructions outside and inside the loop.
        barriers: barriers in an iteration of the loop.
        registers: registers per thread.
        spilled: bytes that a thread keeps in memory for lack of registers.
        shared: bytes of shared memory.
    """

    outside: int
    loop: int
    barriers: int
    registers: int
    spilled: int
    shared: int


def attention_launches(
    feature_map: str,
    heads: int,
    width: int,
    dtype: torch.dtype = torch.bfloat16,
    tokens: int = 3136,
    images: int = 128,
    masked: bool = False,
) -> tuple[list[Launch], list[Launch]]:
    """Return the launches of one forward and one backward pass.

    They have the optional tensors that models use. Nothing is launched: tensors are on the meta
    device.
    """

    def empty(*shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.empty(*shape, dtype=dtype, device='meta')

    focused = feature_map == 'focused'
    q, k, v = (
        x.transpose(1, 2) for x in empty(images, tokens, 3, heads, width, dtype=dtype).unbind(2)
    )
    inputs = (
        q,
        k,
        v,
        empty(heads, tokens, width) if focused else None,
        empty(heads, width) if focused else None,
        empty(4, tokens) if masked else None,
        None if focused else empty(heads),
    )
    options = Options(feature_map, 3, 1e-6, 0.0 if focused else 100.0)
    with mock.patch.object(launch, 'run') as forward:
        y, *saved = launch_attention.forward(*inputs, q if focused else None, options)
    with mock.patch.object(launch, 'run') as backward:
        launch_attention.backward(y, *inputs, *saved, options)
    return _launches(forward), _launches(backward)


def _launches(run: mock.Mock) -> list[Launch]:
    """Return the recorded calls of `launch.run`."""
    launches = []
    for call in run.call_args_list:
        kernel = call.args[0]
        launches.append(Launch(kernel.__name__, kernel, call.kwargs))
    return launches


def compile_launch(call: Launch, capability: int = 90) -> CompiledKernel:
    """Compile the kernel of a launch for a compute capability (90 is 9.0).

    The specialisation is that of Triton at a launch.
    """
    types, fixed, attributes = {}, {}, {}
    for index, parameter in enumerate(call.kernel.params):
        name, value = parameter.name, call.arguments[parameter.name]
        specialized = isinstance(value, int) and not parameter.do_not_specialize
        if parameter.is_constexpr or (specialized and value == 1):
            types[name], fixed[name] = 'constexpr', value
            continue
        is_tensor = isinstance(value, Tensor)
        if is_tensor:
            types[name] = TYPES[value.dtype]
        else:
            types[name] = 'fp32' if isinstance(value, float) else 'i32'
        if is_tensor or (specialized and value % 16 == 0):
            attributes[index,] = [['tt.divisibility', 16]]
    options = {name: call.arguments[name] for name in ('num_warps', 'num_stages')}
    return triton.compile(
        ASTSource(call.kernel, types, fixed, attributes),
        target=GPUTarget('cuda', capability, 32),
        options=options,
    )


def counts(program: CompiledKernel) -> Counts:
    """Count the instructions and resources of a kernel in its disassembly."""
    tool = Path(triton.__file__).parent / 'backends' / 'nvidia' / 'bin' / 'cuobjdump'
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / 'kernel.cubin'
        binary.write_bytes(program.asm['cubin'])
        text = subprocess.run(
            [tool, '-sass', '-res-usage', binary], capture_output=True, text=True, check=True
        ).stdout
    used = {name: int(number) for name, number in re.findall(r'(REG|STACK|LOCAL):(\d+)', text)}
    code = {}
    for address, line in re.findall(r'/\*([0-9a-f]{4,5})\*/\s+(.*?);', text):
        if 'NOP' not in line:
            code[int(address, 16)] = line
    loops = _loops(code)
    in_loop = [line for address, line in code.items() if _is_inside(address, loops)]
    return Counts(
        outside=len(code) - len(in_loop),
        loop=len(in_loop),
        barriers=sum('BAR.SYNC' in line for line in in_loop),
        registers=used['REG'],
        spilled=used['STACK'] + used['LOCAL'],
        shared=program.metadata.shared,
    )


def _loops(code: dict[int, str]) -> list[tuple[int, int]]:
    """Return the first and last address of each loop, which ends with a jump back."""
    loops = []
    for address, line in code.items():
        jump = re.search(r'BRA.*?(0x[0-9a-f]+)', line)
        if jump is not None and int(jump[1], 16) < address:
            loops.append((int(jump[1], 16), address))
    return loops


def _is_inside(address: int, loops: list[tuple[int, int]]) -> bool:
    return any(first <= address <= last for first, last in loops)


def per_element(call: Launch, counted: Counts) -> float:
    """Return the warp instructions of a launch per channel of a token."""
    arguments = call.arguments
    tokens = arguments.get('chunk', arguments['BLOCK'])
    instructions = (
        counted.outside + triton.cdiv(tokens, arguments['BLOCK']) * counted.loop
    ) * arguments['num_warps']
    return instructions / (tokens * arguments['WIDTH'])
