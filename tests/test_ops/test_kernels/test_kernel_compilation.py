"""Every kernel compiles for the supported GPUs, which needs no GPU; its instructions and registers
are counted.
"""

import itertools

import pytest
import torch

from mmflatten.ops.linear.kernels import has_triton

if not has_triton():
    pytest.skip(
        'Triton 3.6 or newer is not installed, which has no wheels outside Linux',
        allow_module_level=True,
    )

from gpu_sheet.compiled import attention_launches, compile_launch, counts, per_element

from mmflatten.ops.linear.kernels.tile_table import INSTRUCTIONS, is_cheaper

SHARED = 99 * 1024  # bytes per program on compute capability 8.6 and 8.9, which have the least
FORWARD, BACKWARD = 3.5, 8.0  # warp instructions per channel of a token
# per iteration of a loop; 1 in the others
BARRIERS = {'state_kernel': 2, 'state_backward_kernel': 2}
SHAPES = [(3, 32), (6, 32), (12, 32), (24, 32), (1, 64), (2, 64), (4, 64), (8, 64)]
CASES = [(name, *shape) for name, shape in itertools.product(INSTRUCTIONS, SHAPES)]


def counted(launches, capability=90):
    """Compile launches; return the sum of the instructions per channel, and the counts of each
    kernel.
    """
    kernels = [(call, counts(compile_launch(call, capability))) for call in launches]
    return sum(per_element(*kernel) for kernel in kernels), {
        call.name: count for call, count in kernels
    }


def check_fits(kernels):
    for name, count in kernels.items():
        assert count.spilled == 0 and count.registers <= 255 and count.shared <= SHARED, (
            name,
            count,
        )


@pytest.mark.parametrize(
    'feature_map, heads, width',
    [
        case if case == ('focused', 6, 32) else pytest.param(*case, marks=pytest.mark.full)
        for case in CASES
    ],
)
def test_attention_kernels_stay_below_limits(feature_map, heads, width):
    forward, backward = attention_launches(feature_map, heads, width)
    (ours, kernels), (gradients, more) = counted(forward), counted(backward)
    check_fits(kernels | more)
    assert ours <= FORWARD and gradients <= BACKWARD
    # the same code, with more of it outside the loops
    few = attention_launches(feature_map, heads, width, tokens=49)
    assert sum(counted(part)[0] for part in few) <= INSTRUCTIONS[feature_map]
    assert all(count.barriers <= BARRIERS.get(name, 1) for name, count in (kernels | more).items())


@pytest.mark.full
@pytest.mark.parametrize('capability', [80, 90])
@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize('feature_map', ['focused', 'relu', 'elu'])
@pytest.mark.parametrize('width', [16, 24, 32, 48, 64])
def test_attention_kernels_fit_the_registers(feature_map, width, dtype, capability):
    forward, backward = attention_launches(feature_map, 3, width, dtype, masked=True)
    check_fits(counted(forward + backward, capability)[1])


@pytest.mark.parametrize(
    'tokens, width, cheaper', [(3136, 32, True), (49, 32, True), (196, 24, True), (2, 32, False)]
)
def test_kernels_are_chosen_where_counted_instructions_beat_bytes_of_eager(tokens, width, cheaper):
    assert is_cheaper(tokens, width, 'focused') == cheaper
